"""Run a compiled split pattern over text without special tokens.

- The transducer (see `bpejit.splitting.transducer`) reads each character once. On ASCII text it has no data-dependent branch.
- The restart loop is for the few patterns without a transducer. It remembers the last accepting position, and returns to it
  when the automaton is dead.

A table entry contains the index of the next row's first entry, a multiple of 32, and the output in the low five bits. The index
of the next entry is this number plus the class of the next character. Column 0 is the end of the text.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.simd import has_avx2, has_avx512_vbmi
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import CUT_RULES, ONE, PAIR_SHIFT, SIXTEEN, SPLIT_ACCEPT, SPLIT_DIES, ZERO
from bpejit.kernels.splitting.cursors import ROW_MASK, WORTH_TWO, run_cursor, run_two_cursors, step
from bpejit.kernels.splitting.local_rule_scan import WORTH_RULES, run_by_rules

# Fields of the state of `split_spans`. All fields are zero at the start of a text.
POSITION = 0
"""The next byte to read."""
ROW = 1
"""The index of the current row's first entry in the table."""
PENDING = 2
"""Two fields. Transducer: the pending ends. Restart loop: the start of the current match, and its last accepting position."""
SPAN_START = 4
"""The start of the next span to be written. The caller must retain the text from here on."""
ORDINARY_STOP = 5
"""No special token starts between POSITION and here."""
SPECIAL_STOP = 6
"""The end of the special token that starts at ORDINARY_STOP; 0 if none is known to start there."""
NEED_CALL = 7
"""1 if the call stopped because `ends` is full: call again with the same text. 0 if the text is finished."""

RESERVE = 8
"""Entries of `ends` that may be written between two checks of its capacity."""

_ACCEPT = np.uint64(SPLIT_ACCEPT)
_DIES = np.uint64(SPLIT_DIES)


@inline
def run_transducer(text, stop, bound, final, automaton, state, ends, n):
    """Run the transducer up to `stop`; return the new number of ends (see `split_spans`)."""
    position = np.uint64(state[POSITION])
    end = np.uint64(stop)
    bound = np.uint64(bound)
    entry = np.uint64(state[ROW])
    out = np.uint64(n)
    ends[out] = state[PENDING]
    ends[out + ONE] = state[PENDING + 1]
    # On average a character emits at most one end, so this many bytes cannot overflow `ends`.
    capacity = np.int64(ends.size) - n - RESERVE
    block_end = min(end, position + np.uint64(max(capacity, 0)))
    if automaton.settings[CUT_RULES] > 0 and (has_avx512_vbmi() or (has_avx2() and automaton.group_rules.size > 0)):
        if block_end > position + WORTH_RULES:
            position, entry, out = run_by_rules(text, position, block_end, bound, final, automaton, entry, ends, out)
    elif block_end > position + WORTH_TWO and automaton.settings[PAIR_SHIFT] >= 0:
        stop = block_end - SIXTEEN
        position, entry, out = run_two_cursors(text, position, stop, bound, final, automaton, entry, ends, out)
    position, entry, out = run_cursor(text, position, block_end, bound, final, automaton, entry, ends, out)
    if final and position == end and capacity > 0:
        entry, out = step(automaton.table, entry, ZERO, ends, out, position)
    elif capacity <= 0 or (position >= block_end and position < end):
        state[NEED_CALL] = 1
    state[POSITION] = position
    state[ROW] = entry & ROW_MASK
    state[PENDING] = ends[out]
    state[PENDING + 1] = ends[out + ONE]
    return np.int64(out)


@inline
def run_restart(text, stop, bound, final, automaton, state, ends, n):
    """Run the restart loop up to `stop`; return the new number of ends (see `split_spans`)."""
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
    while n + RESERVE <= ends.size:
        width = ZERO
        column = ZERO
        if position < end:
            column, width = read_character(text, position, bound, final, class_of, byte_class)
            if width == ZERO:
                break
        elif not final:
            break
        elif begin == end:
            # All text is matched, or belongs to a final gap.
            if span_start < end:
                ends[n] = end
                n += 1
                span_start = end
            break
        entry = np.uint64(table[row + column])
        if entry & _ACCEPT:
            accept = position
        if entry & _DIES == ZERO:
            row = entry & ROW_MASK
            position += width
            continue
        row = ZERO
        if accept > begin:
            if begin > span_start:
                ends[n] = begin
                n += 1
            ends[n] = accept
            n += 1
            span_start = accept
            begin = accept
        else:
            # No match starts here: the character belongs to a gap.
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
