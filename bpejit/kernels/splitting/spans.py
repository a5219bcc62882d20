"""Split bytes with a compiled split pattern: find the end of each pre-token.

`split_spans` processes a text that arrives in pieces of any size; its memory is `state`. The text is divided at special tokens
first (`special_token_scan`). The ordinary text between them runs through an automaton (`automaton_runner`), like separate
texts. Python calls it through `split_adjacent`, so that it is compiled only once.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.constants import IS_RESTART, LONGEST_SPECIAL, SPECIAL_FLAG, STRIDE
from bpejit.kernels.splitting.automaton_runner import (
    NEED_CALL,
    ORDINARY_STOP,
    PENDING,
    POSITION,
    SPAN_START,
    SPECIAL_STOP,
    run_restart,
    run_transducer,
)
from bpejit.kernels.splitting.special_token_scan import SEARCH_POSITION, next_special

STATE_SIZE = 11
"""Number of fields of the state: see `automaton_runner`, and `special_token_scan` for the search of special tokens."""

MIN_ENDS = 16
"""Minimum size of `ends`."""

_SCAN_BYTES = 1 << 15
"""Number of bytes searched ahead for special tokens; the text is then still in the cache when it is split."""

_FLAG = np.uint32(SPECIAL_FLAG)
_POSITION_MASK = np.uint32(SPECIAL_FLAG - 1)


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
        All zero at the start of a text; the fields are described in `automaton_runner` and `special_token_scan`. Splitting
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


@kernel
def find_cut(text, lo, hi, stop, automaton, reach, hidden):
    """Find a position where a text may be cut, such that both parts have the same pre-tokens as the whole text.

    Parameters
    ----------
    text : uint8[:], in
        The text, or a part that starts at the start of a text, at a safe cut, or at least LONGEST_SPECIAL + 4 bytes before
        `lo`.
    lo, hi : int
        The cut is searched in `lo:hi + 1`.
    stop : int
        The text known so far is `text[:stop]`.
    automaton : SplitAutomaton, in
    reach : int64[:], in
        From `reach_specials`, from LONGEST_SPECIAL + 4 bytes before `lo` (or from 0) to `hi`; empty if there are no special
        tokens.
    hidden : int
        The value that `reach_specials` returned, or `stop`.

    Returns
    -------
    int
        The first position that is proven to be safe, or -1. The text before the cut ends by reading the character after it, not
        by reaching the end of the text.

    Notes
    -----
    O(hi - lo). A position is safe if it is between a safe pair of characters (`bpejit.splitting.dfa.safe_pairs_of_dfa`), and no
    special token, or prefix of one that further text might complete, starts before or at the position and ends after it.
    """
    longest = automaton.settings[LONGEST_SPECIAL]
    stride = automaton.settings[STRIDE]
    first = max(0, lo - longest - 4)
    position = first
    # A character has at most three continuation bytes, so a new one starts after three of them in any case.
    aligned = min(position + 3, stop)
    while position < aligned and text[position] & 0xC0 == 0x80:
        position += 1
    blocked = np.int64(0)
    pair_row = np.int64(0)
    while position < stop and position <= hi:
        column, width = read_character(
            text, np.uint64(position), np.uint64(stop), False, automaton.class_of, automaton.byte_class
        )
        if width == 0:
            return -1
        if position >= hidden:
            return -1
        if position - first < reach.size:
            blocked = max(blocked, reach[position - first])
        if position >= lo and position >= blocked and automaton.safe[pair_row + np.int64(column)]:
            return position
        pair_row = np.int64(column) * stride
        position += np.int64(width)
    return -1
