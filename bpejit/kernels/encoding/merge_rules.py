"""Merge rules: which pairs of tokens merge, in which order, and into which token.

`merges` is a perfect hash table from a pair of tokens to its rank. Each pair has one place, so a lookup is one load, without a
branch, and pairs of several texts can be looked up at the same time. The pairs are divided into small sets, and each set has a
displacement that moves all of its pairs to free slots; it was found by trying, the largest sets first.
With probing, whose end is often mispredicted, a first pass over English took 1.1 times as long.

`merged` maps a rank to the token that the merge makes. Rank and token differ in general: two merges may make the same bytes,
hence the same token, and in a vocabulary without a merge list every split of a token has that token's rank. Encoders have only
the pairs that occur, one for each token (see `token_derivations`).
`byte_pairs` contains the ranks of pairs of single bytes once more, indexed directly: the first lookups of each pre-token are
such pairs, and need no hash. It also marks the pairs of bytes that no token contains. No merge crosses a position between two
such bytes, so a pre-token is split there into fragments that are encoded one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply, prefetch
from bpejit.kernels.constants import DONE, EIGHT, MIX, NEED_SPACE, ONE, TWO, ZERO

MAX_TOKENS = (1 << 21) - 1
"""Largest number of internal tokens: a rule has 21 bits for each."""

MAX_RANKS = (1 << 22) - 1
"""Largest number of ranks: a rule has 22 bits for the rank, plus 1."""

NO_RULE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""A free slot of `merges`."""

NO_RANK = np.uint32(0xFFFF_FFFE)
"""The rank of a pair that does not merge: above every other rank."""

NEVER_ADJACENT = np.uint32(0xFFFF_FFFF)
"""Entry of `byte_pairs` for two bytes that do not merge and are adjacent in no token."""

LARGEST_SET = 64
"""Largest number of pairs with one displacement."""

LEFT_SHIFT, RIGHT_SHIFT = np.uint64(43), np.uint64(22)
"""Shifts to the left and to the right token of a rule."""

TOKEN_MASK = np.uint64(MAX_TOKENS)
"""Mask of a token after the shift."""

RANK_MASK = np.uint64(MAX_RANKS)
"""Mask of the rank plus 1 in a rule."""

_N_DISPLACEMENTS = 256
_TOKEN_BITS = np.uint64(21)
_PLACE_SHIFT, _STEP_SHIFT = np.uint64(20), np.uint64(44)


class RuleTables(NamedTuple):
    """The merge rules of a model, which `EncoderTables` has as well.

    Parameters
    ----------
    merges : uint64 [a power of two]
        Perfect hash table of rules: in each slot left token, right token, and rank plus 1, or NO_RULE.
    displacements : uint8 [a power of two]
        The displacement of each set of its pairs.
    byte_pairs : uint32 [65536]
        Rank of each pair of single bytes, NO_RANK, or NEVER_ADJACENT for a pair that no token contains.
    merged : uint32 [ranks]
        Internal token produced by the merge of each rank.
    """

    merges: NDArray[np.uint64]
    displacements: NDArray[np.uint8]
    byte_pairs: NDArray[np.uint32]
    merged: NDArray[np.uint32]


def as_rules(left, right, rank):
    """Return the entries of `merges` for pairs and their ranks, given as arrays of int32."""
    tokens = left.astype(np.uint64) << LEFT_SHIFT | right.astype(np.uint64) << RIGHT_SHIFT
    return tokens | (rank + 1).astype(np.uint64)


@inline
def _place(merges, hashed, displacement):
    step = hashed >> _STEP_SHIFT | ONE
    return (hashed >> _PLACE_SHIFT) + displacement * step & np.uint64(merges.size - 1)


@inline
def find_place(tables, left, right):
    """Return the index of the only slot of `merges` that may have a pair of tokens."""
    hashed = fold_multiply(left << _TOKEN_BITS | right, MIX)
    displacement = np.uint64(tables.displacements[hashed & np.uint64(tables.displacements.size - 1)])
    return _place(tables.merges, hashed, displacement)


@inline
def prefetch_place(tables, left, right):
    """Prefetch and return the same slot."""
    place = find_place(tables, left, right)
    prefetch(tables.merges, place)
    return place


@inline
def rank_at(tables, place, left, right):
    """Return the rank of a pair with this place, or NO_RANK."""
    word = tables.merges[place]
    is_found = word >> RIGHT_SHIFT == left << _TOKEN_BITS | right
    return np.uint32((word & RANK_MASK) - ONE) if is_found else NO_RANK


