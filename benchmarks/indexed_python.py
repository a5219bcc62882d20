"""The usual optimized design of a BPE trainer, in plain Python: the fair baseline of training.

A merge touches only the words that contain its pair, which an index finds; a table collects the changes of counts; and pairs
are in buckets by count, from which the next one is taken. Merges equal those of the textbook, `compare/tools/_plain_python.py`.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from itertools import pairwise

Pair = tuple[bytes, bytes]


def learn_merges(pretoken_counts: dict[bytes, int], n_merges: int) -> list[Pair]:
    """Learn `n_merges` merges: each time the most frequent pair, and among equally frequent ones the greatest in bytes."""
    words = [[bytes([byte]) for byte in pretoken] for pretoken in pretoken_counts]
    counts = list(pretoken_counts.values())
    pair_counts: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            pair_counts[pair] += counts[index]
            words_with[pair].add(index)
    buckets: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair, count in pair_counts.items():
        buckets[count].append(pair)
    for bucket in buckets.values():
        bucket.sort()
    highest = max(buckets, default=0)
    merges: list[Pair] = []
    while len(merges) < n_merges and highest:
        if not buckets[highest]:
            highest -= 1
            continue
        best = buckets[highest].pop()
        if pair_counts[best] != highest:  # its count has changed, and it is in another bucket
            continue
        merges.append(best)
        changes: Counter[Pair] = Counter()
        for index in words_with.pop(best):
            for pair in pairwise(words[index]):
                changes[pair] -= counts[index]
            words[index] = merge_pair(words[index], best)
            for pair in pairwise(words[index]):
                changes[pair] += counts[index]
                words_with[pair].add(index)
        for pair, change in changes.items():
            pair_counts[pair] += change
            if change and pair_counts[pair]:
                insort(buckets[pair_counts[pair]], pair)
                highest = max(highest, pair_counts[pair])  # two merges can make equal tokens, whose counts add up
    return merges


def merge_pair(word: list[bytes], pair: Pair) -> list[bytes]:
    """Replace each occurrence of the pair, from the left."""
    merged: list[bytes] = []
    position = 0
    while position < len(word):
        if word[position] == pair[0] and word[position + 1 : position + 2] == [pair[1]]:
            merged.append(pair[0] + pair[1])
            position += 2
        else:
            merged.append(word[position])
            position += 1
    return merged
