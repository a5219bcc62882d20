"""Decode token ids to bytes.

A table has a slot of 16 bytes for each id, so that a token of up to 15 bytes takes one access to memory:

    length 1 to 15   the bytes of the token, then zeros                 byte 15: the length
    other lengths    position in the pool (8 bytes), length (7 bytes)   byte 15: LONG
    not in use       zeros                                              byte 15: UNUSED
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.kernels.constants import DONE, EIGHT, NEED_SPACE, ONE, SIXTEEN, THREE, TWO, ZERO

SLOT_BYTES = 16
"""Size of a slot. The output has as many bytes more than the longest token."""

SHORT = np.uint64(SLOT_BYTES - 1)
"""Longest token that is stored in its slot."""

LONG = np.uint64(16)
"""Last byte of the slot of any other token."""

UNUSED = ZERO
"""Last byte of the slot of an id that is not in use."""

LENGTH_SHIFT = np.uint64(56)
"""Shift to the last byte of a slot, in its second word."""

LENGTH_MASK = np.uint64((1 << 56) - 1)
"""Mask of the length of a token that is not in its slot, in the second word of the slot."""

UNKNOWN_ID = 4
"""Status: the next id is not in the vocabulary."""

N_IDS = 0
"""Field of the state: ids decoded so far."""

N_BYTES = 1
"""Field of the state: bytes written by the last call."""


@kernel
def fill_slots(pool, starts, numbers, slots, lengths):
    """Fill the slots of tokens.

    Parameters
    ----------
    pool : uint8[:], in
        Concatenated bytes of all tokens; readable 16 bytes past the end.
    starts : int64[n + 1], in
    numbers : int64[n], in
        The id of each token, below the size of the vocabulary. Of tokens with one id, the last one counts.
    slots : uint64[2 * vocabulary size], out
        The table of the module docstring; the slots of other ids are unchanged.
    lengths : int64[vocabulary size], out
        The number of bytes of each token; those of other ids are unchanged.
    """
    for i in range(numbers.size):
        begin = np.uint64(starts[i])
        length = np.uint64(starts[i + 1]) - begin
        number = np.uint64(numbers[i])
        low = begin
        high = LONG << LENGTH_SHIFT | length
        if ZERO < length <= SHORT:
            low = load_u64(pool, begin)
            high = length << LENGTH_SHIFT
            if length < EIGHT:
                low &= (ONE << (length << THREE)) - ONE
            else:
                high |= load_u64(pool, begin + EIGHT) & ((ONE << ((length - EIGHT) << THREE)) - ONE)
        slots[number * TWO] = low
        slots[number * TWO + ONE] = high
        lengths[number] = np.int64(length)


@kernel
def decode_ids(ids, slots, pool, out, state):
    """Write the concatenated bytes of tokens, until all ids are decoded, the output is full, or an id is unknown.

    Parameters
    ----------
    ids : int64[n], in
        Any values.
    slots : uint64[2 * vocabulary size], in
        The table of the module docstring.
    pool : uint8[:], in
        Concatenated bytes of all tokens; readable 8 bytes past the end.
    out : uint8[m], out
        At least SLOT_BYTES more than the longest token, so that each call decodes an id. Bytes after the last token may be
        overwritten.
    state : int64[2], in-out
        N_IDS is the index of the first id to decode, then of the first one that was not decoded; N_BYTES is set to the number
        of bytes written.

    Returns
    -------
    int
        DONE; NEED_SPACE if `out` must be emptied; UNKNOWN_ID.

    Notes
    -----
    All 16 bytes of a slot are copied, whatever the length; the next token overwrites the excess. With start and length of each
    token in a table, and its bytes elsewhere, decoding takes one and a half to two times as long.
    """
    i = np.uint64(state[N_IDS])
    n = ZERO
    size = np.uint64(ids.size)
    n_slots = np.uint64(slots.size) >> ONE
    last = np.uint64(out.size) - SIXTEEN
    status = DONE
    while i < size:
        number = np.uint64(ids[i])
        if number >= n_slots:
            status = UNKNOWN_ID
            break
        if n > last:
            status = NEED_SPACE
            break
        low = slots[number * TWO]
        high = slots[number * TWO + ONE]
        store_u64(out, n, low)
        store_u64(out, n + EIGHT, high)
        length = high >> LENGTH_SHIFT
        if length == UNUSED or length > SHORT:
            if length == UNUSED:
                status = UNKNOWN_ID
                break
            length = high & LENGTH_MASK
            if n + length > last:
                status = NEED_SPACE
                break
            offset = ZERO
            while offset < length:
                store_u64(out, n + offset, load_u64(pool, low + offset))
                offset += EIGHT
        n += length
        i += ONE
    state[N_IDS] = np.int64(i)
    state[N_BYTES] = np.int64(n)
    return status
