"""The transducer's work done by local rules, 64 places at a time (see `bpejit.splitting.local_rules`).

Where the rules know every border of a block of 64 bytes, these are written down and nothing is read twice. A place of which
they know nothing is left to a cursor, which runs from the last border before it to the next one behind it: between two
certain borders text is split as if it stood alone.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import bit_length, count_ones
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE, find_wide, match_contexts, read_characters, write_chosen, write_places
from bpejit.kernels.constants import CUT_RULES
from bpejit.kernels.splitting.cursors import ROW_MASK, run_cursor

_BLOCK = np.uint64(64)

WORTH_RULES = np.uint64(48)
"""Bytes from which on rules are faster than a cursor."""

_MUCH_WIDE = np.uint64(24)
"""Of 64 places, from how many with characters beyond ASCII around them it is faster to find out the class of each."""

_STRETCH = np.uint64(512)
"""Characters whose classes are found out before they are looked at: a multiple of 64."""

_STRETCH_ENDS = np.uint64(3 * 512)
"""Entries of `ends` that a stretch needs: for its ends, and behind them for the places and the classes of its characters."""

_AT_ONCE = np.uint64(16)
"""Characters that `read_characters` reads."""

_LONGEST = np.uint64(4)
"""Bytes of the longest character."""

_READ = np.uint64(68)
"""Bytes that it looks at."""

_ROOM = np.uint64(128)
"""Entries of `ends` that a block may overwrite: its ends, and up to 64 behind them."""

_BEFORE = np.uint64(CONTEXT_BEFORE)
_BEHIND = np.uint64(CONTEXT_SIZE - CONTEXT_BEFORE)
_SETS_SIZE = CONTEXT_SIZE * 128
_ZERO, _ONE, _TWO = (np.uint64(number) for number in range(3))
_SLACK = np.uint64(80)


@inline
def run_by_rules(text, position, end, bound, final, automaton, entry, ends, out):
    """Run the transducer over most of `position:end`.

    Arguments and results as for `cursors.run_cursor`; all entries of `ends` behind the last may be overwritten.
    """
    rules = automaton.local_rules
    n_cut_rules = automaton.settings[CUT_RULES]
    n_rules = rules.size // (2 * _SETS_SIZE)
    # Whether a border is certain at `position`, and all borders up to `block`.
    certain = False
    block = position + _BEFORE
    # Of the last block no more may be read than there is; nothing behind `end` is known.
    while block + _BEHIND < end and block + _BLOCK + _BEHIND <= np.uint64(text.size) and out + _ROOM <= np.uint64(ends.size):
        unknown = find_wide(text, block)
        if count_ones(unknown) > _MUCH_WIDE:
            begun = position
            position, entry, out = _run_stretch(text, position, end, bound, final, automaton, entry, ends, out)
            if position == begun:
                break
            certain = False
            block = position + _BEFORE
            continue
        cuts, doubts = _look(text, block, rules, 0, n_cut_rules, n_rules)
        known = _below(end - _ONE - block)
        cuts &= known
        unknown = (unknown | doubts) & known
        position, entry, out, certain = _settle(
            text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out, _ZERO
        )
        block += _BLOCK
    return position, entry, out


@inline
def _below(number):
    """Return the bits below a number, at most all."""
    return (_ONE << number) - _ONE if number < _BLOCK else ~_ZERO


@inline
def _look(text, block, rules, first, n_cut_rules, n_rules):
    """Return which of 64 places the rules take for cuts, and which are unknown."""
    cuts = _ZERO
    unknown = _ZERO
    for number in range(first, first + n_cut_rules):
        cuts |= match_contexts(text, block, rules, number)
    for number in range(first + n_cut_rules, first + n_rules):
        unknown |= match_contexts(text, block, rules, number)
    return cuts, unknown


@inline
def _run_stretch(text, position, end, bound, final, automaton, entry, ends, out):
    """Run the transducer over some characters that are mostly beyond ASCII: find out their classes, then look at these.

    Arguments and results as for `cursors.run_cursor`. Where text is not UTF-8 a cursor goes on.
    """
    places = out + _STRETCH + _SLACK
    classes = places + _STRETCH + _SLACK
    n = _ZERO
    at = position
    if out + _STRETCH_ENDS <= np.uint64(ends.size):
        while n < _STRETCH and at < end and at + _READ <= np.uint64(text.size):
            size = read_characters(text, at, automaton.class_of, ends, places + n, classes + (n >> _TWO))
            if size == _ZERO:
                break
            n += _AT_ONCE
            at += size
    # What was read behind `end`, or may go on there, does not count.
    while n > _ZERO and np.uint64(ends[places + n - _ONE]) + _LONGEST > end:
        at = np.uint64(ends[places + n - _ONE])
        n -= _ONE
    if n < _AT_ONCE:
        return run_cursor(text, position, min(position + _BLOCK, end), bound, final, automaton, entry, ends, out)
    ends[places + n] = at
    rules = automaton.local_rules
    n_cut_rules = automaton.settings[CUT_RULES]
    n_rules = rules.size // (2 * _SETS_SIZE)
    begun = position
    # At the start of a text, and behind a border, which is like it, nothing that came before counts.
    ends[classes - _ONE] = 0  # CONTEXT_BEFORE times END_CLASS
    certain = entry & ROW_MASK == _ZERO
    block = _ZERO
    while block < n:
        cuts, unknown = _look(ends, classes + (block >> _TWO), rules, n_rules, n_cut_rules, n_rules)
        known = _below(n - _ONE - block)
        if block == _ZERO:
            known &= ~_ONE if certain else ~_below(_BEFORE)
        cuts &= known
        unknown &= known
        position, entry, out, certain = _settle(
            text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out, places
        )
        block += _BLOCK
    if position < begun + ((at - begun) >> _ONE):
        position, entry, out = run_cursor(text, position, at, bound, final, automaton, entry, ends, out)
    return position, entry, out


@inline
def _settle(text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out, places):
    """Write the borders of a block; where something is unknown, by a cursor.

    Parameters
    ----------
    block : uint64
        Where the block begins: in the text, or, with `places`, among the characters whose places are written there.
    cuts, unknown : uint64
        What is known of its 64 places, as bits. What is both is unknown.
    certain : bool
        Whether a border is at `position`, and `entry` that of the start of a text.
    places : uint64
        Where in `ends` the places of the characters are, or 0 if they are those of the bytes.

    Returns
    -------
    position, entry, out, certain
    """
    cuts &= ~unknown
    while cuts != _ZERO and (unknown != _ZERO or not certain):
        # The borders before the first unknown place, then a cursor up to the first behind it.
        before = _ZERO
        if certain:
            before = cuts & ((unknown & (~unknown + _ONE)) - _ONE)
        if before != _ZERO:
            out += _write(ends, out, block, before, places)
            position = _place(ends, block + bit_length(before) - _ONE, places)
            entry = _ZERO
            cuts ^= before
        if cuts == _ZERO:
            break
        lowest = cuts & (~cuts + _ONE)
        number = block + bit_length(lowest) - _ONE
        border = _place(ends, number, places)
        stop = _place(ends, number + _BEHIND, places)
        position, entry, out = run_cursor(text, position, stop, bound, final, automaton, entry, ends, out)
        # What the characters behind the border have ended is found again.
        while np.uint64(ends[out - _ONE]) > border:
            out -= _ONE
        position = border
        entry = _ZERO
        certain = True
        cuts ^= lowest
        unknown &= ~(lowest | (lowest - _ONE))
    if not certain or unknown != _ZERO:
        return position, entry, out, False
    if cuts != _ZERO:
        out += _write(ends, out, block, cuts, places)
        position = _place(ends, block + bit_length(cuts) - _ONE, places)
        entry = _ZERO
    return position, entry, out, True


@inline
def _place(ends, number, places):
    """Return where in the text a character begins."""
    if places == _ZERO:
        return number
    return np.uint64(ends[places + number])


@inline
def _write(ends, out, block, bits, places):
    """Write the places of a block that are set in `bits` to `ends[out:]`; return how many."""
    if places == _ZERO:
        return write_places(ends, out, block, bits)
    return write_chosen(ends, out, places + block, bits)
