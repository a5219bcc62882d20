"""Comparison of decoding one character with Python's decoder, and of encoding strings with Python's encoder."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import example, given, strategies as st

from bpejit import utf8
from bpejit.jit import dispatch
from bpejit.kernels.common import characters


@pytest.fixture(autouse=True)
def _no_kernel_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    # The cache does not detect edits of the kernels in this file.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def read_character(text, position, stop, final, class_of, byte_class):
    return characters.read_character(text, position, stop, final, class_of, byte_class)


del dispatch.KERNELS[-1:]

# Each code point and each byte has a class of its own.
CLASS_OF = np.arange(0x110000, dtype=np.uint32)
BYTE_CLASS = np.arange(0x110000, 0x110000 + 256, dtype=np.uint32)


def read(data: bytes, position: int, stop: int, final: bool) -> tuple[int, int]:
    """Return class and width, in the form of the twin."""
    text = np.frombuffer(data + bytes(4), np.uint8)
    found, width = read_character(text, np.uint64(position), np.uint64(stop), final, CLASS_OF, BYTE_CLASS)
    return (int(found) if found < 0x110000 else 0x110000 - 1 - int(found)), int(width)


def check(data: bytes, position: int, stop: int, final: bool) -> None:
    assert read(data, position, stop, final) == twins.characters.read_character(data, position, stop, final)


# The limits of lead bytes, of continuation bytes, of overlong forms, of surrogates and of code points.
EDGES = bytes([0, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF])
edges = st.lists(st.sampled_from(EDGES), min_size=1, max_size=6).map(bytes)
texts = st.text(min_size=1, max_size=3).map(lambda text: text.encode("utf-8", "surrogatepass"))


@given(st.one_of(edges, texts, st.binary(min_size=1, max_size=6)), st.data(), st.booleans())
def test_read_character(data: bytes, draw: st.DataObject, final: bool) -> None:
    """Bytes after `stop` are there, and may complete a character, but they are not part of the text."""
    stop = draw.draw(st.integers(1, len(data)))
    check(data, draw.draw(st.integers(0, stop - 1)), stop, final)


@given(st.lists(st.sampled_from(EDGES), min_size=4, max_size=4).map(bytes))
@example(b"\xe0\x9f\xbf\0")  # overlong
@example(b"\xed\xa0\x80\0")  # a surrogate
@example(b"\xf4\x90\x80\x80")  # above U+10FFFF
def test_read_character__all_limits(data: bytes) -> None:
    for stop in range(1, 5):
        for final in (False, True):
            check(data, 0, stop, final)


@given(st.integers(0x80, 0x10FFFF).filter(lambda point: not 0xD800 <= point <= 0xDFFF))
def test_read_character__reads_every_code_point(point: int) -> None:
    data = chr(point).encode()
    assert read(data, 0, len(data), True) == (point, len(data))
    for stop in range(1, len(data)):
        assert read(data, 0, stop, False) == (0, 0)
        assert read(data, 0, stop, True) == (-1 - data[0], 1)


LIMITS = "\0a\x7f\x80\xff\u0100\u07ff\u0800\ud7ff\ud800\udbff\udc00\udfff\ue000\uffff\U00010000\U0010ffff"
strings = st.lists(st.sampled_from([*LIMITS, "b" * 70]) | st.characters(), max_size=80).map("".join)


@given(strings, st.sampled_from(["latin-1", "ascii", ""]), st.data())
@example(LIMITS, "", None)
def test_encode_string_part(text: str, within: str, draw: st.DataObject | None) -> None:
    """Strings of all widths; nothing is written after the room that is needed."""
    text = text.encode(within, "ignore").decode(within) if within else text
    first = draw.draw(st.integers(0, len(text))) if draw else 0
    last = draw.draw(st.integers(first, len(text))) if draw else len(text)
    least = 4 if max(map(ord, text), default=0) > 0xFFFF else 2 if max(map(ord, text), default=0) > 0xFF else 1
    for width in (1, 2, 4):
        if width >= least:
            units = np.array([*map(ord, text), 0], f"u{width}")
            out = np.full(4 * (last - first) + 24, 0xEE, np.uint8)
            n = characters.encode_string_part(np.array([units.ctypes.data, len(text)]), width, first, last, out)
            assert out[:n].tobytes() == twins.python_objects.encode_string_part(text, first, last)
            assert (out[-8:] == 0xEE).all()


@given(strings, st.integers(2, 9))  # a slice has room for both halves of a surrogate pair
def test_encode_slices(text: str, size: int) -> None:
    """Python's own strings, whose memory is read; where the layout is not known, they are converted by Python."""
    expected = twins.python_objects.encode_string_part(text, 0, len(text))
    for known in (utf8.is_layout_known(), False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(utf8, "is_layout_known", lambda known=known: known)
            patch.setattr(utf8, "STRING_SLICE", size)
            patch.setattr(utf8, "_LEAST_IN_PLACE", 1)
            assert b"".join(bytes(part) for part in utf8.encode_slices(text)) == expected
