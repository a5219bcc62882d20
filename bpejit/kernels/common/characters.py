"""Decode characters of text, valid UTF-8 or not, and look up their classes."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.kernels.constants import EIGHT, EIGHTEEN, FOUR, ONE, SIX, SIXTEEN, THREE, TWELVE, TWO, ZERO

_TAIL = np.uint64(0x3F)
_TAIL_TAG = np.uint64(0x80)
_TAIL_TAG_MASK = np.uint64(0xC0)
_LEAD_OF_THREE = np.uint64(0xF)
_HIGH_FIVE = np.uint64(0xF800)
_SURROGATES = np.uint64(0xD800)


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
