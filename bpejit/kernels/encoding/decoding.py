"""Decode token ids to bytes."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.kernels.constants import EIGHT, ZERO

OUT_SLACK = 8
"""Bytes after the last token that may be overwritten in the output."""


@kernel
def measure_ids(ids, lengths):
    """Return the number of bytes that ids decode to, or -1 - i if `ids[i]` is the first that is not in the vocabulary.

    Parameters
    ----------
    ids : int64[n], in
        Any values.
    lengths : int64[vocabulary size], in
        Length of each token in bytes; -1 for an unused id.
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
    """Write the concatenated bytes of tokens.

    Parameters
    ----------
    ids : int64[n], in
        Validated by `measure_ids`.
    pool : uint8[:], in
        Concatenated bytes of all tokens; readable 8 bytes past the end.
    starts, lengths : int64[vocabulary size], in
        Position of each token in `pool`.
    out : uint8[total + OUT_SLACK], out

    Returns
    -------
    int
        Number of bytes written.

    Notes
    -----
    Copies eight bytes at a time. Excess bytes are overwritten by the next token.
    """
    n = ZERO
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
