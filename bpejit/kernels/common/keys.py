"""Keys and hashes of pre-tokens: what interning and the encoder's cache look up.

A pre-token of up to 15 bytes is its own key: its bytes, zero-filled, in two 64-bit words with the length in the top
byte. Equal keys are equal pre-tokens, so a hit follows no pointer and compares no bytes; about 99 in 100 pre-tokens of
English are that short. A longer one is known by a 64-bit hash and its length, and its bytes are compared.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import fold_multiply, load_u64, prefetch
from bpejit.kernels.constants import SHORT_KEY_BYTES, SPECIAL_FLAG

BATCH = 256
"""Spans whose keys are made, hashed and prefetched before the first is looked up, so that the cache misses overlap."""

BATCH_WORDS = 3
"""Words of a batch per span: the two of its key, and its slot."""

# Masks of the first and second word by length. A table beats shifts: a shift by 64 is undefined, so it needs a branch.
LOW_MASK = np.array([(1 << (8 * min(length, 8))) - 1 for length in range(16 + 1)], dtype=np.uint64)
HIGH_MASK = np.array([(1 << (8 * max(length - 8, 0))) - 1 for length in range(16 + 1)], dtype=np.uint64)

LENGTH_SHIFT = np.uint64(56)
LONG_TAG = np.uint64(0xFF << 56)
"""In place of the length of a key: a longer pre-token."""

SPECIAL_TAG = np.uint64(0xFE << 56)
"""In place of the length of a key: a special token, which no table holds."""

EIGHT, SIXTEEN = np.uint64(8), np.uint64(16)
_ZERO, _ONE, _TWO, _THREE, _FOUR = (np.uint64(number) for number in range(5))
_SHORT = np.uint64(SHORT_KEY_BYTES)
_POSITION = np.uint64(SPECIAL_FLAG - 1)

# Odd constants with about half of their bits set; any such would do.
_MIX_LOW = np.uint64(0x9E3779B97F4A7C15)
_MIX_HIGH = np.uint64(0xD6E8FEB86659FD93)


@inline
def short_key(text, start, length):
    """Return the two words of a pre-token of 1 to 15 bytes.

    Parameters
    ----------
    text : uint8[:], in
        Readable up to `start + 16`.
    start, length : uint64
    """
    low, high = _first_bytes(text, start, length)
    return low, high | (length << LENGTH_SHIFT)


@inline
def hash_key(low, high):
    """Hash the two words of a key: one wide multiplication of each word with a constant mixed in."""
    return fold_multiply(low ^ _MIX_LOW, high ^ _MIX_HIGH)


@inline
def hash_bytes(text, start, length):
    """Hash `length` bytes from `start`: sixteen at a time, the last sixteen wherever they begin.

    Up to 32 bytes that needs no loop, whose end would be mispredicted for most sentences, and no multiplication waits for
    another one. Of fewer than sixteen bytes, fifteen at most behind the end are read and ignored.
    """
    mixed = fold_multiply(length, _MIX_LOW)
    if length <= SIXTEEN:
        low, high = _first_bytes(text, start, length)
        return fold_multiply(low ^ mixed ^ _MIX_LOW, high ^ _MIX_HIGH)
    last = start + length - SIXTEEN
    value = _hash_sixteen(text, start, mixed)
    position = start + SIXTEEN
    while position < last:
        value = fold_multiply(value ^ _MIX_HIGH, _MIX_LOW) ^ _hash_sixteen(text, position, mixed)
        position += SIXTEEN
    return fold_multiply(value ^ _MIX_HIGH, _MIX_LOW) ^ _hash_sixteen(text, last, mixed)


@inline
def _first_bytes(text, start, length):
    """Return up to sixteen bytes as two words, filled up with zeros."""
    return load_u64(text, start) & LOW_MASK[length], load_u64(text, start + EIGHT) & HIGH_MASK[length]


@inline
def _hash_sixteen(text, start, mixed):
    return fold_multiply(load_u64(text, start) ^ mixed ^ _MIX_LOW, load_u64(text, start + EIGHT) ^ _MIX_HIGH)


@inline
def equal_bytes(a, a_start, b, b_start, length):
    """Whether two runs of `length` bytes are equal; both arrays readable for 16 bytes more."""
    if length <= SIXTEEN:
        low, high = _first_bytes(a, a_start, length)
        other_low, other_high = _first_bytes(b, b_start, length)
        return (low ^ other_low) | (high ^ other_high) == _ZERO
    last = length - SIXTEEN
    differing = _differ_sixteen(a, a_start, b, b_start) | _differ_sixteen(a, a_start + last, b, b_start + last)
    offset = SIXTEEN
    while offset < last and differing == _ZERO:
        differing = _differ_sixteen(a, a_start + offset, b, b_start + offset)
        offset += SIXTEEN
    return differing == _ZERO


@inline
def _differ_sixteen(a, a_start, b, b_start):
    """Return 0 if sixteen bytes are equal."""
    low = load_u64(a, a_start) ^ load_u64(b, b_start)
    return low | (load_u64(a, a_start + EIGHT) ^ load_u64(b, b_start + EIGHT))


@inline
def make_keys(text, start, ends, span, size, slots, batch):
    """Write key and slot of `size` spans to `batch`, and ask for the cache lines of their slots.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    start, span, size : uint64
        The first of these spans is `span`, and begins at `start`.
    ends : uint32[:], in
        Ends of the spans, with the special flag.
    slots : uint64[4 * slots], in
        The table in which they will be looked for: a slot has four words, and their number is a power of two.
    batch : uint64[BATCH_WORDS * size], out

    Returns
    -------
    uint64
        How many of the keys are long.
    """
    k = _ZERO
    mask = np.uint64(slots.size // 4 - 1)
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
            high = SPECIAL_TAG
            hashed = _ZERO
        else:
            low = hash_bytes(text, start, length)
            high = LONG_TAG | length
            hashed = low
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
