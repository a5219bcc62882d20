"""What the tests of splitting share: ways to split a text that must all agree."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import naive
import numpy as np

from bpejit.arrays import padded_text
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG, TEXT_PADDING
from bpejit.kernels.splitting import spans
from bpejit.splitting import Pattern, Splitter


@lru_cache(maxsize=64)
def cached_splitter(pattern: Pattern, special_tokens: tuple[bytes, ...] = ()) -> Splitter:
    return Splitter(pattern, special_tokens)


def split_whole(splitter: Splitter, data: bytes) -> list[int]:
    return splitter.split(*padded_text(data)).tolist()


def split_by_regex(splitter: Splitter, data: bytes) -> list[int]:
    return naive.split_spans(data, splitter.pattern.stages, list(splitter.special_tokens))


def split_stream(splitter: Splitter, pieces: Iterable[bytes], n_ends: int = spans.MIN_ENDS, shift: bool = True) -> list[int]:
    """Split a text that comes in pieces, in a buffer that keeps what the state still needs, and no more if `shift`."""
    state = splitter.new_state()
    ends = np.zeros(n_ends, dtype=np.uint32)
    kept = b""
    offset = 0
    found = []
    pieces = [*pieces, None]
    for piece in pieces:
        kept += piece or b""
        text = np.frombuffer(kept + b"\xff" * TEXT_PADDING, dtype=np.uint8).copy()
        state[spans.NEED_CALL] = 1
        while state[spans.NEED_CALL]:
            n = spans.split_spans(text, len(kept), piece is None, splitter.automaton, state, ends)
            assert n <= n_ends
            found += [(end & POSITION_MASK) + offset | end & SPECIAL_FLAG for end in ends[:n].tolist()]
        start = int(state[spans.SPAN_START])
        assert start + offset == (found[-1] & POSITION_MASK if found else 0)
        if shift:
            spans.shift_state(state, start)
            kept = kept[start:]
            offset += start
    return found


def split_at_cuts(splitter: Splitter, data: bytes, cuts: list[int]) -> list[int]:
    """Split the pieces between safe cuts on their own, each with no more behind its cut than is promised to be enough."""
    ahead = max(4, max(map(len, splitter.special_tokens), default=0))
    found = []
    borders = [0, *cuts, len(data)]
    for start, cut in pairwise(borders):
        final = cut == len(data)
        stop = cut if final else min(cut + ahead, len(data))
        text, _ = padded_text(data[start:stop])
        for _, ends, n in splitter.blocks(text, cut - start, stop - start, final):
            found += [(end & POSITION_MASK) + start | end & SPECIAL_FLAG for end in ends[:n].tolist()]
    return found


def all_cuts(splitter: Splitter, data: bytes) -> list[int]:
    """Every safe cut of a text."""
    text, n = padded_text(data)
    cuts = []
    cut = splitter.find_cut(text, 0, n, n)
    while cut >= 0:
        cuts.append(cut)
        cut = splitter.find_cut(text, cut + 1, n, n)
    return cuts
