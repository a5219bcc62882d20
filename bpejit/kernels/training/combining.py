"""Combine the results of several ranges of cells, which threads have processed at the same time, and write posting lists."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import DONE, FOUR, NEED_SPACE, ONE, THREE, ZERO
from bpejit.kernels.training.pairs import BATCH_WORDS, NOT_FOLLOWED, find_pair_slot, list_positions


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
def plan_postings(pairs, state):
    """Assign each pair its range in the array of postings.

    Parameters
    ----------
    pairs : PAIR[:], in-out
        `length` is read and reset to 0, `start` is written.
    state : STATE[1], in-out
        `n_postings`: the total length of all lists; `longest`: the length of the longest list.

    Notes
    -----
    O(slots).
    """
    used = ZERO
    longest = ZERO
    for i in range(pairs.size):
        pair = pairs[i]
        if pair["key"] != ZERO:
            length = np.uint64(pair["length"])
            pair["start"] = used
            pair["length"] = np.uint32(0)
            used += length
            longest = max(longest, length)
    state[0]["n_postings"] = used
    state[0]["longest"] = longest


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


@kernel
def write_postings(selected, first, numbers, batch, cursors, nowhere, postings):
    """Write the posting lists of the pairs of the table.

    Parameters
    ----------
    selected : uint64[:], in
        From `select_positions`.
    first : uint64
        Added to each position that is written: the index of the first cell of the range in the array of all cells.
    numbers : uint32[selected positions], in
        From `count_pairs`. Looking up the pairs again took 12 to 23 ns for each position instead of 4 to 8.
    batch : uint32[BATCH_POSITIONS]
        Scratch space.
    cursors : uint64[pairs], in-out
        The index in `postings` of the next posting of each pair, by its number; `NOT_FOLLOWED` for the pairs without a list.
    nowhere : uint64
        Index in `postings` of an element that no list contains, which is overwritten.
    postings : uint32[:], out
        Each list is in ascending order.

    Notes
    -----
    O(words + positions), without a branch that depends on whether a pair has a list.
    """
    word = ZERO
    n_written = ZERO
    while word < np.uint64(selected.size):
        n_positions = list_positions(selected, word, batch)
        for i in range(n_positions):
            number = numbers[n_written + np.uint64(i)]
            cursor = cursors[number]
            cursors[number] = cursor + ONE
            postings[min(cursor, nowhere)] = first + np.uint64(batch[i])
        n_written += n_positions
        word += BATCH_WORDS
