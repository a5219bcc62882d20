"""Count the tokens of encoded text, and the characters and words of text."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.kernels.constants import ONE, TWO, ZERO

CHARACTERS, WORDS, STARTS_IN_WORD, ENDS_IN_WORD = range(4)
"""Indices of the results of `count_words`."""

N_AMOUNTS = 4

BLOCK = np.uint64(64)
"""Bytes of ASCII that are counted at a time."""

_ASCII_LIMIT = np.uint64(0x80)
_FIRST_LEAD = np.uint64(0xC0)


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
def is_wide_space(text, at):
    """Return 1 if a white-space character outside ASCII starts at a position, and otherwise 0; see `str.isspace`."""
    first, second, third = text[at], text[at + ONE], text[at + TWO]
    if first == 0xC2:
        return ONE if second == 0x85 or second == 0xA0 else ZERO
    if first == 0xE1:
        return ONE if second == 0x9A and third == 0x80 else ZERO
    if first == 0xE2:
        narrow = second == 0x80 and (0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF)
        return ONE if narrow or (second == 0x81 and third == 0x9F) else ZERO
    if first == 0xE3:
        return ONE if second == 0x80 and third == 0x80 else ZERO
    return ZERO


@inline
def is_ascii_space(byte):
    """Return 1 if a byte is white space, and otherwise 0."""
    return np.uint8(byte == 0x20) | np.uint8(np.uint8(byte - np.uint8(9)) < 5) | np.uint8(np.uint8(byte - np.uint8(0x1C)) < 4)


@inline
def count_ascii_words(text, at):
    """Return the number of words that start in `BLOCK` bytes of ASCII, without the first byte. Its loop is vectorized."""
    words = np.uint8(0)
    for offset in range(ONE, BLOCK):
        position = at + offset
        words += is_ascii_space(text[position - ONE]) & (is_ascii_space(text[position]) ^ np.uint8(1))
    return np.uint64(words)


@inline
def has_high_bit(text, at):
    """Return True if one of `BLOCK` bytes is not ASCII."""
    bits = np.uint8(0)
    for offset in range(BLOCK):
        bits |= text[at + offset]
    return bits >= np.uint8(0x80)


@kernel
def count_words(text, n_bytes, amounts):
    """Count characters and words, the maximal runs of characters that are not white space.

    Parameters
    ----------
    text : uint8 [at least n_bytes + 2], in
    n_bytes : uint64
    amounts : int64 [N_AMOUNTS], out
        Bytes that are not continuation bytes; words; 1 if the first character belongs to a word; 1 if the last one does.

    Returns
    -------
    int
        0. The cost is some three operations for each byte; blocks of ASCII take a tenth of that.
    """
    characters, words, in_word, starts = ZERO, ZERO, ZERO, ZERO
    at = ZERO
    while at < n_bytes:
        byte = np.uint64(text[at])
        now = in_word  # a continuation byte changes nothing
        step = ONE
        if byte < _ASCII_LIMIT:
            now = np.uint64(is_ascii_space(text[at])) ^ ONE
            if at + BLOCK <= n_bytes and not has_high_bit(text, at):
                step = BLOCK
        elif byte >= _FIRST_LEAD:
            now = ONE - is_wide_space(text, at)
        elif at == ZERO:
            now = ONE  # a stray continuation byte
        characters += ONE if byte < _ASCII_LIMIT or byte >= _FIRST_LEAD else ZERO
        words += now & (in_word ^ ONE)
        starts = now if at == ZERO else starts
        if step == BLOCK:
            words += count_ascii_words(text, at)
            characters += BLOCK - ONE
            now = np.uint64(is_ascii_space(text[at + BLOCK - ONE])) ^ ONE
        in_word = now
        at += step
    amounts[CHARACTERS] = characters
    amounts[WORDS] = words
    amounts[STARTS_IN_WORD] = starts
    amounts[ENDS_IN_WORD] = in_word
    return 0
