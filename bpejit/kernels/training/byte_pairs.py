"""The first phase of merge learning, in which all tokens are bytes.

There are at most 65,536 pairs, so a dense table has them all. Their exact counts are found while the cells are filled, without
another pass, and the posting lists are written in one more. Later phases need bounds, bits of positions and hash tables (see
pairs.py), which took four passes and three times as long here.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length
from bpejit.kernels.constants import EIGHT, ONE, TWO
from bpejit.kernels.training.cells import find_weight, id_at, id_mask

BYTE_PAIR = np.dtype([("count", np.uint64), ("number", np.uint64)], align=True)
"""A pair of bytes: its count, and the number of its positions, without weights."""

N_BYTE_PAIRS = 1 << 16
"""The index of the pair of the bytes with the ids `left` and `right` is `left << 8 | right`."""


@inline
def write_pretoken(pool, start, length, weight, code, byte_ids, boundary, cells, at, found):
    """Write the cells of a pre-token and the boundary after it to `cells[at:]`, and count its pairs."""
    left = byte_ids[pool[start]]
    cells[at] = code | left
    for i in range(ONE, length):
        right = byte_ids[pool[start + np.uint64(i)]]
        cells[at + np.uint64(i)] = code | right
        pair = found[left << EIGHT | right]
        pair["count"] += weight
        pair["number"] += ONE
        left = right
    cells[at + length] = boundary


@kernel
def fill_cells(pool, starts, counts, byte_ids, boundary, weights, cells, found):
    """Write the pre-tokens as cells, one for each byte, and count the pairs of bytes.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of the pre-tokens.
    starts : int64[:], in
        Pre-token `i` is `pool[starts[i]:starts[i + 1]]`.
    counts : int64[:], in
        Number of occurrences of each.
    byte_ids : uint64[256], in
        Token id of each byte; a permutation.
    boundary : uint64
        The id of boundary cells.
    weights : uint64[:], in
        0 and the distinct counts above it, ascending.
    cells : uint32[:] or uint64[:], out
        At least as many as bytes and pre-tokens together, plus one.
    found : BYTE_PAIR[N_BYTE_PAIRS], in-out
        Counts and numbers are added.

    Returns
    -------
    int
        Number of cells written.

    Notes
    -----
    Pre-tokens of fewer than two bytes, or with a count below one, are omitted. O(bytes + pre-tokens * log weights).
    """
    id_bits = bit_length(boundary)
    n_cells = ONE
    cells[0] = boundary
    for i in range(counts.size):
        length = np.uint64(starts[i + 1] - starts[i])
        if length < TWO or counts[i] < 1:
            continue
        weight = np.uint64(counts[i])
        code = find_weight(weights, weight) << id_bits
        write_pretoken(pool, np.uint64(starts[i]), length, weight, code, byte_ids, boundary, cells, n_cells, found)
        n_cells += length + ONE
    return n_cells


@kernel
def write_byte_postings(cells, first, boundary, cursors, nowhere, postings):
    """Write the posting lists of pairs of bytes.

    Parameters
    ----------
    cells : uint32[:] or uint64[:], in
        From `fill_cells`; the first and the last one are boundaries.
    first : uint64
        Added to each position that is written: the index of `cells[0]` in the array of all cells.
    boundary : uint64
        The id of boundary cells.
    cursors : uint64[N_BYTE_PAIRS + 1], in-out
        The index in `postings` of the next posting of each pair; `NOT_FOLLOWED` for the pairs without a list, and at the end.
    nowhere : uint64
        Index in `postings` of an element that no list contains, which is overwritten.
    postings : uint32[:], out
        Each list is in ascending order.

    Notes
    -----
    One pass, O(cells), without branches: in Chinese, two positions in three have a list.
    """
    mask = id_mask(boundary)
    left = boundary
    for i in range(1, cells.size):
        at = np.uint64(i)
        right = id_at(cells, at, mask)
        index = left << EIGHT | right
        index = np.uint64(N_BYTE_PAIRS) if (left == boundary) | (right == boundary) else index
        cursor = cursors[index]
        cursors[index] = cursor + ONE
        postings[min(cursor, nowhere)] = first + at - ONE
        left = right
