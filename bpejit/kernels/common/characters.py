"""Decode characters of text, valid UTF-8 or not, look up their classes, and encode the characters of Python's strings."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import array_at, count_ones, store_u64
from bpejit.jit.simd import NARROWED, narrow_characters
from bpejit.kernels.constants import EIGHT, EIGHTEEN, FOUR, ONE, SIX, SIXTEEN, THREE, TWELVE, TWO, ZERO

_TAIL = np.uint64(0x3F)
_TAIL_TAG = np.uint64(0x80)
_TAIL_TAG_MASK = np.uint64(0xC0)
_LEAD_OF_THREE = np.uint64(0xF)
_HIGH_FIVE = np.uint64(0xF800)
_LEAST_OF_THREE = np.uint64(0x800)
_SURROGATES = np.uint64(0xD800)
_LOW_SURROGATES = np.uint64(0xDC00)
_LOW_TEN = np.uint64(0x3FF)


@inline
def decode_three(word):
    """Return the code point of the character of three bytes in the low bytes of `word`, whose first bits are not checked."""
    return (word & _LEAD_OF_THREE) << TWELVE | (word >> EIGHT & _TAIL) << SIX | word >> SIXTEEN & _TAIL


@inline
def is_valid_three(point):
    """Return True if a code point decoded from three bytes is neither overlong nor a surrogate."""
    high = point & _HIGH_FIVE
    return (high != ZERO) & (high != _SURROGATES)


@inline
def read_character(text, position, stop, final, class_of, byte_class):
    """Return the class and the width of the character at `position`.

    The width is 0 if the character may be incomplete: it needs bytes after `stop`, and `final` is False.

    UTF-8 is decoded as strictly as by Python: overlong forms, surrogates and code points above U+10FFFF are invalid. Each
    byte that is not part of a valid character is a character of its own.
    """
    byte = np.uint64(text[position])
    if byte < np.uint64(0x80):
        return np.uint64(byte_class[byte]), ONE
    if byte >= np.uint64(0xC2):
        if byte < np.uint64(0xE0):
            if position + TWO > stop:
                if not final:
                    return ZERO, ZERO
            else:
                second = np.uint64(text[position + ONE])
                if second & _TAIL_TAG_MASK == _TAIL_TAG:
                    return np.uint64(class_of[(byte & np.uint64(0x1F)) << SIX | second & _TAIL]), TWO
        elif byte < np.uint64(0xF0):
            if position + THREE > stop:
                if not final:
                    return ZERO, ZERO
            else:
                second = np.uint64(text[position + ONE])
                third = np.uint64(text[position + TWO])
                point = (byte & np.uint64(0xF)) << TWELVE | (second & _TAIL) << SIX | third & _TAIL
                tails = (second & _TAIL_TAG_MASK) == _TAIL_TAG and (third & _TAIL_TAG_MASK) == _TAIL_TAG
                if tails and point >= np.uint64(0x800) and (point < np.uint64(0xD800) or point > np.uint64(0xDFFF)):
                    return np.uint64(class_of[point]), THREE
        elif byte < np.uint64(0xF5):
            if position + FOUR > stop:
                if not final:
                    return ZERO, ZERO
            else:
                second = np.uint64(text[position + ONE])
                third = np.uint64(text[position + TWO])
                fourth = np.uint64(text[position + THREE])
                point = (byte & np.uint64(7)) << EIGHTEEN | (second & _TAIL) << TWELVE | (third & _TAIL) << SIX | fourth & _TAIL
                tails = (second & third & fourth & _TAIL_TAG_MASK) == _TAIL_TAG and (
                    (second | third | fourth) & np.uint64(0x40)
                ) == ZERO
                if tails and point >= np.uint64(0x10000) and point < np.uint64(0x110000):
                    return np.uint64(class_of[point]), FOUR
    return np.uint64(byte_class[byte]), ONE


@inline
def write_utf8(characters, first, last, out, at):
    """Write the UTF-8 of `characters[first:last]`, an array of any width, from `out[at]` on; return the end as uint64.

    Up to eight bytes after the end are written as well. The rest is as for `encode_string_part`.
    """
    i, size, at = np.uint64(first), np.uint64(last), np.uint64(at)
    block = np.uint64(NARROWED)
    while i < size:
        while i + block <= size:
            others = narrow_characters(characters, i, out, at)
            if others != ZERO:
                n_ascii = count_ones(~others & others - ONE)  # the zeros before the first one
                i += n_ascii
                at += n_ascii
                break
            i += block
            at += block
        while i < size:
            point = np.uint64(characters[i])
            if point < np.uint64(0x80):
                if i + block <= size:
                    break
                out[at] = point
                i += ONE
                at += ONE
                continue
            i += ONE
            if point - _LEAST_OF_THREE < _SURROGATES - _LEAST_OF_THREE:
                tails = (point >> SIX & _TAIL) << EIGHT | (point & _TAIL) << SIXTEEN
                store_u64(out, at, np.uint64(0x8080E0) | point >> TWELVE | tails)
                at += THREE
            elif point < _LEAST_OF_THREE:
                store_u64(out, at, np.uint64(0x80C0) | point >> SIX | (point & _TAIL) << EIGHT)
                at += TWO
            else:
                if point >> np.uint64(11) == _SURROGATES >> np.uint64(11):
                    following = np.uint64(characters[i]) if i < size else ZERO
                    if point < _LOW_SURROGATES and following & ~_LOW_TEN == _LOW_SURROGATES:
                        point = np.uint64(0x10000) + ((point & _LOW_TEN) << np.uint64(10) | following & _LOW_TEN)
                        i += ONE
                    else:
                        point = np.uint64(0xFFFD)
                if point < np.uint64(0x10000):
                    out[at] = np.uint64(0xE0) | point >> TWELVE
                else:
                    out[at] = np.uint64(0xF0) | point >> EIGHTEEN
                    at += ONE
                    out[at] = _TAIL_TAG | point >> TWELVE & _TAIL
                out[at + ONE] = _TAIL_TAG | point >> SIX & _TAIL
                out[at + TWO] = _TAIL_TAG | point & _TAIL
                at += THREE
    return at


@kernel
def encode_string_part(address, width, first, last, out):
    """Convert a part of a string to UTF-8; a surrogate that is not one of a pair becomes U+FFFD.

    Parameters
    ----------
    address : int64[2], in
        The address of the characters of the string, and their number.
    width : int
        Bytes of a character: 1, 2 or 4.
    first, last : int
        The part, in characters.
    out : uint8[at least 4 * (last - first) + 16], out

    Returns
    -------
    int
        The number of bytes.

    Notes
    -----
    Linear; 32 characters of ASCII at a time in wide registers. The size of `out` is not checked.
    """
    if width == 1:
        return np.int64(write_utf8(array_at(address, 0, np.uint8), first, last, out, ZERO))
    if width == 2:
        return np.int64(write_utf8(array_at(address, 0, np.uint16), first, last, out, ZERO))
    return np.int64(write_utf8(array_at(address, 0, np.uint32), first, last, out, ZERO))
