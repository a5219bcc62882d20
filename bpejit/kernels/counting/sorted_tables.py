"""Merge two sorted pre-token tables (see `arrays.PretokenTable`)."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length, load_u64, store_u64
from bpejit.kernels.constants import DONE, EIGHT, NEED_SPACE, ONE, THREE, ZERO

# Fields of the `state` of `merge_sorted`.
AT_LEFT, AT_RIGHT, MERGED, MERGED_BYTES = 0, 1, 2, 3

BYTE = np.uint64(0xFF)

BYTE_START = np.uint64(0x38)
"""Mask that rounds the position of a bit in a word down to that of its byte."""


@inline
def order_bytes(a, begin_a, end_a, b, begin_b, end_b):
    """Return -1, 0 or 1, the order of two byte strings.

    Eight bytes are compared by one load each, as long as these are within the arrays. Comparing byte by byte took twice as
    long, since the number of equal bytes cannot be predicted.
    """
    length_a = end_a - begin_a
    length_b = end_b - begin_b
    shorter = min(length_a, length_b)
    safe = min(np.uint64(a.size) - begin_a, np.uint64(b.size) - begin_b)
    i = ZERO
    while i < shorter:
        if i + EIGHT <= safe:
            first, second = load_u64(a, begin_a + i), load_u64(b, begin_b + i)
            different = first ^ second
            if different == ZERO:
                i += EIGHT
                continue
            # The position of the lowest bit that differs, rounded down to a byte: the bytes are little-endian.
            shift = np.uint64(bit_length(different & (~different + ONE)) - 1) & BYTE_START
            if i + (shift >> THREE) >= shorter:
                break
            return -1 if (first >> shift) & BYTE < (second >> shift) & BYTE else 1
        byte_a, byte_b = a[begin_a + i], b[begin_b + i]
        if byte_a != byte_b:
            return -1 if byte_a < byte_b else 1
        i += ONE
    if length_a == length_b:
        return 0
    return -1 if length_a < length_b else 1


@inline
def copy_string(source, begin, length, target, position):
    """Copy bytes in words of eight, of which the last may write up to 7 bytes too many; byte by byte near the source's end."""
    i = ZERO
    while i < length:
        if begin + i + EIGHT <= np.uint64(source.size):
            store_u64(target, position + i, load_u64(source, begin + i))
            i += EIGHT
        else:
            target[position + i] = source[begin + i]
            i += ONE


@kernel
def merge_sorted(pool_a, starts_a, counts_a, pool_b, starts_b, counts_b, state, pool, starts, counts):
    """Merge two tables that are sorted by bytes until one of them ends. Counts of equal pre-tokens are added.

    Parameters
    ----------
    pool_a, pool_b : uint8[:], in
    starts_a, starts_b : int64[:], in
        One more than pre-tokens.
    counts_a, counts_b : int64[:], in
    state : int64[4], in-out
        AT_LEFT and AT_RIGHT, the next pre-token of each table; MERGED and MERGED_BYTES, the pre-tokens and bytes written.
    pool : uint8[:], out
        Up to 7 bytes after the last pre-token are overwritten.
    starts : int64[:], out
        One more than `counts`; `starts[0]` is written by the caller.
    counts : int64[:], out

    Returns
    -------
    int
        DONE if one of the tables has ended, or NEED_SPACE if the output has no space for the next pre-token.

    Notes
    -----
    O(bytes), some 20 ns for a pre-token of 10 bytes. Neither order nor starts are checked, nor that sums fit.
    """
    at_a, at_b = np.uint64(state[AT_LEFT]), np.uint64(state[AT_RIGHT])
    n, size = np.uint64(state[MERGED]), np.uint64(state[MERGED_BYTES])
    n_a, n_b, most = np.uint64(counts_a.size), np.uint64(counts_b.size), np.uint64(counts.size)
    status = DONE
    while at_a < n_a and at_b < n_b:
        begin_a, end_a = np.uint64(starts_a[at_a]), np.uint64(starts_a[at_a + ONE])
        begin_b, end_b = np.uint64(starts_b[at_b]), np.uint64(starts_b[at_b + ONE])
        order = order_bytes(pool_a, begin_a, end_a, pool_b, begin_b, end_b)
        length = end_a - begin_a if order <= 0 else end_b - begin_b
        if n == most or size + length + EIGHT > np.uint64(pool.size):
            status = NEED_SPACE
            break
        count = np.int64(0)
        if order <= 0:
            copy_string(pool_a, begin_a, length, pool, size)
            count += counts_a[at_a]
            at_a += ONE
        else:
            copy_string(pool_b, begin_b, length, pool, size)
        if order >= 0:
            count += counts_b[at_b]
            at_b += ONE
        counts[n] = count
        size += length
        n += ONE
        starts[n] = np.int64(size)
    state[AT_LEFT], state[AT_RIGHT] = np.int64(at_a), np.int64(at_b)
    state[MERGED], state[MERGED_BYTES] = np.int64(n), np.int64(size)
    return status
