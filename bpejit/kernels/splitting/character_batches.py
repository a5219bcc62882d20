"""Read a batch of characters of any width, and judge by local rules where boundaries are.

Each character is packed to one lane, so that 64 of them are classified and judged at a time, whatever their widths. The
verdicts are then moved to the bytes at which the characters start. What a batch stores is in the unused part of `ends`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import bit_length, count_ones, load_u64, store_u64
from bpejit.jit.simd import (
    CONTEXT_BEFORE,
    CONTEXT_SIZE,
    classify_characters,
    deposit_bits,
    look_up_characters,
    match_contexts,
    pack_characters,
)
from bpejit.kernels.constants import CUT_RULES, ONE, SIX, SIXTEEN, TWO, ZERO

BLOCK = np.uint64(64)
"""Bytes of a block, and characters that are judged at a time."""

SETS_SIZE = CONTEXT_SIZE * 128
"""Bytes of one set of tables."""

BEFORE = np.uint64(CONTEXT_BEFORE)

_BATCH_BLOCKS = np.uint64(32)

# The offsets are in words, from `out` on. Ends overwrite the bytes of the characters.
_BYTES_AT = np.uint64(16)  # after the pending ends
_STRIDE = np.uint64(32 * 64)  # bytes between the first and the second bytes of all characters, and so on
_CLASSES_AT = np.uint64(16 + 32 * 64 + 128)  # after as many ends as the batch has bytes
_STARTS_AT = _CLASSES_AT + np.uint64(32 * 16)
_CUTS_AT = _STARTS_AT + np.uint64(32 * 2)
_UNKNOWN_AT = _CUTS_AT + np.uint64(33 * 2)

BATCH_ENDS = _UNKNOWN_AT + np.uint64(33 * 2)
"""Entries of `ends` that a batch needs."""

_LONGEST = np.uint64(4)
"""Bytes of the longest character."""

_READ = np.uint64(67)
"""Bytes that `pack_characters` reads."""

_QUARTER = np.uint64(0xFFFF)


@inline
def bits_below(number):
    """Return a word with the bits below `number` set, at most all 64."""
    return (ONE << number) - ONE if number < BLOCK else ~ZERO


@inline
def apply_rules(text, block, rules, first, n_cut_rules, n_rules):
    """Return which of 64 positions match the rules for cuts, and which the rules for unknown contexts, as bits."""
    cuts = ZERO
    unknown = ZERO
    for number in range(first, first + n_cut_rules):
        cuts |= match_contexts(text, block, rules, number)
    for number in range(first + n_cut_rules, first + n_rules):
        unknown |= match_contexts(text, block, rules, number)
    return cuts, unknown


@inline
def pack_batch(text, position, end, ends, out):
    """Store the bytes and the starts of the characters of a batch; return their number, and a position after most of them."""
    packed = (out + _BYTES_AT) << TWO
    n = ZERO
    at = position
    expected = ZERO
    k = ZERO
    while k < TWO * _BATCH_BLOCKS and at + _LONGEST <= end and at + _READ <= np.uint64(text.size):
        starts, broken, expected = pack_characters(text, at, expected, ends, packed + n, _STRIDE)
        if starts == ~ZERO and k != ZERO:
            break  # the rules about ASCII are faster
        starts &= bits_below(end - _LONGEST + ONE - at)
        if broken != ZERO:
            starts &= (broken & (~broken + ONE)) - ONE
        store_u64(ends, out + _STARTS_AT + k, starts)
        n += count_ones(starts)
        k += TWO
        if broken != ZERO:
            break
        at += BLOCK
    return n, min(at, end)


@inline
def classify_batch(n, automaton, ends, out):
    """Store the classes of the first `n` characters; return their number, or that of the characters before an invalid one."""
    packed = (out + _BYTES_AT) << TWO
    classes = (out + _CLASSES_AT) << TWO
    block = ZERO
    while block < n:
        left = classify_characters(ends, packed + block, _STRIDE, automaton.class_pages, classes + block)
        left &= bits_below(n - block)
        while left != ZERO:
            quarter = (bit_length(left & (~left + ONE)) - ONE) & ~(SIXTEEN - ONE)
            valid = look_up_characters(ends, packed + block + quarter, _STRIDE, automaton.class_of, classes + block + quarter)
            invalid = left & ((_QUARTER ^ valid) << quarter)
            if invalid != ZERO:
                return block + bit_length(invalid & (~invalid + ONE)) - ONE
            left &= ~(_QUARTER << quarter)
        block += BLOCK
    return n


@inline
def judge_batch(n, certain, automaton, ends, out):
    """Store the verdicts about the first `n` characters, from their classes."""
    rules = automaton.local_rules
    n_cut_rules = automaton.settings[CUT_RULES]
    n_rules = rules.size // (2 * SETS_SIZE)
    classes = out + _CLASSES_AT
    ends[classes - ONE] = 0  # CONTEXT_BEFORE times END_CLASS
    block = ZERO
    while block < n:
        cuts, unknown = apply_rules(ends, classes + (block >> TWO), rules, n_rules, n_cut_rules, n_rules)
        inside = bits_below(n - ONE - block)
        if block == ZERO:
            inside &= ~ONE if certain else ~bits_below(BEFORE)
        word = block >> (SIX - ONE)
        store_u64(ends, out + _CUTS_AT + word, cuts & inside)
        store_u64(ends, out + _UNKNOWN_AT + word, unknown & inside)
        # `_bits_from` reads one more word.
        store_u64(ends, out + _CUTS_AT + word + TWO, ZERO)
        store_u64(ends, out + _UNKNOWN_AT + word + TWO, ZERO)
        block += BLOCK


@inline
def verdicts_on_block(ends, out, number, done):
    """Return the verdicts on the bytes of a block, and how many characters start there.

    Parameters
    ----------
    number : uint64
        The number of the block in the batch.
    done : uint64
        The characters that start in the blocks before it.

    Returns
    -------
    cuts, unknown, n : uint64
    """
    starts = load_u64(ends, out + _STARTS_AT + (number << ONE))
    cuts = deposit_bits(_bits_from(ends, out + _CUTS_AT, done), starts)
    unknown = deposit_bits(_bits_from(ends, out + _UNKNOWN_AT, done), starts)
    return cuts, unknown, count_ones(starts)


@inline
def _bits_from(words, index, number):
    """Return 64 bits of the 64-bit words at `words[index:]`, from a bit on."""
    at = index + ((number >> SIX) << ONE)
    shift = number & (BLOCK - ONE)
    return load_u64(words, at) >> shift | (load_u64(words, at + TWO) << ONE) << (BLOCK - ONE - shift)
