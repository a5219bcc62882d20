"""Find boundaries by local rules, 64 positions at a time (see `bpejit.splitting.local_rules`).

If the rules determine all boundaries of a block of 64 bytes, these are written without reading the text again. For an unknown
position, a cursor runs from the last boundary before it to the next one after it: text between two certain boundaries is split
like a separate text.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import bit_length, count_ones
from bpejit.jit.simd import (
    CONTEXT_BEFORE,
    CONTEXT_SIZE,
    find_non_ascii,
    has_avx512_vbmi,
    match_contexts,
    match_groups,
    read_characters,
    write_bit_positions,
    write_selected,
)
from bpejit.kernels.constants import CUT_RULES, ONE, PAIR_SHIFT, SIXTEEN, TWO, ZERO
from bpejit.kernels.splitting.cursors import ROW_MASK, WORTH_TWO, run_cursor, run_two_cursors

_BLOCK = np.uint64(64)

WORTH_RULES = np.uint64(48)
"""Number of bytes above which rules are faster than a cursor."""

_MANY_NON_ASCII = np.uint64(24)
"""Number of positions in a block with non-ASCII contexts above which rules about classes are faster."""

_BATCH = np.uint64(512)
"""Characters that are classified before the rules are applied to them: a multiple of 64."""

_BATCH_ENDS = np.uint64(3 * 512)
"""Entries of `ends` that a batch needs: for its ends, and after them for the positions and the classes of its characters."""

_CURSOR_BYTES = np.uint64(1 << 12)
"""Bytes of mostly non-ASCII text that cursors read before rules are tried again, without AVX-512."""

_GROUPS_SIZE = 128

_AT_ONCE = np.uint64(16)
"""Characters that `read_characters` reads."""

_LONGEST = np.uint64(4)
"""Bytes of the longest character."""

_READ = np.uint64(68)
"""Bytes that `read_characters` reads."""

_RESERVE = np.uint64(128)
"""Entries of `ends` that a block may overwrite: its ends, and up to 64 after them."""

_BEFORE = np.uint64(CONTEXT_BEFORE)
_AFTER = np.uint64(CONTEXT_SIZE - CONTEXT_BEFORE)
_SETS_SIZE = CONTEXT_SIZE * 128
_SLACK = np.uint64(80)


@inline
def run_by_rules(text, position, end, bound, final, automaton, entry, ends, out):
    """Find the boundaries in most of `position:end`.

    Parameters and results are those of `cursors.run_cursor`. All entries of `ends` after the last end may be overwritten.
    """
    # True if there is a boundary at `position`, and all boundaries up to `block` are determined.
    certain = False
    block = position + _BEFORE
    # The last block must not be read past the array, and the text after `end` is not known.
    while block + _AFTER < end and block + _BLOCK + _AFTER <= np.uint64(text.size) and out + _RESERVE <= np.uint64(ends.size):
        unknown = find_non_ascii(text, block)
        if count_ones(unknown) > _MANY_NON_ASCII:
            start = position
            if has_avx512_vbmi():
                position, entry, out = _run_batch(text, position, end, bound, final, automaton, entry, ends, out)
            else:
                position, entry, out = _run_cursors(text, position, end, bound, final, automaton, entry, ends, out)
            if position == start:
                break
            certain = False
            block = position + _BEFORE
            continue
        cuts, unknown_by_rules = _apply_ascii_rules(text, block, automaton)
        inside = _bits_below(end - ONE - block)
        cuts &= inside
        unknown = (unknown | unknown_by_rules) & inside
        position, entry, out, certain = _resolve(
            text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out, ZERO
        )
        block += _BLOCK
    return position, entry, out


@inline
def _bits_below(number):
    """Return a word with the bits below `number` set, at most all 64."""
    return (ONE << number) - ONE if number < _BLOCK else ~ZERO


@inline
def _apply_ascii_rules(text, block, automaton):
    """Apply the rules about ASCII characters; the results are those of `_apply_rules`."""
    n_cut_rules = automaton.settings[CUT_RULES]
    n_rules = automaton.local_rules.size // (2 * _SETS_SIZE)
    if has_avx512_vbmi():
        return _apply_rules(text, block, automaton.local_rules, 0, n_cut_rules, n_rules)
    rules = automaton.group_rules
    n_halves = ONE if rules.size == _GROUPS_SIZE + n_rules * CONTEXT_SIZE * 16 else TWO  # a division in each block takes 5%
    return match_groups(text, block, rules, np.uint64(n_cut_rules), np.uint64(n_rules), n_halves)


@inline
def _apply_rules(text, block, rules, first, n_cut_rules, n_rules):
    """Return which of 64 positions match the rules for cuts, and which the rules for unknown contexts, as bits."""
    cuts = ZERO
    unknown = ZERO
    for number in range(first, first + n_cut_rules):
        cuts |= match_contexts(text, block, rules, number)
    for number in range(first + n_cut_rules, first + n_rules):
        unknown |= match_contexts(text, block, rules, number)
    return cuts, unknown


@inline
def _run_cursors(text, position, end, bound, final, automaton, entry, ends, out):
    """Run two cursors over some mostly non-ASCII text, or one if that is impossible.

    Parameters and results are those of `cursors.run_cursor`.
    """
    start = position
    stop = min(position + _CURSOR_BYTES, end)
    if stop > position + WORTH_TWO and automaton.settings[PAIR_SHIFT] >= 0:
        stop -= SIXTEEN
        position, entry, out = run_two_cursors(text, position, stop, bound, final, automaton, entry, ends, out)
    if position == start:
        stop = min(position + _BLOCK, end)
        position, entry, out = run_cursor(text, position, stop, bound, final, automaton, entry, ends, out)
    return position, entry, out


@inline
def _run_batch(text, position, end, bound, final, automaton, entry, ends, out):
    """Classify a batch of mostly non-ASCII characters, and find boundaries by rules about classes.

    Parameters and results are those of `cursors.run_cursor`. If the text is not valid UTF-8, a cursor continues.
    """
    positions = out + _BATCH + _SLACK
    classes = positions + _BATCH + _SLACK
    n = ZERO
    at = position
    if out + _BATCH_ENDS <= np.uint64(ends.size):
        while n < _BATCH and at < end and at + _READ <= np.uint64(text.size):
            size = read_characters(text, at, automaton.class_of, ends, positions + n, classes + (n >> TWO))
            if size == ZERO:
                break
            n += _AT_ONCE
            at += size
    # Discard characters that end after `end`.
    while n > ZERO and np.uint64(ends[positions + n - ONE]) + _LONGEST > end:
        at = np.uint64(ends[positions + n - ONE])
        n -= ONE
    if n < _AT_ONCE:
        return run_cursor(text, position, min(position + _BLOCK, end), bound, final, automaton, entry, ends, out)
    ends[positions + n] = at
    rules = automaton.local_rules
    n_cut_rules = automaton.settings[CUT_RULES]
    n_rules = rules.size // (2 * _SETS_SIZE)
    start = position
    # At the start of a text, and equally after a certain boundary, the text before does not matter.
    ends[classes - ONE] = 0  # CONTEXT_BEFORE times END_CLASS
    certain = entry & ROW_MASK == ZERO
    block = ZERO
    while block < n:
        cuts, unknown = _apply_rules(ends, classes + (block >> TWO), rules, n_rules, n_cut_rules, n_rules)
        inside = _bits_below(n - ONE - block)
        if block == ZERO:
            inside &= ~ONE if certain else ~_bits_below(_BEFORE)
        cuts &= inside
        unknown &= inside
        position, entry, out, certain = _resolve(
            text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out, positions
        )
        block += _BLOCK
    if position < start + ((at - start) >> ONE):
        position, entry, out = run_cursor(text, position, at, bound, final, automaton, entry, ends, out)
    return position, entry, out


@inline
def _resolve(text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out, positions):
    """Write the boundaries of a block, by a cursor around unknown positions.

    Parameters
    ----------
    block : uint64
        The start of the block: an offset in the text, or, if `positions` is not 0, the index of a character there.
    cuts, unknown : uint64
        The verdicts on its 64 positions, as bits. A position with both bits is unknown.
    certain : bool
        True if there is a boundary at `position`, and `entry` is the entry at the start of a text.
    positions : uint64
        The index in `ends` of the positions of the characters, or 0 if characters are bytes.

    Returns
    -------
    position, entry, out, certain
    """
    cuts &= ~unknown
    while cuts != ZERO and (unknown != ZERO or not certain):
        # Write the boundaries before the first unknown position, then run a cursor to the first boundary after it.
        before = ZERO
        if certain:
            before = cuts & ((unknown & (~unknown + ONE)) - ONE)
        if before != ZERO:
            out += _write_ends(ends, out, block, before, positions)
            position = _position_of(ends, block + bit_length(before) - ONE, positions)
            entry = ZERO
            cuts ^= before
        if cuts == ZERO:
            break
        lowest = cuts & (~cuts + ONE)
        number = block + bit_length(lowest) - ONE
        boundary = _position_of(ends, number, positions)
        stop = _position_of(ends, number + _AFTER, positions)
        position, entry, out = run_cursor(text, position, stop, bound, final, automaton, entry, ends, out)
        # Boundaries after this one will be found again.
        while np.uint64(ends[out - ONE]) > boundary:
            out -= ONE
        position = boundary
        entry = ZERO
        certain = True
        cuts ^= lowest
        unknown &= ~(lowest | (lowest - ONE))
    if not certain or unknown != ZERO:
        return position, entry, out, False
    if cuts != ZERO:
        out += _write_ends(ends, out, block, cuts, positions)
        position = _position_of(ends, block + bit_length(cuts) - ONE, positions)
        entry = ZERO
    return position, entry, out, True


@inline
def _position_of(ends, number, positions):
    """Return the offset of a character in the text."""
    if positions == ZERO:
        return number
    return np.uint64(ends[positions + number])


@inline
def _write_ends(ends, out, block, bits, positions):
    """Write the positions of a block that are set in `bits` to `ends[out:]`; return their number."""
    if positions == ZERO:
        return write_bit_positions(ends, out, block, bits)
    return write_selected(ends, out, positions + block, bits)
