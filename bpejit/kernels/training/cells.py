"""The text that training works on: every distinct pre-token once, in one flat array of cells.

A cell is one uint64: the weight of its pre-token (its count in the corpus) in the high half, a token id in the low half.
There is a boundary cell before the first pre-token and after each pre-token. Initially there is a cell for each byte:

    pre-tokens  "ab" (5 times), "abc" (twice)          |  a  b  |  a  b  c  |

A token that covers several cells stores its id in the first and in the last one; the cells between are never read. So the
previous cell is enough to find the previous token, the width of a token is enough to find the next one, and merging two
tokens writes at most three cells:

    after merging a, b into C                          |  C  C  |  C  C  c  |
    after merging C, c into D                          |  C  C  |  D  .  D  |

A weight of 2^31 or more does not fit; the half then has its top bit set and is an index into `heavy`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.kernels.constants import HALF, LOW_HALF, ONE, TWO

HEAVY = np.uint64(0x8000_0000)


@inline
def weight_of(cell, heavy):
    """Return the weight of the pre-token that a cell belongs to (uint64)."""
    weight = cell >> HALF
    return weight if weight < HEAVY else heavy[weight - HEAVY]


@kernel
def fill_cells(pool, starts, counts, byte_ids, boundary, n_heavy, cells, heavy):
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
    n_heavy : uint64
        Number of weights that are in `heavy` already.
    cells : uint64[:], out
        At least as many as bytes and pre-tokens together, plus one.
    heavy : uint64[:], out
        Weights of 2^31 and more; has space for all of them.

    Returns
    -------
    int
        Number of cells written.

    Notes
    -----
    Pre-tokens of fewer than two bytes, or with a count below one, are omitted. O(bytes).
    """
    n_cells = ONE
    cells[0] = boundary
    for i in range(counts.size):
        start, end = starts[i], starts[i + 1]
        if end - start < 2 or counts[i] < 1:
            continue
        weight = np.uint64(counts[i])
        if weight >= HEAVY:
            heavy[n_heavy] = weight
            weight = HEAVY + n_heavy
            n_heavy += ONE
        for at in range(start, end):
            cells[n_cells] = weight << HALF | byte_ids[pool[at]]
            n_cells += ONE
        cells[n_cells] = boundary
        n_cells += ONE
    return n_cells


@kernel
def compact_cells(cells, n_cells, widths, boundary):
    """Compact the cells in place: each token becomes one cell.

    Parameters
    ----------
    cells : uint64[:], in-out
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
    begin = ONE
    end = ONE
    at = ONE
    while at < n_cells:
        cell = cells[at]
        token = cell & LOW_HALF
        if token != boundary:
            cells[end] = cell
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
