"""The text that training works on: every distinct pre-token once, in one flat array of cells.

A cell is one uint64: the weight of its pre-token (how often the corpus has it) in the high half, a token id in the low
half. A border cell stands before the first pre-token and after each. At first there is a cell for each byte:

    pre-tokens  "ab" (5 times), "abc" (twice)          |  a  b  |  a  b  c  |

A token that covers several cells keeps its id in its first and in its last one; those between are never looked at. So
the cell before a token names the token before it, the token's own width leads to the token after it, and merging two
tokens writes three cells that lie side by side:

    after merging a, b into C                          |  C  C  |  C  C  c  |
    after merging C, c into D                          |  C  C  |  D  .  D  |

A weight of 2^31 or more does not fit; the half then has its top bit set and is an index into `heavy`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel

ZERO = np.uint64(0)
ONE = np.uint64(1)
TWO = np.uint64(2)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFF_FFFF)
HEAVY = np.uint64(0x8000_0000)


@inline
def weight_of(cell, heavy):
    """Weight of the pre-token that a cell belongs to (uint64)."""
    weight = cell >> HALF
    return weight if weight < HEAVY else heavy[weight - HEAVY]


@kernel
def fill_cells(pool, starts, counts, byte_ids, border, cells, heavy):
    """Lay the pre-tokens out in cells, one byte in each.

    Parameters
    ----------
    pool : uint8[:], in
        The bytes of the pre-tokens.
    starts : int64[:], in
        Pre-token `i` is `pool[starts[i]:starts[i + 1]]`.
    counts : int64[:], in
        How often each occurs.
    byte_ids : uint64[256], in
        Token id of each byte.
    border : uint64
        The id that stands for "no token".
    cells : uint64[:], out
        Needs a cell for each byte, one for each pre-token, and one more.
    heavy : uint64[:], out
        The weights of 2^31 and more; needs one place for each.

    Returns
    -------
    int
        Number of cells written.

    Notes
    -----
    Pre-tokens that have no pair (fewer than two bytes) or do not occur (a count below one) are left out. O(bytes).
    """
    n_cells = ONE
    n_heavy = ZERO
    cells[0] = border
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
        cells[n_cells] = border
        n_cells += ONE
    return n_cells


@kernel
def compact_cells(cells, n_cells, widths, border):
    """Give each token one cell again, in place.

    Parameters
    ----------
    cells : uint64[:], in-out
        The first `n_cells` are meaningful.
    n_cells : uint64
    widths : uint32[:], in
        Number of cells of each token, by token id.
    border : uint64
        The id that stands for "no token".

    Returns
    -------
    int
        Number of cells that are left; the others are undefined.

    Notes
    -----
    Pre-tokens that have become a single token have no pair any more and are left out. One pass, O(tokens).
    """
    begin = ONE
    end = ONE
    at = ONE
    while at < n_cells:
        cell = cells[at]
        token = cell & LOW_HALF
        if token != border:
            cells[end] = cell
            end += ONE
            at += np.uint64(widths[token])
            continue
        if end - begin < TWO:
            end = begin
        else:
            cells[end] = border
            end += ONE
            begin = end
        at += ONE
    return end
