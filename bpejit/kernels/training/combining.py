"""Combine the results of several ranges of cells, which threads have processed at the same time."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import DONE, FOUR, NEED_SPACE, ONE, THREE, ZERO
from bpejit.kernels.training.pairs import NOT_FOLLOWED, find_pair_slot


@kernel
def move_cells(cells, source, number, target):
    """Move cells towards the front of the array.

    Parameters
    ----------
    cells : uint32[:] or uint64[:], in-out
    source, number, target : uint64
        The cells `cells[source:source + number]` move to `cells[target:]`; `target` is at most `source`.

    Notes
    -----
    O(number). NumPy would copy an overlapping range twice, by way of an array of the same size.
    """
    for i in range(number):
        cells[target + np.uint64(i)] = cells[source + np.uint64(i)]


@kernel
def add_sums(source, limit, sums):
    """Add the sums of one range to those of another (see `bound_counts`).

    Parameters
    ----------
    source : uint16[:] or uint32[:], in
    limit : uint64
        The largest number of this type.
    sums : uint16[:] or uint32[:], in-out
        Of the same type and size. Saturates at `limit`.

    Notes
    -----
    O(sums).
    """
    for i in range(sums.size):
        sums[i] = min(np.uint64(sums[i]) + np.uint64(source[i]), limit)


@kernel
def add_counted_pairs(source, state, pairs):
    """Add the pairs that were counted in one range to those of another.

    Parameters
    ----------
    source : PAIR[:], in
        From `count_pairs`.
    state : STATE[1], in-out
        `position` (the slot to continue from, initially 0), `n_pairs`.
    pairs : PAIR[:], in-out
        `count` and `length` are added.

    Returns
    -------
    int
        `DONE`, or `NEED_SPACE` when `pairs` is three quarters full: call again with a larger table.

    Notes
    -----
    O(slots of `source`).
    """
    status = state[0]
    limit = np.uint64(pairs.size) * THREE // FOUR
    size = np.uint64(source.size)
    at = status["position"]
    while at < size:
        old = source[at]
        if old["key"] != ZERO:
            pair = pairs[find_pair_slot(pairs, old["key"])]
            if pair["key"] == ZERO:
                if status["n_pairs"] == limit:
                    status["position"] = at
                    return NEED_SPACE
                status["n_pairs"] += ONE
                pair["key"] = old["key"]
            pair["count"] += old["count"]
            pair["length"] += old["length"]
        at += ONE
    status["position"] = at
    return DONE


@kernel
def divide_postings(pairs, part, cursors):
    """Assign the pairs of one range their place in the posting lists. Called for each range, in order.

    Parameters
    ----------
    pairs : PAIR[:], in-out
        From `plan_postings`; `length` is the number of postings of the ranges so far.
    part : PAIR[:], in
        The pairs that were counted in the range.
    cursors : uint64[pairs of the range], out
        The index of the first posting of each pair of the range, by its number, or `NOT_FOLLOWED` if it is not in `pairs`.

    Notes
    -----
    O(slots of `part`).
    """
    for i in range(part.size):
        own = part[i]
        if own["key"] == ZERO:
            continue
        pair = pairs[find_pair_slot(pairs, own["key"])]
        if pair["key"] == ZERO:
            cursors[own["start"]] = NOT_FOLLOWED
        else:
            cursors[own["start"]] = pair["start"] + np.uint64(pair["length"])
            pair["length"] += own["length"]
