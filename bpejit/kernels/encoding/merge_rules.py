"""Merge rules: which pairs of tokens merge, in which order, and into what.

The rules are three arrays. `pairs` is a hash table from a pair of tokens to its rank, with one word per slot: left (21
bits), right (21 bits), rank (22 bits). `merged` gives the token that a rank makes. Rank and token differ in general: two
merges may make the same bytes, hence the same token, and in a vocabulary without a merge list every split of a token has
that token's rank. `byte_pairs` has the ranks of pairs of single bytes once more, by position: the first look-ups of each
pre-token are such, and need no hash. It also says which two bytes stand side by side in no token: no merge ever crosses
such a place, so a pre-token falls apart there, and its parts are encoded one by one. In a vocabulary with few Chinese
words that is between most Chinese characters.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply
from bpejit.kernels.common.keys import equal_bytes, hash_bytes
from bpejit.kernels.constants import DONE, NEED_SPACE

MAX_TOKENS = (1 << 21) - 1
"""Number of internal tokens that `pairs` has bits for."""

MAX_RANKS = 1 << 22
"""Number of ranks that `pairs` has bits for."""

FREE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""A free slot of `pairs`."""

NO_RANK = np.uint32(0xFFFF_FFFE)
"""The rank of a pair that has no merge: above every rank."""

APART = np.uint32(0xFFFF_FFFF)
"""In `byte_pairs`: these two bytes have no merge, and are side by side in no token."""

_ONE = np.uint64(1)
_BYTE_BITS = np.uint64(8)
_TOKEN_BITS = np.uint64(21)
_RANK_BITS = np.uint64(22)
_RANK_MASK = np.uint64(MAX_RANKS - 1)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@inline
def pair_slot(pairs, left, right):
    """Return the first slot where a pair of tokens may be."""
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
        slot = (slot + _ONE) & mask


@inline
def rank_bytes(text, start, length, byte_pairs, scratch, ranks):
    """Write the bytes of a run to `scratch` as tokens, and from `scratch[ranks]` on the rank of the pair that each begins."""
    token = np.uint64(text[start])
    i = np.uint64(0)
    while i + _ONE < length:
        scratch[i] = token
        following = np.uint64(text[start + i + _ONE])
        scratch[ranks + i] = byte_pairs[token << _BYTE_BITS | following]
        token = following
        i += _ONE
    scratch[i] = token


@kernel
def build_pairs(left, right, tokens, ranks, pairs, byte_pairs, merged):
    """Build the tables of merge rules.

    Parameters
    ----------
    left, right, tokens : int32[n], in
        The two tokens of each pair and the one that they make, below MAX_TOKENS; the same for all rules of one rank.
    ranks : int32[n], in
        Below MAX_RANKS. Where a pair is given twice, the lower rank holds.
    pairs : uint64[slots], out
        All FREE before; the number of slots is a power of two.
    byte_pairs : uint32[65536], in-out
        NO_RANK or APART before. The rank of bytes `a`, `b` is at `a << 8 | b`.
    merged : uint32[ranks], out

    Returns
    -------
    int
        DONE, or NEED_SPACE if `pairs` has less than two slots per rule (nothing is written then).

    Notes
    -----
    O(n). At least half of the slots stay free, so that looking for a pair without a merge, the common case, ends soon.
    """
    if pairs.size < 2 * left.size:
        return NEED_SPACE
    mask = np.uint64(pairs.size - 1)
    for i in range(left.size):
        key = np.uint64(left[i]) << _TOKEN_BITS | np.uint64(right[i])
        word = key << _RANK_BITS | np.uint64(ranks[i])
        slot = pair_slot(pairs, np.uint64(left[i]), np.uint64(right[i]))
        while pairs[slot] != FREE and pairs[slot] >> _RANK_BITS != key:
            slot = (slot + _ONE) & mask
        # The rank is in the low bits, so of two words with one key the smaller has the lower rank.
        pairs[slot] = min(pairs[slot], word)
        merged[ranks[i]] = tokens[i]
        if left[i] < 256 and right[i] < 256:
            place = left[i] << 8 | right[i]
            byte_pairs[place] = min(byte_pairs[place], np.uint32(ranks[i]))
    return DONE


@inline
def _slot_of(pool, start, length, token_pool, token_starts, slots):
    """Return the slot of some bytes in a hash table of tokens: one that holds the token's number plus 1, or a free one."""
    mask = np.uint64(slots.size - 1)
    slot = hash_bytes(pool, start, length) & mask
    while slots[slot] != 0:
        token = np.uint64(slots[slot] - 1)
        first = np.uint64(token_starts[token])
        if np.uint64(token_starts[token + _ONE]) - first == length and equal_bytes(token_pool, first, pool, start, length):
            break
        slot = (slot + _ONE) & mask
    return slot


@kernel
def list_splits(pool, starts, slots, left, right, tokens):
    """List every way to divide each token into two others.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all tokens, end to end; readable 16 bytes past the last.
    starts : int64[n + 1], in
    slots : int32[slots], scratch
        All 0 before; a power of two, above n.
    left, right, tokens : int32[:], out
        The numbers of the two parts and of the token, in order of the tokens. Room for as many as there are bytes is enough.

    Returns
    -------
    int
        How many there are.

    Notes
    -----
    One look-up of each beginning of a token, and of each end behind a beginning that is one; O(length) each.
    """
    for i in range(starts.size - 1):
        start = np.uint64(starts[i])
        slots[_slot_of(pool, start, np.uint64(starts[i + 1]) - start, pool, starts, slots)] = i + 1
    n = np.uint64(0)
    for i in range(starts.size - 1):
        start = np.uint64(starts[i])
        stop = np.uint64(starts[i + 1])
        middle = start + _ONE
        while middle < stop:
            first = slots[_slot_of(pool, start, middle - start, pool, starts, slots)]
            if first != 0:
                second = slots[_slot_of(pool, middle, stop - middle, pool, starts, slots)]
                if second != 0:
                    left[n] = first - 1
                    right[n] = second - 1
                    tokens[n] = i
                    n += _ONE
            middle += _ONE
    return np.int64(n)
