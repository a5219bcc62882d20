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
