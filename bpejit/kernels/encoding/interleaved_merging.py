"""Merge several new pre-tokens of a batch at once, with their steps interleaved.

Merging one pre-token is a chain of dependent steps: the next pair to merge depends on ranks that have to be looked up first,
in tables that are not in the processor's caches, with two lookups per merge and nothing else to do meanwhile. So up to
MAX_INTERLEAVED pre-tokens are merged in lockstep: each prefetches the entries that it needs next, and they arrive while the
others prefetch theirs. Only pre-tokens that are ASCII and at most 15 bytes long take part. All others are merged one by one.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import prefetch
from bpejit.jit.simd import begin_merge, lowest_rank, merge_lane, write_tokens
from bpejit.kernels.constants import ONE, POSITION_MASK, SHORT_KEY_BYTES, THREE, TWO, ZERO
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank, pair_slot
from bpejit.kernels.encoding.pretoken_cache import find_cache_slot, insert_pretoken

MAX_INTERLEAVED = 32
"""Largest number of pre-tokens merged at once."""

_MAX_INTERLEAVED = np.uint64(MAX_INTERLEAVED)
_LANES = np.uint64(32)
_NO_RANK = np.uint64(NO_RANK)

# Fields of each pre-token in the scratch space, after the lanes of all pre-tokens.
_KEY, _START, _SIZE, _LANE, _TOKEN, _ORDER = (np.uint64((32 + field) * MAX_INTERLEAVED) for field in range(6))
_IDS = np.uint64(38 * MAX_INTERLEAVED)

INTERLEAVED_SCRATCH_WORDS = 38 * MAX_INTERLEAVED + 16
"""Words of scratch space required."""

_ABOVE_SHORT = np.uint64((SHORT_KEY_BYTES + 1) << 56)
_LENGTH_SHIFT = np.uint64(56)
_NOT_ASCII = np.uint64(0x8080_8080_8080_8080)
_NOT_ASCII_HIGH = np.uint64(0x0080_8080_8080_8080)
_POSITION = np.uint64(POSITION_MASK)


@inline
def is_short_miss(low, high, slot, text, start, workspace):
    """Return True if a pre-token is ASCII, at most 15 bytes long and not in the cache."""
    if high >= _ABOVE_SHORT or (low & _NOT_ASCII) | (high & _NOT_ASCII_HIGH) != ZERO:
        return False
    return not find_cache_slot(workspace, low, high, slot, text, start)[1]


@inline
def encode_interleaved(text, ends, span, last, key, tables, workspace):
    """Merge the pre-tokens among the spans `span:last` for which `is_short_miss` is true, and insert their ids into the cache.

    The keys of the spans are in `workspace.batch`, starting at `key`.
    """
    batch = workspace.batch
    slots = workspace.slots
    scratch = workspace.scratch
    n = ZERO
    while span < last:
        low = batch[key]
        high = batch[key + ONE]
        slot = batch[key + TWO]
        if (slots[slot] ^ low) | (slots[slot + ONE] ^ high) != ZERO and n < _MAX_INTERLEAVED and high < _ABOVE_SHORT:
            length = high >> _LENGTH_SHIFT
            begin = (np.uint64(ends[span]) & _POSITION) - length
            if is_short_miss(low, high, slot, text, begin, workspace):
                scratch[_KEY + n] = key
                scratch[_START + n] = begin
                scratch[_SIZE + n] = length
                scratch[_ORDER + n] = n
                begin_merge(text, begin, length, tables.byte_pairs, scratch, n * _LANES)
                n += ONE
        key += THREE
        span += ONE
    _merge_interleaved(tables, scratch, n)
    i = ZERO
    while i < n:
        count = np.uint64(scratch[_SIZE + i])
        write_tokens(scratch, i * _LANES, count, tables.ids, scratch, _IDS)
        key = np.uint64(scratch[_KEY + i])
        low = batch[key]
        high = batch[key + ONE]
        home = batch[key + TWO]
        begin = np.uint64(scratch[_START + i])
        slot, found = find_cache_slot(workspace, low, high, home, text, begin)
        if not found:
            insert_pretoken(workspace, home, slot, low, high, text, begin, scratch, _IDS, _IDS + count)
        i += ONE


@inline
def _merge_interleaved(tables, scratch, n):
    """Merge `n` pre-tokens; the field _SIZE of each becomes its number of tokens."""
    pairs = tables.pairs
    merged = tables.merged
    while True:
        n_left = ZERO
        j = ZERO
        while j < n:
            i = np.uint64(scratch[_ORDER + j])
            best, lane = lowest_rank(scratch, i * _LANES)
            scratch[_LANE + i] = lane
            scratch[_TOKEN + i] = best
            prefetch(merged, min(best, np.uint64(merged.size)))
            scratch[_ORDER + n_left] = i
            n_left += np.uint64(best < _NO_RANK)
            j += ONE
        n = n_left
        if n == ZERO:
            return
        j = ZERO
        while j < n:
            i = np.uint64(scratch[_ORDER + j])
            token = np.uint64(merged[scratch[_TOKEN + i]])
            scratch[_TOKEN + i] = token
            at = i * _LANES + np.uint64(scratch[_LANE + i])
            prefetch(pairs, pair_slot(pairs, np.uint64(scratch[max(at, ONE) - ONE]), token))
            prefetch(pairs, pair_slot(pairs, token, np.uint64(scratch[at + TWO])))
            j += ONE
        j = ZERO
        while j < n:
            i = np.uint64(scratch[_ORDER + j])
            token = np.uint64(scratch[_TOKEN + i])
            lane = np.uint64(scratch[_LANE + i])
            at = i * _LANES + lane
            before_rank = np.uint64(find_rank(pairs, np.uint64(scratch[max(at, ONE) - ONE]), token))
            after_rank = _NO_RANK
            if lane + TWO < np.uint64(scratch[_SIZE + i]):
                after_rank = np.uint64(find_rank(pairs, token, np.uint64(scratch[at + TWO])))
            merge_lane(scratch, i * _LANES, lane, token, before_rank, after_rank)
            scratch[_SIZE + i] -= np.uint32(1)
            j += ONE
