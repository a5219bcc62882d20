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
    match_groups,
    write_bit_positions,
)
from bpejit.kernels.constants import CUT_RULES, ONE, PAIR_SHIFT, SIXTEEN, TWO, ZERO
from bpejit.kernels.splitting.character_batches import (
    BATCH_ENDS,
    BEFORE,
    BLOCK,
    SETS_SIZE,
    apply_rules,
    bits_below,
    classify_batch,
    judge_batch,
    pack_batch,
    verdicts_on_block,
)
from bpejit.kernels.splitting.cursors import ROW_MASK, WORTH_TWO, run_cursor, run_two_cursors

WORTH_RULES = np.uint64(48)
"""Number of bytes above which rules are faster than a cursor."""

_MANY_NON_ASCII = np.uint64(24)
"""Number of positions in a block with non-ASCII contexts above which rules about classes are faster."""

_CURSOR_BYTES = np.uint64(1 << 12)
"""Bytes of mostly non-ASCII text that cursors read before rules are tried again, without AVX-512."""

_GROUPS_SIZE = 128

_FEWEST = np.uint64(16)
"""Characters of a batch below which a cursor continues."""

_RESERVE = np.uint64(128)
"""Entries of `ends` that a block may overwrite: its ends, and up to 64 after them."""

_AFTER = np.uint64(CONTEXT_SIZE - CONTEXT_BEFORE)


@inline
def run_by_rules(text, position, end, bound, final, automaton, entry, ends, out):
    """Find the boundaries in most of `position:end`.

    Parameters and results are those of `cursors.run_cursor`. All entries of `ends` after the last end may be overwritten.
    """
    # True if there is a boundary at `position`, and all boundaries up to `block` are determined.
    certain = False
    block = position + BEFORE
    # The last block must not be read past the array, and the text after `end` is not known.
    while block + _AFTER < end and block + BLOCK + _AFTER <= np.uint64(text.size) and out + _RESERVE <= np.uint64(ends.size):
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
            block = position + BEFORE
            continue
        cuts, unknown_by_rules = _apply_ascii_rules(text, block, automaton)
        inside = bits_below(end - ONE - block)
        cuts &= inside
        unknown = (unknown | unknown_by_rules) & inside
        position, entry, out, certain = _resolve(
            text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out
        )
        block += BLOCK
    return position, entry, out


@inline
def _apply_ascii_rules(text, block, automaton):
    """Apply the rules about ASCII characters; the results are those of `apply_rules`."""
    n_cut_rules = automaton.settings[CUT_RULES]
    n_rules = automaton.local_rules.size // (2 * SETS_SIZE)
    if has_avx512_vbmi():
        return apply_rules(text, block, automaton.local_rules, 0, n_cut_rules, n_rules)
    rules = automaton.group_rules
    n_halves = ONE if rules.size == _GROUPS_SIZE + n_rules * CONTEXT_SIZE * 16 else TWO  # a division in each block takes 5%
    return match_groups(text, block, rules, np.uint64(n_cut_rules), np.uint64(n_rules), n_halves)


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
        stop = min(position + BLOCK, end)
        position, entry, out = run_cursor(text, position, stop, bound, final, automaton, entry, ends, out)
    return position, entry, out


@inline
def _run_batch(text, position, end, bound, final, automaton, entry, ends, out):
    """Classify a batch of mostly non-ASCII characters, and find boundaries by rules about classes.

    The characters are packed, so that 64 of them are looked up at a time, whatever their widths. The verdicts about them are
    then moved to the bytes at which they start.

    Parameters and results are those of `cursors.run_cursor`. If the text is not valid UTF-8, a cursor continues.
    """
    start = position
    at = position
    n = ZERO
    if out + BATCH_ENDS <= np.uint64(ends.size):
        n, at = pack_batch(text, position, end, ends, out)
        n = classify_batch(n, automaton, ends, out)
    if n < _FEWEST:
        return run_cursor(text, position, min(position + BLOCK, end), bound, final, automaton, entry, ends, out)
    # At the start of a text, and equally after a certain boundary, the text before does not matter.
    certain = entry & ROW_MASK == ZERO
    judge_batch(n, certain, automaton, ends, out)
    first = out
    done = ZERO
    number = ZERO
    while done < n:
        cuts, unknown, n_characters = verdicts_on_block(ends, first, number, done)
        block = start + number * BLOCK
        position, entry, out, certain = _resolve(
            text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out
        )
        done += n_characters
        number += ONE
    if position < start + ((at - start) >> ONE):
        position, entry, out = run_cursor(text, position, at, bound, final, automaton, entry, ends, out)
    return position, entry, out


@inline
def _resolve(text, block, cuts, unknown, certain, position, bound, final, automaton, entry, ends, out):
    """Write the boundaries of a block, by a cursor around unknown positions.

    Parameters
    ----------
    block : uint64
        The start of the block of 64 bytes.
    cuts, unknown : uint64
        The verdicts on its 64 positions, as bits. A position with both bits is unknown.
    certain : bool
        True if there is a boundary at `position`, and `entry` is the entry at the start of a text.

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
            out += write_bit_positions(ends, out, block, before)
            position = block + bit_length(before) - ONE
            entry = ZERO
            cuts ^= before
        if cuts == ZERO:
            break
        lowest = cuts & (~cuts + ONE)
        boundary = block + bit_length(lowest) - ONE
        # Two characters decide about a boundary.
        lead = text[boundary]
        width = ONE + np.uint64(lead >= 0xC0) + np.uint64(lead >= 0xE0) + np.uint64(lead >= 0xF0)
        position, entry, out = run_cursor(text, position, boundary + width + ONE, bound, final, automaton, entry, ends, out)
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
        out += write_bit_positions(ends, out, block, cuts)
        position = block + bit_length(cuts) - ONE
        entry = ZERO
    return position, entry, out, True
