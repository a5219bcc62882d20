"""Pre-tokens that several hash tables have in common, and the sums of their counts.

Each pre-token is looked up once, in an index of the pre-tokens of all tables, so the time is linear in the number of slots. If
each table were searched in all tables before it, it would grow with the square of the number of workers. The pre-tokens are
divided by their hash, so that an index fits into the CPU cache, and that threads process different pre-tokens.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import array_at
from bpejit.kernels.common.keys import LONG_TAG, equal_bytes
from bpejit.kernels.constants import DONE, FOUR, HALF, LOW_HALF, NEED_SPACE, ONE, THREE, TWO, ZERO
from bpejit.kernels.counting.interning import MOVED, length_at, slot_hash


@inline
def _table_at(addresses, number):
    """Return the slots and the arena of a table."""
    return array_at(addresses, 2 * number, np.uint64), array_at(addresses, 2 * number + 1, np.uint8)


@inline
def same_pretoken(table, arena, word, other, other_arena, other_word):
    """Return True if two slots, which may be in different tables, have the same pre-token."""
    high = table[word + ONE]
    if table[word] != other[other_word] or high != other[other_word + ONE]:
        return False
    length = length_at(table, word)
    return high < LONG_TAG or equal_bytes(arena, table[word + THREE], other_arena, other[other_word + THREE], length)


@inline
def find_pretoken(addresses, index, table, arena, word, hashed):
    """Return the place in the index of the pre-token in a slot, or the free place for it (uint64)."""
    mask = np.uint64(index.size) - ONE
    # The low bits of the hash are similar for all pre-tokens of a part.
    place = (hashed >> HALF) & mask
    while index[place] != ZERO:
        other, other_arena = _table_at(addresses, np.int64(index[place] >> HALF) - 1)
        if same_pretoken(table, arena, word, other, other_arena, (index[place] & LOW_HALF) * FOUR):
            break
        place = (place + ONE) & mask
    return place


@kernel
def move_common(addresses, part, n_parts, least_slots, index):
    """Add the counts of each pre-token to its slot in the first table that has it, for a part of the pre-tokens.

    Parameters
    ----------
    addresses : int64[4 * tables], in
        `addresses_of` the slots (uint64[4 * slots], in-out) and the arena (uint8[:]) of each table. Tables are those of
        `count_spans`, with fewer than 2^32 slots, and there are fewer than 2^32 tables. The counts of pre-tokens that an
        earlier table has become `MOVED`.
    part, n_parts : uint64
        The part consists of the pre-tokens whose hash modulo `least_slots` is in range `part` of `n_parts` equal ranges.
    least_slots : uint64
        Number of slots of the smallest table; `n_parts` divides it.
    index : uint64[:], scratch
        A power of two, at least 2. An entry is `(table + 1) << 32 | slot`.

    Returns
    -------
    int
        `DONE`, or `NEED_SPACE` if the index would be more than half full: call again with a larger one, for the whole part.

    Notes
    -----
    O(slots of the part), and one lookup in the index for each pre-token of it. Threads may process different parts at the same
    time: each pre-token, and so each count, belongs to one part.
    """
    size = least_slots // n_parts
    n_entries = ZERO
    for place in range(index.size):
        index[place] = ZERO
    for number in range(addresses.size // 4):
        table, arena = _table_at(addresses, number)
        slots = np.uint64(table.size // 4)
        begin = part * size
        while begin < slots:
            # A pre-token is in the slot of its hash or, if that was taken, in one of those after it, before the next free one.
            i = ZERO
            while i < slots:
                slot = (begin + i) & (slots - ONE)
                word = slot * FOUR
                i += ONE
                if table[word + TWO] == ZERO:
                    if i >= size:
                        break
                    continue
                hashed = slot_hash(table, word)
                home = hashed & (slots - ONE)
                if home < begin or home >= begin + size or table[word + TWO] == MOVED:
                    continue
                place = find_pretoken(addresses, index, table, arena, word, hashed)
                if index[place] == ZERO:
                    if (n_entries + ONE) * TWO > np.uint64(index.size):
                        return NEED_SPACE
                    n_entries += ONE
                    index[place] = np.uint64(number + 1) << HALF | slot
                else:
                    other, _ = _table_at(addresses, np.int64(index[place] >> HALF) - 1)
                    other[(index[place] & LOW_HALF) * FOUR + TWO] += table[word + TWO]
                    table[word + TWO] = MOVED
            begin += least_slots
    return DONE
