"""Encoding: spans of text to token ids, through a cache of pre-tokens.

Nearly all text repeats: 99 of 100 pre-tokens have been seen before, and then encoding is one look-up. The cache is open
addressing with linear probing over slots of four 64-bit words, two slots to a cache line:

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
"""

from __future__ import annotations

import numpy as np

from bpejit.kernels._constants import DONE, NEED_SCRATCH, NEED_SPACE, SHORT_KEY_BYTES, SPECIAL_FLAG
from bpejit.kernels._jit import inline, kernel
from bpejit.kernels.bpe import encode_pretoken
from bpejit.kernels.keys import LONG_TAG, equal_bytes, hash_bytes, hash_key, short_key
from bpejit.kernels.memory import load_u64, prefetch, store_u64
from bpejit.kernels.parts import find_part
from bpejit.kernels.windows import NO_ROOM, WINDOW

# Fields of `progress`: where encoding goes on, and how full the cache is.
FIRST, SPAN, N_SPANS, N_OUT, NEEDED, USED, WRITTEN, WIPES = range(8)
PROGRESS_SIZE = 8

BATCH = 256
"""Spans whose keys are made, hashed and prefetched before the first is looked up, so that the cache misses overlap."""

BATCH_WORDS = 4
"""Words of `batch` per span: the two of its key and its slot, and behind these, for all spans, the list of the long ones."""

SLOT_WORDS = 4

_AT_ONCE = 16
"""Ids of a record that are written whatever their number."""

OUT_SLACK = _AT_ONCE
"""Room for ids beyond the last one."""

ARENA_SLACK = 4 * _AT_ONCE + 16
"""Bytes of the arena behind the last record that may be read."""

MAX_ID = (1 << 30) - 2
"""Largest id of a token: it has 30 bits in a slot, and one number is kept for NO_ID."""

NO_ID = np.uint32(MAX_ID + 1)
"""Stands for what has no id: written for a byte that the vocabulary lacks."""

WHOLE_WORDS = 3
"""Words of a slot of `EncoderTables.whole`."""

_POSITION = np.uint64(SPECIAL_FLAG - 1)
_ZERO, _ONE, _TWO, _THREE, _FOUR = (np.uint64(number) for number in range(5))
_SHORT = np.uint64(SHORT_KEY_BYTES)
_LENGTH = np.uint64((1 << 56) - 1)
_SPECIAL_TAG = np.uint64(0xFE << 56)
_RECORD = np.uint64(1 << 63)
_COUNT_SHIFT = np.uint64(62)
_HALF = np.uint64(32)
_HALF_MASK = np.uint64(0xFFFF_FFFF)
_IDS = np.uint64(int(NO_ID) << 32 | int(NO_ID))
_WINDOW = np.uint64(WINDOW)
_LONG_LIST = np.uint64(3 * BATCH)


@kernel
def hash_strings(pool, starts, hashes):
    """Hash byte strings as `find_special` does.

    Parameters
    ----------
    pool : uint8[:], in
        Readable 16 bytes past the end.
    starts : int64[n + 1], in
    hashes : uint64[n], out
    """
    for i in range(hashes.size):
        start = np.uint64(starts[i])
        hashes[i] = hash_bytes(pool, start, np.uint64(starts[i + 1]) - start)


@inline
def _find_special(specials, text, start, length):
    """Return the id of the special token that a span is.

    `specials` holds pairs of hash and id; the hashes differ, and the span is certain to be one of them.
    """
    hashed = hash_bytes(text, start, length)
    i = _ZERO
    while i + _TWO < np.uint64(specials.size) and specials[i] != hashed:
        i += _TWO
    return specials[i + _ONE]


