"""The cache of pre-tokens and their ids.

It is open addressing over slots of four 64-bit words, two slots to a cache line; where a slot is taken the other
one of the line is tried, then the two of the line behind.

    word 0   the key, as in `keys`
    word 1   the key (0 means the slot is free)
    word 2   ids 0 and 1, 32 bits each           or, with the top bit set, where the pre-token's record lies in the arena
    word 3   ids 2 and 3, and in the top two     or, the number of ids
             bits the number of ids, less 1

An id has 30 bits. A record holds the bytes of the pre-token, if it has more than 15, and then its ids. The arena is a ring:
new records overwrite the oldest, and a slot whose record is gone is used again when its pre-token comes again. Word 2 counts
all bytes ever written to the arena, so it tells whether a record is still there. When the slots are three quarters full they
are emptied. So encoding for days does not grow, what is frequent comes back at once, and long pre-tokens, most of which
occur once, do not drive out the short ones.

Sentences that are single pre-tokens, as in Chinese and Japanese, rarely come twice: of 94,000 in 5 MB of Chinese 87,000 are
different. Most of them are made of many small parts (see `parts`), which are in the cache, so such a one is encoded anew when
it comes, and kept only when it comes again. `once` says which have been seen: a bit for some bits of the hash.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, prefetch, store_u64
from bpejit.kernels.common.keys import LONG_TAG, equal_bytes, hash_key

# Fields of `progress`: where encoding goes on, and how full the cache is.
FIRST, SPAN, N_SPANS, N_OUT, NEEDED, USED, WRITTEN, WIPES, NOTED = range(9)
PROGRESS_SIZE = 9

SLOT_WORDS = 4

ONCE_WORDS = 1 << 15
"""Words of `once`. When a million pre-tokens have been noted, half as many as there are bits, all are forgotten."""

AT_ONCE = 16
"""Ids of a record that are read whatever their number."""

ARENA_SLACK = 4 * AT_ONCE + 16
"""Bytes of the arena behind the last record that may be read."""

RECORD = np.uint64(1 << 63)
"""The bit of word 2 that says that the ids are in the arena."""

COUNT_SHIFT = np.uint64(62)
"""Where word 3 has the number of ids, less 1."""

IDS = np.uint64(((1 << 30) - 1) << 32 | (1 << 30) - 1)
"""The bits of two ids in a word."""

LENGTH = np.uint64((1 << 56) - 1)
"""The length of a long key."""

_ZERO, _ONE, _TWO, _THREE, _FOUR = (np.uint64(number) for number in range(5))
_ONCE_SHIFT = np.uint64(32)  # the slots are chosen by the lower bits
_WORD_BITS, _WORD_MASK = np.uint64(6), np.uint64(63)
_LINE = np.uint64(2 * SLOT_WORDS)
_HALF = np.uint64(32)


@inline
def place_of(record, size):
    """Return where in a ring of `size` bytes a record begins; until the ring has been filled that needs no division."""
    return record if record < size else record % size


@inline
def home_of(slots, low, high):
    """Return the first word of the slot where a key is looked for first."""
    hashed = low if high >= LONG_TAG else hash_key(low, high)
    return (hashed & np.uint64(slots.size // SLOT_WORDS - 1)) * _FOUR


@inline
def _next(slots, word, tried):
    """Return the slot that is tried next: first the other one of the cache line, then those of the line behind."""
    word ^= _FOUR
    if tried & _ONE != _ZERO:
        word = (word + _LINE) & np.uint64(slots.size - 1)
    return word


@inline
def find_slot(memory, low, high, word, text, start):
    """Look for a key; return the first word of its slot, or of the one where it belongs, and whether the ids are there."""
    slots = memory.slots
    arena = memory.arena
    written = np.uint64(memory.progress[WRITTEN])
    size = np.uint64(arena.size - ARENA_SLACK)
    tried = _ZERO
    while True:
        if slots[word + _ONE] == _ZERO:
            return word, False
        if slots[word] == low and slots[word + _ONE] == high:
            if slots[word + _TWO] < RECORD:
                return word, True
            record = slots[word + _TWO] ^ RECORD
            if record + size < written:
                return word, False
            if high < LONG_TAG or equal_bytes(arena, place_of(record, size), text, start, high & LENGTH):
                return word, True
        word = _next(slots, word, tried)
        tried += _ONE


@inline
def prefetch_records(memory, size):
    """Ask for the records of the `size` pre-tokens of a batch, whose slots have arrived by now.

    `memory.batch` has three words for each: the key, and the slot where it is looked for first. If it is in the other one of
    that line, that takes its place.
    """
    slots = memory.slots
    arena = memory.arena
    batch = memory.batch
    ring = np.uint64(arena.size - ARENA_SLACK)
    k = _ZERO
    while k < size * _THREE:
        low = batch[k]
        word = batch[k + _TWO]
        if slots[word] != low and slots[word ^ _FOUR] == low:
            word ^= _FOUR
            batch[k + _TWO] = word
        record = slots[word + _TWO]
        if record >= RECORD:
            place = place_of(record ^ RECORD, ring)
            prefetch(arena, place)
            prefetch(arena, min(place + np.uint64(64), ring))
        k += _THREE


@inline
def copy_ids(memory, word, out, n_out):
    """Write the ids of a slot that was found; return where they end."""
    slots = memory.slots
    arena = memory.arena
    first = slots[word + _TWO]
    second = slots[word + _THREE]
    if first < RECORD:
        store_u64(out, n_out, first)
        store_u64(out, n_out + _TWO, second & IDS)
        return n_out + (second >> COUNT_SHIFT) + _ONE
    place = place_of(first ^ RECORD, np.uint64(arena.size - ARENA_SLACK))
    if slots[word + _ONE] >= LONG_TAG:
        place += slots[word + _ONE] & LENGTH
    # Sixteen at once: where a loop over their number ends is mispredicted for most sentences.
    for i in range(0, AT_ONCE, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, place + np.uint64(i) * _FOUR))
    for i in range(AT_ONCE, second, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, place + np.uint64(i) * _FOUR))
    return n_out + second


@inline
def is_first_time(memory, hashed):
    """Whether a long pre-token is seen for the first time, as far as is known; take note of it."""
    once = memory.once
    number = hashed >> _ONCE_SHIFT
    word = (number >> _WORD_BITS) & np.uint64(once.size - 1)
    bit = _ONE << (number & _WORD_MASK)
    known = once[word] & bit != _ZERO
    if not known:
        if memory.progress[NOTED] >= once.size * 32:
            once[:] = _ZERO
            memory.progress[NOTED] = 0
        once[word] |= bit
        memory.progress[NOTED] += 1
    return not known


@kernel
def move_slots(slots, larger):
    """Move every slot to a larger table.

    Parameters
    ----------
    slots : uint64[SLOT_WORDS * slots], in
    larger : uint64[SLOT_WORDS * more slots], out
        All zero before.

    Notes
    -----
    O(slots). What the arena holds stays where it is.
    """
    for i in range(0, slots.size, SLOT_WORDS):
        old = np.uint64(i)
        low = slots[old]
        high = slots[old + _ONE]
        if high == _ZERO:
            continue
        word = home_of(larger, low, high)
        tried = _ZERO
        while larger[word + _ONE] != _ZERO:
            word = _next(larger, word, tried)
            tried += _ONE
        larger[word] = low
        larger[word + _ONE] = high
        larger[word + _TWO] = slots[old + _TWO]
        larger[word + _THREE] = slots[old + _THREE]


@inline
def _pack(ids, begin, n_ids):
    """Return words 2 and 3 of a slot with up to four ids."""
    first = np.uint64(ids[begin])
    second = (n_ids - _ONE) << COUNT_SHIFT
    if n_ids > _ONE:
        first |= np.uint64(ids[begin + _ONE]) << _HALF
    if n_ids > _TWO:
        second |= np.uint64(ids[begin + _TWO])
    if n_ids > _THREE:
        second |= np.uint64(ids[begin + _THREE]) << _HALF
    return first, second


@inline
def _write_record(arena, progress, text, start, n_bytes, ids, begin, n_ids):
    """Write a record to the arena, over the oldest; return its number: the bytes written before it."""
    size = np.uint64(arena.size - ARENA_SLACK)
    # Ids are written in twos.
    length = n_bytes + ((n_ids + _ONE) & ~_ONE) * _FOUR
    record = np.uint64(progress[WRITTEN])
    place = record % size
    if place + length > size:
        # A record is not divided: leave the rest of the ring empty.
        record += size - place
        place = _ZERO
    progress[WRITTEN] = np.int64(record + length)
    for i in range(n_bytes):
        arena[place + np.uint64(i)] = text[start + np.uint64(i)]
    place += n_bytes
    for i in range(0, n_ids, 2):
        store_u64(arena, place + np.uint64(i) * _FOUR, load_u64(ids, begin + np.uint64(i)))
    return record


@inline
def remember(memory, home, word, low, high, text, start, out, begin, end):
    """Put the ids `out[begin:end]` of a pre-token into the cache, at the slot `word`; empty full slots first."""
    slots = memory.slots
    progress = memory.progress
    n_bytes = high & LENGTH if high >= LONG_TAG else _ZERO
    n_ids = end - begin
    in_slot = n_bytes == _ZERO and n_ids <= _FOUR
    if not in_slot and (n_bytes + n_ids * _FOUR) * _FOUR > np.uint64(memory.arena.size):
        return  # one record is not worth the place of thousands
    if progress[USED] * SLOT_WORDS * 4 >= slots.size * 3:
        slots[:] = _ZERO
        progress[USED] = 0
        progress[WIPES] += 1
        word = home
    if slots[word + _ONE] == _ZERO:
        progress[USED] += 1
    slots[word] = low
    slots[word + _ONE] = high
    if in_slot:
        slots[word + _TWO], slots[word + _THREE] = _pack(out, begin, n_ids)
    else:
        slots[word + _TWO] = RECORD | _write_record(memory.arena, progress, text, start, n_bytes, out, begin, n_ids)
        slots[word + _THREE] = n_ids
