"""Byte-pair encoding of one pre-token: merge the pair of lowest rank first, the leftmost of equal ones.

A pre-token is first split into fragments, between bytes that are adjacent in no token (see `merge_rules`). A fragment of up to
32 bytes is merged by scanning a small array for the lowest rank, which is quadratic and still the fastest. A longer one is
merged by `run_merging` or `windowed_merging`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import prefetch
from bpejit.kernels.constants import EIGHT, ONE, TWO, ZERO
from bpejit.kernels.encoding.merge_rules import (
    NEVER_ADJACENT,
    NO_RANK,
    least_rank,
    merge_first,
    rank_bytes,
)
from bpejit.kernels.encoding.run_merging import is_repetitive, merge_runs
from bpejit.kernels.encoding.windowed_merging import SCRATCH_TOO_SMALL, merge_long

SCAN_BYTES = 32
"""Longest fragment that is merged by scanning."""

_SCAN = np.uint64(SCAN_BYTES)


@inline
def merge_ranked(tables, scratch, ranks, n, out, n_out):
    """Merge `n` elements by scanning for the lowest rank, and write their ids to `out[n_out:]`; return the new `n_out`.

    `scratch` holds the elements and, from `ranks` on, the rank of the pair that each starts.
    """
    last = n - ONE
    while last > ZERO:
        best = least_rank(scratch, ranks, last)
        if best >= NO_RANK:
            break
        prefetch(tables.ids, merge_first(tables, scratch, ranks, last, best))
        last -= ONE
    i = ZERO
    while i <= last:
        out[n_out + i] = tables.ids[scratch[i]]
        i += ONE
    return n_out + i


@kernel
def encode_pretoken(text, start, length, tables, scratch, out, n_out, window):
    """Encode one pre-token.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the pre-token.
    start, length : uint64
        Position of the pre-token; at least one byte, less than 2**31.
    tables : EncoderTables, in
    scratch : uint32[:], scratch
        At least `windowed_merging.SCRATCH_EXTRA` words. In practice `SCRATCH_WORDS * min(length, window)` more suffice;
        `SCRATCH_WORDS * length` more always do.
    out : uint32[:], out
        Ids are written to `out[n_out:]`, which must have space for `length`.
    n_out, window : uint64
        `window` is `windowed_merging.WINDOW`, except in tests.

    Returns
    -------
    uint64
        The new `n_out`, or `windowed_merging.SCRATCH_TOO_SMALL`.

    Notes
    -----
    O(length log length). The size of `out` is not checked.
    """
    stop = start + length
    begin = start
    while begin < stop:
        end = begin + ONE
        byte = np.uint64(text[begin])
        while end < stop:
            following = np.uint64(text[end])
            if tables.byte_pairs[byte << EIGHT | following] == NEVER_ADJACENT:
                break
            byte = following
            end += ONE
        if end - begin <= _SCAN:
            rank_bytes(text, begin, end - begin, tables.byte_pairs, scratch, _SCAN)
            n_out = merge_ranked(tables, scratch, _SCAN, end - begin, out, n_out)
        else:
            new_n_out = n_out
            if TWO * (end - begin) <= np.uint64(scratch.size) and is_repetitive(text, begin, end - begin):
                new_n_out = merge_runs(text, begin, end - begin, tables, scratch, out, n_out)
            if new_n_out == n_out:
                new_n_out = merge_long(text, begin, end - begin, tables, scratch, out, n_out, window)
                if new_n_out == SCRATCH_TOO_SMALL:
                    return SCRATCH_TOO_SMALL
            n_out = new_n_out
        begin = end
    return n_out
