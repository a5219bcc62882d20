"""The ids of documents in token files: tokens at their borders, and the bytes that they decode to."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import ONE, ZERO


@kernel
def insert_tokens(ids, ends, prepend, append, last, out, out_ends):
    """Copy documents, with a token at the beginning and at the end of each that does not have it.

    The cost is a copy of the ids. NumPy takes some 25 calls, and three times as long; a thread may wait for another one after
    each, since most of them release the GIL.

    Parameters
    ----------
    ids : uint16[:] or uint32[:], in
    ends : int64[n], in
        The ends of the documents, ascending and at most the number of ids, which is not checked. What follows the last one is a
        document without an end.
    prepend, append : int
        The tokens; -1 for none.
    last : int
        The last id of the document that the first ids continue; -1 if they begin one.
    out : as ids [at least ids + 2 * n + 1], out
    out_ends : int64[n], out

    Returns
    -------
    int
        The number of ids in `out`. A document without an end, and without ids, gets no token.
    """
    n_out = ZERO
    begin = ZERO
    n_ids = np.uint64(ids.size)
    n = np.uint64(ends.size)
    for document in range(n + ONE):
        ended = document < n
        stop = np.uint64(ends[document]) if ended else n_ids
        continues = document == ZERO and last >= 0
        if prepend >= 0 and not continues and (ended or stop > begin) and (stop == begin or np.int64(ids[begin]) != prepend):
            out[n_out] = prepend
            n_out += ONE
        for at in range(begin, stop):
            out[n_out + (at - begin)] = ids[at]
        n_out += stop - begin
        if ended:
            final = np.int64(ids[stop - ONE]) if stop > begin else (last if continues else np.int64(-1))
            if append >= 0 and final != append:
                out[n_out] = append
                n_out += ONE
            out_ends[document] = n_out
        begin = stop
    return np.int64(n_out)


@kernel
def add_lengths(ids, lengths):
    """Return the sum of the lengths of tokens: the number of bytes that ids decode to.

    Parameters
    ----------
    ids : uint16[:] or uint32[:], in
    lengths : uint32[vocab_size], in

    Returns
    -------
    int
        -1 if an id is not in the vocabulary. The cost is one access to `lengths` for each id.
    """
    total = ZERO
    n = np.uint64(lengths.size)
    for at in range(np.uint64(ids.size)):
        number = np.uint64(ids[at])
        if number >= n:
            return np.int64(-1)
        total += np.uint64(lengths[number])
    return np.int64(total)
