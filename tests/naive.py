"""Readable twins of the kernels: the same results in plain Python, with no thought for speed.

Each kernel has a function of its own name here (`test_house_rules.py` sees to it). The twins take and return plain
Python values where that reads better; the tests convert.
"""

from __future__ import annotations

from bpejit.kernels._constants import SPECIAL_FLAG

# ---- splitting -------------------------------------------------------------------------------------------------------

# ---- counting --------------------------------------------------------------------------------------------------------


def count_spans(text: bytes, first: int, ends: list[int], counts: dict[bytes, int]) -> None:
    """Add the spans of a text to a dict of counts; an end with the special flag marks a special token, not counted."""
    start = first
    for end in ends:
        stop = end & (SPECIAL_FLAG - 1)
        if not end & SPECIAL_FLAG:
            counts[text[start:stop]] = counts.get(text[start:stop], 0) + 1
        start = stop


def add_pretokens(pretokens: list[bytes], added: list[int], counts: dict[bytes, int]) -> None:
    """Add counted pre-tokens to a dict of counts."""
    for pretoken, count in zip(pretokens, added, strict=True):
        counts[pretoken] = counts.get(pretoken, 0) + count


def rehash(counts: dict[bytes, int]) -> dict[bytes, int]:
    """A larger table holds the same."""
    return dict(counts)


def measure_table(counts: dict[bytes, int]) -> tuple[int, int]:
    """Number of distinct pre-tokens, and of their bytes."""
    return len(counts), sum(len(pretoken) for pretoken in counts)


def unpack_table(counts: dict[bytes, int]) -> tuple[bytes, list[int], list[int]]:
    """Pool, starts and counts."""
    starts = [0]
    for pretoken in counts:
        starts.append(starts[-1] + len(pretoken))
    return b"".join(counts), starts, list(counts.values())


def make_prefixes(pretokens: list[bytes]) -> list[int]:
    """The first 8 bytes of each, zero-filled, as a number that sorts as they do."""
    return [int.from_bytes(pretoken[:8].ljust(8, b"\0"), "big") for pretoken in pretokens]


def sort_runs(pretokens: list[bytes]) -> list[int]:
    """The order of the pre-tokens by their bytes."""
    return sorted(range(len(pretokens)), key=lambda number: pretokens[number])


def gather(pretokens: list[bytes], counts: list[int], order: list[int]) -> tuple[list[bytes], list[int]]:
    """Pre-tokens and counts in another order."""
    return [pretokens[number] for number in order], [counts[number] for number in order]


# ---- training --------------------------------------------------------------------------------------------------------

# ---- encoding --------------------------------------------------------------------------------------------------------
