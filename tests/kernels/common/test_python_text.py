"""Python's strings and `bytes`, read in place: equal to Python's own conversion, within their room, without leaks."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import twins
from helpers.leaks import growth
from hypothesis import example, given, strategies as st

from bpejit import utf8
from bpejit.kernels.common import python_text
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.utf8 import TextBuffer

LIMITS = ["", "a", "\x7f", "\x80", "\xff", "\u0100", "\u07ff", "\u0800", "\ud7ff", "\ud800", "\udc00", "\uffff", "\U0010ffff"]


class Text(str):
    """A string of another type."""

    __slots__ = ()


strings = st.lists(st.sampled_from([*LIMITS, "b" * 31, "b" * 32, "b" * 70]) | st.characters(), max_size=8).map("".join)
texts = st.lists(strings | st.binary(max_size=40) | st.sampled_from([Text("ab"), None, 5, bytearray(b"ab")]), max_size=12)
separators = st.sampled_from([b"", b"\x1f"])
WIDTHS = [
    text * number for text in ("a", "\xe9", "\u6771", "\U0001f642", "a\xe9", "a" * 33 + "\u6771") for number in (1, 31, 32, 33)
]


def made_buffer(size: int, n_texts: int) -> TextBuffer:
    return TextBuffer(np.full(size + TEXT_PADDING, 0xEE, np.uint8), np.zeros(n_texts, np.int64))


def texts_of(buffer: TextBuffer) -> list[bytes]:
    stops = buffer.stops[: buffer.n_texts].tolist()
    assert buffer.n_bytes == (stops[-1] if stops else 0)
    return [buffer.text[start:stop].tobytes() for start, stop in zip([0, *stops], stops, strict=False)]


@given(texts, st.integers(0, 80), st.integers(0, 300), st.integers(0, 12), separators, st.integers(0, 12))
@example(WIDTHS, 100, 10_000, 100, b"", 3)
@example(["", "a", None], 1, 1, 3, b"\x1f", 0)
def test_join_texts(texts, longest, room, n_texts, separator, first):
    """Up to a text that is longer, or that may not fit; at most eight bytes are written after the room."""
    first = min(first, len(texts))
    expected = twins.python_objects.join_texts(texts[first:], longest, room, separator)[:n_texts]
    buffer = made_buffer(room, n_texts)
    if buffer._joiner is None:
        pytest.skip("no builtin functions in this mode")
    assert buffer.append(texts, first, len(texts), longest, separator) == first + len(expected)
    assert texts_of(buffer) == expected
    assert (buffer.text[room + 8 :] == 0xEE).all()


@given(texts, separators, st.lists(st.integers(0, 12), max_size=3))
def test_append__in_steps(texts, separator, stops):
    """By a builtin function and in Python, with room enough: all texts before one of another type, in any number of calls."""
    kinds = [type(text) in (str, bytes) for text in texts]
    n_texts = kinds.index(False) if False in kinds else len(texts)
    expected = twins.python_objects.join_texts(texts[:n_texts], 1_000, 100_000, separator)
    for known in (utf8.python_text.is_layout_known(), False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(python_text, "is_layout_known", lambda known=known: known)
            buffer = made_buffer(20_000, len(texts) + 1)
        done = 0
        for stop in [*sorted(stops), len(texts) + 5]:
            done = buffer.append(texts, done, max(stop, done), 1_000, separator)
        assert done == n_texts
        assert texts_of(buffer) == expected
        buffer.clear()
        assert buffer.append(texts, 0, n_texts, 1_000, separator) == n_texts
        assert texts_of(buffer) == expected


@pytest.mark.compiled
def test_join_texts__leaks_nothing():
    some = [str(number) for number in range(1_000, 1_100)]
    buffer = made_buffer(1_000, 200)
    before = sys.getrefcount(some[5])

    def run() -> None:
        buffer.clear()
        assert buffer.append(some, 0, 100, 10) == 100

    assert growth(run, 1_000)[0] < 100
    after = sys.getrefcount(some[5])
    assert after == before


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="not known yet")
def test_layout_of_strings_is_known():
    assert python_text.is_layout_known()
