"""One character of text that should be UTF-8, and its class."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline

_ZERO, _ONE, _TWO, _THREE, _FOUR, _SIX, _TWELVE, _EIGHTEEN = (np.uint64(number) for number in (0, 1, 2, 3, 4, 6, 12, 18))
_TAIL = np.uint64(0x3F)
_TAIL_TAG = np.uint64(0x80)
_TAIL_TAG_MASK = np.uint64(0xC0)


@inline
def read_character(text, position, stop, final, class_of, byte_class):
    """Return class and width of the character at `position`, or width 0 if it may go on behind `stop` (not if `final`).

    UTF-8 is decoded as strictly as Python does it: overlong forms, surrogates and numbers above U+10FFFF are not
    characters, and each byte that is not part of one is a character of its own.
    """
    byte = np.uint64(text[position])
    if byte < np.uint64(0x80):
        return np.uint64(byte_class[byte]), _ONE
    if byte >= np.uint64(0xC2):
        if byte < np.uint64(0xE0):
            if position + _TWO > stop:
                if not final:
                    return _ZERO, _ZERO
            else:
                second = np.uint64(text[position + _ONE])
                if second & _TAIL_TAG_MASK == _TAIL_TAG:
                    return np.uint64(class_of[(byte & np.uint64(0x1F)) << _SIX | second & _TAIL]), _TWO
        elif byte < np.uint64(0xF0):
            if position + _THREE > stop:
                if not final:
                    return _ZERO, _ZERO
            else:
                second = np.uint64(text[position + _ONE])
                third = np.uint64(text[position + _TWO])
                point = (byte & np.uint64(0xF)) << _TWELVE | (second & _TAIL) << _SIX | third & _TAIL
                tails = (second & _TAIL_TAG_MASK) == _TAIL_TAG and (third & _TAIL_TAG_MASK) == _TAIL_TAG
                if tails and point >= np.uint64(0x800) and (point < np.uint64(0xD800) or point > np.uint64(0xDFFF)):
                    return np.uint64(class_of[point]), _THREE
        elif byte < np.uint64(0xF5):
            if position + _FOUR > stop:
                if not final:
                    return _ZERO, _ZERO
            else:
                second = np.uint64(text[position + _ONE])
                third = np.uint64(text[position + _TWO])
                fourth = np.uint64(text[position + _THREE])
                point = (
                    (byte & np.uint64(7)) << _EIGHTEEN | (second & _TAIL) << _TWELVE | (third & _TAIL) << _SIX | fourth & _TAIL
                )
                tails = (second & third & fourth & _TAIL_TAG_MASK) == _TAIL_TAG and (
                    (second | third | fourth) & np.uint64(0x40)
                ) == _ZERO
                if tails and point >= np.uint64(0x10000) and point < np.uint64(0x110000):
                    return np.uint64(class_of[point]), _FOUR
    return np.uint64(byte_class[byte]), _ONE
