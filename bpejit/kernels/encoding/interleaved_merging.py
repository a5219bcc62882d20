"""The new pre-tokens of a batch, encoded together.

Merging one pre-token is a chain: which pair comes next depends on ranks that must be looked up first, in tables that lie far
from the processor, two look-ups for each merge and nothing to do meanwhile. So the new pre-tokens of a batch take their merges
in turns: each asks for the entries that it needs, and while they arrive the others ask for theirs.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import prefetch
from bpejit.jit.simd import begin_merge, lowest_rank, merge_lane, write_tokens
from bpejit.kernels.constants import POSITION_MASK, SHORT_KEY_BYTES
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank, pair_slot
from bpejit.kernels.encoding.pretoken_cache import find_slot, remember

MOST = 32
"""Pre-tokens that are encoded together at most."""

_ZERO, _ONE, _TWO, _THREE = (np.uint64(number) for number in range(4))
_MOST = np.uint64(MOST)
_LANES = np.uint64(32)
_NO_RANK = np.uint64(NO_RANK)

# Fields of each pre-token, behind the lanes of all of them in the scratch space.
_KEY, _START, _SIZE, _LANE, _TOKEN, _ORDER = (np.uint64((32 + field) * MOST) for field in range(6))
_IDS = np.uint64(38 * MOST)

TOGETHER_WORDS = 38 * MOST + 16
"""Scratch space that is needed."""

_ABOVE_SHORT = np.uint64((SHORT_KEY_BYTES + 1) << 56)
_LENGTH_SHIFT = np.uint64(56)
_NOT_ASCII = np.uint64(0x8080_8080_8080_8080)
_NOT_ASCII_HIGH = np.uint64(0x0080_8080_8080_8080)
_POSITION = np.uint64(POSITION_MASK)


@inline
def is_new(low, high, word, text, start, memory):
    """Whether a pre-token is short and ASCII, and not in the cache."""
    if high >= _ABOVE_SHORT or (low & _NOT_ASCII) | (high & _NOT_ASCII_HIGH) != _ZERO:
        return False
    return not find_slot(memory, low, high, word, text, start)[1]


@inline
def encode_together(text, ends, span, last, key, tables, memory):
    """Encode the pre-tokens among the spans `span:last` that `is_new` is true of, and put their ids into the cache.

    The keys of the spans are in `memory.batch`, from `key` on; the first of them is new.
    """
    batch = memory.batch
    slots = memory.slots
    scratch = memory.scratch
    n = _ZERO
    while span < last:
        low = batch[key]
        high = batch[key + _ONE]
        word = batch[key + _TWO]
        if (slots[word] ^ low) | (slots[word + _ONE] ^ high) != _ZERO and n < _MOST and high < _ABOVE_SHORT:
            length = high >> _LENGTH_SHIFT
            begin = (np.uint64(ends[span]) & _POSITION) - length
            if is_new(low, high, word, text, begin, memory):
                scratch[_KEY + n] = key
                scratch[_START + n] = begin
                scratch[_SIZE + n] = length
                scratch[_ORDER + n] = n
                begin_merge(text, begin, length, tables.byte_pairs, scratch, n * _LANES)
                n += _ONE
        key += _THREE
        span += _ONE
    _merge_together(tables, scratch, n)
    i = _ZERO
    while i < n:
        count = np.uint64(scratch[_SIZE + i])
        write_tokens(scratch, i * _LANES, count, tables.ids, scratch, _IDS)
        key = np.uint64(scratch[_KEY + i])
        low = batch[key]
        high = batch[key + _ONE]
        home = batch[key + _TWO]
        begin = np.uint64(scratch[_START + i])
        word, found = find_slot(memory, low, high, home, text, begin)
        if not found:
            remember(memory, home, word, low, high, text, begin, scratch, _IDS, _IDS + count)
        i += _ONE


@inline
def _merge_together(tables, scratch, n):
    """Merge `n` pre-tokens; their sizes become the numbers of their tokens."""
    pairs = tables.pairs
    merged = tables.merged
    while True:
        left = _ZERO
        j = _ZERO
        while j < n:
            i = np.uint64(scratch[_ORDER + j])
            best, lane = lowest_rank(scratch, i * _LANES)
            scratch[_LANE + i] = lane
            scratch[_TOKEN + i] = best
            prefetch(merged, min(best, np.uint64(merged.size)))
            scratch[_ORDER + left] = i
            left += np.uint64(best < _NO_RANK)
            j += _ONE
        n = left
        if n == _ZERO:
            return
        j = _ZERO
        while j < n:
            i = np.uint64(scratch[_ORDER + j])
            token = np.uint64(merged[scratch[_TOKEN + i]])
            scratch[_TOKEN + i] = token
            at = i * _LANES + np.uint64(scratch[_LANE + i])
            prefetch(pairs, pair_slot(pairs, np.uint64(scratch[max(at, _ONE) - _ONE]), token))
            prefetch(pairs, pair_slot(pairs, token, np.uint64(scratch[at + _TWO])))
            j += _ONE
        j = _ZERO
        while j < n:
            i = np.uint64(scratch[_ORDER + j])
            token = np.uint64(scratch[_TOKEN + i])
            lane = np.uint64(scratch[_LANE + i])
            at = i * _LANES + lane
            before = np.uint64(find_rank(pairs, np.uint64(scratch[max(at, _ONE) - _ONE]), token))
            behind = _NO_RANK
            if lane + _TWO < np.uint64(scratch[_SIZE + i]):
                behind = np.uint64(find_rank(pairs, token, np.uint64(scratch[at + _TWO])))
            merge_lane(scratch, i * _LANES, lane, token, before, behind)
            scratch[_SIZE + i] -= np.uint32(1)
            j += _ONE
