"""Run the transducer over ordinary text, with one cursor or with two.

A table entry contains the index of the next row's first entry, a multiple of 32, and the output in the low five bits. The index
of the next entry is this number plus the class of the next character. Column 0 is the end of the text.

A cursor is a position in the text, the last entry, which contains the current row, and `out`, the number of ends written. The
pending ends are stored at `ends[out:]`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import load_u64
from bpejit.kernels.common.characters import decode_three, is_valid_three, read_character
from bpejit.kernels.constants import (
    EIGHT,
    HIGH_BITS,
    LOW_BYTE,
    ONE,
    PAIR_ROW_SHIFT,
    PAIR_SHIFT,
    SIX,
    SIXTEEN,
    SPLIT_KEPT_SHIFT,
    STRIDE,
    THREE,
    TWO,
    ZERO,
)

WORTH_TWO = np.uint64(256)
"""Number of bytes above which two cursors are faster than one."""

ROW_MASK = np.uint64(0xFFFF_FFE0)
"""Mask of the row in an entry."""

_CUT_WINDOW = np.uint64(512)
"""Number of bytes after the middle in which a safe cut is searched."""

_OUTPUT = np.uint64(3)
_KEPT_SHIFT = np.uint64(SPLIT_KEPT_SHIFT)
_KEPT_MASK = np.uint64(7)
_FIELD = np.uint64(7)
_PAIR_ROW_SHIFT = np.uint64(PAIR_ROW_SHIFT)
_SECOND = np.uint64(128)

_WIDE_SAMPLE = np.uint64(64)
_MANY_WIDE = 8
"""Characters of three bytes or more in a sample above which two characters of three bytes are tried at once.

