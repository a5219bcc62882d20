"""Keys and hashes of pre-tokens, for interning and the cache of the encoder.

A pre-token of up to 15 bytes is its own key: its bytes, zero-padded, in two 64-bit words with the length in the top byte.
Equal keys are equal pre-tokens, so a hit follows no pointer and compares no bytes; about 99 in 100 pre-tokens of English are
that short. A longer pre-token is identified by a 64-bit hash and its length, and its bytes are compared.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import fold_multiply, load_u64, prefetch
from bpejit.kernels.constants import EIGHT, END_POSITION, FOUR, MIX, ONE, SHORT_KEY, SIXTEEN, THREE, TWO, ZERO

BATCH = 256
"""Number of keys that are computed and prefetched before the first is looked up, so that cache misses overlap."""

BATCH_WORDS = 3
"""Words per span in a batch: two of the key, and the index of its slot."""

# Masks of the first and second word by length. Shifts would need a branch, since a shift by 64 is undefined.
LOW_MASK = np.array([(1 << (8 * min(length, 8))) - 1 for length in range(16 + 1)], dtype=np.uint64)
HIGH_MASK = np.array([(1 << (8 * max(length - 8, 0))) - 1 for length in range(16 + 1)], dtype=np.uint64)

LENGTH_SHIFT = np.uint64(56)
LONG_TAG = np.uint64(0xFF << 56)
"""Stored instead of the length in the keys of pre-tokens of more than 15 bytes."""

SPECIAL_TAG = np.uint64(0xFE << 56)
"""Stored instead of the length in the keys of special tokens, which no table contains."""


# Odd constants with about half of their bits set; the values do not matter otherwise.
_MIX_HIGH = np.uint64(0xD6E8FEB86659FD93)


@inline
def short_key(text, start, length):
    """Return the two words of the key of a pre-token of 1 to 15 bytes.

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
    """Hash the two words of a key by one wide multiplication."""
    return fold_multiply(low ^ MIX, high ^ _MIX_HIGH)


@inline
def hash_bytes(text, start, length):
    """Hash `length` bytes from `start`, in blocks of 16; the last block overlaps the one before if necessary.

    Up to 32 bytes need no loop, whose exit would be mispredicted for most sentences, and their multiplications are
    independent. Up to 15 bytes after the end are read and ignored.
    """
    mixed = fold_multiply(length, MIX)
    if length <= SIXTEEN:
        low, high = _first_bytes(text, start, length)
        return fold_multiply(low ^ mixed ^ MIX, high ^ _MIX_HIGH)
    last = start + length - SIXTEEN
    value = _hash_sixteen(text, start, mixed)
    position = start + SIXTEEN
    while position < last:
        value = fold_multiply(value ^ _MIX_HIGH, MIX) ^ _hash_sixteen(text, position, mixed)
        position += SIXTEEN
    return fold_multiply(value ^ _MIX_HIGH, MIX) ^ _hash_sixteen(text, last, mixed)


@inline
def _first_bytes(text, start, length):
    """Return up to 16 bytes as two zero-padded words."""
    return load_u64(text, start) & LOW_MASK[length], load_u64(text, start + EIGHT) & HIGH_MASK[length]


@inline
def _hash_sixteen(text, start, mixed):
    return fold_multiply(load_u64(text, start) ^ mixed ^ MIX, load_u64(text, start + EIGHT) ^ _MIX_HIGH)


@inline
def equal_bytes(a, a_start, b, b_start, length):
    """Return True if two ranges of `length` bytes are equal. Both arrays must be readable 16 bytes past the end."""
    if length <= SIXTEEN:
        low, high = _first_bytes(a, a_start, length)
        other_low, other_high = _first_bytes(b, b_start, length)
        return (low ^ other_low) | (high ^ other_high) == ZERO
    last = length - SIXTEEN
    differing = _differ_sixteen(a, a_start, b, b_start) | _differ_sixteen(a, a_start + last, b, b_start + last)
    offset = SIXTEEN
    while offset < last and differing == ZERO:
        differing = _differ_sixteen(a, a_start + offset, b, b_start + offset)
        offset += SIXTEEN
    return differing == ZERO


@inline
def _differ_sixteen(a, a_start, b, b_start):
    """Return 0 if 16 bytes are equal, and another number otherwise."""
    low = load_u64(a, a_start) ^ load_u64(b, b_start)
    return low | (load_u64(a, a_start + EIGHT) ^ load_u64(b, b_start + EIGHT))


@inline
def pretoken_key(text, start, length):
    """Return the two words of the key of a pre-token of any length, and their hash."""
    if length <= SHORT_KEY:
        low, high = short_key(text, start, length)
        return low, high, hash_key(low, high)
    low = hash_bytes(text, start, length)
    return low, LONG_TAG | length, low


@inline
def span_key(text, start, end):
    """Return the key of the span from `start` to `end`, which has the special flag, and its hash, 0 for a special token."""
    length = end - start  # the flag makes this exceed the length of any text, so most spans take one comparison
    if length > SHORT_KEY and end > END_POSITION:
        return ZERO, SPECIAL_TAG, ZERO
    return pretoken_key(text, start, length)


@inline
def make_keys(text, start, ends, span, size, slots, batch):
    """Write the keys and slots of `size` spans to `batch`, and prefetch the slots.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    start, span, size : uint64
        The first of these spans has the index `span` and the start `start`.
    ends : uint32[:], in
        Ends of the spans, with the special flag.
    slots : uint64[4 * slots], in
        The table that will be probed. The number of slots is a power of two.
    batch : uint64[BATCH_WORDS * size], out
    """
    k = ZERO
    mask = np.uint64(slots.size // 4 - 1)
    last = span + size
    while span < last:
        end = np.uint64(ends[span])
        low, high, hashed = span_key(text, start, end)
        word = (hashed & mask) * FOUR
        prefetch(slots, word)
        batch[k] = low
        batch[k + ONE] = high
        batch[k + TWO] = word
        k += THREE
        start = end & END_POSITION
        span += ONE
