"""Divide pre-tokens of several words into words, for encoding with superwords (see `superword_merging`)."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import count_ones
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE, find_non_ascii, has_avx2, match_groups, write_bit_positions
from bpejit.kernels.constants import END_POSITION, FOUR, ONE, TWO, WORD_BITS, ZERO
from bpejit.kernels.encoding.boundary_filter import is_boundary, load_character
from bpejit.kernels.encoding.interleaved_merging import RECENT_SPANS

MAX_WORDS = RECENT_SPANS
"""Largest number of words that are encoded together."""

_MAX_WORDS = np.uint64(MAX_WORDS - 65)  # with room for those of 64 positions and a special token
_BEFORE, _AFTER = np.uint64(CONTEXT_BEFORE), np.uint64(64 + CONTEXT_SIZE - CONTEXT_BEFORE)
_LEAD_BITS, _REST = np.uint64(0xC0), np.uint64(0x80)
_KIND_SHIFT = np.uint16(8)


@inline
def _find_borders(text, block, stop, tables):
    """Return which of 64 positions of `text` from `block` on no token of the first merges spans, as bits."""
    if has_avx2() and block >= _BEFORE and block + _AFTER <= np.uint64(text.size) and find_non_ascii(text, block) == ZERO:
        borders, _ = match_groups(text, block, tables.super_groups, ONE, ONE, ONE)
        return borders
    kinds = tables.super_kinds
    at = max(block, ONE)
    limit = min(block + WORD_BITS, stop)
    while at < limit and np.uint64(text[at]) & _LEAD_BITS == _REST:
        at += ONE
    before = at - ONE
    while before > ZERO and at - before < FOUR and np.uint64(text[before]) & _LEAD_BITS == _REST:
        before -= ONE
    character, length = load_character(text, before, at)
    borders = ZERO
    while at < limit:
        after, length = load_character(text, at, stop)
        is_border = kinds[text[at - ONE]] & kinds[text[at]] >> _KIND_SHIFT != 0
        is_border |= is_boundary(tables.inner_pairs, text, at, character, after)
        borders |= np.uint64(is_border) << (at - block)
        character = after
        at += length
    return borders


@inline
def find_words(text, begin, ends, run, n_runs, tables, workspace):
    """Write the ends of the next words to `workspace.words`, and the number of words up to the end of each pre-token.

    Returns the number of words, and of the pre-tokens that end with one of them.
    """
    words, run_words = workspace.words, workspace.run_words
    stop = np.uint64(ends[n_runs - ONE]) & END_POSITION
    n = n_ended = ZERO
    start = block = begin
    while run + n_ended < n_runs and n < _MAX_WORDS:
        borders = _find_borders(text, block, stop, tables)
        if block == begin:
            borders &= ~ONE
        end = ZERO
        while run + n_ended < n_runs:
            end = np.uint64(ends[run + n_ended])
            if end >= block + WORD_BITS:
                break
            borders |= ONE << (end - block)
            run_words[n_ended] = n + count_ones(borders & ((TWO << (end - block)) - ONE))
            n_ended += ONE
            start = end
        is_special = end > END_POSITION
        if is_special or run + n_ended == n_runs:
            borders &= (TWO << (start - block)) - ONE
        n += write_bit_positions(words, n, block, borders)
        block += WORD_BITS
        if is_special:
            words[n] = end
            n += ONE
            run_words[n_ended] = n
            n_ended += ONE
            start = begin = block = end & END_POSITION
    return n, n_ended