Without the sample, the test that fails takes 12% of the time of Cyrillic.
"""

_TWO_OF_THREE = np.uint64(0x8080_E080_80E0)
"""Two characters of three bytes: the bits that say so, which `_THREE_TAGS` selects."""

_THREE_TAGS = np.uint64(0xC0C0_F0C0_C0F0)
_SECOND_OF_THREE = np.uint64(24)


@inline
def step(table, entry, column, ends, out, position):
    """Take one step of the transducer before the character at `position`; return the new entry and number of ends."""
    entry = np.uint64(table[(entry & ROW_MASK) + column])
    # The position is stored after the pending ends that are kept.
    ends[out + ((entry >> _KEPT_SHIFT) & _KEPT_MASK)] = position
    return entry, out + (entry & _OUTPUT)


@inline
def _two_steps(pair_table, pair_classes, word, row, ends, out, position):
    """Take two steps at once, over the two ASCII characters in the low bytes of `word`; return the new row and `out`.

    An entry has four fields, from the lowest bit: the number of ends that both steps emit, the indices relative to `out` where
    the first and the second position are stored (three bits each), and the next row.
    """
    column = np.uint64(pair_classes[word & LOW_BYTE]) + np.uint64(pair_classes[_SECOND + ((word >> EIGHT) & LOW_BYTE)])
    entry = np.uint64(pair_table[row + column])
    ends[out + ((entry >> THREE) & _FIELD)] = position
    ends[out + ((entry >> SIX) & _FIELD)] = position + ONE
    return entry >> _PAIR_ROW_SHIFT, out + (entry & _FIELD)


@inline
def _has_many_wide(text, position):
    """Return True if many characters of three bytes or more start in the 64 bytes from `position` on."""
    n = 0
    for i in range(_WIDE_SAMPLE):
        n += text[position + np.uint64(i)] >= 0xE0
    return n > _MANY_WIDE


@inline
def run_cursor(text, position, end, bound, final, automaton, entry, ends, out):
    """Run the transducer from `position` to `end`, or to a character that may continue after `bound`.

    Returns
    -------
    position, entry, out
        The state of the cursor.
    """
    table = automaton.table
    class_of = automaton.class_of
    byte_class = automaton.byte_class
    while position < end:
        column, width = read_character(text, position, bound, final, class_of, byte_class)
        if width == ZERO:
            break
        entry, out = step(table, entry, column, ends, out, position)
        position += width
    return position, entry, out


@inline
def _find_pair(text, lo, hi, bound, automaton):
    """Return the first safe cut in `lo:hi` and the class of the character after it, or 0 and 0 if there is none."""
    position = lo
    while position < lo + THREE and text[position] & np.uint8(0xC0) == np.uint8(0x80):
        position += ONE
    stride = np.uint64(automaton.settings[STRIDE])
    row = ZERO
    while position < hi:
        column, width = read_character(text, position, bound, False, automaton.class_of, automaton.byte_class)
        if width == ZERO:
            break
        if automaton.safe[row + column]:
            return position, column
        row = column * stride
        position += width
    return ZERO, ZERO


@inline
def run_two_cursors(text, position, end, bound, final, automaton, entry, ends, out):
    """Run the transducer over most of `position:end`, with one cursor in each half.

    One cursor mostly waits for the table, since each step needs the entry loaded by the previous step. Two cursors overlap
    their latencies. Over ASCII text each step takes two characters. Two characters of three bytes for each cursor are decoded
    with one branch: 1.5 times as fast on Japanese, 1.3 times on Thai. The halves meet at a safe cut, so the state of the second
    cursor is known there. It writes its ends after the space that the first cursor may need, and they are moved afterwards.

    Parameters and results are the same as for `run_cursor`. The text is read up to 8 bytes past `end`.
    """
    table = automaton.table
    pair_table = automaton.pair_table
    pair_classes = automaton.pair_classes
    shift = np.uint64(automaton.settings[PAIR_SHIFT])
    class_of = automaton.class_of
    byte_class = automaton.byte_class
    middle = position + ((end - position) >> ONE)
    cut, cut_column = _find_pair(text, middle, min(middle + _CUT_WINDOW, end), bound, automaton)
    if cut == ZERO:
        return position, entry, out
    second = cut
    second_entry = ZERO
    second_out = out + (cut - position) + EIGHT
    second_first = second_out
    is_wide = cut - position >= _WIDE_SAMPLE and _has_many_wide(text, cut - _WIDE_SAMPLE)
    while position < cut and second < end:
        word = load_u64(text, position)
        second_word = load_u64(text, second)
        if (word | second_word) & HIGH_BITS == ZERO and position + EIGHT <= cut and second + EIGHT <= end:
            row = (entry & ROW_MASK) << shift
            second_row = (second_entry & ROW_MASK) << shift
            for i in range(0, 8, 2):
                row, out = _two_steps(pair_table, pair_classes, word, row, ends, out, position + np.uint64(i))
                second_row, second_out = _two_steps(
                    pair_table, pair_classes, second_word, second_row, ends, second_out, second + np.uint64(i)
                )
                word >>= SIXTEEN
                second_word >>= SIXTEEN
            entry = row >> shift
            second_entry = second_row >> shift
            position += EIGHT
            second += EIGHT
            continue
        are_wide = ((word ^ _TWO_OF_THREE) | (second_word ^ _TWO_OF_THREE)) & _THREE_TAGS == ZERO
        if is_wide and are_wide and position + EIGHT <= cut and second + EIGHT <= end:
            points = decode_three(word), decode_three(word >> _SECOND_OF_THREE)
            second_points = decode_three(second_word), decode_three(second_word >> _SECOND_OF_THREE)
            # One branch for all four, which is rarely taken.
            if (is_valid_three(points[0]) & is_valid_three(points[1])) & (
                is_valid_three(second_points[0]) & is_valid_three(second_points[1])
            ):
                column, second_column = np.uint64(class_of[points[0]]), np.uint64(class_of[second_points[0]])
                entry, out = step(table, entry, column, ends, out, position)
                second_entry, second_out = step(table, second_entry, second_column, ends, second_out, second)
                column, second_column = np.uint64(class_of[points[1]]), np.uint64(class_of[second_points[1]])
                entry, out = step(table, entry, column, ends, out, position + THREE)
                second_entry, second_out = step(table, second_entry, second_column, ends, second_out, second + THREE)
                position += SIX
                second += SIX
                continue
        column, width = read_character(text, position, bound, final, class_of, byte_class)
        second_column, second_width = read_character(text, second, bound, final, class_of, byte_class)
        if second_width == ZERO:
            break
        entry, out = step(table, entry, column, ends, out, position)
        second_entry, second_out = step(table, second_entry, second_column, ends, second_out, second)
        position += width
        second += second_width
    position, entry, out = run_cursor(text, position, cut, bound, final, automaton, entry, ends, out)
    # The character after the cut ends the first half. The second cursor has already processed it as the start of its half.
    entry, out = step(table, entry, cut_column, ends, out, cut)
    for i in range(second_first, second_out + TWO):
        ends[out + (i - second_first)] = ends[i]
    return second, second_entry, out + (second_out - second_first)
