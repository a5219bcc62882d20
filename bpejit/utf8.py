"""Convert strings to UTF-8: whole, in slices, or many at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.kernels.common import python_text
from bpejit.kernels.common.characters import encode_string_part
from bpejit.kernels.common.python_text import address_of_text, is_layout_known, width_of_text
from bpejit.kernels.constants import TEXT_PADDING

STRING_SLICE = 1 << 16
"""Characters of a string that are converted at a time, so that a long string needs no second copy."""

_LEAST_IN_PLACE = 1 << 14
"""Characters from which on a kernel converts a string, which takes new memory."""

ROOM_OF_CHARACTER = 4
"""Bytes of UTF-8 that a character takes at most."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def encode_utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a text; a lone surrogate becomes U+FFFD, as in tiktoken."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Via UTF-16, so that two adjacent halves of a surrogate pair become the character that they represent.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def has_surrogates(text: str) -> bool:
    """Return True if a text has a lone surrogate, which UTF-8 cannot represent."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def is_utf8(data: bytes) -> bool:
    """Return True if bytes are valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def encode_slices(text: str, start: int = 0, end: int | None = None) -> Iterator[bytes | Array]:
    """Yield the UTF-8 bytes of `text[start:end]`, slice by slice; no slice ends between the halves of a surrogate pair.

    A slice is a view, valid until the next one.
    """
    end = len(text) if end is None else end
    if end - start < _LEAST_IN_PLACE:
        yield encode_utf8(text[start:end])
        return
    out = np.empty(ROOM_OF_CHARACTER * min(STRING_SLICE, end - start) + TEXT_PADDING, np.uint8)
    while start < end:
        stop = min(start + STRING_SLICE, end)
        if stop < end and is_high_surrogate(text[stop - 1]):
            stop -= 1
        yield out[: encode_range(text, start, stop, out)]
        start = stop


def encode_range(text: str, start: int, stop: int, out: Array) -> int:
    """Write the UTF-8 bytes of `text[start:stop]` to a uint8 array; return their number.

    The array has room for four bytes a character, and TEXT_PADDING more. Where the layout of strings is known, a kernel reads
    them in place, without the GIL.
    """
    if is_layout_known():
        address = np.array([address_of_text(text), len(text)])
        n_bytes: int = encode_string_part(address, width_of_text(text), start, stop, out)
        return n_bytes
    data = encode_utf8(text[start:stop])
    memoryview(out)[: len(data)] = data  # type: ignore[arg-type]
    return len(data)


def code_points(text: str) -> Array:
    """Return the code points of a text, surrogates among them, as uint32 [characters]."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def utf8_widths(points: Array) -> Array:
    """Return the number of UTF-8 bytes of each code point as int64; three for a surrogate."""
    found: Array = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return found


def widths(text: str) -> Array:
    """Return the number of bytes of each character in `text.encode("utf-8", "surrogateescape")` as int64."""
    points = code_points(text)
    found = utf8_widths(points)
    found[(points >= 0xD800) & (points < 0xE000)] = 1
    return found


def is_high_surrogate(character: str) -> bool:
    """Return True if a character is the first half of a surrogate pair."""
    return "\ud800" <= character <= "\udbff"


class TextBuffer:
    """UTF-8 of many texts, one after the other.

    Parameters
    ----------
    text : uint8 array
        Its last TEXT_PADDING bytes stay free.
    stops : int64 array
        Gets the end of each text.
    """

    def __init__(self, text: Array, stops: Array) -> None:
        self.text = text
        self.stops = stops
        self._joiner = python_text.make_text_joiner(text, stops)
        self.clear()

    def clear(self) -> None:
        """Remove all texts."""
        self.n_texts = self.n_bytes = 0

    def append(self, texts: list[Any], first: int, stop: int, longest: int, separator: bytes = b"") -> int:
        """Append texts from `texts[first]` on, each followed by `separator`, at most one byte.

        Return the index of the first text that was not appended: `stop`, the end of the list, or a text that is not of type
        `str` or `bytes`, has more than `longest` characters or bytes, or may not fit.
        """
        room = self.text.size - TEXT_PADDING
        if self._joiner is None:
            return self._append_each(texts, first, stop, longest, room, separator)
        words, join = self._joiner
        ending = separator[0] if separator else -1
        words[python_text.FIRST :] = first, stop, self.n_texts, self.n_bytes, longest, room, ending
        join(texts)
        self.n_texts = int(words[python_text.N_JOINED])
        self.n_bytes = int(words[python_text.AT])
        return int(words[python_text.FIRST])

    def _append_each(self, texts: list[Any], first: int, stop: int, longest: int, room: int, separator: bytes) -> int:
        """Do the same in plain Python."""
        view = memoryview(self.text)  # type: ignore[arg-type]
        while first < min(stop, len(texts)) and self.n_texts < self.stops.size:
            text = texts[first]
            if type(text) not in (str, bytes) or len(text) > longest:
                break
            data = (encode_utf8(text) if isinstance(text, str) else text) + separator
            end = self.n_bytes + len(data)
            if end > room:
                break
            view[self.n_bytes : end] = data
            self.stops[self.n_texts] = self.n_bytes = end
            self.n_texts += 1
            first += 1
        return first


def gather_texts(texts: list[str | bytes]) -> tuple[Array, Array]:
    """Return the UTF-8 bytes of several texts in one array, and the end of each as int64 [texts]."""
    size = ROOM_OF_CHARACTER * sum(map(len, texts)) + TEXT_PADDING  # most of these bytes are never written, and take no memory
    buffer = TextBuffer(np.empty(size, np.uint8), np.empty(len(texts), np.int64))
    if buffer.append(texts, 0, len(texts), size) < len(texts):
        raise TypeError("a text is neither str nor bytes")
    return buffer.text[: buffer.n_bytes], buffer.stops
