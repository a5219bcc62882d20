"""Cursors of the transducer: they run it over ordinary text, character by character.

A table entry is the number of the next row's first entry, a multiple of 32, with the output in the low five bits; the
index of the next entry is that number plus the class of the next character. Column 0 is the end of the text.

What a cursor is at is a position, an entry, of which the row counts, and `out`: how many ends are written. The pending ends
lie at `ends[out:]`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import load_u64
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import PAIR_ROW_SHIFT, PAIR_SHIFT, SPLIT_KEPT_SHIFT, STRIDE

WORTH_TWO = np.uint64(256)
"""Bytes from which on two cursors are faster than one."""

ROW_MASK = np.uint64(0xFFFF_FFE0)
"""The row of an entry."""

_CUT_WINDOW = np.uint64(512)
"""How far from the middle a place to divide the text is looked for."""

_OUTPUT = np.uint64(3)
_KEPT_SHIFT = np.uint64(SPLIT_KEPT_SHIFT)
_KEPT_MASK = np.uint64(7)
_FIELD = np.uint64(7)
_PAIR_ROW_SHIFT = np.uint64(PAIR_ROW_SHIFT)
_SECOND = np.uint64(128)
_ZERO, _ONE, _TWO, _THREE, _SIX, _EIGHT, _SIXTEEN, _BYTE = (np.uint64(number) for number in (0, 1, 2, 3, 6, 8, 16, 0xFF))
_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)


@inline
def step(table, entry, column, ends, out, position):
    """Take one step of the transducer before the character at `position`; return the new entry and number of ends."""
    entry = np.uint64(table[(entry & ROW_MASK) + column])
    # The pending ends lie at `out`: those that are kept stay, and the position goes behind them.
    ends[out + ((entry >> _KEPT_SHIFT) & _KEPT_MASK)] = position
    return entry, out + (entry & _OUTPUT)


@inline
def _two_steps(pair_table, pair_classes, word, row, ends, out, position):
    """Take two steps at once, over the two ASCII characters in the low bytes of `word`; return the new row and `out`.

    An entry says where the two positions go (three bits each, relative to `out`: the second behind what the first emits),
    how many ends are emitted in all (three bits), and the next row.
    """
    column = np.uint64(pair_classes[word & _BYTE]) + np.uint64(pair_classes[_SECOND + ((word >> _EIGHT) & _BYTE)])
    entry = np.uint64(pair_table[row + column])
    ends[out + ((entry >> _THREE) & _FIELD)] = position
    ends[out + ((entry >> _SIX) & _FIELD)] = position + _ONE
    return entry >> _PAIR_ROW_SHIFT, out + (entry & _FIELD)


@inline
def run_cursor(text, position, end, bound, final, automaton, entry, ends, out):
    """Run the transducer from `position` until `end`, or a character that may go on behind `bound`.

    Returns the new position, entry and number of ends.
    """
    table = automaton.table
    class_of = automaton.class_of
    byte_class = automaton.byte_class
    while position < end:
        column, width = read_character(text, position, bound, final, class_of, byte_class)
        if width == _ZERO:
            break
        entry, out = step(table, entry, column, ends, out, position)
        position += width
    return position, entry, out


@inline
def _find_pair(text, lo, hi, bound, automaton):
    """Return the first place in `lo:hi` between a safe pair of characters, and the class behind it; or place 0."""
    position = lo
    while position < lo + _THREE and text[position] & np.uint8(0xC0) == np.uint8(0x80):
        position += _ONE
    stride = np.uint64(automaton.settings[STRIDE])
    row = _ZERO
    while position < hi:
        column, width = read_character(text, position, bound, False, automaton.class_of, automaton.byte_class)
        if width == _ZERO:
            break
        if automaton.safe[row + column]:
            return position, column
        row = column * stride
        position += width
    return _ZERO, _ZERO


@inline
def run_two_cursors(text, position, end, bound, final, automaton, entry, ends, out):
    """Run the transducer over most of `position:end`, in both halves at once.

    One cursor waits for its table most of the time: each step needs the entry that the step before has loaded. Two cursors
    wait at the same time, and over ASCII each of them takes two characters a step. The halves meet at a safe cut, so the
    second cursor knows its state there; its ends are written behind those that the first may write, and moved down
    afterwards. Arguments and results as for `run_cursor`.
    """
    table = automaton.table
    pair_table = automaton.pair_table
    pair_classes = automaton.pair_classes
    shift = np.uint64(automaton.settings[PAIR_SHIFT])
    class_of = automaton.class_of
    byte_class = automaton.byte_class
    middle = position + ((end - position) >> _ONE)
    cut, cut_column = _find_pair(text, middle, min(middle + _CUT_WINDOW, end), bound, automaton)
    if cut == _ZERO:
        return position, entry, out
    second = cut
    second_entry = _ZERO
    second_out = out + (cut - position) + _EIGHT
    second_first = second_out
    while position < cut and second < end:
        word = load_u64(text, position)
        second_word = load_u64(text, second)
        if (word | second_word) & _HIGH_BITS == _ZERO and position + _EIGHT <= cut and second + _EIGHT <= end:
            row = (entry & ROW_MASK) << shift
            second_row = (second_entry & ROW_MASK) << shift
            for i in range(0, 8, 2):
                row, out = _two_steps(pair_table, pair_classes, word, row, ends, out, position + np.uint64(i))
                second_row, second_out = _two_steps(
                    pair_table, pair_classes, second_word, second_row, ends, second_out, second + np.uint64(i)
                )
                word >>= _SIXTEEN
                second_word >>= _SIXTEEN
            entry = row >> shift
            second_entry = second_row >> shift
            position += _EIGHT
            second += _EIGHT
            continue
        column, width = read_character(text, position, bound, final, class_of, byte_class)
        second_column, second_width = read_character(text, second, bound, final, class_of, byte_class)
        if second_width == _ZERO:
            break
        entry, out = step(table, entry, column, ends, out, position)
        second_entry, second_out = step(table, second_entry, second_column, ends, second_out, second)
        position += width
        second += second_width
    position, entry, out = run_cursor(text, position, cut, bound, final, automaton, entry, ends, out)
    # The character behind the cut finishes the first half; what it begins, the second cursor has done.
    entry, out = step(table, entry, cut_column, ends, out, cut)
    for i in range(second_first, second_out + _TWO):
        ends[out + (i - second_first)] = ends[i]
    return second, second_entry, out + (second_out - second_first)
