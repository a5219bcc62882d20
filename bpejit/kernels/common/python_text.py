"""Read the characters of Python's strings, and the bytes of its `bytes`, where they are in memory, and join many of them.

Python's own conversion of a string with a character that is not ASCII takes ten times as long as reading it here. Joining
documents in Python, which reads each several times, took a quarter of the time of encoding them. The layout of strings is that
of CPython 3.10 to 3.13; `is_layout_known` compares it with some strings.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bpejit.jit.dispatch import addresses_of, inline, make_builtin, method
from bpejit.jit.memory import array_at, call_c, prefetch
from bpejit.kernels.common.c_api import (
    ASCII_DATA,
    BYTES,
    INCREF,
    ITEMS_WORD,
    LIST_SIZE,
    MEMORY,
    NONE,
    SIZE_WORD,
    STR,
    TYPE_WORD,
    WIDE_DATA,
    c_api,
)
from bpejit.kernels.common.characters import write_utf8
from bpejit.kernels.constants import ONE, TWO

_TYPE, _SIZE = np.uint64(TYPE_WORD), np.uint64(SIZE_WORD)

_STATE = np.uint64(TYPE_WORD + 3)
"""Index of the state of a string among its words: flags, and the width of its characters."""

_TEXT, _STOPS, _API = range(3)
"""Indices of arrays that are passed to `join_texts` by their addresses."""

FIRST, LAST, N_JOINED, AT, LONGEST, ROOM, SEPARATOR = range(6, 13)
"""Indices of the other words; see `join_texts`."""

_AHEAD = 8
"""How many texts ahead memory is read."""

_IS_COMPACT, _IS_ASCII = 0x20, 0x40
_BYTES_HEAD = bytes.__basicsize__ - 1


def width_of_text(text: str) -> int:
    """Return the number of bytes of a character in memory: 1, 2 or 4."""
    return _state_of(text) >> 2 & 7


def address_of_text(text: str) -> int:
    """Return the address of the characters of a string."""
    return id(text) + int(c_api()[ASCII_DATA if text.isascii() else WIDE_DATA])


def _state_of(text: str) -> int:
    return ctypes.c_uint32.from_address(id(text) + 8 * int(_STATE)).value


@functools.cache
def is_layout_known() -> bool:
    """Return True if strings and `bytes` of this interpreter are in memory as this module reads them."""
    return (
        sys.implementation.name == "cpython"
        and ctypes.string_at(id(b"ab\xff") + _BYTES_HEAD, 3) == b"ab\xff"
        and all(
            (_state_of(text) & 0x7C, ctypes.string_at(address_of_text(text), len(data)))
            == (width << 2 | _IS_COMPACT | _IS_ASCII * text.isascii(), data)
            for width, text in ((1, "ab"), (1, "a\xe9"), (2, "a\u6771"), (4, "a\U0001f642"))
            for data in [text.encode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width])]
        )
    )


@inline
def append_text(item, longest, out, at, room, api):
    """Write the UTF-8 of a string, or the bytes of `bytes`, from `out[at]` on; a lone surrogate becomes U+FFFD.

    Parameters
    ----------
    item : int
        Address of any object.
    longest : int
        Characters or bytes of the longest text that is written.
    out : uint8[:], out
    at, room : int
        Where the text ends at the latest. Up to eight bytes after it are written.
    api : int64[:], in
        `c_api`.

    Returns
    -------
    int
        The end of what was written; -1 if the object is of another type, too long, or may need more room.

    Notes
    -----
    Linear. That `is_layout_known` is not checked.
    """
    memory = array_at(api, MEMORY, np.int64)
    first = np.uint64(item >> 3)
    kind = memory[first + _TYPE]
    size = memory[first + _SIZE]
    is_bytes = kind == api[BYTES]
    if (kind != api[STR] and not is_bytes) or size > longest:
        return -1
    state = 0 if is_bytes else memory[first + _STATE]
    if is_bytes or state & (_IS_COMPACT | _IS_ASCII) == _IS_COMPACT | _IS_ASCII:
        if at + size > room:
            return -1
        source = array_at(api, MEMORY, np.uint8)
        begin = np.uint64(item + (_BYTES_HEAD if is_bytes else api[ASCII_DATA]))
        for index in range(np.uint64(size)):
            out[np.uint64(at) + np.uint64(index)] = source[begin + np.uint64(index)]
        return at + size
    width = state >> 2 & 7
    if state & _IS_COMPACT == 0 or at + size * min(width + 1, 4) > room:
        return -1
    begin = np.uint64(item + api[WIDE_DATA])
    end = np.uint64(size)
    if width == 1:
        stop = write_utf8(array_at(api, MEMORY, np.uint8), begin, begin + end, out, at)
    elif width == 2:
        begin >>= ONE
        stop = write_utf8(array_at(api, MEMORY, np.uint16), begin, begin + end, out, at)
    else:
        begin >>= TWO
        stop = write_utf8(array_at(api, MEMORY, np.uint32), begin, begin + end, out, at)
    return np.int64(stop)


@inline
def write_string(item, text, api):
    """Write the UTF-8 of a string to `text`, a uint8 array; return its size and whether it is ASCII.

    The size is -1 for an object of another type, and a string of more bytes than a fourth of the array, for which there would
    be room whatever its characters are.
    """
    memory = array_at(api, MEMORY, np.int64)
    first = np.uint64(item >> 3)
    most = text.size >> 2
    n_bytes = append_text(item, most, text, 0, text.size, api) if memory[first + _TYPE] == api[STR] else -1
    return n_bytes if n_bytes <= most else -1, n_bytes == memory[first + _SIZE]


@method
def join_texts(words, given):
    """Append the texts `given[FIRST:LAST]` to the buffer, up to one that has to be appended in another way.

    Parameters
    ----------
    words : int64[:], in-out
        Addresses and sizes of the buffer, of the stops of its texts as int64, and of `c_api`; the texts of the list that are
        appended, of which FIRST becomes the next one; the number of texts in the buffer and where it ends, which both become
        larger; characters or bytes of the longest text that is appended; where the buffer is full; and a byte that is written
        after each text, -1 for none.
    given : int
        Address of a list.

    Returns
    -------
    int
        Address of None. The text FIRST is then LAST, the end of the list, or a text that is no `str` or `bytes`, is longer than
        LONGEST, or may not fit; or there is no room for its stop.

    Notes
    -----
    Linear. No other code runs meanwhile, so the list does not change.
    """
    api = array_at(words, _API, np.int64)
    text = array_at(words, _TEXT, np.uint8)
    stops = array_at(words, _STOPS, np.int64)
    memory = array_at(api, MEMORY, np.int64)
    items = memory[(given >> 3) + ITEMS_WORD] >> 3
    last = min(words[LAST], call_c(api[LIST_SIZE], (given,)))
    separator = words[SEPARATOR]
    room = words[ROOM] - (separator >= 0)
    n_joined = words[N_JOINED]
    at = words[AT]
    index = words[FIRST]
    while index < last and n_joined < stops.size:
        prefetch(memory, np.uint64(memory[items + min(index + _AHEAD, last - 1)] >> 3))
        end = append_text(memory[items + index], words[LONGEST], text, at, room, api)
        if end < 0:
            break
        if separator >= 0:
            text[end] = separator
            end += 1
        at = end
        stops[n_joined] = at
        n_joined += 1
        index += 1
    words[FIRST] = index
    words[N_JOINED] = n_joined
    words[AT] = at
    call_c(api[INCREF], (api[NONE],))
    return api[NONE]


def make_text_joiner(text: Any, stops: Any) -> tuple[Any, Callable[[list[Any]], None]] | None:
    """Return the words of `join_texts` for a buffer, and a builtin function that takes a list.

    Parameters
    ----------
    text : uint8 array
    stops : int64 array
        The function keeps neither of them alive.

    Returns
    -------
    words : int64 array
    join : callable
        Or None instead of both, if such functions are not possible.
    """
    if not is_layout_known():
        return None
    words = np.zeros(SEPARATOR + 1, dtype=np.int64)
    words[:FIRST] = addresses_of((text, stops, c_api()))
    join = make_builtin(join_texts, words)
    return None if join is None else (words, join)
