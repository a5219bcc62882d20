"""The cache of pre-tokens and their ids.

The cache is an open-addressing hash table of the pre-tokens of up to 15 bytes. A slot is four 64-bit words, and two slots share
a cache line. Probing tries the other slot of the same line first, then the two slots of each following line.

    word 0   first word of the key (see `keys`)
    word 1   second word of the key; 0 in a free slot
    word 2   ids 0 and 1, 32 bits each               or, with the top bit set, the number of a record in the arena
    word 3   ids 2 and 3, and in the top two bits    or, the number of ids
             the number of ids, less 1

An id has 30 bits. A pre-token with more than four ids has a record with its ids. The arena is a ring buffer in which new
records overwrite the oldest. The number of a record is the total number of bytes written to the arena before it, so comparing
it with the current total shows whether the record still exists. A slot whose record was overwritten is reused when its
pre-token occurs again. When three quarters of the slots are used, all are cleared. So memory stays bounded, frequent pre-tokens
return at once, and long pre-tokens, most of which occur once, do not evict short ones.

Longer pre-tokens have an index of their own, whose entries take half of a slot (see `long_pretokens`), and records in the same
arena.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.kernels.common.keys import hash_key
from bpejit.kernels.constants import FOUR, HALF, ONE, THREE, TWO, ZERO

# Fields of `progress`: where encoding resumes, and how full the cache is.
NEXT_START, NEXT_SPAN, N_SPANS, N_OUT, NEEDED_BYTES, USED_SLOTS, ARENA_WRITTEN, CLEARS, N_SEEN = range(9)
N_DOCUMENTS, FIRST_DOCUMENT, NEXT_DOCUMENT = range(9, 12)  # see `text_encoding`
SEPARATOR_ID, N_SEPARATED, SEPARATED_TO = range(12, 15)  # see `text_encoding`
N_RECURRED, USED_LONG, LONG_CLEARS = range(15, 18)  # see `recurring_sentences`, `long_pretokens`
SENTENCE_PAUSE = 18  # see `sentence_merging`
N_OPEN = 19  # see `superword_merging`
SENTENCE_SHARE, SENTENCE_BYTES, SENTENCE_LIMIT, SENTENCE_LAP = range(20, 24)  # see `recurring_sentences`
CLEARS_SEEN = 24  # of both tables, when the cache last had a chance to grow; prepared calls stop if there were more
PROGRESS_SIZE = 25

SLOT_WORDS = 4

IDS_PER_COPY = 16
"""Number of ids that are copied from a record unconditionally."""

ARENA_SLACK = 4 * IDS_PER_COPY + 16
"""Readable bytes required after the last record in the arena."""

IN_ARENA = np.uint64(1 << 63)
"""Bit of word 2 that marks a slot whose ids are in the arena."""

COUNT_SHIFT = np.uint64(62)
"""Shift to the number of ids, less 1, in word 3."""

ID_PAIR_MASK = np.uint64(((1 << 30) - 1) << 32 | (1 << 30) - 1)
"""Mask of the two ids in a word."""

_LINE_WORDS = np.uint64(2 * SLOT_WORDS)


@inline
def ring_offset(record, size):
    """Return the offset of a record in a ring of `size` bytes, without a division until the ring has wrapped around."""
    return record if record < size else record % size


@inline
def find_home_slot(slots, low, high):
    """Return the home slot of a short key, the first that is probed, as the index of its first word."""
    return (hash_key(low, high) & np.uint64(slots.size // SLOT_WORDS - 1)) * FOUR


@inline
def _next_slot(slots, slot, n_probed):
    """Return the slot to probe next: the other one of the cache line, then those of the following line."""
    slot ^= FOUR
    if n_probed & ONE != ZERO:
        slot = (slot + _LINE_WORDS) & np.uint64(slots.size - 1)
    return slot


@inline
def record_exists(workspace, record):
    """Return True if a record was not overwritten."""
    return record + np.uint64(workspace.arena.size - ARENA_SLACK) >= np.uint64(workspace.progress[ARENA_WRITTEN])


@inline
def find_cache_slot(workspace, low, high, slot):
    """Look up a short key, starting at its home slot; return the slot where it is or belongs, and whether its ids are there."""
    slots = workspace.slots
    n_probed = ZERO
    while True:
        if slots[slot + ONE] == ZERO:
            return slot, False
        if slots[slot] == low and slots[slot + ONE] == high:
            first = slots[slot + TWO]
            return slot, first < IN_ARENA or record_exists(workspace, first ^ IN_ARENA)
        slot = _next_slot(slots, slot, n_probed)
        n_probed += ONE


@inline
def copy_ids(workspace, slot, out, n_out):
    """Write the ids of an occupied slot to `out[n_out:]`; return the new `n_out`."""
    slots = workspace.slots
    arena = workspace.arena
    first = slots[slot + TWO]
    second = slots[slot + THREE]
    if first < IN_ARENA:
        store_u64(out, n_out, first)
        store_u64(out, n_out + TWO, second & ID_PAIR_MASK)
        return n_out + (second >> COUNT_SHIFT) + ONE
    return copy_record(arena, ring_offset(first ^ IN_ARENA, np.uint64(arena.size - ARENA_SLACK)), second, out, n_out)


@inline
def copy_record(arena, offset, n_ids, out, n_out):
    """Write the ids at an offset of the arena to `out[n_out:]`; return the new `n_out`."""
    # Sixteen unconditionally: the exit of a loop over their number is mispredicted for most sentences.
    for i in range(0, IDS_PER_COPY, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, offset + np.uint64(i) * FOUR))
    for i in range(IDS_PER_COPY, n_ids, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, offset + np.uint64(i) * FOUR))
    return n_out + n_ids


@kernel
def move_slots(slots, larger):
    """Copy every used slot to a larger table.

    Parameters
    ----------
    slots : uint64[SLOT_WORDS * slots], in
    larger : uint64[SLOT_WORDS * more slots], out
        All zeros on entry.

    Notes
    -----
    O(slots). The arena is unchanged.
    """
    for i in range(0, slots.size, SLOT_WORDS):
        old = np.uint64(i)
        low = slots[old]
        high = slots[old + ONE]
        if high == ZERO:
            continue
        slot = find_home_slot(larger, low, high)
        n_probed = ZERO
        while larger[slot + ONE] != ZERO:
            slot = _next_slot(larger, slot, n_probed)
            n_probed += ONE
        larger[slot] = low
        larger[slot + ONE] = high
        larger[slot + TWO] = slots[old + TWO]
        larger[slot + THREE] = slots[old + THREE]


@inline
def pack_ids(ids, begin, n_ids):
    """Return words 2 and 3 of a slot that holds up to four ids."""
    first = np.uint64(ids[begin])
    second = (n_ids - ONE) << COUNT_SHIFT
    if n_ids > ONE:
        first |= np.uint64(ids[begin + ONE]) << HALF
    if n_ids > TWO:
        second |= np.uint64(ids[begin + TWO])
    if n_ids > THREE:
        second |= np.uint64(ids[begin + THREE]) << HALF
    return first, second


@inline
def reserve_record(arena, progress, n_bytes):
    """Reserve the next bytes of the ring, those of the oldest records; return the number of the new record and its offset."""
    size = np.uint64(arena.size - ARENA_SLACK)
    record = np.uint64(progress[ARENA_WRITTEN])
    offset = record % size
    if offset + n_bytes > size:
        # A record is contiguous: skip the rest of the ring.
        record += size - offset
        offset = ZERO
    progress[ARENA_WRITTEN] = np.int64(record + n_bytes)
    return record, offset


@inline
def record_bytes(n_ids):
    """Return the number of bytes that ids take in a record, in which they are written in pairs."""
    return ((n_ids + ONE) & ~ONE) * FOUR


@inline
def write_ids(arena, offset, ids, begin, n_ids):
    """Write ids to a record."""
    for i in range(0, n_ids, 2):
        store_u64(arena, offset + np.uint64(i) * FOUR, load_u64(ids, begin + np.uint64(i)))


@inline
def insert_pretoken(workspace, home, slot, low, high, out, begin, end):
    """Insert the ids `out[begin:end]` of a short pre-token at `slot`, or at `home` if the slots had to be cleared first."""
    slots = workspace.slots
    progress = workspace.progress
    n_ids = end - begin
    if n_ids > FOUR and record_bytes(n_ids) * FOUR > np.uint64(workspace.arena.size):
        return  # it would evict a quarter of all records
    if progress[USED_SLOTS] * SLOT_WORDS * 4 >= slots.size * 3:
        slots[:] = ZERO
        progress[USED_SLOTS] = 0
        progress[CLEARS] += 1
        slot = home
    if slots[slot + ONE] == ZERO:
        progress[USED_SLOTS] += 1
    slots[slot] = low
    slots[slot + ONE] = high
    if n_ids <= FOUR:
        slots[slot + TWO], slots[slot + THREE] = pack_ids(out, begin, n_ids)
    else:
        record, offset = reserve_record(workspace.arena, progress, record_bytes(n_ids))
        write_ids(workspace.arena, offset, out, begin, n_ids)
        slots[slot + TWO] = IN_ARENA | record
        slots[slot + THREE] = n_ids
