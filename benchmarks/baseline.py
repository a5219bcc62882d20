"""Byte-level BPE as a textbook writes it: dicts, tuples, `regex` and `Counter`, one merge at a time.

This is what bpejit is measured against, and the shortest full description of what it computes: the merges and the ids
of both are equal. Nothing here is made slow on purpose, and nothing is made fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import regex

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

Pair = tuple[bytes, bytes]


def split_special(text: str, special_tokens: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of the text, and whether each is a special token; the longest wins where two begin together."""
    alternatives = "|".join(regex.escape(token) for token in sorted(special_tokens, key=len, reverse=True))
    if not alternatives:
        yield text, False
        return
    for i, piece in enumerate(regex.split(f"({alternatives})", text)):
        if piece:
            yield piece, i % 2 == 1


# ---- training


def count_pretokens(text: str, special_tokens: Iterable[str] = (), pattern: str = GPT2) -> Counter[bytes]:
    """Count the pre-tokens of the text; special tokens are borders and are not counted."""
    split = regex.compile(pattern)
    counts: Counter[bytes] = Counter()
    for piece, is_special in split_special(text, special_tokens):
        if not is_special:
            counts.update(match.group().encode() for match in split.finditer(piece))
    return counts


def learn_merges(pretoken_counts: dict[bytes, int], n_merges: int) -> list[Pair]:
    """Merge the most frequent pair, the greatest in bytes where several are, until there are `n_merges`."""
    words = {tuple(bytes([byte]) for byte in pretoken): count for pretoken, count in pretoken_counts.items()}
    merges: list[Pair] = []
    while len(merges) < n_merges:
        pairs: Counter[Pair] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = {merge_pair(word, best): count for word, count in words.items()}
    return merges


def merge_pair(word: tuple[bytes, ...], pair: Pair) -> tuple[bytes, ...]:
    """Join each occurrence of the pair, from the left."""
    if pair[0] not in word:
        return word
    merged: list[bytes] = []
    i = 0
    while i < len(word):
        if word[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(word[i])
            i += 1
    return tuple(merged)


def train(text: str, n_merges: int, special_tokens: Iterable[str] = (), pattern: str = GPT2) -> list[Pair]:
    """Learn merges from a text."""
    return learn_merges(count_pretokens(text, special_tokens, pattern), n_merges)


# ---- encoding


def encode_pretoken(pretoken: bytes, ranks: dict[Pair, int]) -> tuple[bytes, ...]:
    """Apply the merge of the lowest rank until none applies."""
    word = tuple(bytes([byte]) for byte in pretoken)
    while len(word) > 1:
        best = min(pairwise(word), key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        word = merge_pair(word, best)
    return word


def encode(
    text: str,
    ids: dict[bytes, int],
    ranks: dict[Pair, int],
    special_tokens: Iterable[str] = (),
    pattern: str = GPT2,
    cache: dict[bytes, list[int]] | None = None,
) -> list[int]:
    """Encode a text; pass a dict as `cache` to remember the ids of each distinct pre-token, as GPT-2's own encoder does.

    `ids` gives the id of each token, special tokens included; `ranks` gives the place of each merge in their order.
    """
    split = regex.compile(pattern)
    encoded: list[int] = []
    for piece, is_special in split_special(text, special_tokens):
        if is_special:
            encoded.append(ids[piece.encode()])
            continue
        for match in split.finditer(piece):
            pretoken = match.group().encode()
            pretoken_ids = None if cache is None else cache.get(pretoken)
            if pretoken_ids is None:
                pretoken_ids = [ids[token] for token in encode_pretoken(pretoken, ranks)]
                if cache is not None:
                    cache[pretoken] = pretoken_ids
            encoded.extend(pretoken_ids)
    return encoded
