"""Decode token ids to bytes.

A table has a slot of 16 bytes for each id, so that a token of up to 15 bytes takes one access to memory:

    length 1 to 15   the bytes of the token, then zeros                 byte 15: IN_SLOT + length
    other lengths    position in the pool (8 bytes), length (7 bytes)   byte 15: LONG
    not in use       zeros                                              byte 15: UNUSED

The number of slots is a power of two, so that one comparison finds whether any of several ids is too large.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.kernels.common.keys import LENGTH_SHIFT, short_key
from bpejit.kernels.constants import DONE, EIGHT, FOUR, NEED_SPACE, ONE, SIXTEEN, THREE, TWO, WORD_BITS, ZERO

SLOT_BYTES = 16
"""Size of a slot. The output has as many bytes more than the longest token."""

SHORT = np.uint64(SLOT_BYTES - 1)
"""Longest token that is stored in its slot."""

IN_SLOT = np.uint64(128)
"""Bit of the last byte of the slot of such a token, so that one test finds whether several tokens are in their slots."""

LONG = np.uint64(16)
"""Last byte of the slot of any other token."""

UNUSED = ZERO
"""Last byte of the slot of an id that is not in use."""

LENGTH_MASK = np.uint64((1 << 56) - 1)
"""Mask of the length of a token that is not in its slot, in the second word of the slot."""

UNKNOWN_ID = 4
"""Status: the next id is not in the vocabulary."""

N_IDS = 0
"""Field of the state: ids decoded so far."""

N_BYTES = 1
"""Field of the state: bytes in the output."""


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
    slots : uint64[2 * number of slots], out
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
            low, high = short_key(pool, begin, length)
            high |= IN_SLOT << LENGTH_SHIFT
        slots[number * TWO] = low
        slots[number * TWO + ONE] = high
        lengths[number] = np.int64(length)


@inline
def decode_pairs(ids, position, stop, step, slots, out, n):
    """Append the bytes of tokens, two at a time, up to a pair with one that is not in its slot or unknown, or the last one.

    A pair has one test for all that is unusual, so that decoding takes 0.9 ns for a token instead of 1.15. Four tokens at a
    time, or joining the bytes of four in a wide register (AVX-512), are not faster.

    Parameters
    ----------
    ids : uint8[:], in
        As in `decode_ids`.
    position, stop : uint64
        The range of the ids, in bytes, not empty. There must be room for each of them, whatever their lengths.
    step : uint64
        Bytes of an id.
    slots, out
        As in `decode_ids`.
    n : uint64
        The number of bytes in `out`.

    Returns
    -------
    position, n : uint64
        The first id that was not decoded, and the number of bytes in `out`.
    """
    mask = ~ZERO >> (WORD_BITS - (step << THREE))
    n_slots = np.uint64(slots.size) // SIXTEEN
    last = stop - step
    while position < last:
        first = load_u64(ids, position) & mask
        second = load_u64(ids, position + step) & mask
        if first | second >= n_slots:
            break
        first *= SIXTEEN
        second *= SIXTEEN
        first_length = np.uint64(slots[first + SHORT])
        second_length = np.uint64(slots[second + SHORT])
        if first_length & second_length & IN_SLOT == ZERO:
            break
        # All loads precede the stores, which might change the slots as far as LLVM knows.
        low, high = load_u64(slots, first), load_u64(slots, first + EIGHT)
        next_low, next_high = load_u64(slots, second), load_u64(slots, second + EIGHT)
        store_u64(out, n, low)
        store_u64(out, n + EIGHT, high)
        n += first_length - IN_SLOT
        store_u64(out, n, next_low)
        store_u64(out, n + EIGHT, next_high)
        n += second_length - IN_SLOT
        position += step + step
    return position, n


@kernel
def decode_ids(ids, size, width, slots, pool, out, state):
    """Append the bytes of tokens to the output, until all ids are decoded, the output is full, or an id is unknown.

    Parameters
    ----------
    ids : uint8[:], in
        Begins with `size` little-endian numbers of any values; readable 8 bytes from the start of each.
    size : int
        Number of ids.
    width : int
        Bytes of an id: 2, 4 or 8.
    slots : uint8[16 * number of slots], in
        The table of the module docstring.
    pool : uint8[:], in
        Concatenated bytes of all tokens; readable 8 bytes past the end.
    out : uint8[m], in-out
        At least SLOT_BYTES more than the longest token, so that a call with an empty output decodes an id. Bytes after the
        last token may be overwritten.
    state : int64[2], in-out
        N_IDS is the index of the first id to decode, then of the first one that was not decoded; N_BYTES is the number of
        bytes in `out`, before and after the call.

    Returns
    -------
    int
        DONE; NEED_SPACE if `out` must be emptied; UNKNOWN_ID.

    Notes
    -----
    All 16 bytes of a slot are copied, whatever the length; the next token overwrites the excess. The length is read as a byte,
    so that the two halves of the slot become one load and one store of 16 bytes, a fifth faster. With start and length of each
    token in a table, and its bytes elsewhere, decoding takes one and a half to two times as long. Prefetching the slots of
    later ids is not faster.
    """
    step = np.uint64(width)
    mask = ~ZERO >> (WORD_BITS - (step << THREE))
    position = np.uint64(state[N_IDS]) * step
    end = np.uint64(size) * step
    n = np.uint64(state[N_BYTES])
    n_slots = np.uint64(slots.size) // SIXTEEN
    last = np.uint64(out.size) - SIXTEEN
    status = DONE
    while position < end:
        if n > last:
            status = NEED_SPACE
            break
        # The tokens for which there is room, whatever their lengths.
        stop = min(end, position + ((last - n) // SIXTEEN + ONE) * step)
        if step == TWO:  # a constant saves an instruction for each id: 4 to 8% of the time
            position, n = decode_pairs(ids, position, stop, TWO, slots, out, n)
        elif step == FOUR:
            position, n = decode_pairs(ids, position, stop, FOUR, slots, out, n)
        else:
            position, n = decode_pairs(ids, position, stop, EIGHT, slots, out, n)
        if position == stop:
            continue
        number = load_u64(ids, position) & mask
        if number >= n_slots:
            status = UNKNOWN_ID
            break
        slot = number * SIXTEEN
        length = np.uint64(slots[slot + SHORT])
        if length == UNUSED:
            status = UNKNOWN_ID
            break
        if length & IN_SLOT:
            length -= IN_SLOT
            low, high = load_u64(slots, slot), load_u64(slots, slot + EIGHT)
            store_u64(out, n, low)
            store_u64(out, n + EIGHT, high)
        else:
            start = load_u64(slots, slot)
            length = load_u64(slots, slot + EIGHT) & LENGTH_MASK
            if n + length > last:
                status = NEED_SPACE
                break
            offset = ZERO
            while offset < length:
                store_u64(out, n + offset, load_u64(pool, start + offset))
                offset += EIGHT
        n += length
        position += step
    state[N_IDS] = np.int64(position // step)
    state[N_BYTES] = np.int64(n)
    return status
