"""The cache of pre-tokens and their ids.

The cache is an open-addressing hash table. A slot is four 64-bit words, and two slots share a cache line. Probing tries the
other slot of the same line first, then the two slots of each following line.

    word 0   first word of the key (see `keys`)
    word 1   second word of the key; 0 in a free slot
    word 2   ids 0 and 1, 32 bits each               or, with the top bit set, the number of a record in the arena
    word 3   ids 2 and 3, and in the top two bits    or, the number of ids
             the number of ids, less 1

An id has 30 bits. A pre-token with more than four ids, or with more than 15 bytes, has a record: its bytes if there are more
than 15, then its ids. The arena is a ring buffer in which new records overwrite the oldest. The number of a record is the
total number of bytes written to the arena before it, so comparing it with the current total shows whether the record still
exists. A slot whose record was overwritten is reused when its pre-token occurs again. When three quarters of the slots are
used, all are cleared. So memory stays bounded, frequent pre-tokens return at once, and long pre-tokens, most of which occur
once, do not evict short ones.

Sentences that are single pre-tokens, as in Chinese and Japanese, rarely occur twice: of 94,000 in 5 MB of Chinese, 87,000 are
distinct. Most consist of many short fragments (see `boundary_filter`), which are cached themselves. So such a sentence is
cached only at its second occurrence; `seen_once`, a bit set indexed by some bits of the hash, records the first. Where hardly
any sentences recur, most are not recorded.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, prefetch, store_u64
from bpejit.kernels.common.keys import LONG_TAG, equal_bytes, hash_key
from bpejit.kernels.constants import FOUR, HALF, ONE, THREE, TWO, ZERO

# Fields of `progress`: where encoding resumes, and how full the cache is.
NEXT_START, NEXT_SPAN, N_SPANS, N_OUT, NEEDED_BYTES, USED_SLOTS, ARENA_WRITTEN, CLEARS, N_SEEN = range(9)
N_DOCUMENTS, FIRST_DOCUMENT, NEXT_DOCUMENT = range(9, 12)  # see `document_spans`
SEPARATOR_ID, N_SEPARATED, SEPARATED_TO = range(12, 15)  # see `separator_removal`
N_RECURRED = 15  # long pre-tokens; N_SEEN is negative while none are recorded
PROGRESS_SIZE = 16

SLOT_WORDS = 4

SEEN_WORDS = 1 << 15
"""Words of `seen_once`, of 64 bits."""

SEEN_PER_WORD = 4
"""`seen_once` is cleared when this many pre-tokens for each of its words are recorded, 131,072 in all. With 32, on average a
quarter of the sentences of a large text were taken for others, and cached at their first occurrence.
"""

UNRECORDED = 7
"""If hardly any of the recorded pre-tokens recurred, this many times as many are neither recorded nor cached."""

RECURRING = 4
"""One in this many recorded pre-tokens has to recur, or the following ones are not recorded."""

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

LENGTH_MASK = np.uint64((1 << 56) - 1)
"""Mask of the length in a long key."""

_SEEN_SHIFT = np.uint64(32)  # the lower bits select the slot
_WORD_BITS, _WORD_MASK = np.uint64(6), np.uint64(63)
_LINE_WORDS = np.uint64(2 * SLOT_WORDS)


@inline
def ring_offset(record, size):
    """Return the offset of a record in a ring of `size` bytes, without a division until the ring has wrapped around."""
    return record if record < size else record % size


@inline
def find_home_slot(slots, low, high):
    """Return the home slot of a key, the first that is probed, as the index of its first word."""
    hashed = low if high >= LONG_TAG else hash_key(low, high)  # the first word of a long key is its hash
    return (hashed & np.uint64(slots.size // SLOT_WORDS - 1)) * FOUR


@inline
def _next_slot(slots, slot, n_probed):
    """Return the slot to probe next: the other one of the cache line, then those of the following line."""
    slot ^= FOUR
    if n_probed & ONE != ZERO:
        slot = (slot + _LINE_WORDS) & np.uint64(slots.size - 1)
    return slot


@inline
def find_cache_slot(workspace, low, high, slot, text, start):
    """Look up a key, starting at its home slot; return the slot where it is or belongs, and whether its ids are there."""
    slots = workspace.slots
    arena = workspace.arena
    written = np.uint64(workspace.progress[ARENA_WRITTEN])
    size = np.uint64(arena.size - ARENA_SLACK)
    n_probed = ZERO
    while True:
        if slots[slot + ONE] == ZERO:
            return slot, False
        if slots[slot] == low and slots[slot + ONE] == high:
            if slots[slot + TWO] < IN_ARENA:
                return slot, True
            record = slots[slot + TWO] ^ IN_ARENA
            if record + size < written:
                return slot, False
            if high < LONG_TAG or equal_bytes(arena, ring_offset(record, size), text, start, high & LENGTH_MASK):
                return slot, True
        slot = _next_slot(slots, slot, n_probed)
        n_probed += ONE


@inline
def prefetch_records(workspace, size):
    """Prefetch the records of the `size` pre-tokens of a batch, whose slots have been prefetched before.

    `workspace.batch` has three words per pre-token: its key and its home slot. If the key is in the other slot of the line,
    that slot replaces the home slot.
    """
    slots = workspace.slots
    arena = workspace.arena
    batch = workspace.batch
    ring = np.uint64(arena.size - ARENA_SLACK)
    k = ZERO
    while k < size * THREE:
        low = batch[k]
        slot = batch[k + TWO]
        if slots[slot] != low and slots[slot ^ FOUR] == low:
            slot ^= FOUR
            batch[k + TWO] = slot
        record = slots[slot + TWO]
        if record >= IN_ARENA:
            offset = ring_offset(record ^ IN_ARENA, ring)
            prefetch(arena, offset)
            prefetch(arena, min(offset + np.uint64(64), ring))
        k += THREE


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
    offset = ring_offset(first ^ IN_ARENA, np.uint64(arena.size - ARENA_SLACK))
    if slots[slot + ONE] >= LONG_TAG:
        offset += slots[slot + ONE] & LENGTH_MASK
    # Sixteen unconditionally: the exit of a loop over their number is mispredicted for most sentences.
    for i in range(0, IDS_PER_COPY, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, offset + np.uint64(i) * FOUR))
    for i in range(IDS_PER_COPY, second, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, offset + np.uint64(i) * FOUR))
    return n_out + second


@inline
def mark_seen(workspace, hashed):
    """Record the hash of a long pre-token; return True if it was not recorded before (another may share its bit).

    In a large text whose sentences do not recur, few are recorded: caching those that seem to recur took a fifth of the time
    of a first pass.
    """
    progress = workspace.progress
    if progress[N_SEEN] < 0:
        progress[N_SEEN] += 1
        return True
    seen_once = workspace.seen_once
    bit_index = hashed >> _SEEN_SHIFT
    word = (bit_index >> _WORD_BITS) & np.uint64(seen_once.size - 1)
    bit = ONE << (bit_index & _WORD_MASK)
    known = seen_once[word] & bit != ZERO
    if known:
        progress[N_RECURRED] += 1
        return False
    if progress[N_SEEN] >= seen_once.size * SEEN_PER_WORD:
        seen_once[:] = ZERO
        recurring = progress[N_RECURRED] * RECURRING >= progress[N_SEEN]
        progress[N_SEEN] = 0 if recurring else -UNRECORDED * progress[N_SEEN]
        progress[N_RECURRED] = 0
        return True
    seen_once[word] |= bit
    progress[N_SEEN] += 1
    return True


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
def _pack_ids(ids, begin, n_ids):
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
def _write_record(arena, progress, text, start, n_bytes, ids, begin, n_ids):
    """Write a record to the arena, overwriting the oldest; return its number."""
    size = np.uint64(arena.size - ARENA_SLACK)
    # Ids are written in pairs.
    length = n_bytes + ((n_ids + ONE) & ~ONE) * FOUR
    record = np.uint64(progress[ARENA_WRITTEN])
    offset = record % size
    if offset + length > size:
        # A record is contiguous: skip the rest of the ring.
        record += size - offset
        offset = ZERO
    progress[ARENA_WRITTEN] = np.int64(record + length)
    for i in range(n_bytes):
        arena[offset + np.uint64(i)] = text[start + np.uint64(i)]
    offset += n_bytes
    for i in range(0, n_ids, 2):
        store_u64(arena, offset + np.uint64(i) * FOUR, load_u64(ids, begin + np.uint64(i)))
    return record


@inline
def insert_pretoken(workspace, home, slot, low, high, text, start, out, begin, end):
    """Insert the ids `out[begin:end]` of a pre-token at `slot`, or at `home` if the slots had to be cleared first."""
    slots = workspace.slots
    progress = workspace.progress
    n_bytes = high & LENGTH_MASK if high >= LONG_TAG else ZERO
    n_ids = end - begin
    in_slot = n_bytes == ZERO and n_ids <= FOUR
    if not in_slot and (n_bytes + n_ids * FOUR) * FOUR > np.uint64(workspace.arena.size):
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
    if in_slot:
        slots[slot + TWO], slots[slot + THREE] = _pack_ids(out, begin, n_ids)
    else:
        slots[slot + TWO] = IN_ARENA | _write_record(workspace.arena, progress, text, start, n_bytes, out, begin, n_ids)
        slots[slot + THREE] = n_ids
