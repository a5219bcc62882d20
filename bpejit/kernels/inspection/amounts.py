"""Count the tokens of encoded text, and the characters and words of text."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64
from bpejit.kernels.constants import EIGHT, HALF, ONE, SIXTEEN, THREE, TWO, ZERO

CHARACTERS, WORDS, STARTS_IN_WORD, ENDS_IN_WORD = range(4)
"""Indices of the results of `count_words`."""

N_AMOUNTS = 4

_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)
_FROM_09, _FROM_0E, _FROM_1C, _FROM_21 = (np.uint64(0x0101_0101_0101_0101 * (0x80 - byte)) for byte in (0x09, 0x0E, 0x1C, 0x21))
_SEVEN, _FIFTEEN, _LAST_BIT = np.uint64(7), np.uint64(15), np.uint64(63)
_LOW_BYTE = np.uint64(0xFF)


@kernel
def count_ids(ids, counts):
    """Add the number of occurrences of each id to its count.

    NumPy's `bincount` takes eight times as long: it converts the ids, looks for the largest, and allocates its result.

    Parameters
    ----------
    ids : uint32 [n], in
        Each less than the size of `counts`, which is not checked.
    counts : int64 [vocab_size], in-out

    Returns
    -------
    int
        0. The cost is one addition in memory for each id.
    """
    for at in range(np.uint64(ids.size)):
        counts[np.uint64(ids[at])] += 1
    return 0


@inline
def wide_space_bytes(text, at):
    """Return the size of the white-space character outside ASCII at a position, and 0 if there is none; see `str.isspace`."""
    first, second, third = text[at], text[at + ONE], text[at + TWO]
    if first == 0xC2:
        return TWO if second == 0x85 or second == 0xA0 else ZERO
    if first == 0xE1:
        return THREE if second == 0x9A and third == 0x80 else ZERO
    if first == 0xE2:
        narrow = second == 0x80 and (0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF)
        return THREE if narrow or (second == 0x81 and third == 0x9F) else ZERO
    if first == 0xE3:
        return THREE if second == 0x80 and third == 0x80 else ZERO
    return ZERO


@inline
def ascii_space_bits(word):
    """Return the high bit of each byte that is white space, of eight bytes that are all ASCII."""
    # The sum of a byte and 0x80 - n has the high bit if the byte is at least n.
    line = (word + _FROM_09) & ~(word + _FROM_0E)
    blank = (word + _FROM_1C) & ~(word + _FROM_21)
    return (line | blank) & _HIGH_BITS


@inline
def count_high_bits(word):
    """Return the number of bytes that are 0x80, of eight that are 0 or 0x80."""
    pairs = (word >> _SEVEN) + (word >> _FIFTEEN)
    fours = pairs + (pairs >> SIXTEEN)
    return (fours + (fours >> HALF)) & _LOW_BYTE


@kernel
def count_words(text, n_bytes, amounts):
    """Count characters and words, the maximal runs of characters that are not white space.

    Bytes that are not valid UTF-8 belong to words, so the result for a text does not depend on how it is divided into blocks.

    Parameters
    ----------
    text : uint8 [at least n_bytes + 2], in
    n_bytes : uint64
    amounts : int64 [N_AMOUNTS], out
        Bytes that are not continuation bytes; words; 1 if the first character belongs to a word; 1 if the last one does.

    Returns
    -------
    int
        0. The cost is some twenty operations for eight bytes of ASCII, and as many for each other byte.
    """
    characters, words, in_word, starts = ZERO, ZERO, ZERO, ZERO
    at = ZERO
    while at < n_bytes:
        if at + EIGHT <= n_bytes:
            word = load_u64(text, at)
            if word & _HIGH_BITS == ZERO:
                spaces = ascii_space_bits(word)
                after_space = spaces << EIGHT | (in_word ^ ONE) << _SEVEN
                words += count_high_bits(~spaces & after_space)
                starts = ONE - (spaces >> _SEVEN & ONE) if at == ZERO else starts
                in_word = ONE - (spaces >> _LAST_BIT)
                characters += EIGHT
                at += EIGHT
                continue
        byte = text[at]
        now, width = ONE, ONE
        if byte < 0x80:
            now = ZERO if byte == 0x20 or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F else ONE
        elif byte >= 0xC0:
            space = wide_space_bytes(text, at)
            if space != ZERO and at + space <= n_bytes:
                now, width = ZERO, space
        characters += ONE if byte < 0x80 or byte >= 0xC0 else ZERO
        words += now & (in_word ^ ONE)
        starts = now if at == ZERO else starts
        in_word = now
        at += width
    amounts[CHARACTERS] = characters
    amounts[WORDS] = words
    amounts[STARTS_IN_WORD] = starts
    amounts[ENDS_IN_WORD] = in_word
    return 0
