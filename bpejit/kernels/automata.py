"""The two loops that run a compiled split pattern over ordinary text.

- The transducer (see `bpejit.split.transducer`) reads each character once, and has no branch that depends on the text as
  long as that is ASCII.
- The restart loop, for the few patterns that have no transducer, remembers the last accept, and goes back to it when the
  automaton is dead.

A table entry is the number of the next row's first entry, a multiple of 32, with the output in the low five bits; the
index of the next entry is that number plus the class of the next character. Column 0 is the end of the text.
"""

from __future__ import annotations

import numpy as np

from bpejit.kernels._constants import PAIR_ROW_SHIFT, PAIR_SHIFT, SPLIT_ACCEPT, SPLIT_DIES, SPLIT_KEPT_SHIFT, STRIDE
from bpejit.kernels._jit import inline
from bpejit.kernels.characters import read_character
from bpejit.kernels.memory import load_u64

# Fields of the state of `split_spans`; all zero is the state at the start of a text.
POSITION = 0
"""The next byte to read."""
ROW = 1
"""First entry of the present row of the table."""
PENDING = 2
"""Two fields. Transducer: ends that are found and not yet written. Restart loop: where the present match begins, and its
last accept."""
SPAN_START = 4
"""Where the next span to be written begins: the caller must keep the text from here on."""
ORDINARY_STOP = 5
"""No special token begins between POSITION and here."""
SPECIAL_STOP = 6
"""The end of the special token that begins at ORDINARY_STOP; 0 if none is known to begin there."""
NEED_CALL = 7
"""1 if the call stopped for want of room in `ends`: call again with the same text. 0 if it is finished with the text."""

ROOM = 8
"""Entries of `ends` kept free for what may be written between two tests for room."""

_WORTH_TWO = np.uint64(256)
"""Bytes from which on two cursors are faster than one."""

_CUT_WINDOW = np.uint64(512)
"""How far from the middle a place to divide the text is looked for."""

_ROW_MASK = np.uint64(0xFFFF_FFE0)
_OUTPUT = np.uint64(3)
_KEPT_SHIFT = np.uint64(SPLIT_KEPT_SHIFT)
_KEPT_MASK = np.uint64(7)
_ACCEPT = np.uint64(SPLIT_ACCEPT)
_DIES = np.uint64(SPLIT_DIES)
_FIELD = np.uint64(7)
_PAIR_ROW_SHIFT = np.uint64(PAIR_ROW_SHIFT)
_SECOND = np.uint64(128)
_ZERO, _ONE, _TWO, _THREE, _SIX, _EIGHT, _SIXTEEN, _BYTE = (np.uint64(number) for number in (0, 1, 2, 3, 6, 8, 16, 0xFF))
_HIGH_BITS = np.uint64(0x8080_8080_8080_8080)


@inline
def _step(table, entry, column, ends, out, position):
    """Take one step of the transducer before the character at `position`; return the new entry and number of ends."""
    entry = np.uint64(table[(entry & _ROW_MASK) + column])
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
def _run_cursor(text, position, end, bound, final, automaton, entry, ends, out):
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
        entry, out = _step(table, entry, column, ends, out, position)
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
def _run_two_cursors(text, position, end, bound, final, automaton, entry, ends, out):
    """Run the transducer over most of `position:end`, in both halves at once.

    One cursor waits for its table most of the time: each step needs the entry that the step before has loaded. Two cursors
    wait at the same time, and over ASCII each of them takes two characters a step. The halves meet at a safe cut, so the
    second cursor knows its state there; its ends are written behind those that the first may write, and moved down
    afterwards. Arguments and results as for `_run_cursor`.
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
            row = (entry & _ROW_MASK) << shift
            second_row = (second_entry & _ROW_MASK) << shift
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
        entry, out = _step(table, entry, column, ends, out, position)
        second_entry, second_out = _step(table, second_entry, second_column, ends, second_out, second)
        position += width
        second += second_width
    position, entry, out = _run_cursor(text, position, cut, bound, final, automaton, entry, ends, out)
    # The character behind the cut finishes the first half; what it begins, the second cursor has done.
    entry, out = _step(table, entry, cut_column, ends, out, cut)
    for i in range(second_first, second_out + _TWO):
        ends[out + (i - second_first)] = ends[i]
    return second, second_entry, out + (second_out - second_first)


@inline
def run_transducer(text, stop, bound, final, automaton, state, ends, n):
    """Split ordinary text up to `stop` with the transducer; return the new number of ends (see `split_spans`)."""
    position = np.uint64(state[POSITION])
    end = np.uint64(stop)
    bound = np.uint64(bound)
    entry = np.uint64(state[ROW])
    out = np.uint64(n)
    ends[out] = state[PENDING]
    ends[out + _ONE] = state[PENDING + 1]
    # A character emits one end on average, so this many bytes cannot overflow `ends`.
    room = np.int64(ends.size) - n - ROOM
    block_end = min(end, position + np.uint64(max(room, 0)))
    if block_end > position + _WORTH_TWO and automaton.settings[PAIR_SHIFT] >= 0:
        position, entry, out = _run_two_cursors(text, position, block_end - _SIXTEEN, bound, final, automaton, entry, ends, out)
    position, entry, out = _run_cursor(text, position, block_end, bound, final, automaton, entry, ends, out)
    if final and position == end and room > 0:
        entry, out = _step(automaton.table, entry, _ZERO, ends, out, position)
    elif room <= 0 or (position >= block_end and position < end):
        state[NEED_CALL] = 1
    state[POSITION] = position
    state[ROW] = entry & _ROW_MASK
    state[PENDING] = ends[out]
    state[PENDING + 1] = ends[out + _ONE]
    return np.int64(out)


@inline
def run_restart(text, stop, bound, final, automaton, state, ends, n):
    """Split ordinary text up to `stop` with the restart loop; return the new number of ends (see `split_spans`)."""
    table = automaton.table
    class_of = automaton.class_of
    byte_class = automaton.byte_class
    end = np.uint64(stop)
    bound = np.uint64(bound)
    position = np.uint64(state[POSITION])
    row = np.uint64(state[ROW])
    begin = np.uint64(state[PENDING])
    accept = np.uint64(state[PENDING + 1])
    span_start = np.uint64(state[SPAN_START])
    if begin < span_start:
        begin = span_start
        accept = span_start
    while n + ROOM <= ends.size:
        width = _ZERO
        column = _ZERO
        if position < end:
            column, width = read_character(text, position, bound, final, class_of, byte_class)
            if width == _ZERO:
                break
        elif not final:
            break
        elif begin == end:
            # Everything is matched, or lies in a last gap.
            if span_start < end:
                ends[n] = end
                n += 1
                span_start = end
            break
        entry = np.uint64(table[row + column])
        if entry & _ACCEPT:
            accept = position
        if entry & _DIES == _ZERO:
            row = entry & _ROW_MASK
            position += width
            continue
        row = _ZERO
        if accept > begin:
            if begin > span_start:
                ends[n] = begin
                n += 1
            ends[n] = accept
            n += 1
            span_start = accept
            begin = accept
        else:
            # No match begins here: the character belongs to a gap.
            column, width = read_character(text, begin, bound, True, class_of, byte_class)
            begin += width
            accept = begin
        position = begin
    else:
        state[NEED_CALL] = 1
    state[POSITION] = position
    state[ROW] = row
    state[PENDING] = begin
    state[PENDING + 1] = accept
    state[SPAN_START] = span_start
    return n
