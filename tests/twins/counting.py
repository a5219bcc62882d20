"""Counting: pre-tokens become a table of distinct ones with their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import regex

from bpejit.kernels.constants import SPECIAL_FLAG
from twins.characters import make_key
from twins.splitting import split_adjacent


def find_word(slots: list[bytes | None], pretoken: bytes, slot: int) -> int:
    """Return the slot of a pre-token, or the free one to insert it, by linear probing from `slot`."""
    while slots[slot] not in (None, pretoken):
        slot = (slot + 1) % len(slots)
    return slot


def count_spans(text: bytes, first: int, ends: list[int], counts: dict[bytes, int]) -> None:
    """Add the spans of a text to a dict of counts; an end with the special flag marks a special token, not counted."""
    start = first
    for end in ends:
        stop = end & (SPECIAL_FLAG - 1)
        if not end & SPECIAL_FLAG:
            counts[text[start:stop]] = counts.get(text[start:stop], 0) + 1
        start = stop


def count_text(
    documents: list[bytes],
    cut: int,
    patterns: regex.Pattern[str] | Iterable[regex.Pattern[str]],
    special_tokens: list[bytes],
    counts: dict[bytes, int],
) -> None:
    """Add the spans of adjacent documents that end at most at `cut` to a dict of counts."""
    ends = split_adjacent(documents, patterns, special_tokens)
    count_spans(b"".join(documents), 0, [end for end in ends if end & (SPECIAL_FLAG - 1) <= cut], counts)


def add_pretokens(pretokens: list[bytes], added: list[int], counts: dict[bytes, int]) -> None:
    """Add counted pre-tokens to a dict of counts."""
    for pretoken, count in zip(pretokens, added, strict=True):
        counts[pretoken] = counts.get(pretoken, 0) + count


def rehash(slots: list[bytes | None], larger: int) -> list[bytes | None]:
    """Return the slots of a larger table, into which the pre-tokens are inserted in the order of the slots."""
    found: list[bytes | None] = [None] * larger
    for pretoken in slots:
        if pretoken is not None:
            found[find_word(found, pretoken, make_key(pretoken)[2] % larger)] = pretoken
    return found


def move_common(tables: list[dict[bytes, int]]) -> None:
    """Add the counts of each pre-token to the first dict that has it, and remove it from the others."""
    for number, counts in enumerate(tables):
        for other in tables[number + 1 :]:
            for pretoken in counts.keys() & other.keys():
                counts[pretoken] += other.pop(pretoken)


def measure_table(counts: dict[bytes, int]) -> tuple[int, int]:
    """Return the number of distinct pre-tokens, and of their bytes."""
    return len(counts), sum(len(pretoken) for pretoken in counts)


def unpack_table(counts: dict[bytes, int]) -> tuple[bytes, list[int], list[int]]:
    """Return pool, starts and counts."""
    starts = [0]
    for pretoken in counts:
        starts.append(starts[-1] + len(pretoken))
    return b"".join(counts), starts, list(counts.values())


def make_prefixes(pretokens: list[bytes]) -> list[int]:
    """Return the first 8 bytes of each pre-token as a zero-padded big-endian number."""
    return [int.from_bytes(pretoken[:8].ljust(8, b"\0"), "big") for pretoken in pretokens]


def sort_runs(pretokens: list[bytes]) -> list[int]:
    """Return the permutation that sorts the pre-tokens by bytes."""
    return sorted(range(len(pretokens)), key=lambda number: pretokens[number])


def merge_sorted(left: list[tuple[bytes, int]], right: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Return the union of two sorted tables, in which the counts of equal pre-tokens are added up."""
    return sorted((Counter(dict(left)) + Counter(dict(right))).items())


def gather(pretokens: list[bytes], counts: list[int], order: list[int]) -> tuple[list[bytes], list[int]]:
    """Return pre-tokens and counts in another order."""
    return [pretokens[number] for number in order], [counts[number] for number in order]