@inline
def _find_whole(tables, text, start, length):
    """Return the id of the token that a pre-token is as a whole though its merges give others, or NO_ID."""
    whole = tables.whole
    if whole.size == 0:
        return NO_ID
    hashed = hash_bytes(text, start, length)
    slot = hashed & np.uint64(whole.size // WHOLE_WORDS - 1)
    while True:
        word = slot * np.uint64(WHOLE_WORDS)
        place = whole[word + _ONE]
        if place == _ZERO:
            return NO_ID
        if (
            whole[word] == hashed
            and place & _HALF_MASK == length
            and equal_bytes(tables.whole_pool, place >> _HALF, text, start, length)
        ):
            return np.uint32(whole[word + _TWO])
        slot = (slot + _ONE) & np.uint64(whole.size // WHOLE_WORDS - 1)


@inline
def _place_of(record, size):
    """Return where in a ring of `size` bytes a record begins; until the ring has been filled that needs no division."""
    return record if record < size else record % size


@inline
def _find(slots, arena, written, low, high, word, text, start):
    """Look for a key; return the first word of its slot, or of the one where it belongs, and whether the ids are there.

    `written` is the number of bytes ever written to the arena.
    """
    size = np.uint64(arena.size - ARENA_SLACK)
    while True:
        if slots[word + _ONE] == _ZERO:
            return word, False
        if slots[word] == low and slots[word + _ONE] == high:
            if slots[word + _TWO] < _RECORD:
                return word, True
            record = slots[word + _TWO] ^ _RECORD
            if record + size < written:
                return word, False
            if high < LONG_TAG or equal_bytes(arena, _place_of(record, size), text, start, high & _LENGTH):
                return word, True
        word += _FOUR
        if word == np.uint64(slots.size):
            word = _ZERO


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
    mask = np.uint64(larger.size // SLOT_WORDS - 1)
    for i in range(0, slots.size, SLOT_WORDS):
        old = np.uint64(i)
        low = slots[old]
        high = slots[old + _ONE]
        if high == _ZERO:
            continue
        hashed = low if high >= LONG_TAG else hash_key(low, high)
        word = (hashed & mask) * _FOUR
        while larger[word + _ONE] != _ZERO:
            word = (word + _FOUR) & (mask * _FOUR)
        larger[word] = low
        larger[word + _ONE] = high
        larger[word + _TWO] = slots[old + _TWO]
        larger[word + _THREE] = slots[old + _THREE]


@inline
def _pack(ids, begin, n_ids):
    """Return words 2 and 3 of a slot with up to four ids."""
    first = np.uint64(ids[begin])
    second = (n_ids - _ONE) << _COUNT_SHIFT
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
def _remember(memory, home, word, low, high, text, start, out, begin, end):
    """Put the ids `out[begin:end]` of a pre-token into the cache, at the slot `word`; empty full slots first."""
    slots = memory.slots
    progress = memory.progress
    n_bytes = high & _LENGTH if high >= LONG_TAG else _ZERO
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
        slots[word + _TWO] = _RECORD | _write_record(memory.arena, progress, text, start, n_bytes, out, begin, n_ids)
        slots[word + _THREE] = n_ids


@inline
def _encode_parts(text, start, stop, tables, memory, out, n_out):
    """Encode a pre-token that falls apart (see `parts`); return where the ids end, or NO_ROOM.

    The ids of a part are those that it has as a pre-token, so the cache serves both; but not where some pre-tokens are left
    whole.
    """
    slots = memory.slots
    mask = np.uint64(slots.size // SLOT_WORDS - 1)
    cached = tables.whole.size == 0
    while start < stop:
        end = find_part(text, start, stop, tables.joints)
        length = end - start
        if not cached or length > _SHORT:
            n_out = encode_pretoken(text, start, length, tables, memory.scratch, out, n_out, _WINDOW)
            if n_out == NO_ROOM:
                break
        else:
            low, high = short_key(text, start, length)
            home = (hash_key(low, high) & mask) * _FOUR
            word, found = _find(slots, memory.arena, np.uint64(memory.progress[WRITTEN]), low, high, home, text, start)
            if found and slots[word + _TWO] < _RECORD:
                store_u64(out, n_out, slots[word + _TWO])
                store_u64(out, n_out + _TWO, slots[word + _THREE] & _IDS)
                n_out += (slots[word + _THREE] >> _COUNT_SHIFT) + _ONE
            else:
                begin = n_out
                n_out = encode_pretoken(text, start, length, tables, memory.scratch, out, n_out, _WINDOW)
                if not found:
                    _remember(memory, home, word, low, high, text, start, out, begin, n_out)
        start = end
    return n_out


@inline
def _encode_slowly(text, start, length, low, high, home, tables, memory, out, n_out):
    """Encode a span that the first slot does not answer; return where the ids end, or NO_ROOM."""
    if high == _SPECIAL_TAG:
        out[n_out] = np.uint32(_find_special(tables.specials, text, start, length))
        return n_out + _ONE
    slots = memory.slots
    arena = memory.arena
    word, found = _find(slots, arena, np.uint64(memory.progress[WRITTEN]), low, high, home, text, start)
    if not found:
        whole = _find_whole(tables, text, start, length)
        if whole != NO_ID:
            out[n_out] = whole
            end = n_out + _ONE
        elif find_part(text, start, start + length, tables.joints) < start + length:
            end = _encode_parts(text, start, start + length, tables, memory, out, n_out)
            # The parts may have taken its slot.
            word, found = _find(slots, arena, np.uint64(memory.progress[WRITTEN]), low, high, home, text, start)
        else:
            end = encode_pretoken(text, start, length, tables, memory.scratch, out, n_out, _WINDOW)
        if end != NO_ROOM and not found:
            _remember(memory, home, word, low, high, text, start, out, n_out, end)
        return end
    if word != home:
        # What is used now is mostly used again: in its first slot the fast path finds it. What lay there is found from its own
        # first slot on, since all slots between are in use.
        for i in range(SLOT_WORDS):
            here, there = home + np.uint64(i), word + np.uint64(i)
            slots[here], slots[there] = slots[there], slots[here]
        word = home
    first = slots[word + _TWO]
    second = slots[word + _THREE]
    if first < _RECORD:
        store_u64(out, n_out, first)
        store_u64(out, n_out + _TWO, second & _IDS)
        return n_out + (second >> _COUNT_SHIFT) + _ONE
    place = _place_of(first ^ _RECORD, np.uint64(arena.size - ARENA_SLACK))
    if high >= LONG_TAG:
        place += high & _LENGTH
    # Sixteen at once: where a loop over their number ends is mispredicted for most sentences.
    for i in range(0, _AT_ONCE, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, place + np.uint64(i) * _FOUR))
    for i in range(_AT_ONCE, second, 2):
        store_u64(out, n_out + np.uint64(i), load_u64(arena, place + np.uint64(i) * _FOUR))
    return n_out + second


@inline
def _make_keys(text, start, ends, span, size, slots, mask, batch):
    """Write key and slot of `size` spans to `batch`, and ask for the cache lines of their slots.

    Where the keys of the long ones are in `batch` is written behind all keys; their number is returned.
    """
    k = _ZERO
    last = span + size
    n_long = _ZERO
    while span < last:
        end = np.uint64(ends[span])
        stop = end & _POSITION
        length = end - start  # with the flag of a special token it is longer than any text
        if length <= _SHORT:
            low, high = short_key(text, start, length)
            hashed = hash_key(low, high)
        elif end != stop:
            low = _ZERO
            high = _SPECIAL_TAG
            hashed = _ZERO
        else:
            low = hash_bytes(text, start, length)
            high = LONG_TAG | length
            hashed = low
            batch[_LONG_LIST + n_long] = k
            n_long += _ONE
        word = (hashed & mask) * _FOUR
        prefetch(slots, word)
        batch[k] = low
        batch[k + _ONE] = high
        batch[k + _TWO] = word
        k += _THREE
        start = stop
        span += _ONE
    return n_long


@inline
def _prefetch_records(memory, n_long):
    """Ask for the records of the long pre-tokens of a batch, whose slots have arrived by now."""
    size = np.uint64(memory.arena.size - ARENA_SLACK)
    i = _ZERO
    while i < n_long:
        word = memory.batch[memory.batch[_LONG_LIST + i] + _TWO]
        record = memory.slots[word + _TWO]
        if record >= _RECORD:
            place = _place_of(record ^ _RECORD, size)
            prefetch(memory.arena, place)
            prefetch(memory.arena, min(place + np.uint64(64), size))
        i += _ONE


@kernel
def encode_spans(text, ends, tables, memory, out):
    """Encode the spans of a text.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    ends : uint32[:], in
        Ends of the spans, with the special flag.
    tables : EncoderTables, in
    memory : EncoderMemory, in-out
        `memory.progress` says where to go on: spans SPAN to N_SPANS are encoded, the first of them begins at FIRST, and ids
        are written from `out[N_OUT]` on. These fields are brought up to date.
    out : uint32[:], out

    Returns
    -------
    int
        DONE; NEED_SPACE if `out` has less room than the next span has bytes, plus OUT_SLACK; NEED_SCRATCH if the scratch
        space is too small for the next span, of NEEDED bytes. Both go on at that span when called again.

    Notes
    -----
    One probe per span, and a merge for each pre-token that is not in the cache. Spans are not checked.
    """
    progress = memory.progress
    slots = memory.slots
    batch = memory.batch
    mask = np.uint64(slots.size // SLOT_WORDS - 1)
    n_out = np.uint64(progress[N_OUT])
    start = np.uint64(progress[FIRST])
    span = np.uint64(progress[SPAN])
    n_spans = np.uint64(progress[N_SPANS])
    status = DONE
    while span < n_spans and status == DONE:
        size = min(np.uint64(BATCH), n_spans - span)
        room = np.uint64(out.size) - n_out
        while size > _ZERO and (np.uint64(ends[span + size - _ONE]) & _POSITION) - start + np.uint64(OUT_SLACK) > room:
            size >>= _ONE
        if size == _ZERO:
            status = NEED_SPACE
        n_long = _make_keys(text, start, ends, span, size, slots, mask, batch)
        _prefetch_records(memory, n_long)
        k = _ZERO
        last = span + size
        begun = span
        while span < last:
            low = batch[k]
            high = batch[k + _ONE]
            word = batch[k + _TWO]
            first = slots[word + _TWO]
            second = slots[word + _THREE]
            if (slots[word] ^ low) | (slots[word + _ONE] ^ high) | (first & _RECORD) == _ZERO:
                # All four at once: the number of ids is not worth a branch that is often mispredicted.
                store_u64(out, n_out, first)
                store_u64(out, n_out + _TWO, second & _IDS)
                n_out += (second >> _COUNT_SHIFT) + _ONE
            else:
                if span > begun:
                    start = np.uint64(ends[span - _ONE]) & _POSITION
                length = (np.uint64(ends[span]) & _POSITION) - start
                end = _encode_slowly(text, start, length, low, high, word, tables, memory, out, n_out)
                if end == NO_ROOM:
                    progress[NEEDED] = np.int64(length)
                    status = NEED_SCRATCH
                    break
                n_out = end
            k += _THREE
            span += _ONE
        if span > begun:
            start = np.uint64(ends[span - _ONE]) & _POSITION
    progress[FIRST] = np.int64(start)
    progress[SPAN] = np.int64(span)
    progress[N_OUT] = np.int64(n_out)
    return status
