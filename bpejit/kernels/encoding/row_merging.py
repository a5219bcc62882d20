"""Merge up to 64 rows of up to 16 elements in lockstep.

Merging one row is a chain of dependent steps: the next pair to merge depends on ranks that have to be looked up first, in
tables that are not in the processor's first caches, with two lookups per merge and nothing else to do meanwhile. So the rows
take turns: each prefetches what it reads next, and that arrives while the others prefetch theirs. Finding and making a merge
take a few vector operations, without a branch.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import bit_length, prefetch
from bpejit.jit.simd import equal_lanes, lowest_rank, merge_lane
from bpejit.kernels.constants import ONE, TWO, ZERO
from bpejit.kernels.encoding.merge_rules import NEVER_ADJACENT, NO_RANK, prefetch_place, rank_at

LANES = 16
"""Largest number of elements of a row."""

MAX_ROWS = 64

ROW_WORDS = 2 * LANES
"""Words of a row: its tokens, and their ranks."""

# After the rows follow of each row its number of elements, its lane, its token, the places of its pairs, and its index in the
# order of those that are left.
SIZE, _LANE, _TOKEN, _BEFORE, _AFTER, _ORDER = (np.uint64(MAX_ROWS * (ROW_WORDS + field)) for field in range(6))

ROWS_WORDS = MAX_ROWS * (ROW_WORDS + 6)
"""Words of all rows and their fields."""

_LANES = np.uint64(LANES)
_ROW = np.uint64(ROW_WORDS)
_NO_RANK = np.uint64(NO_RANK)


@inline
def row_size(ranks, at, n):
    """Return how many of `n` elements from `at` form the next row, which ends where no merge crosses, or a longer fragment.

    `ranks` has the rank of each element and the next, NEVER_ADJACENT at such a boundary and after the last element.
    """
    ends = equal_lanes(ranks, at, np.uint64(NEVER_ADJACENT))
    size = bit_length(ends & ((ONE << min(n, _LANES)) - ONE))
    if size == ZERO:
        size = _LANES
        while ranks[at + size] != NEVER_ADJACENT:
            size += ONE
        size += ONE
    return size


@inline
def merge_rows(tables, rows, n):
    """Merge `n` rows; the field SIZE of each becomes its number of tokens.

    Parameters
    ----------
    tables : EncoderTables, in
    rows : uint32[:], in-out
        At least ROWS_WORDS, which hold the rows: their tokens, their ranks, 0xFFFFFFFF after the last pair and where no merge
        crosses a boundary, and the field SIZE.
    n : uint64
        At most MAX_ROWS.
    """
    i = ZERO
    while i < n:
        rows[_ORDER + i] = i
        i += ONE
    while True:
        n_left = ZERO
        j = ZERO
        while j < n:
            i = np.uint64(rows[_ORDER + j])
            best, lane = lowest_rank(rows, i * _ROW + _LANES)
            rows[_LANE + i] = lane
            rows[_TOKEN + i] = best
            prefetch(tables.merged, min(best, np.uint64(tables.merged.size)))
            rows[_ORDER + n_left] = i
            n_left += np.uint64(best < _NO_RANK)
            j += ONE
        n = n_left
        if n == ZERO:
            return
        j = ZERO
        while j < n:
            i = np.uint64(rows[_ORDER + j])
            token = np.uint64(tables.merged[rows[_TOKEN + i]])
            rows[_TOKEN + i] = token
            at = i * _ROW + np.uint64(rows[_LANE + i])
            prefetch(tables.ids, token)
            rows[_BEFORE + i] = prefetch_place(tables, np.uint64(rows[max(at, ONE) - ONE]), token)
            rows[_AFTER + i] = prefetch_place(tables, token, np.uint64(rows[at + TWO]))
            j += ONE
        j = ZERO
        while j < n:
            i = np.uint64(rows[_ORDER + j])
            token = np.uint64(rows[_TOKEN + i])
            lane = np.uint64(rows[_LANE + i])
            at = i * _ROW + lane
            before_at = max(at, ONE) - ONE
            before = rank_at(tables, np.uint64(rows[_BEFORE + i]), np.uint64(rows[before_at]), token)
            after = rank_at(tables, np.uint64(rows[_AFTER + i]), token, np.uint64(rows[at + TWO]))
            # Boundaries that no merge crosses remain.
            before = NEVER_ADJACENT if rows[before_at + _LANES] == NEVER_ADJACENT else before
            after = NEVER_ADJACENT if rows[at + ONE + _LANES] == NEVER_ADJACENT else after
            merge_lane(rows, i * _ROW, lane, token, np.uint64(before), np.uint64(after))
            rows[SIZE + i] -= np.uint32(1)
            j += ONE
