"""Copy byte strings that are packed end to end, and find them among others."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.jit.memory import load_u64, prefetch, store_u64
from bpejit.kernels.common.keys import BATCH, equal_bytes, hash_bytes
from bpejit.kernels.constants import ONE


@kernel
def copy_strings(pool, starts, places, out, out_starts):
    """Copy strings in any order.

    Parameters
    ----------
    pool, starts : uint8[:], int64[:], in
        String `i` is `pool[starts[i]:starts[i + 1]]`.
    places : int64[n], in
        The indexes of the strings.
    out : uint8[:], out
        At least the bytes of the copies, and 8 more.
    out_starts : int64[n + 1], out

    Notes
    -----
    Linear in the result. Nothing is checked.
    """
    at = 0
    out_starts[0] = at
    for i in range(places.size):
        begin = starts[places[i]]
        length = starts[places[i] + 1] - begin
        offset = 0
        while offset < length and begin + offset + 8 <= pool.size:  # a third of the time of single bytes
            store_u64(out, at + offset, load_u64(pool, begin + offset))
            offset += 8
        while offset < length:
            out[at + offset] = pool[begin + offset]
            offset += 1
        at += length
        out_starts[i + 1] = at


@kernel
def index_strings(pool, starts, slots):
    """Fill the hash table of strings in which `find_strings` finds them.

    Parameters
    ----------
    pool, starts : uint8[:], int64[n + 1], in
        The strings, end to end; the pool is readable 16 bytes past the last.
    slots : int32[a power of two], in and out
        All zeros on entry, at least twice as many as `n`.

    Returns
    -------
    bool
        True if the strings are distinct. Of those that are equal, the first is found.

    Notes
    -----
    One step for each string.
    """
    is_distinct = True
    mask = np.uint64(slots.size - 1)
    for i in range(starts.size - 1):
        start = np.uint64(starts[i])
        length = np.uint64(starts[i + 1]) - start
        slot = hash_bytes(pool, start, length) & mask
        while slots[slot] != 0:
            begin = np.uint64(starts[slots[slot] - 1])
            is_equal = np.uint64(starts[slots[slot]]) - begin == length and equal_bytes(pool, begin, pool, start, length)
            is_distinct = is_distinct and not is_equal
            slot = (slot + ONE) & mask
        slots[slot] = i + 1
    return is_distinct


@kernel
def find_strings(known_pool, known_starts, slots, pool, starts, step, found):
    """Find strings among others.

    Parameters
    ----------
    known_pool, known_starts, slots : in
        The others, as for `index_strings`, which has filled the slots.
    pool, starts : uint8[:], int64[:], in
        Strings of which string `i` ends at `starts[(i + 1) * step]`; the pool is readable 16 bytes past the last.
    step : int
    found : int32[n], out
        The index of each, or -1.

    Notes
    -----
    One lookup for each string.
    """
    mask = np.uint64(slots.size - 1)
    for first in range(0, found.size, BATCH):
        last = min(first + BATCH, found.size)
        for i in range(first, last):
            start = np.uint64(starts[i * step])
            slot = hash_bytes(pool, start, np.uint64(starts[(i + 1) * step]) - start) & mask
            found[i] = slot
            prefetch(slots, slot)
        for i in range(first, last):
            prefetch(known_starts, np.uint64(max(slots[found[i]], 1)) - ONE)
        for i in range(first, last):
            start = np.uint64(starts[i * step])
            length = np.uint64(starts[(i + 1) * step]) - start
            slot = np.uint64(found[i])
            found[i] = -1
            while slots[slot] != 0:
                other = slots[slot] - 1
                begin = np.uint64(known_starts[other])
                if np.uint64(known_starts[other + 1]) - begin == length and equal_bytes(known_pool, begin, pool, start, length):
                    found[i] = other
                    break
                slot = (slot + ONE) & mask
