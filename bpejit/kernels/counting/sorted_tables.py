"""Sort pre-token tables (see `arrays.PretokenTable`) by bytes, and merge two sorted ones."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length, load_u64, store_u64
from bpejit.kernels.constants import DONE, EIGHT, LOW_BYTE, NEED_SPACE, ONE, THREE, ZERO

# Fields of the `state` of `merge_sorted`.
AT_LEFT, AT_RIGHT, MERGED, MERGED_BYTES = 0, 1, 2, 3

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
            return -1 if (first >> shift) & LOW_BYTE < (second >> shift) & LOW_BYTE else 1
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
def make_prefixes(pool, starts, prefixes):
    """Write the first 8 bytes of each pre-token as a zero-padded big-endian number, which sorts like the bytes.

    Parameters
    ----------
    pool : uint8[:], in
        Readable 8 bytes past the end.
    starts : int64[n + 1], in
    prefixes : uint64[n], out
    """
    for n in range(prefixes.size):
        length = min(starts[n + 1] - starts[n], 8)
        value = ZERO
        for i in range(length):
            value |= np.uint64(pool[starts[n] + i]) << np.uint64(56 - 8 * i)
        prefixes[n] = value


@inline
def _before(pool, starts, a, b):
    """Return True if pre-token `a` is smaller than `b`, compared by bytes."""
    begin_a, end_a = np.uint64(starts[a]), np.uint64(starts[a + 1])
    begin_b, end_b = np.uint64(starts[b]), np.uint64(starts[b + 1])
    return order_bytes(pool, begin_a, end_a, pool, begin_b, end_b) < 0


@inline
def _sift(pool, starts, order, begin, root, size):
    """Restore the max-heap `order[begin:begin + size]` below `root`."""
    while 2 * root + 1 < size:
        child = 2 * root + 1
        if child + 1 < size and _before(pool, starts, order[begin + child], order[begin + child + 1]):
            child += 1
        if not _before(pool, starts, order[begin + root], order[begin + child]):
            return
        order[begin + root], order[begin + child] = order[begin + child], order[begin + root]
        root = child


@kernel
def sort_runs(pool, starts, prefixes, order):
    """Sort pre-tokens by bytes, given their order by 8-byte prefix.

    Parameters
    ----------
    pool : uint8[:], in
    starts : int64[n + 1], in
    prefixes : uint64[n], in
        From `make_prefixes`.
    order : int64[n], in-out
        A permutation that sorts the prefixes; after the call, one that sorts the pre-tokens.

    Notes
    -----
    Runs of equal prefixes are sorted by heapsort: O(k log k) comparisons for a run of k, in the worst case too. Together with
    NumPy's vectorized argsort of the prefixes this takes a tenth of the time of a comparison sort of all pre-tokens.
    """
    n = order.size
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and prefixes[order[end]] == prefixes[order[begin]]:
            end += 1
        size = end - begin
        for root in range(size // 2 - 1, -1, -1):
            _sift(pool, starts, order, begin, root, size)
        for last in range(size - 1, 0, -1):
            order[begin], order[begin + last] = order[begin + last], order[begin]
            _sift(pool, starts, order, begin, 0, last)
        begin = end


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


@kernel
def gather(pool, starts, counts, order, out_pool, out_starts, out_counts):
    """Write packed strings and their counts in another order, or some of them, or some repeatedly.

    Parameters
    ----------
    pool, starts, counts : in
    order : int64[n], in
        Indexes of the strings.
    out_pool, out_starts, out_counts : out
        As large as the result.
    """
    position = 0
    out_starts[0] = 0
    for n in range(order.size):
        source = order[n]
        for i in range(starts[source], starts[source + 1]):
            out_pool[position] = pool[i]
            position += 1
        out_starts[n + 1] = position
        out_counts[n] = counts[source]
