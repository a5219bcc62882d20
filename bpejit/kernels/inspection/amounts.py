"""Count the tokens of encoded text, and the characters and words of text."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import EIGHT, HALF, HIGH_BITS, LAST_BIT, LOW_BYTE, ONE, SEVEN, SIXTEEN, ZERO

CHARACTERS, STARTS_IN_WORD, ENDS_IN_WORD, FIRST_SCRIPT, LAST_SCRIPT = range(5)
"""Indices of the results of `count_words`."""

N_AMOUNTS = 5

SPACE = 0x80
"""Flag in the kind of white space; the other bits are the script."""

_SCRIPT = np.uint64(SPACE - 1)

_FROM_09, _FROM_0E, _FROM_1C, _FROM_21 = (np.uint64(0x0101_0101_0101_0101 * (0x80 - byte)) for byte in (0x09, 0x0E, 0x1C, 0x21))
_FIFTEEN = np.uint64(15)


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
def ascii_space_bits(word):
    """Return the high bit of each byte that is white space, of eight bytes that are all ASCII."""
    # The sum of a byte and 0x80 - n has the high bit if the byte is at least n.
    line = (word + _FROM_09) & ~(word + _FROM_0E)
    blank = (word + _FROM_1C) & ~(word + _FROM_21)
    return (line | blank) & HIGH_BITS


@inline
def count_high_bits(word):
    """Return the number of bytes that are 0x80, of eight that are 0 or 0x80."""
    pairs = (word >> SEVEN) + (word >> _FIFTEEN)
    fours = pairs + (pairs >> SIXTEEN)
    return (fours + (fours >> HALF)) & LOW_BYTE


@kernel
def count_words(text, stops, kind_of, byte_kinds, words, amounts):
    """Count characters, and the words of each script: maximal runs of characters of documents that are not white space.

    A word belongs to the script of its first character that has one. Bytes that are not valid UTF-8 belong to words, so the
    result for a text does not depend on how it is divided into blocks between characters.

    Parameters
    ----------
    text : uint8 [at least the last stop], in
    stops : int64 [documents], in
        The ends of the documents, which are adjacent.
    kind_of, byte_kinds : uint8 [0x110000], uint8 [256], in
        The script of each character, and of ASCII and bytes that are not valid UTF-8, with `SPACE`.
    words : int64 [scripts], in-out
        The words of each script are added; 0 has those without a script.
    amounts : int64 [N_AMOUNTS], out
        Bytes that are not continuation bytes; 1 if the first character belongs to a word; 1 if the last one does; the scripts
        of the first and of the last word.

    Returns
    -------
    int64
        0. The cost is some ten operations for each character. If ASCII has no scripts, it is some twenty for eight bytes of it.
    """
    characters, n_words, in_word, starts, script, first = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
    one_script = byte_kinds[0x61] == 0
    at = ZERO
    for document in range(np.uint64(stops.size)):
        stop = np.uint64(stops[document])
        in_word = ZERO
        while at < stop:
            if one_script and at + EIGHT <= stop:
                word = load_u64(text, at)
                if word & HIGH_BITS == ZERO:
                    spaces = ascii_space_bits(word)
                    after_space = spaces << EIGHT | (in_word ^ ONE) << SEVEN
                    words[0] += np.int64(count_high_bits(~spaces & after_space))
                    starts = ONE - (spaces >> SEVEN & ONE) if at == ZERO else starts
                    in_word = ONE - (spaces >> LAST_BIT)
                    characters += EIGHT
                    at += EIGHT
                    continue
            kind, width = read_character(text, at, stop, True, kind_of, byte_kinds)
            now = ZERO if kind >= SPACE else ONE
            if now > in_word:
                words[0] += 1
                n_words += ONE
                script = ZERO
            if now != ZERO and script == ZERO and kind != ZERO:
                words[0] -= 1
                words[kind] += 1
                script = kind
                first = kind if n_words == ONE else first
            characters += ONE if text[at] < 0x80 or text[at] >= 0xC0 else ZERO
            starts = now if at == ZERO else starts
            in_word = now
            at += width
    amounts[CHARACTERS] = characters
    amounts[STARTS_IN_WORD] = starts
    amounts[ENDS_IN_WORD] = in_word
    amounts[FIRST_SCRIPT] = first
    amounts[LAST_SCRIPT] = script
    return np.int64(0)


@kernel
def find_scripts(text, starts, ends, kind_of, byte_kinds, scripts):
    """Find the script of the character in which each of some tokens begins, or else of the one in which it ends.

    Parameters
    ----------
    text : uint8 [n], in
    starts, ends : int64 [tokens], in
        Where the tokens begin and end: not empty, and not checked.
    kind_of, byte_kinds
        As for `count_words`.
    scripts : uint8 [tokens], out

    Returns
    -------
    int64
        0. The cost is some twenty operations for each token.
    """
    for index in range(np.uint64(starts.size)):
        at = np.uint64(starts[index])
        if text[at] & 0xC0 != 0x80:
            at = np.uint64(ends[index]) - ONE
        for _ in range(3):
            if at > ZERO and text[at] & 0xC0 == 0x80:
                at -= ONE
        kind, _ = read_character(text, at, np.uint64(text.size), True, kind_of, byte_kinds)
        scripts[index] = kind & _SCRIPT
    return np.int64(0)
