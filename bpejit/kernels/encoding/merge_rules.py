"""Merge rules: which pairs of tokens merge, in which order, and into which token.

The rules are stored in three arrays. `pairs` is a hash table from a pair of tokens to its rank, with one word per slot: left
(21 bits), right (21 bits), rank (22 bits). `merged` maps a rank to the token that the merge makes. Rank and token differ in
general: two merges may make the same bytes, hence the same token, and in a vocabulary without a merge list every split of a
token has that token's rank. Encoders have only the pairs that occur, one for each token (see `token_derivations`).
`byte_pairs` contains the ranks of pairs of single bytes once more, indexed directly: the first lookups of each pre-token are
such pairs, and need no hash. It also marks the pairs of bytes that no token contains. No merge crosses a position between two
such bytes, so a pre-token is split there into fragments that are encoded one by one.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply
from bpejit.kernels.common.keys import equal_bytes, hash_bytes
from bpejit.kernels.constants import DONE, NEED_SPACE, ONE

MAX_TOKENS = (1 << 21) - 1
"""Largest number of internal tokens: `pairs` has 21 bits for each."""

MAX_RANKS = 1 << 22
"""Largest number of ranks: `pairs` has 22 bits for each."""

FREE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""A free slot of `pairs`."""

NO_RANK = np.uint32(0xFFFF_FFFE)
"""The rank of a pair that does not merge: above every other rank."""

NEVER_ADJACENT = np.uint32(0xFFFF_FFFF)
"""Entry of `byte_pairs` for two bytes that do not merge and are adjacent in no token."""

_BYTE_BITS = np.uint64(8)
_TOKEN_BITS = np.uint64(21)
_RANK_BITS = np.uint64(22)
_RANK_MASK = np.uint64(MAX_RANKS - 1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@inline
def pair_slot(pairs, left, right):
    """Return the home slot of a pair of tokens, the first that is probed."""
    return fold_multiply(left << _TOKEN_BITS | right, _MIX) & np.uint64(pairs.size - 1)


@inline
def find_rank(pairs, left, right):
    """Return the rank of a pair of tokens, or NO_RANK.

    Parameters
    ----------
    pairs : uint64[slots], in
    left, right : uint64
    """
    mask = np.uint64(pairs.size - 1)
    key = left << _TOKEN_BITS | right
    slot = pair_slot(pairs, left, right)
    while True:
        word = pairs[slot]
        if word >> _RANK_BITS == key:
            return np.uint32(word & _RANK_MASK)
        if word == FREE:
            return NO_RANK
        slot = (slot + ONE) & mask


@inline
def rank_bytes(text, start, length, byte_pairs, scratch, ranks):
    """Write bytes to `scratch` as tokens, and the rank of the pair that each token starts to `scratch[ranks:]`."""
    token = np.uint64(text[start])
    i = np.uint64(0)
    while i + ONE < length:
        scratch[i] = token
        following = np.uint64(text[start + i + ONE])
        scratch[ranks + i] = byte_pairs[token << _BYTE_BITS | following]
        token = following
        i += ONE
    scratch[i] = token


@kernel
def build_pairs(left, right, tokens, ranks, pairs, byte_pairs, merged):
    """Build the tables of merge rules.

    Parameters
    ----------
    left, right, tokens : int32[n], in
        The two tokens of each pair, and the token that they make, which is equal for all rules of one rank; below MAX_TOKENS.
    ranks : int32[n], in
        Below MAX_RANKS. If a pair is given twice, the lower rank applies.
    pairs : uint64[slots], out
        All FREE on entry; the number of slots is a power of two.
    byte_pairs : uint32[65536], in-out
        NO_RANK or NEVER_ADJACENT on entry. The rank of the bytes `a`, `b` is at `a << 8 | b`.
    merged : uint32[ranks], out

    Returns
    -------
    int
        DONE, or NEED_SPACE if `pairs` has fewer than two slots per rule; nothing is written then.

    Notes
    -----
    O(n). At least half of the slots stay free, so that a lookup of a pair that does not merge, the common case, ends soon.
    """
    if pairs.size < 2 * left.size:
        return NEED_SPACE
    mask = np.uint64(pairs.size - 1)
    for i in range(left.size):
        key = np.uint64(left[i]) << _TOKEN_BITS | np.uint64(right[i])
        word = key << _RANK_BITS | np.uint64(ranks[i])
        slot = pair_slot(pairs, np.uint64(left[i]), np.uint64(right[i]))
        while pairs[slot] != FREE and pairs[slot] >> _RANK_BITS != key:
            slot = (slot + ONE) & mask
        # The rank is in the low bits, so of two words with one key the smaller has the lower rank.
        pairs[slot] = min(pairs[slot], word)
        merged[ranks[i]] = tokens[i]
        if left[i] < 256 and right[i] < 256:
            index = left[i] << 8 | right[i]
            byte_pairs[index] = min(byte_pairs[index], np.uint32(ranks[i]))
    return DONE


@inline
def _token_slot(pool, start, length, token_pool, token_starts, slots):
    """Return the slot of a byte string in a hash table of tokens: the one with its index plus 1, or a free one."""
    mask = np.uint64(slots.size - 1)
    slot = hash_bytes(pool, start, length) & mask
    while slots[slot] != 0:
        token = np.uint64(slots[slot] - 1)
        first = np.uint64(token_starts[token])
        if np.uint64(token_starts[token + ONE]) - first == length and equal_bytes(token_pool, first, pool, start, length):
            break
        slot = (slot + ONE) & mask
    return slot


@kernel
def list_splits(pool, starts, slots, left, right, tokens):
    """List all splits of each token into two other tokens.

    Parameters
    ----------
    pool : uint8[:], in
        Concatenated bytes of all tokens; readable 16 bytes past the last.
    starts : int64[n + 1], in
    slots : int32[slots], scratch
        All zeros on entry; a power of two, above n.
    left, right, tokens : int32[:], out
        Indices of the left token, the right token and the token that is split, ordered by the last. One entry per byte of
        `pool` is enough.

    Returns
    -------
    int
        Number of splits.

    Notes
    -----
    One lookup for each proper prefix of a token, and one for the suffix after each prefix that is a token; O(length) each.
    """
    for i in range(starts.size - 1):
        start = np.uint64(starts[i])
        slots[_token_slot(pool, start, np.uint64(starts[i + 1]) - start, pool, starts, slots)] = i + 1
    n = np.uint64(0)
    for i in range(starts.size - 1):
        start = np.uint64(starts[i])
        stop = np.uint64(starts[i + 1])
        middle = start + ONE
        while middle < stop:
            first = slots[_token_slot(pool, start, middle - start, pool, starts, slots)]
            if first != 0:
                second = slots[_token_slot(pool, middle, stop - middle, pool, starts, slots)]
                if second != 0:
                    left[n] = first - 1
                    right[n] = second - 1
                    tokens[n] = i
                    n += ONE
            middle += ONE
    return np.int64(n)
