"""The text that training works on: every distinct pre-token once, in one flat array of cells.

A cell has the id of a token in its low bits, as many as the id of the boundary has, and above them the index of the weight
of its pre-token (its count in the corpus) in the array `weights`. A corpus has few distinct weights, so cells are nearly
always uint32, and otherwise uint64; the kernels accept both. The weights ascend, and the first one is 0, that of boundaries.

There is a boundary cell before the first pre-token and after each pre-token. Initially there is a cell for each byte:

    pre-tokens  "ab" (5 times), "abc" (twice)          |  a  b  |  a  b  c  |

A token that covers several cells stores its id in the first and in the last one; the cells between are never read. So the
previous cell is enough to find the previous token, the width of a token is enough to find the next one, and merging two
tokens writes at most three cells:

    after merging a, b into C                          |  C  C  |  C  C  c  |
    after merging C, c into D                          |  C  C  |  D  .  D  |
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length
from bpejit.kernels.constants import ONE, TWO, ZERO


@inline
def id_mask(boundary):
    """Return a mask of the bits of a cell that are a token id."""
    return (ONE << bit_length(boundary)) - ONE


@inline
def id_at(cells, at, mask):
    """Return the token id in `cells[at]` (uint64)."""
    return np.uint64(cells[at]) & mask


@inline
def weight_at(cells, at, weights, id_bits):
    """Return the weight of the pre-token that `cells[at]` belongs to (uint64)."""
    return weights[np.uint64(cells[at]) >> id_bits]


@inline
def find_weight(weights, weight):
    """Return the index of a weight in the ascending `weights`, of which it is one (uint64)."""
    # Usually the small counts all occur. Bisection takes 100 ns, most of it mispredicted branches.
    if weight < np.uint64(weights.size) and weights[weight] == weight:
        return weight
    low, high = ZERO, np.uint64(weights.size)
    while high - low > ONE:
        middle = (low + high) // TWO
        if weights[middle] <= weight:
            low = middle
        else:
            high = middle
    return low


@kernel
def fill_cells(pool, starts, counts, byte_ids, boundary, weights, cells):
    """Write the pre-tokens as cells, one for each byte.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of the pre-tokens.
    starts : int64[:], in
        Pre-token `i` is `pool[starts[i]:starts[i + 1]]`.
    counts : int64[:], in
        Number of occurrences of each.
    byte_ids : uint64[256], in
        Token id of each byte.
    boundary : uint64
        The id of boundary cells.
    weights : uint64[:], in
        0 and the distinct counts above it, ascending.
    cells : uint32[:] or uint64[:], out
        At least as many as bytes and pre-tokens together, plus one.

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
        start, end = starts[i], starts[i + 1]
        if end - start < 2 or counts[i] < 1:
            continue
        weight = find_weight(weights, np.uint64(counts[i])) << id_bits
        for at in range(start, end):
            cells[n_cells] = weight | byte_ids[pool[at]]
            n_cells += ONE
        cells[n_cells] = boundary
        n_cells += ONE
    return n_cells


@kernel
def compact_cells(cells, n_cells, widths, boundary):
    """Compact the cells in place: each token becomes one cell.

    Parameters
    ----------
    cells : uint32[:] or uint64[:], in-out
        The first `n_cells` are used.
    n_cells : uint64
    widths : uint32[:], in
        Number of cells of each token, by token id.
    boundary : uint64
        The id of boundary cells.

    Returns
    -------
    int
        Number of cells used after the call; the others are undefined.

    Notes
    -----
    Pre-tokens that have become a single token have no pairs and are omitted. One pass, O(tokens).
    """
    mask = id_mask(boundary)
    begin = ONE
    end = ONE
    at = ONE
    while at < n_cells:
        token = id_at(cells, at, mask)
        if token != boundary:
            cells[end] = cells[at]
            end += ONE
            at += np.uint64(widths[token])
            continue
        if end - begin < TWO:
            end = begin
        else:
            cells[end] = boundary
            end += ONE
            begin = end
        at += ONE
    return end
