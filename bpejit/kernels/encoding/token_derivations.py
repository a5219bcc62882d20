"""The last merge of each token: how its bytes become the token.

Adjacent tokens in an encoding are the encoding of their bytes (see `windowed_merging`), and one token is a special case.
So a token whose bytes are encoded as other tokens never occurs, and every other one is always made by the same last merge, of
which `splits` has the two tokens and the rank.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.kernels.constants import ONE, ZERO
from bpejit.kernels.encoding.merge_rules import NEVER_ADJACENT, NO_RANK, find_rank, rank_bytes

MAX_TOKEN_BYTES = 1023
"""Longest token in tables of encoders, since finding its last merge is quadratic."""

UNREACHABLE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Entry of `splits` for a token that never occurs."""

SPLIT_RANK_MASK = np.uint64((1 << 22) - 1)
"""Mask of the rank plus 1 in an entry of `splits`; it is 0 for a byte."""

SPLIT_RIGHT_SHIFT = np.uint64(22)
"""Shift to the right token."""

SPLIT_LEFT_SHIFT = np.uint64(43)
"""Shift to the left token."""

SPLIT_TOKEN_MASK = np.uint64((1 << 21) - 1)
"""Mask of a token after the shift: there are at most MAX_TOKENS (see `merge_rules`)."""


def as_splits(left, right, rank):
    """Return the entries of `splits` for merges, given as arrays of int32."""
    tokens = left.astype(np.uint64) << SPLIT_LEFT_SHIFT | right.astype(np.uint64) << SPLIT_RIGHT_SHIFT
    return tokens | (rank + 1).astype(np.uint64)


@inline
def _last_merge(pool, start, length, pairs, byte_pairs, merged, scratch):
    """Merge at least two bytes by scanning; return the entry of `splits`."""
    ranks = np.uint64(scratch.size // 2)
    rank_bytes(pool, start, length, byte_pairs, scratch, ranks)
    last = length - ONE
    while True:
        best = NEVER_ADJACENT
        for j in range(last):
            best = min(best, scratch[ranks + np.uint64(j)])
        if best >= NO_RANK:
            return UNREACHABLE
        at = ZERO
        while scratch[ranks + at] != best:
            at += ONE
        if last == ONE:
            left = np.uint64(scratch[ZERO]) << SPLIT_LEFT_SHIFT
            return left | np.uint64(scratch[ONE]) << SPLIT_RIGHT_SHIFT | (np.uint64(best) + ONE)
        token = np.uint64(merged[best])
        scratch[at] = token
        for j in range(at + ONE, last):
            scratch[np.uint64(j)] = scratch[np.uint64(j) + ONE]
        for j in range(at, last):
            scratch[ranks + np.uint64(j)] = scratch[ranks + np.uint64(j) + ONE]
        last -= ONE
        if at > ZERO:
            scratch[ranks + at - ONE] = find_rank(pairs, np.uint64(scratch[at - ONE]), token)
        if at < last:
            scratch[ranks + at] = find_rank(pairs, token, np.uint64(scratch[at + ONE]))


@kernel
def derive_tokens(pool, starts, pairs, byte_pairs, merged, scratch, splits):
    """Find the last merge of each token, and whether ranks increase within every token.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all internal tokens, end to end; the first 256 of one byte.
    starts : int64[n + 1], in
    pairs : uint64[slots], in
    byte_pairs : uint32[65536], in
    merged : uint32[ranks], in
    scratch : uint32[:], scratch
        Two words for each byte of the longest token.
    splits : uint64[n], out
        From the top bit: left token (21 bits), right token (21 bits), rank plus 1 (22 bits); UNREACHABLE for a token whose
        bytes are encoded as others, and 0 for a byte.

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
        splits[i] = ZERO if length == ONE else _last_merge(pool, start, length, pairs, byte_pairs, merged, scratch)
    for i in range(splits.size):
        split = splits[i]
        if split != UNREACHABLE and split != ZERO:
            rank = split & SPLIT_RANK_MASK
            left = splits[split >> SPLIT_LEFT_SHIFT & SPLIT_TOKEN_MASK] & SPLIT_RANK_MASK
            right = splits[split >> SPLIT_RIGHT_SHIFT & SPLIT_TOKEN_MASK] & SPLIT_RANK_MASK
            if max(left, right) >= rank:
                return False
    return True
