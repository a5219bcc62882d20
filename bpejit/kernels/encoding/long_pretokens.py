"""The index of long pre-tokens, those of more than 15 bytes, in the cache of pre-tokens.

Long pre-tokens have no slot, but an entry of two 64-bit words in an index, a hash table with linear probing, and a record in
the arena (see `pretoken_cache`):

    entry    word 0   hash of the bytes
             word 1   number of the record, with the top bit set; 0 in a free entry

    record   8 bytes  number of bytes, and in the upper half the number of ids
             the bytes of the pre-token, then its ids

In Chinese and Japanese, half of the distinct pre-tokens are long, and reading a hash table at random takes most of the time.
In slots, which have twice the size, they also made the table of the short ones twice as large: all together, passes over
Chinese took 1.2 times as long. When three quarters of the entries are used, all are cleared.

Sentences are cached only where they recur (see `recurring_sentences`).
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, prefetch, store_u64
from bpejit.kernels.common.keys import BATCH, BATCH_WORDS, LONG_TAG, equal_bytes, span_key
from bpejit.kernels.constants import END_POSITION, FOUR, HALF, LOW_HALF, ONE, SHORT_KEY, THREE, TWO, ZERO
from bpejit.kernels.encoding.pretoken_cache import (
    ARENA_SLACK,
    IN_ARENA,
    LONG_CLEARS,
    SLOT_WORDS,
    USED_LONG,
    copy_record,
    record_bytes,
    record_exists,
    reserve_record,
    ring_offset,
    write_ids,
)
from bpejit.kernels.encoding.recurring_sentences import reduce_share

ENTRY_WORDS = 2

RECORD_HEAD = np.uint64(8)
"""Bytes of a record before those of the pre-token."""

ALL_BATCH_WORDS = (BATCH_WORDS + 1) * BATCH
"""Words of `WorkspaceArrays.batch`: those of `make_cache_keys` for each pre-token, and the hashes of the long ones."""

NO_RECORD = IN_ARENA
"""Returned by `find_record` for a pre-token that is not in the cache; the word of a free entry, with the top bit inverted."""

LONG_HASHES = np.uint64(BATCH_WORDS * BATCH)
"""Where the hashes of long pre-tokens begin in `WorkspaceArrays.batch`."""


@inline
def make_cache_keys(text, start, ends, span, size, workspace):
    """Write the keys and home slots of `size` spans to `workspace.batch`, and prefetch the slots, or entries of the index.

    The same as `keys.make_keys`, except for long pre-tokens: their slot is 0, and their hashes are also written one after the
    other, from `batch[BATCH_WORDS * BATCH]`.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    start, span, size : uint64
        The first of these spans has the index `span` and the start `start`.
    ends : uint32[:], in
        Ends of the spans, with the special flag.
    workspace : WorkspaceArrays, in-out

    Returns
    -------
    uint64
        Number of long pre-tokens.
    """
    slots = workspace.slots
    long_index = workspace.long_index
    batch = workspace.batch
    k = ZERO
    mask = np.uint64(slots.size // SLOT_WORDS - 1)
    last = span + size
    n_long = ZERO
    while span < last:
        end = np.uint64(ends[span])
        low, high, hashed = span_key(text, start, end)
        word = (hashed & mask) * FOUR
        # Compiled as one branch with that in `span_key`; with `high` instead, passes took 7 % longer.
        if end - start <= SHORT_KEY:
            prefetch(slots, word)
        elif high >= LONG_TAG:
            word = ZERO
            batch[LONG_HASHES + n_long] = hashed
            n_long += ONE
            prefetch(long_index, _home_entry(long_index, hashed))
        batch[k] = low
        batch[k + ONE] = high
        batch[k + TWO] = word
        k += THREE
        start = end & END_POSITION
        span += ONE
    return n_long


@inline
def _home_entry(long_index, hashed):
    return (hashed & np.uint64(long_index.size // ENTRY_WORDS - 1)) * TWO


@inline
def _next_entry(long_index, entry):
    return (entry + TWO) & np.uint64(long_index.size - 1)


@inline
def prefetch_records(workspace, n_long):
    """Prefetch the records of the long pre-tokens of a batch, whose entries have been prefetched before.

    In `workspace.batch`, the number of the record, or NO_RECORD, replaces each hash. Returns the number of NO_RECORD.
    """
    long_index = workspace.long_index
    arena = workspace.arena
    batch = workspace.batch
    ring = np.uint64(arena.size - ARENA_SLACK)
    n_missing = ZERO
    i = ZERO
    while i < n_long:
        hashed = batch[LONG_HASHES + i]
        entry = _home_entry(long_index, hashed)
        while long_index[entry] != hashed and long_index[entry + ONE] != ZERO:
            entry = _next_entry(long_index, entry)
        record = long_index[entry + ONE] ^ IN_ARENA
        batch[LONG_HASHES + i] = record
        n_missing += np.uint64(record == NO_RECORD)
        offset = ring_offset(record & ~IN_ARENA, ring)
        prefetch(arena, offset)
        prefetch(arena, min(offset + np.uint64(64), ring))
        i += ONE
    return n_missing


@inline
def is_record_of(workspace, record, length, text, start):
    """Return True if a number is that of a record with the bytes of a long pre-token."""
    if record >= IN_ARENA or not record_exists(workspace, record):
        return False
    arena = workspace.arena
    offset = ring_offset(record, np.uint64(arena.size - ARENA_SLACK))
    return load_u64(arena, offset) & LOW_HALF == length and equal_bytes(arena, offset + RECORD_HEAD, text, start, length)


@inline
def find_record(workspace, hashed, length, text, start):
    """Look up a long pre-token; return the number of its record, or NO_RECORD."""
    long_index = workspace.long_index
    entry = _home_entry(long_index, hashed)
    while long_index[entry + ONE] != ZERO:
        record = long_index[entry + ONE] ^ IN_ARENA
        if long_index[entry] == hashed and is_record_of(workspace, record, length, text, start):
            return record
        entry = _next_entry(long_index, entry)
    return NO_RECORD


@inline
def copy_long(workspace, record, length, out, n_out):
    """Write the ids of a record of a long pre-token to `out[n_out:]`; return the new `n_out`."""
    arena = workspace.arena
    offset = ring_offset(record, np.uint64(arena.size - ARENA_SLACK))
    return copy_record(arena, offset + RECORD_HEAD + length, load_u64(arena, offset) >> HALF, out, n_out)


@inline
def insert_long(workspace, hashed, length, text, start, out, begin, end):
    """Insert the ids `out[begin:end]` of a long pre-token that `find_record` does not find."""
    long_index = workspace.long_index
    arena = workspace.arena
    progress = workspace.progress
    n_ids = end - begin
    n_bytes = RECORD_HEAD + length + record_bytes(n_ids)
    if n_bytes * FOUR > np.uint64(arena.size):
        return  # it would evict a quarter of all records
    if progress[USED_LONG] * ENTRY_WORDS * 4 >= long_index.size * 3:
        long_index[:] = ZERO
        progress[USED_LONG] = 0
        if progress[LONG_CLEARS] > 0:  # since the index was last enlarged, which follows the first time if there is memory
            reduce_share(progress)
        progress[LONG_CLEARS] += 1
    entry = _home_entry(long_index, hashed)
    # The entry of an overwritten record of the same pre-token is used again.
    while long_index[entry + ONE] != ZERO and (
        long_index[entry] != hashed or record_exists(workspace, long_index[entry + ONE] ^ IN_ARENA)
    ):
        entry = _next_entry(long_index, entry)
    if long_index[entry + ONE] == ZERO:
        progress[USED_LONG] += 1
    record, offset = reserve_record(arena, progress, n_bytes)
    long_index[entry] = hashed
    long_index[entry + ONE] = IN_ARENA | record
    store_u64(arena, offset, length | n_ids << HALF)
    offset += RECORD_HEAD
    for i in range(length):
        arena[offset + np.uint64(i)] = text[start + np.uint64(i)]
    write_ids(arena, offset + length, out, begin, n_ids)


@kernel
def move_entries(long_index, larger):
    """Copy every used entry to a larger index.

    Parameters
    ----------
    long_index : uint64[ENTRY_WORDS * entries], in
    larger : uint64[ENTRY_WORDS * more entries], out
        All zeros on entry.

    Notes
    -----
    O(entries). The records are unchanged.
    """
    for i in range(0, long_index.size, ENTRY_WORDS):
        old = np.uint64(i)
        if long_index[old + ONE] == ZERO:
            continue
        entry = _home_entry(larger, long_index[old])
        while larger[entry + ONE] != ZERO:
            entry = _next_entry(larger, entry)
        larger[entry] = long_index[old]
        larger[entry + ONE] = long_index[old + ONE]
