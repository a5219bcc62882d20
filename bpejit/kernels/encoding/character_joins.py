"""Between which characters merges occur: tables for merging from characters (see `character_merging`).

`joins` tells at which boundaries merges may occur. It is two bit sets. The first 65536 bits are indexed by the two bytes
around the boundary; a set bit means that the last merge of some token occurs between these bytes, and that the token on one of
its sides has only a part of the character there. The other bits are a hash table of pairs of such units: complete characters,
and single bytes of incomplete ones. A bit that is set without need costs time, and changes no id.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply, load_u64
from bpejit.kernels.constants import HALF, ONE, THREE, ZERO
from bpejit.kernels.encoding.token_derivations import (
    SPLIT_LEFT_SHIFT,
    SPLIT_RIGHT_SHIFT,
    SPLIT_TOKEN_MASK,
    UNREACHABLE,
)

JOIN_BYTE_WORDS = 1 << 10
"""Words of `joins` for pairs of bytes."""

N_CODES = 1 << 16
"""Size of `character_tokens`: code points of at most three bytes."""

NO_CHARACTER = np.uint32(0xFFFF_FFFF)
"""Entry of `character_tokens` for a character that is not a token."""

NO_JOIN = np.uint64(0)
CHARACTER_JOIN = np.uint64(1)
LEFT_BYTES = np.uint64(2)
RIGHT_BYTES = np.uint64(4)
ANY_JOIN = LEFT_BYTES | RIGHT_BYTES

CHARACTER_BITS = np.uint64(24)
"""Shift to the second of two three-byte characters in a word."""

_WORD_BITS = np.uint64(6)
_WORD_MASK = np.uint64(63)
_JOIN_BYTES = np.uint64(JOIN_BYTE_WORDS)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_CHARACTER_MASK = np.uint64(0xC0C0F0)
_CHARACTER = np.uint64(0x8080E0)
_THREE_BYTES = np.uint64(0xFFFFFF)
_SINGLE_BYTE = np.uint64(1 << 24)
_BYTE = np.uint64(0xFF)
_BYTE_BITS = np.uint64(8)
_SIXTEEN_BITS = np.uint64(16)


@inline
def _join_bit(joins, before, after):
    """Return the index of the bit for two units."""
    bits = (np.uint64(joins.size) - _JOIN_BYTES) << _WORD_BITS
    return (_JOIN_BYTES << _WORD_BITS) + (fold_multiply(before << HALF | after, _MIX) & (bits - ONE))


@inline
def bit_is_set(joins, bit):
    """Return the bit with this index, 0 or 1."""
    return joins[bit >> _WORD_BITS] >> (bit & _WORD_MASK) & ONE


@inline
def _set_bit(joins, bit):
    joins[bit >> _WORD_BITS] |= ONE << (bit & _WORD_MASK)


@inline
def token_pair_bit(pair_bits, left, right):
    """Return the index of the bit for two tokens."""
    return fold_multiply(right << HALF | left, _MIX) & ((np.uint64(pair_bits.size) << _WORD_BITS) - ONE)


@inline
def is_character(word):
    """Return True if a word of bytes starts with a lead byte of three and two continuation bytes."""
    return word & _CHARACTER_MASK == _CHARACTER


@inline
def starts_with_character(text, start):
    """Return True if a pre-token starts with a three-byte character, after at most one other byte."""
    word = load_u64(text, start)
    return is_character(word) or is_character(word >> _BYTE_BITS)


@inline
def code_of(word):
    """Return the index in `character_tokens` of the character with which a word of bytes starts."""
    high = (word & np.uint64(0xF)) << np.uint64(12)
    return high | (word >> np.uint64(8) & np.uint64(0x3F)) << np.uint64(6) | (word >> np.uint64(16) & np.uint64(0x3F))


@inline
def find_join(joins, word):
    """Return which merges may cross the boundary between two three-byte characters.

    Parameters
    ----------
    joins : uint64[JOIN_BYTE_WORDS + a power of two], in
    word : uint64
        The bytes of both in its lower six bytes.

    Returns
    -------
    uint64
        NO_JOIN, or the sum of: CHARACTER_JOIN, if tokens with both characters may merge; LEFT_BYTES and RIGHT_BYTES, if tokens
        may merge that have only a part of the left or of the right one.
    """
    before = word & _THREE_BYTES
    after = word >> CHARACTER_BITS & _THREE_BYTES
    join = bit_is_set(joins, _join_bit(joins, before, after))
    last = before >> _SIXTEEN_BITS
    first = after & _BYTE
    if bit_is_set(joins, last << _BYTE_BITS | first) != ZERO:
        last |= _SINGLE_BYTE
        first |= _SINGLE_BYTE
        join |= bit_is_set(joins, _join_bit(joins, last, after)) * LEFT_BYTES
        join |= bit_is_set(joins, _join_bit(joins, before, first)) * RIGHT_BYTES
        join |= bit_is_set(joins, _join_bit(joins, last, first)) * ANY_JOIN
    return join


@kernel
def build_joins(pool, starts, splits, joins, pair_bits, character_tokens):
    """Set the bits of all pairs of units between which the last merge of a token occurs, and list the characters.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all internal tokens, end to end; readable 8 bytes past the last.
    starts : int64[n + 1], in
    splits : uint64[n], in
        See `token_derivations`.
    joins : uint64[JOIN_BYTE_WORDS + a power of two], in-out
        All zeros on entry.
    pair_bits : uint64[a power of two], in-out
        All zeros on entry. Receives a bit for each pair of tokens that is the last merge of one.
    character_tokens : uint32[N_CODES], in-out
        NO_CHARACTER on entry. Receives the token of each three-byte character, indexed by its code point.

    Returns
    -------
    int
        Number of pairs, repetitions included.
    """
    n = 0
    for i in range(splits.size):
        split = splits[i]
        if split == ZERO or split == UNREACHABLE:
            continue
        start, stop = np.uint64(starts[i]), np.uint64(starts[i + 1])
        if stop - start == THREE and is_character(load_u64(pool, start)):
            code = code_of(load_u64(pool, start))
            if code >= np.uint64(0x800):  # not an overlong character
                character_tokens[code] = i
        left = split >> SPLIT_LEFT_SHIFT & SPLIT_TOKEN_MASK
        right = split >> SPLIT_RIGHT_SHIFT & SPLIT_TOKEN_MASK
        _set_bit(pair_bits, token_pair_bit(pair_bits, left, right))
        middle = start + np.uint64(starts[left + ONE] - starts[left])
        last = np.uint64(pool[middle - ONE])
        first = np.uint64(pool[middle])
        if last & np.uint64(0xC0) != np.uint64(0x80) or first & np.uint64(0xF0) != np.uint64(0xE0):
            continue
        byte_bit = last << _BYTE_BITS | first
        last |= _SINGLE_BYTE
        first |= _SINGLE_BYTE
        is_complete = True
        if middle - start >= THREE and is_character(load_u64(pool, middle - THREE)):
            last = load_u64(pool, middle - THREE) & _THREE_BYTES
        else:
            is_complete = False
        if stop - middle >= THREE and is_character(load_u64(pool, middle)):
            first = load_u64(pool, middle) & _THREE_BYTES
        else:
            is_complete = False
        _set_bit(joins, _join_bit(joins, last, first))
        if not is_complete:
            _set_bit(joins, byte_bit)
        n += 1
    return n
