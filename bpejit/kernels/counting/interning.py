"""Count distinct pre-tokens in a hash table.

The table uses open addressing with linear probing. A slot has four 64-bit words, so a cache line has two slots:

            up to 15 bytes                               more than 15 bytes
    word 0  first 8 bytes of the pre-token               hash
    word 1  next 7 bytes, and the length in the top byte length, and 0xFF in the top byte
    word 2  count; 0 in a free slot                      count; 0 in a free slot
            `MOVED` after `move_common`                  the same
    word 3  unused                                       index of the bytes in the arena
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.kernels.common.keys import (
    BATCH,
    LENGTH_SHIFT,
    LONG_TAG,
    SPECIAL_TAG,
    equal_bytes,
    hash_key,
    make_keys,
    pretoken_key,
)
from bpejit.kernels.constants import DONE, EIGHT, FOUR, LOW_BYTE, NEED_SPACE, ONE, POSITION_MASK, THREE, TWO, ZERO

# Fields of the `state` of `count_spans` and `add_pretokens`.
USED, ARENA_USED, NEXT = 0, 1, 2

ADDED_TOGETHER = 16
"""Adjacent pre-tokens that `add_pretokens` adds in a row, because they are in the same cache lines."""

MOVED = np.uint64(1 << 63)
"""The count in the slot of a pre-token that another table counts."""

_POSITION = np.uint32(POSITION_MASK)
_LENGTH = np.uint64((1 << 56) - 1)
_NOT_SHORT = np.uint64(1 << 63)  # this bit is only set in tags


@inline
def find_slot(table, low, high, word, text, start, arena):
    """Probe from `word`, and return the first word of the slot of a key, or of the free slot to insert it."""
    while True:
        if table[word + TWO] == ZERO:
            return word
        if table[word] == low and table[word + ONE] == high:
            if high < LONG_TAG or equal_bytes(arena, table[word + THREE], text, start, high & _LENGTH):
                return word
        word = (word + FOUR) & np.uint64(table.size - 1)


@inline
def _add(table, arena, state, low, high, word, text, start, count):
    """Add `count` to a key, probing from `word`. Return False if the key is new and long, and the arena is full."""
    word = find_slot(table, low, high, word, text, start, arena)
    if table[word + TWO] == ZERO:
        if high >= LONG_TAG:
            length = high & _LENGTH
            begin = np.uint64(state[ARENA_USED])
            if begin + length + EIGHT > np.uint64(arena.size):
                return False
            for offset in range(length):
                arena[begin + np.uint64(offset)] = text[start + np.uint64(offset)]
            table[word + THREE] = begin
            state[ARENA_USED] += np.int64(length)
        table[word] = low
        table[word + ONE] = high
        state[USED] += 1
    table[word + TWO] += count
    return True


@inline
def length_at(table, word):
    """Return the number of bytes of the pre-token in a slot (uint64)."""
    high = table[word + ONE]
    return high & _LENGTH if high >= LONG_TAG else high >> LENGTH_SHIFT


@inline
def _start_of(n, first, ends):
    """Return the start of span `n`."""
    return np.uint64(first) if n == ZERO else np.uint64(ends[n - ONE] & _POSITION)


@kernel
def count_spans(text, first, ends, n_ends, table, arena, state, scratch):
    """Count the pre-tokens among the spans of a text.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    first : int
        Start of span 0.
    ends : uint32[:], in
        Ends of the spans; those with the special flag are skipped.
    n_ends : int
    table : uint64[4 * slots], in-out
        See the module docstring; the number of slots is a power of two.
    arena : uint8[:], in-out
        Bytes of the pre-tokens of more than 15 bytes.
    state : int64[3], in-out
        USED slots, ARENA_USED bytes, and NEXT: the index of the first span that is not counted yet (initially 0).
    scratch : uint64[BATCH_WORDS * BATCH], scratch

    Returns
    -------
    int
        DONE, or NEED_SPACE if the table is three quarters full or the arena is full: enlarge it and call again.

    Notes
    -----
    One probe per span, 5 ns for English. Spans are not checked.
    """
    slots = table.size // 4
    n = np.uint64(state[NEXT])
    last = np.uint64(n_ends)
    while n < last:
        if (state[USED] + BATCH) * 4 > slots * 3:
            state[NEXT] = np.int64(n)
            return NEED_SPACE
        size = min(np.uint64(BATCH), last - n)
        make_keys(text, _start_of(n, first, ends), ends, n, size, table, scratch)
        k = ZERO
        while k < size * THREE:
            low = scratch[k]
            high = scratch[k + ONE]
            word = scratch[k + TWO]
            # Most pre-tokens are short and in their first slot. One test finds these, without the start of the span.
            if (table[word] ^ low) | (table[word + ONE] ^ high) | (high & _NOT_SHORT) == ZERO:
                table[word + TWO] += ONE
            elif high != SPECIAL_TAG:
                if not _add(table, arena, state, low, high, word, text, _start_of(n, first, ends), ONE):
                    state[NEXT] = np.int64(n)
                    return NEED_SPACE
            k += THREE
            n += ONE
    state[NEXT] = np.int64(n)
    return DONE


@kernel
def add_pretokens(pool, starts, counts, stride, table, arena, state):
    """Add a packed pre-token table (see `arrays.PretokenTable`) to a hash table. Merges the tables of workers.

    Parameters
    ----------
    pool : uint8[:], in
        Readable 16 bytes past the last pre-token.
    starts : int64[n + 1], in
    counts : int64[n], in
        At least 1 each.
    stride : int
        Pre-tokens are added in blocks of ADDED_TOGETHER; `stride` is the distance from each block to the next, modulo the
        number of blocks. The two must be coprime.
    table, arena, state
        As in `count_spans`; NEXT counts pre-tokens in this order, as if all blocks had the same length.

    Returns
    -------
    int
        DONE or NEED_SPACE, as in `count_spans`.

    Notes
    -----
    One probe per pre-token. Neither starts nor counts are checked.

    The pre-tokens of an unpacked table are in the order of their hashes. Added in that order, they would fill one end of
    this table first: the clusters there become long, and probing takes quadratic time. For two tables of Japanese with
    700,000 pre-tokens each this took three times as long.
    """
    slots = table.size // 4
    mask = np.uint64(slots - 1)
    n_blocks = (counts.size + ADDED_TOGETHER - 1) // ADDED_TOGETHER
    for i in range(state[NEXT], n_blocks * ADDED_TOGETHER):
        n = i // ADDED_TOGETHER * stride % n_blocks * ADDED_TOGETHER + i % ADDED_TOGETHER
        if n >= counts.size:
            continue
        if (state[USED] + 1) * 4 > slots * 3:
            state[NEXT] = i
            return NEED_SPACE
        start = np.uint64(starts[n])
        low, high, hashed = pretoken_key(pool, start, np.uint64(starts[n + 1]) - start)
        if not _add(table, arena, state, low, high, (hashed & mask) * FOUR, pool, start, np.uint64(counts[n])):
            state[NEXT] = i
            return NEED_SPACE
    state[NEXT] = n_blocks * ADDED_TOGETHER
    return DONE


@inline
def slot_hash(table, word):
    """Return the hash of the key in a slot; any number for a free slot."""
    return table[word] if table[word + ONE] >= LONG_TAG else hash_key(table[word], table[word + ONE])


@kernel
def rehash(table, larger):
    """Copy all slots of `table` to `larger`.

    Parameters
    ----------
    table : uint64[4 * slots], in
    larger : uint64[4 * more slots], out
        Initially zero.

    Notes
    -----
    O(slots). The arena does not change.
    """
    mask = np.uint64(larger.size // 4 - 1)
    for old in range(0, table.size, 4):
        word = np.uint64(old)
        if table[word + TWO] == ZERO:
            continue
        slot = slot_hash(table, word) & mask
        while larger[slot * FOUR + TWO] != ZERO:
            slot = (slot + ONE) & mask
        for i in range(4):
            larger[slot * FOUR + np.uint64(i)] = table[word + np.uint64(i)]


@kernel
def measure_table(table):
    """Return the number of pre-tokens in a table or a range of slots, without `MOVED` ones, and of their bytes. O(slots)."""
    used = 0
    total = np.int64(0)
    for old in range(0, table.size, 4):
        if table[old + 2] != ZERO and table[old + 2] != MOVED:
            used += 1
            total += np.int64(length_at(table, np.uint64(old)))
    return used, total


@kernel
def unpack_table(table, arena, first, pool, starts, counts):
    """Write the pre-tokens of a table or a range of slots, in their order and without `MOVED` ones, as packed arrays.

    Parameters
    ----------
    table, arena : in
        As in `count_spans`.
    first : int
        Added to all starts.
    pool : uint8[total bytes], out
    starts : int64[n + 1], out
    counts : int64[n], out
        Sizes from `measure_table`.

    Notes
    -----
    O(slots + bytes). Bytes are copied by words of eight, of which the last may write up to 15 bytes too many within `pool`.
    """
    n = ZERO
    position = ZERO
    size = np.uint64(pool.size)
    starts[0] = first
    for old in range(0, table.size, 4):
        word = np.uint64(old)
        count = table[word + TWO]
        if count == ZERO or count == MOVED:
            continue
        high = table[word + ONE]
        if high >= LONG_TAG:
            length = high & _LENGTH
            begin = table[word + THREE]
            i = ZERO
            # The arena is readable eight bytes past its last pre-token.
            while i < length and position + i + EIGHT <= size:
                store_u64(pool, position + i, load_u64(arena, begin + i))
                i += EIGHT
            while i < length:
                pool[position + i] = arena[begin + i]
                i += ONE
        else:
            length = high >> LENGTH_SHIFT
            if position + EIGHT + EIGHT <= size:
                store_u64(pool, position, table[word])
                store_u64(pool, position + EIGHT, high)
            else:
                bits = table[word]
                for i in range(length):
                    if i == 8:
                        bits = high
                    pool[position + np.uint64(i)] = np.uint8(bits & LOW_BYTE)
                    bits >>= EIGHT
        counts[n] = np.int64(count)
        position += length
        n += ONE
        starts[n] = first + np.int64(position)
