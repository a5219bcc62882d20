"""Splitting: run a compiled split pattern over bytes, and write where each pre-token ends.

`split_spans` takes the text as it comes, in pieces of any size; all it must remember lies in `state`. A text is divided at
special tokens first; the ordinary text between them runs through one of two loops over the same kind of table:

- the transducer (see `bpejit.split.transducer`), which reads each character once and has no branch that depends on the
  text as long as that is ASCII;
- the restart loop, for the few patterns that have no transducer: it remembers the last accept, and goes back to it when
  the automaton is dead.

A table entry is the number of the next row's first entry, a multiple of 32, with the output in the low five bits; the
index of the next entry is that number plus the class of the next character. Column 0 is the end of the text.
"""

from __future__ import annotations

import numpy as np

from bpejit.kernels._constants import SPECIAL_FLAG, SPLIT_ACCEPT, SPLIT_DIES, SPLIT_KEPT_SHIFT
from bpejit.kernels._jit import inline, kernel
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
STATE_SIZE = 8

# Fields of `automaton.settings`.
IS_RESTART = 0
"""1 for a table of the restart loop, 0 for one of the transducer."""
STRIDE = 1
"""Entries in a row of the table, and in a row of `safe`."""
LONGEST_SPECIAL = 2
"""Bytes of the longest special token."""

MIN_ENDS = 16
"""Least size of `ends`."""

_ROOM = 8
"""Entries of `ends` kept free for what may be written between two tests for room."""

_SCAN_BYTES = 1 << 15
"""How far ahead special tokens are looked for, so that the text is still in the cache when it is split."""

_FLAG = np.uint32(SPECIAL_FLAG)
_ROW_MASK = np.uint64(0xFFFF_FFE0)
_OUTPUT = np.uint64(3)
_KEPT_SHIFT = np.uint64(SPLIT_KEPT_SHIFT)
_KEPT_MASK = np.uint64(7)
_ZERO, _ONE, _TWO, _THREE, _FOUR, _SIX, _EIGHT, _TWELVE = (np.uint64(number) for number in (0, 1, 2, 3, 4, 6, 8, 12))
_EIGHTEEN = np.uint64(18)
_LOW_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@inline
def _read(text, position, stop, final, class_of, byte_class):
    """Return class and width of the character at `position`, or width 0 if it may go on behind `stop` (not if `final`).

    UTF-8 is decoded as strictly as Python does it: overlong forms, surrogates and numbers above U+10FFFF are not
    characters, and each byte that is not part of one is a character of its own.
    """
    byte = np.uint64(text[position])
    if byte < np.uint64(0x80):
        return np.uint64(byte_class[byte]), _ONE
    if byte >= np.uint64(0xC2):
        if byte < np.uint64(0xE0):
            if position + _TWO > stop:
                if not final:
                    return _ZERO, _ZERO
            else:
                second = np.uint64(text[position + _ONE])
                if second & np.uint64(0xC0) == np.uint64(0x80):
                    return np.uint64(class_of[(byte & np.uint64(0x1F)) << _SIX | second & np.uint64(0x3F)]), _TWO
        elif byte < np.uint64(0xF0):
            if position + _THREE > stop:
                if not final:
                    return _ZERO, _ZERO
            else:
                second = np.uint64(text[position + _ONE])
                third = np.uint64(text[position + _TWO])
                point = (byte & np.uint64(0xF)) << _TWELVE | (second & np.uint64(0x3F)) << _SIX | third & np.uint64(0x3F)
                tails = (second & np.uint64(0xC0)) == np.uint64(0x80) and (third & np.uint64(0xC0)) == np.uint64(0x80)
                if tails and point >= np.uint64(0x800) and (point < np.uint64(0xD800) or point > np.uint64(0xDFFF)):
                    return np.uint64(class_of[point]), _THREE
        elif byte < np.uint64(0xF5):
            if position + _FOUR > stop:
                if not final:
                    return _ZERO, _ZERO
            else:
                second = np.uint64(text[position + _ONE])
                third = np.uint64(text[position + _TWO])
                fourth = np.uint64(text[position + _THREE])
                point = (
                    (byte & np.uint64(7)) << _EIGHTEEN
                    | (second & np.uint64(0x3F)) << _TWELVE
                    | (third & np.uint64(0x3F)) << _SIX
                    | fourth & np.uint64(0x3F)
                )
                tails = (second & third & fourth & np.uint64(0xC0)) == np.uint64(0x80) and (
                    (second | third | fourth) & np.uint64(0x40)
                ) == _ZERO
                if tails and point >= np.uint64(0x10000) and point < np.uint64(0x110000):
                    return np.uint64(class_of[point]), _FOUR
    return np.uint64(byte_class[byte]), _ONE


