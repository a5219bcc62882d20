"""The merge list that a vocabulary without one stands for."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank

_ONE = np.uint64(1)
_FIRST = np.uint64(256)


@kernel
def recover_splits(pool, starts, pairs, scratch, left, right):
    """Find, for each token, the two parts that the ranks below its own make of its bytes.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all tokens, end to end: the 256 bytes first, then the others in order of rank.
    starts : int64[n + 1], in
    pairs : uint64[slots], in
        The rules (see `rules`): every way to divide token `256 + rank` has that rank.
    scratch : uint32[:], scratch
        Twice as many words as the longest token has bytes.
    left, right : int32[n], out
        The numbers of the two parts; -1 for bytes, and for tokens of which other than two parts are left.

    Notes
    -----
    Merges as `bpe` does a short run. O(length squared) for each token.
    """
    left[:] = -1
    right[:] = -1
    for i in range(256, starts.size - 1):
        start = np.uint64(starts[i])
        length = np.uint64(starts[i + 1]) - start
        limit = np.uint32(i - 256)
        for j in range(length):
            scratch[j] = pool[start + np.uint64(j)]
        last = length - _ONE
        for j in range(last):
            place = np.uint64(j)
            scratch[length + place] = find_rank(pairs, np.uint64(scratch[place]), np.uint64(scratch[place + _ONE]))
        while last > _ONE:
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
            for j in range(at + _ONE, last):
                scratch[np.uint64(j)] = scratch[np.uint64(j) + _ONE]
            for j in range(at, last):
                scratch[length + np.uint64(j)] = scratch[length + np.uint64(j) + _ONE]
            last -= _ONE
            if at > np.uint64(0):
                scratch[length + at - _ONE] = find_rank(pairs, np.uint64(scratch[at - _ONE]), token)
            if at < last:
                scratch[length + at] = find_rank(pairs, token, np.uint64(scratch[at + _ONE]))
        if last == _ONE:
            left[i] = scratch[0]
            right[i] = scratch[1]
