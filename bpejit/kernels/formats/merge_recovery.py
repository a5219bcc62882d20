"""Recover the merge list of a vocabulary that has only ranks."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import ONE
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank

_FIRST = np.uint64(256)


@kernel
def recover_splits(pool, starts, pairs, scratch, left, right):
    """Find the two tokens into which the ranks below each token's own merge its bytes.

    Parameters
    ----------
    pool : uint8[:], in
        Concatenated bytes of all tokens: the 256 bytes first, then the others in order of rank.
    starts : int64[n + 1], in
    pairs : uint64[slots], in
        The merge rules (see `merge_rules`): every split of token `256 + rank` has that rank.
    scratch : uint32[:], scratch
        Two words for each byte of the longest token.
    left, right : int32[n], out
        Indices of the two tokens; -1 for bytes, and for tokens that are not merged into exactly two.

    Notes
    -----
    Merges like `bpe` merges a short fragment. O(length squared) for each token.
    """
    left[:] = -1
    right[:] = -1
    for i in range(256, starts.size - 1):
        start = np.uint64(starts[i])
        length = np.uint64(starts[i + 1]) - start
        limit = np.uint32(i - 256)
        for j in range(length):
            scratch[j] = pool[start + np.uint64(j)]
        last = length - ONE
        for j in range(last):
            index = np.uint64(j)
            scratch[length + index] = find_rank(pairs, np.uint64(scratch[index]), np.uint64(scratch[index + ONE]))
        while last > ONE:
            best = NO_RANK
            at = np.uint64(0)
            for j in range(last):
                rank = scratch[length + np.uint64(j)]
                if rank < best:
                    best = rank
                    at = np.uint64(j)
            if best >= limit:
                break
            token = np.uint64(best) + _FIRST
            scratch[at] = token
            for j in range(at + ONE, last):
                scratch[np.uint64(j)] = scratch[np.uint64(j) + ONE]
            for j in range(at, last):
                scratch[length + np.uint64(j)] = scratch[length + np.uint64(j) + ONE]
            last -= ONE
            if at > np.uint64(0):
                scratch[length + at - ONE] = find_rank(pairs, np.uint64(scratch[at - ONE]), token)
            if at < last:
                scratch[length + at] = find_rank(pairs, token, np.uint64(scratch[at + ONE]))
        if last == ONE:
            left[i] = scratch[0]
            right[i] = scratch[1]