@inline
def _longest_special(text, position, stop, automaton):
    """Return the end of the longest special token that begins at `position` (0: none), and whether `stop` hid a longer one."""
    found = 0
    node = np.int64(automaton.trie_roots[text[position]])
    at = position + 1
    while node >= 0:
        if automaton.trie_ends[node]:
            found = at
        child = np.int64(automaton.trie_children[node])
        after = np.int64(automaton.trie_children[node + 1])
        if child == after:
            return found, False
        if at == stop:
            return found, True
        # The children of a node are in order of their bytes.
        byte = text[at]
        while after - child > 1:
            middle = (child + after) >> 1
            if automaton.trie_labels[middle] <= byte:
                child = middle
            else:
                after = middle
        node = child if automaton.trie_labels[child] == byte else -1
        at += 1
    return found, False


@inline
def _next_special(text, start, end, stop, final, automaton):
    """Look for a special token that begins in `start:end`.

    Returns
    -------
    begin, after : int
        The token found. With `after` 0 none begins before `begin`; if that is less than `end`, one may begin there, and
        more text is needed to tell.
    """
    needles = automaton.needles
    position = start
    if needles.size == 0:
        return end, 0
    while position < end:
        if needles.size == 1 and position + 8 <= end:
            # One first byte, as usual: test eight places at a time for a byte that equals it.
            word = load_u64(text, position) ^ needles[0]
            if ((word & _LOW_BITS) + _LOW_BITS) | word | _LOW_BITS == _ALL_BITS:
                position += 8
                continue
        for _ in range(8):
            if position == end:
                break
            if automaton.trie_roots[text[position]] >= 0:
                after, hidden = _longest_special(text, position, stop, automaton)
                if hidden and not final:
                    return position, 0
                if after:
                    return position, after
            position += 1
    return end, 0


@inline
def _run_transducer(text, stop, bound, final, automaton, state, ends, n):
    """Split ordinary text up to `stop` with the transducer; return the new number of ends (see `split_spans`)."""
    table = automaton.table
    class_of = automaton.class_of
    byte_class = automaton.byte_class
    position = np.uint64(state[POSITION])
    end = np.uint64(stop)
    bound = np.uint64(bound)
    entry = np.uint64(state[ROW])
    out = np.uint64(n)
    ends[out] = state[PENDING]
    ends[out + _ONE] = state[PENDING + 1]
    # A character emits one end on average, so this many bytes cannot overflow `ends`.
    room = np.int64(ends.size) - n - _ROOM
    block_end = position + np.uint64(max(room, 0))
    if block_end > end:
        block_end = end
    while position < block_end:
        column, width = _read(text, position, bound, final, class_of, byte_class)
        if width == _ZERO:
            break
        entry = np.uint64(table[(entry & _ROW_MASK) + column])
        ends[out + ((entry >> _KEPT_SHIFT) & _KEPT_MASK)] = position
        out += entry & _OUTPUT
        position += width
    if final and position == end and room > 0:
        entry = np.uint64(table[entry & _ROW_MASK])
        ends[out + ((entry >> _KEPT_SHIFT) & _KEPT_MASK)] = position
        out += entry & _OUTPUT
    elif room <= 0 or (position >= block_end and position < end):
        state[NEED_CALL] = 1
    state[POSITION] = position
    state[ROW] = entry & _ROW_MASK
    state[PENDING] = ends[out]
    state[PENDING + 1] = ends[out + _ONE]
    return np.int64(out)


