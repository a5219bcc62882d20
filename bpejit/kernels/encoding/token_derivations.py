"""The last merge of each token: how its bytes become the token; and all splits of tokens into two others.

Adjacent tokens in an encoding are the encoding of their bytes (see `windowed_merging`), and one token is a special case.
So a token whose bytes are encoded as other tokens never occurs, and every other one is always made by the same last merge, of
which `splits` has the two tokens and the rank, as a rule (see `merge_rules`).
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.kernels.common.keys import equal_bytes, hash_bytes
from bpejit.kernels.constants import ONE, ZERO
from bpejit.kernels.encoding.merge_rules import (
    LEFT_SHIFT,
    NO_RANK,
    NO_RULE,
    RANK_MASK,
    RIGHT_SHIFT,
    TOKEN_MASK,
    least_rank,
    merge_first,
    rank_bytes,
)

MAX_TOKEN_BYTES = 1023
"""Longest token whose last merge encoders need, since finding it is quadratic."""

UNREACHABLE = NO_RULE
"""Entry of `splits` for a token that never occurs."""


@inline
def _last_merge(pool, start, length, limit, rules, scratch):
    """Merge at least two bytes by scanning, as long as ranks are at most `limit`; return the entry of `splits`."""
    ranks = np.uint64(scratch.size // 2)
    rank_bytes(pool, start, length, rules.byte_pairs, scratch, ranks)
    last = length - ONE
    while True:
        best = least_rank(scratch, ranks, last)
        if best > limit:
            return UNREACHABLE
        if last == ONE:
            tokens = np.uint64(scratch[ZERO]) << LEFT_SHIFT | np.uint64(scratch[ONE]) << RIGHT_SHIFT
            return tokens | (np.uint64(best) + ONE)
        merge_first(rules, scratch, ranks, last, best)
        last -= ONE


@kernel
def derive_tokens(pool, starts, rules, ranked, scratch, splits):
    """Find the last merge of each token, and whether ranks increase within every token.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all internal tokens, end to end; the first 256 have one byte each.
    starts : int64[n + 1], in
    rules : RuleTables, in
    ranked : bool
        Whether token `256 + rank` is made by that rank only, and its bytes are merged by lower ranks until two tokens are left.
    scratch : uint32[:], scratch
        Two words for each byte of the longest token.
    splits : uint64[n], out
        A rule; UNREACHABLE for a token whose bytes are encoded as others, and 0 for a byte.

    Returns
    -------
    bool
        True if the two parts of every token are merged at lower ranks than the token.

    Notes
    -----
    Quadratic in the length of a token.
    """
    for i in range(splits.size):
        start = np.uint64(starts[i])
        length = np.uint64(starts[i + 1]) - start
        limit = np.uint32(i - 256) if ranked else np.uint32(NO_RANK - 1)
        splits[i] = ZERO if length == ONE else _last_merge(pool, start, length, limit, rules, scratch)
    for i in range(splits.size):
        split = splits[i]
        if split != UNREACHABLE and split != ZERO:
            rank = split & RANK_MASK
            left = splits[split >> LEFT_SHIFT] & RANK_MASK
            right = splits[split >> RIGHT_SHIFT & TOKEN_MASK] & RANK_MASK
            if max(left, right) >= rank:
                return False
    return True


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
    n = ZERO
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
