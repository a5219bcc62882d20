"""The two loops that run a compiled split pattern over ordinary text.

- The transducer (see `bpejit.splitting.transducer`) reads each character once, and has no branch that depends on the text as
  long as that is ASCII.
- The restart loop, for the few patterns that have no transducer, remembers the last accept, and goes back to it when the
  automaton is dead.

A table entry is the number of the next row's first entry, a multiple of 32, with the output in the low five bits; the
index of the next entry is that number plus the class of the next character. Column 0 is the end of the text.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.simd import has_avx512_vbmi
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import CUT_RULES, PAIR_SHIFT, SPLIT_ACCEPT, SPLIT_DIES
from bpejit.kernels.splitting.cursors import ROW_MASK, WORTH_TWO, run_cursor, run_two_cursors, step
from bpejit.kernels.splitting.local_rule_scan import WORTH_RULES, run_by_rules

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

_ACCEPT = np.uint64(SPLIT_ACCEPT)
_DIES = np.uint64(SPLIT_DIES)
_ZERO, _ONE, _SIXTEEN = (np.uint64(number) for number in (0, 1, 16))


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
    if has_avx512_vbmi() and automaton.settings[CUT_RULES] > 0:
        if block_end > position + WORTH_RULES:
            position, entry, out = run_by_rules(text, position, block_end, bound, final, automaton, entry, ends, out)
    elif block_end > position + WORTH_TWO and automaton.settings[PAIR_SHIFT] >= 0:
        stop = block_end - _SIXTEEN
        position, entry, out = run_two_cursors(text, position, stop, bound, final, automaton, entry, ends, out)
    position, entry, out = run_cursor(text, position, block_end, bound, final, automaton, entry, ends, out)
    if final and position == end and room > 0:
        entry, out = step(automaton.table, entry, _ZERO, ends, out, position)
    elif room <= 0 or (position >= block_end and position < end):
        state[NEED_CALL] = 1
    state[POSITION] = position
    state[ROW] = entry & ROW_MASK
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
            row = entry & ROW_MASK
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