@inline
def find_rank(tables, left, right):
    """Return the rank of a pair of tokens, or NO_RANK.

    Parameters
    ----------
    tables : RuleTables or EncoderTables, in
    left, right : uint64
    """
    return rank_at(tables, find_place(tables, left, right), left, right)


@inline
def rank_bytes(text, start, length, byte_pairs, scratch, ranks):
    """Write bytes to `scratch` as tokens, and the rank of the pair that each token starts to `scratch[ranks:]`."""
    token = np.uint64(text[start])
    i = ZERO
    while i + ONE < length:
        scratch[i] = token
        following = np.uint64(text[start + i + ONE])
        scratch[ranks + i] = byte_pairs[token << EIGHT | following]
        token = following
        i += ONE
    scratch[i] = token


@inline
def least_rank(scratch, ranks, last):
    """Return the lowest of `last` ranks, which start at `scratch[ranks]`."""
    best = NEVER_ADJACENT
    for j in range(last):
        best = min(best, scratch[ranks + np.uint64(j)])
    return best


@inline
def merge_first(tables, scratch, ranks, last, best):
    """Merge the first pair whose rank is `best`, the lowest.

    `scratch` holds the tokens, the last one at the index `last`, and from `ranks` on the rank of the pair that each starts.
    The two pairs of the new token are looked up; all other ranks are unchanged.
    """
    at = ZERO
    while scratch[ranks + at] != best:  # a second fast loop, since one for both would be mispredicted
        at += ONE
    token = np.uint64(tables.merged[best])
    if at > ZERO:
        prefetch_place(tables, np.uint64(scratch[at - ONE]), token)
    if at + ONE < last:
        prefetch_place(tables, token, np.uint64(scratch[at + TWO]))
    scratch[at] = token
    for j in range(at + ONE, last):
        scratch[np.uint64(j)] = scratch[np.uint64(j) + ONE]
    for j in range(at, last):
        scratch[ranks + np.uint64(j)] = scratch[ranks + np.uint64(j) + ONE]
    if at > ZERO:
        scratch[ranks + at - ONE] = find_rank(tables, np.uint64(scratch[at - ONE]), token)
    if at + ONE < last:
        scratch[ranks + at] = find_rank(tables, token, np.uint64(scratch[at + ONE]))
    return token


@kernel
def build_merges(rules, merges, displacements, first, following):
    """Build the hash table of rules.

    Parameters
    ----------
    rules : uint64[n], in
        Of distinct pairs.
    merges : uint64[a power of two], out
    displacements : uint8[a power of two], out
    first : int32[displacements.size], scratch
    following : int32[n], scratch

    Returns
    -------
    int
        DONE, or NEED_SPACE if no displacement was found for a set; more slots may help.

    Notes
    -----
    O(n) if there are about 1.5 slots for each rule and four rules in each set.
    """
    merges[:] = NO_RULE
    first[:] = -1
    displacements[:] = 0  # until a set is placed, its number of rules
    mask = np.uint64(displacements.size - 1)
    largest = 0
    for i in range(rules.size):
        number = fold_multiply(rules[i] >> RIGHT_SHIFT, MIX) & mask
        following[i] = first[number]
        first[number] = i
        n = np.int64(displacements[number]) + 1
        if n > LARGEST_SET:
            return NEED_SPACE
        displacements[number] = n
        largest = max(largest, n)
    for size in range(largest, 0, -1):
        for number in range(first.size):
            if first[number] < 0 or displacements[number] != size:
                continue
            found = False
            for displacement in range(_N_DISPLACEMENTS):
                n_placed = 0
                i = first[number]
                while i >= 0:
                    place = _place(merges, fold_multiply(rules[i] >> RIGHT_SHIFT, MIX), np.uint64(displacement))
                    if merges[place] != NO_RULE:
                        break
                    merges[place] = rules[i]
                    n_placed += 1
                    i = following[i]
                if n_placed == size:
                    displacements[number] = displacement
                    first[number] = -1
                    found = True
                    break
                i = first[number]
                for _ in range(n_placed):
                    merges[_place(merges, fold_multiply(rules[i] >> RIGHT_SHIFT, MIX), np.uint64(displacement))] = NO_RULE
                    i = following[i]
            if not found:
                return NEED_SPACE
    return DONE
