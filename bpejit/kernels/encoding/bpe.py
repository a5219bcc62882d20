"""Byte-pair encoding of one pre-token: its bytes to ids, merging the pair of lowest rank first, leftmost among equals.

A pre-token first falls into parts that no merge can join (see `rules`). A part of up to 32 bytes is merged by looking for the
lowest rank in a small array, which is quadratic and still the fastest; a longer one as in `windows`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.simd import begin_merge, lowest_rank, merge_lane, write_tokens
from bpejit.kernels.encoding.merge_rules import APART, NO_RANK, find_rank, rank_bytes
from bpejit.kernels.encoding.run_merging import merge_sweeps, repeats
from bpejit.kernels.encoding.windowed_merging import NO_ROOM, merge_long

SCAN_BYTES = 32
"""Longest run that is merged by scanning."""

LANES = 16
"""Longest run that is merged in lanes."""

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_LANES = np.uint64(LANES)
_SCAN = np.uint64(SCAN_BYTES)
_BYTE_BITS = np.uint64(8)


@inline
def _merge_scan(text, start, length, tables, scratch, out, n_out):
    """Encode a run of up to SCAN_BYTES bytes; parameters and result as `encode_pretoken`.

    `scratch` holds the tokens and, from SCAN_BYTES on, the rank of the pair that each begins. A merge looks up the two pairs
    of the new token; the ranks of all others stay.
    """
    pairs = tables.pairs
    rank_bytes(text, start, length, tables.byte_pairs, scratch, _SCAN)
    last = length - _ONE
    while last > _ZERO:
        # First the minimum, then its place: that is two fast loops instead of one that mispredicts.
        best = APART
        for j in range(last):
            best = min(best, scratch[_SCAN + np.uint64(j)])
        if best >= NO_RANK:
            break
        at = _ZERO
        while scratch[_SCAN + at] != best:
            at += _ONE
        token = np.uint64(tables.merged[best])
        scratch[at] = token
        for j in range(at + _ONE, last):
            scratch[np.uint64(j)] = scratch[np.uint64(j) + _ONE]
        for j in range(at, last):
            scratch[_SCAN + np.uint64(j)] = scratch[_SCAN + np.uint64(j) + _ONE]
        last -= _ONE
        if at > _ZERO:
            scratch[_SCAN + at - _ONE] = find_rank(pairs, np.uint64(scratch[at - _ONE]), token)
        if at < last:
            scratch[_SCAN + at] = find_rank(pairs, token, np.uint64(scratch[at + _ONE]))
    i = _ZERO
    while i <= last:
        out[n_out + i] = tables.ids[scratch[i]]
        i += _ONE
    return n_out + i


@inline
def _merge_lanes(text, start, length, tables, scratch, out, n_out):
    """Encode a run of up to LANES bytes; parameters and result as `encode_pretoken`."""
    begin_merge(text, start, length, tables.byte_pairs, scratch, _ZERO)
    n = length
    while True:
        best, at = lowest_rank(scratch, _ZERO)
        if best >= np.uint64(NO_RANK):
            break
        token = np.uint64(tables.merged[best])
        before = np.uint64(NO_RANK)
        if at > _ZERO:
            before = np.uint64(find_rank(tables.pairs, np.uint64(scratch[at - _ONE]), token))
        behind = np.uint64(NO_RANK)
        if at + _TWO < n:
            behind = np.uint64(find_rank(tables.pairs, token, np.uint64(scratch[at + _TWO])))
        merge_lane(scratch, _ZERO, at, token, before, behind)
        n -= _ONE
    write_tokens(scratch, _ZERO, n, tables.ids, out, n_out)
    return n_out + n


@kernel
def encode_pretoken(text, start, length, tables, scratch, out, n_out, window):
    """Encode one pre-token.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the pre-token.
    start, length : uint64
        Where the pre-token lies; at least one byte, less than 2**31.
    tables : EncoderTables, in
    scratch : uint32[:], scratch
        At least `windows.SCRATCH_EXTRA` words. `SCRATCH_WORDS * min(length, window)` more are enough in practice, and
        `SCRATCH_WORDS * length` more always.
    out : uint32[:], out
        Ids are written from `n_out` on; room for `length`, and for LANES, is needed.
    n_out, window : uint64
        `window` is `windows.WINDOW`; the tests make it smaller.

    Returns
    -------
    uint64
        Where the ids end; `windows.NO_ROOM` if `scratch` is too small for this pre-token.

    Notes
    -----
    O(length log length). The room in `out` is not checked.
    """
    if length <= _LANES:
        return _merge_lanes(text, start, length, tables, scratch, out, n_out)
    stop = start + length
    begin = start
    while begin < stop:
        end = begin + _ONE
        byte = np.uint64(text[begin])
        while end < stop:
            following = np.uint64(text[end])
            if tables.byte_pairs[byte << _BYTE_BITS | following] == APART:
                break
            byte = following
            end += _ONE
        if end - begin <= _SCAN:
            n_out = _merge_scan(text, begin, end - begin, tables, scratch, out, n_out)
        else:
            done = n_out
            if _TWO * (end - begin) <= np.uint64(scratch.size) and repeats(text, begin, end - begin):
                done = merge_sweeps(text, begin, end - begin, tables, scratch, out, n_out)
            if done == n_out:
                done = merge_long(text, begin, end - begin, tables, scratch, out, n_out, window)
                if done == NO_ROOM:
                    return NO_ROOM
            n_out = done
        begin = end
    return n_out
