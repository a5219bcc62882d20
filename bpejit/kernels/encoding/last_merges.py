"""A table of the last merges of all tokens: the rank of a pair of tokens by one load, without a branch.

The table `pairs` is probed until a slot has the pair or is free, which is often mispredicted, so that pairs of several texts
cannot be looked up at the same time. Here each pair has one place. The keys are divided into small sets, and each set has a
displacement that moves all of its keys to free slots; it was found by trying, the largest sets first (a perfect hash table).

A pair that is the last merge of no token is never merged (see `token_derivations`), so all others can be omitted.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply
from bpejit.kernels.constants import DONE, NEED_SPACE, ONE, ZERO
from bpejit.kernels.encoding.merge_rules import FREE, NO_RANK
from bpejit.kernels.encoding.token_derivations import SPLIT_RANK_MASK, SPLIT_RIGHT_SHIFT, UNREACHABLE

LARGEST_SET = 64
"""Largest number of keys with one displacement."""

_N_DISPLACEMENTS = 256
_LEFT_SHIFT = np.uint64(21)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_PLACE_SHIFT, _STEP_SHIFT = np.uint64(20), np.uint64(44)


@inline
def _place(slots, hashed, displacement):
    step = hashed >> _STEP_SHIFT | ONE
    return (hashed >> _PLACE_SHIFT) + displacement * step & np.uint64(slots.size - 1)


@inline
def merge_place(tables, left, right):
    """Return the index of the only slot of the table that may have a pair of tokens."""
    hashed = fold_multiply(left << _LEFT_SHIFT | right, _MIX)
    displacement = np.uint64(tables.displacements[hashed & np.uint64(tables.displacements.size - 1)])
    return _place(tables.last_merges, hashed, displacement)


@inline
def rank_at(tables, place, left, right):
    """Return the rank of a pair with this place if it is the last merge of a token, otherwise NO_RANK."""
    word = tables.last_merges[place]
    is_found = word >> SPLIT_RIGHT_SHIFT == left << _LEFT_SHIFT | right
    return np.uint32((word & SPLIT_RANK_MASK) - ONE) if is_found else NO_RANK


@kernel
def build_last_merges(splits, slots, displacements, first, following):
    """Build the table.

    Parameters
    ----------
    splits : uint64[n], in
        See `token_derivations`.
    slots : uint64[a power of two], out
        Entries of `splits`; FREE in other slots.
    displacements : uint8[a power of two], out
    first : int32[displacements.size], scratch
    following : int32[n], scratch

    Returns
    -------
    int
        DONE, or NEED_SPACE if no displacement was found for a set; more slots may help.

    Notes
    -----
    O(n) if there are about 1.5 slots for each key and four keys in each set.
    """
    slots[:] = FREE
    first[:] = -1
    mask = np.uint64(displacements.size - 1)
    for i in range(splits.size):
        if splits[i] != ZERO and splits[i] != UNREACHABLE:
            number = fold_multiply(splits[i] >> SPLIT_RIGHT_SHIFT, _MIX) & mask
            following[i] = first[number]
            first[number] = i
    for size in range(LARGEST_SET, 0, -1):
        for number in range(first.size):
            n = 0
            i = first[number]
            while i >= 0:
                n += 1
                i = following[i]
            if n > LARGEST_SET:
                return NEED_SPACE
            if n != size:
                continue
            found = False
            for displacement in range(_N_DISPLACEMENTS):
                n_placed = 0
                i = first[number]
                while i >= 0:
                    place = _place(slots, fold_multiply(splits[i] >> SPLIT_RIGHT_SHIFT, _MIX), np.uint64(displacement))
                    if slots[place] != FREE:
                        break
                    slots[place] = splits[i]
                    n_placed += 1
                    i = following[i]
                if n_placed == n:
                    displacements[number] = displacement
                    found = True
                    break
                i = first[number]
                for _ in range(n_placed):
                    slots[_place(slots, fold_multiply(splits[i] >> SPLIT_RIGHT_SHIFT, _MIX), np.uint64(displacement))] = FREE
                    i = following[i]
            if not found:
                return NEED_SPACE
    return DONE
