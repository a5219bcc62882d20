"""Split bytes with a compiled split pattern: find the end of each pre-token.

`split_spans` processes a text that arrives in pieces of any size; its memory is `state`. The text is divided at special tokens
first (`special_token_scan`). The ordinary text between them runs through an automaton, like separate texts:

- The transducer (see `bpejit.splitting.transducer`) reads each character once. On ASCII text it has no data-dependent branch.
- The restart loop is for the few patterns without a transducer. It remembers the last accepting position, and returns to it
  when the automaton is dead.

A table entry contains the index of the next row's first entry, a multiple of 32, and the output in the low five bits. The index
of the next entry is this number plus the class of the next character. Column 0 is the end of the text.

Python calls `split_spans` through `split_adjacent`, so that it is compiled only once.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.simd import has_avx2, has_avx512_vbmi
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import (
    CUT_RULES,
    IS_RESTART,
    ONE,
    PAIR_SHIFT,
    SIXTEEN,
    SPECIAL_FLAG,
    SPLIT_ACCEPT,
    SPLIT_DIES,
    ZERO,
)
from bpejit.kernels.splitting.cursors import ROW_MASK, WORTH_TWO, run_cursor, run_two_cursors, step
from bpejit.kernels.splitting.local_rule_scan import WORTH_RULES, run_by_rules
from bpejit.kernels.splitting.special_token_scan import SEARCH_POSITION, next_special

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

STATE_SIZE = 11
"""Number of fields of the state: see above, and `special_token_scan` for the search of special tokens."""

MIN_ENDS = 16
"""Minimum size of `ends`."""

_SCAN_BYTES = 1 << 15
"""Number of bytes searched ahead for special tokens; the text is then still in the cache when it is split."""

_FLAG = np.uint32(SPECIAL_FLAG)
_POSITION_MASK = np.uint32(SPECIAL_FLAG - 1)


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


@kernel
def split_spans(text, stop, final, automaton, state, ends):
    """Write the ends of the next pre-tokens.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`; below 2**31 bytes.
    stop : int
        The text known so far is `text[:stop]`.
    final : bool
        True if the text ends at `stop`. Otherwise, ends that depend on further text are left for a later call.
    automaton : SplitAutomaton, in
    state : int64[STATE_SIZE], in-out
        All zero at the start of a text; the fields are described above and in `special_token_scan`. Splitting
        continues at POSITION.
    ends : uint32[:], out
        At least MIN_ENDS entries. Each span starts at the end of the previous one. An end has the special flag if its span is a
        special token. Entries after the returned number are overwritten.

    Returns
    -------
    int
        Number of ends written. If state[NEED_CALL] is 1, call again with the same text.

    Notes
    -----
    Linear in the text for a transducer; the restart loop may read a character again once per match. A special token that
    further text might complete or extend is left for a later call. After a final call all ends are written, and the state is
    that of the start of a new text at `stop`. Neither `state` nor `stop` is checked.
    """
    n = 0
    state[NEED_CALL] = 0
    while True:
        known = max(state[ORDINARY_STOP], state[POSITION])
        undecided = False
        if state[SPECIAL_STOP] == 0 and known < stop:
            scan_end = min(stop, known + _SCAN_BYTES)
            known, after = next_special(text, scan_end, stop, final, automaton, state)
            state[ORDINARY_STOP] = known
            state[SPECIAL_STOP] = after
            undecided = after == 0 and known < scan_end
        is_special = state[SPECIAL_STOP] != 0
        last = is_special or (final and known == stop)
        # Characters are read up to `bound`. One that `known` cuts off is incomplete, unless a new character starts at `known`.
        bound = known
        if not last and known < stop and text[known] & 0xC0 != 0x80:
            bound = stop
        if automaton.settings[IS_RESTART]:
            n = run_restart(text, known, bound, last, automaton, state, ends, n)
        else:
            n = run_transducer(text, known, bound, last, automaton, state, ends, n)
            if n:
                state[SPAN_START] = np.int64(ends[n - 1] & _POSITION_MASK)
        if state[NEED_CALL]:
            return n
        if is_special:
            after = state[SPECIAL_STOP]
            ends[n] = np.uint32(after) | _FLAG
            n += 1
            state[POSITION] = after
            state[SPAN_START] = after
            state[ORDINARY_STOP] = after
            state[SPECIAL_STOP] = 0
        elif undecided or known == stop:
            return n


@kernel
def split_adjacent(text, stops, first, final, automaton, state, ends):
    """Write the ends of the next pre-tokens of several documents.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last stop; below 2**31 bytes.
    stops : int64[:], in
        The end of each document. Document 0 starts at byte 0, and each other one at the end of the previous one.
    first : int64[1], in-out
        Number of the document to continue with; 0 at the start. When it equals the number of documents, all are split.
    final : bool
        True if the last document ends at its stop. Otherwise, ends that depend on further text are left for a later call.
    automaton : SplitAutomaton, in
    state : int64[STATE_SIZE], in-out
        As for `split_spans`. All zero at the start of document 0.
    ends : uint32[:], out
        As for `split_spans`. At least MIN_ENDS entries.

    Returns
    -------
    int
        Number of ends written, 0 only if all documents are split.

    Notes
    -----
    Linear in the text, as `split_spans`. A document whose spans may not fit into the rest of `ends` is left for the next call.
    The stops are not checked.
    """
    n_documents = stops.size
    capacity = ends.size - MIN_ENDS
    n = 0
    while first[0] < n_documents:
        stop = stops[first[0]]
        # There is at most one span per byte.
        if n > 0 and n + stop - state[POSITION] > capacity:
            break
        complete = final or first[0] + 1 < n_documents
        n += split_spans(text, stop, complete, automaton, state, ends[n:])
        if state[NEED_CALL]:
            break
        first[0] += 1
    return n


@kernel
def shift_state(state, by):
    """Subtract `by` from all positions in the state, after the caller has moved the unfinished text to the start of its buffer.

    Parameters
    ----------
    state : int64[STATE_SIZE], in-out
    by : int
        At most state[SPAN_START].
    """
    for field in (POSITION, PENDING, PENDING + 1, SPAN_START, ORDINARY_STOP, SPECIAL_STOP, SEARCH_POSITION):
        state[field] = max(state[field] - by, 0)
