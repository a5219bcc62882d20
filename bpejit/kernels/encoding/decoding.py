"""Decoding: token ids to bytes."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.kernels.common.keys import EIGHT

OUT_SLACK = 8
"""Bytes of the output behind the last token that are written to."""

_ZERO = np.uint64(0)


@kernel
def measure_ids(ids, lengths):
    """Return how many bytes ids stand for, or -1 - i if `ids[i]` is the first that has no token.

    Parameters
    ----------
    ids : int64[n], in
        Any values.
    lengths : int64[vocabulary size], in
        Bytes of each token; -1 for a number that has none.
    """
    total = np.int64(0)
    for i in range(ids.size):
        number = ids[i]
        if number < 0 or number >= lengths.size or lengths[number] < 0:
            return -1 - i
        total += lengths[number]
    return total


@kernel
def decode_ids(ids, pool, starts, lengths, out):
    """Write the bytes of tokens one after the other.

    Parameters
    ----------
    ids : int64[n], in
        Checked by `measure_ids`.
    pool : uint8[:], in
        Bytes of all tokens; readable 8 bytes past the end.
    starts, lengths : int64[vocabulary size], in
        Where each token lies in `pool`.
    out : uint8[total + OUT_SLACK], out

    Returns
    -------
    int
        Number of bytes.

    Notes
    -----
    Copies eight bytes at a time, more than a token often has; what is too much is overwritten by the next.
    """
    n = _ZERO
    for i in range(ids.size):
        start = np.uint64(starts[ids[i]])
        length = np.uint64(lengths[ids[i]])
        store_u64(out, n, load_u64(pool, start))
        offset = EIGHT
        while offset < length:
            store_u64(out, n + offset, load_u64(pool, start + offset))
            offset += EIGHT
        n += length
    return np.int64(n)