@inline
def _run_restart(text, stop, bound, final, automaton, state, ends, n):
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
    while n + _ROOM <= ends.size:
        width = _ZERO
        column = _ZERO
        if position < end:
            column, width = _read(text, position, bound, final, class_of, byte_class)
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
        if entry & np.uint64(SPLIT_ACCEPT):
            accept = position
        if entry & np.uint64(SPLIT_DIES) == _ZERO:
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
            column, width = _read(text, begin, bound, True, class_of, byte_class)
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
        Whether the text ends at `stop`. If not, what more text might change is left for a later call.
    automaton : arrays.SplitAutomaton, in
    state : int64[STATE_SIZE], in-out
        All zero at the start of a text; see the fields above. The work goes on from POSITION.
    ends : uint32[:], out
        At least MIN_ENDS entries. Each span begins where the one before ended. An end has the special flag if its span is a
        special token. Entries behind those that count are overwritten.

    Returns
    -------
    int
        Number of ends written. If state[NEED_CALL] is 1, call again with the same text.

    Notes
    -----
    Linear in the text for a transducer; the restart loop may read a character again once per match. A special token that
    more text might complete, or make longer, waits. After a final call all of the text is written, and the state stands at
    the start of a new text at `stop`. Neither `state` nor `stop` is checked.
    """
    n = 0
    state[NEED_CALL] = 0
    while True:
        known = max(state[ORDINARY_STOP], state[POSITION])
        undecided = False
        if state[SPECIAL_STOP] == 0 and known < stop:
            scan_end = min(stop, known + _SCAN_BYTES)
            known, after = _next_special(text, known, scan_end, stop, final, automaton)
            state[ORDINARY_STOP] = known
            state[SPECIAL_STOP] = after
            undecided = after == 0 and known < scan_end
        is_special = state[SPECIAL_STOP] != 0
        last = is_special or (final and known == stop)
        # Up to where a character is looked at: one that is cut off by `known` is not taken for complete, unless it could not
        # go on there in any case.
        bound = known
        if not last and known < stop and text[known] & 0xC0 != 0x80:
            bound = stop
        if automaton.settings[IS_RESTART]:
            n = _run_restart(text, known, bound, last, automaton, state, ends, n)
        else:
            n = _run_transducer(text, known, bound, last, automaton, state, ends, n)
            if n:
                state[SPAN_START] = np.int64(ends[n - 1] & ~_FLAG)
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
def shift_state(state, by):
    """Tell the state that the caller moved the unfinished end of its buffer: all positions fall by `by`.

    Parameters
    ----------
    state : int64[STATE_SIZE], in-out
    by : int
        At most state[SPAN_START].
    """
    for field in (POSITION, PENDING, PENDING + 1, SPAN_START, ORDINARY_STOP, SPECIAL_STOP):
        state[field] = max(state[field] - by, 0)


@kernel
def find_cut(text, lo, hi, stop, automaton):
    """Find a place where a text may be cut, with the same pre-tokens before and after as in the whole.

    Parameters
    ----------
    text : uint8[:], in
        The text, or a part that begins where a text begins, at a safe cut, or at least LONGEST_SPECIAL + 4 bytes before `lo`.
    lo, hi : int
        The cut is looked for in `lo:hi + 1`.
    stop : int
        The text known is `text[:stop]`.
    automaton : arrays.SplitAutomaton, in

    Returns
    -------
    int
        The first such place whose safety can be proven, or -1. The text before it is finished by reading the character
        after it, not by the end of the text.

    Notes
    -----
    O(hi - lo). A place is safe if a safe pair of characters (`bpejit.split.automaton.safe_pairs`) stands around it, and no
    special token, nor what more text might make one, begins before or at it and ends behind it.
    """
    longest = automaton.settings[LONGEST_SPECIAL]
    stride = automaton.settings[STRIDE]
    position = max(0, lo - longest - 4)
    # No character has more than three continuation bytes, so behind three of them one begins in any case.
    aligned = min(position + 3, stop)
    while position < aligned and text[position] & 0xC0 == 0x80:
        position += 1
    blocked = np.int64(0)
    pair_row = np.int64(0)
    while position < stop and position <= hi:
        column, width = _read(text, np.uint64(position), np.uint64(stop), False, automaton.class_of, automaton.byte_class)
        if width == _ZERO:
            return -1
        if automaton.trie_roots[text[position]] >= 0:
            after, hidden = _longest_special(text, position, stop, automaton)
            if hidden:
                return -1
            blocked = max(blocked, after)
        if position >= lo and position >= blocked and automaton.safe[pair_row + np.int64(column)]:
            return position
        pair_row = np.int64(column) * stride
        position += np.int64(width)
    return -1
