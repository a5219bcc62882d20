"""Helpers of the tests of splitting: equivalent ways to split a text, and texts."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import numpy as np
import twins
from conftest import small
from hypothesis import strategies as st

from bpejit.arrays import padded_text
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG, TEXT_PADDING
from bpejit.kernels.splitting import spans
from bpejit.kernels.splitting.spans import split_adjacent
from bpejit.splitting import Pattern, Splitter
from helpers.strategies import awkward_bytes


@lru_cache(maxsize=64)
def cached_splitter(pattern: Pattern, special_tokens: tuple[bytes, ...] = ()) -> Splitter:
    return Splitter(pattern, special_tokens)


def split_whole(splitter: Splitter, data: bytes) -> list[int]:
    return splitter.split(*padded_text(data)).tolist()


def split_by_regex(splitter: Splitter, data: bytes) -> list[int]:
    return twins.splitting.split_spans(data, splitter.pattern.stages, list(splitter.special_tokens))


def split_some(splitter: Splitter, text: np.ndarray, stop: int, final: bool, state: np.ndarray, ends: np.ndarray) -> int:
    """Call `split_spans` once, as part of a kernel that is compiled anyway: by itself, compiling it takes five seconds."""
    return split_adjacent(text, np.array([stop]), np.zeros(1, np.int64), final, splitter.automaton, state, ends)


def split_stream(splitter: Splitter, pieces: Iterable[bytes], n_ends: int = spans.MIN_ENDS, shift: bool = True) -> list[int]:
    """Split a text that arrives in pieces; with `shift`, the buffer retains only the text that the state still needs."""
    state = splitter.new_state()
    ends = np.zeros(n_ends, dtype=np.uint32)
    buffered = b""
    offset = 0
    found = []
    pieces = [*pieces, None]
    for piece in pieces:
        buffered += piece or b""
        text = np.frombuffer(buffered + b"\xff" * TEXT_PADDING, dtype=np.uint8).copy()
        state[spans.NEED_CALL] = 1
        while state[spans.NEED_CALL]:
            n = split_some(splitter, text, len(buffered), piece is None, state, ends)
            assert n <= n_ends
            found += [(end & POSITION_MASK) + offset | end & SPECIAL_FLAG for end in ends[:n].tolist()]
        start = int(state[spans.SPAN_START])
        assert start + offset == (found[-1] & POSITION_MASK if found else 0)
        if shift:
            spans.shift_state(state, start)
            buffered = buffered[start:]
            offset += start
    return found


def split_at_cuts(splitter: Splitter, data: bytes, cuts: list[int]) -> list[int]:
    """Split the chunks between safe cuts separately, each with the least text after its cut that `blocks` requires."""
    ahead = max(4, max(map(len, splitter.special_tokens), default=0))
    found = []
    bounds = [0, *cuts, len(data)]
    for start, cut in pairwise(bounds):
        final = cut == len(data)
        stop = cut if final else min(cut + ahead, len(data))
        text, _ = padded_text(data[start:stop])
        for _, ends, n in splitter.blocks(text, np.full(1, stop - start), cut - start, final):
            found += [(end & POSITION_MASK) + start | end & SPECIAL_FLAG for end in ends[:n].tolist()]
    return found


def all_cuts(splitter: Splitter, data: bytes) -> list[int]:
    """Return every safe cut of a text."""
    text, n = padded_text(data)
    cuts = []
    cut = splitter.find_cut(text, 0, n, n)
    while cut >= 0:
        cuts.append(cut)
        cut = splitter.find_cut(text, cut + 1, n, n)
    return cuts


@st.composite
def documents(draw, most: int = small(400, 60)):
    """Draw texts of different kinds of runs: ASCII, Chinese, emoji, invalid UTF-8, special tokens."""
    sentence = st.sampled_from(
        [
            *(b"It's what they've said: 12345 times, \n\n  and then some more.\t", b"def f(x):\n    return x[0]  # why?\r\n"),
            *(
                "中文没有空格，写在一起。一二三１２３".encode(),
                "한국어는 띄어쓰기를 합니다. ".encode(),
                "日本語のテキスト、カタカナ".encode(),
            ),
            *("Ünïcödé wörds ärе ".encode(), "😀👩‍👩‍👧🇩🇪".encode(), "é中 a😀\n".encode(), "слова и слова, ".encode()),
            *("１２３４５６７８９０".encode() * 40, "\u3000".encode() * 70, "Ⅷ中".encode() * 9),
            *(b"    " * 5, b"a" * 70, b"0123456789" * 7, b"'s" * 20, b"\n" * 9, b"<|endoftext|>", b"hello", b"|---" * 12),
            *(b"\xff", b"\x80\x80", b"\xe4\xb8", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"),
        ]
    )
    part = st.tuples(sentence | sentence | awkward_bytes(4), st.sampled_from([1, 1, 2, 5, 30]))
    data = b"".join(piece * times for piece, times in draw(st.lists(part, max_size=12)))
    return data * draw(st.sampled_from([1, 1, 1, 1, 3])) if len(data) < 20 * most else data[: 20 * most]
