"""Between which characters merges occur: tables for merging from characters (see `character_merging`).

`joins` tells at which boundaries merges may occur. It is a hash table of bits for the pairs of units between which the last
merge of some token occurs: complete characters, and single bytes of incomplete ones. `characters` tells which units next to a
character may be incomplete, so that one boundary in five of Japanese needs more than one lookup. A bit that is set without need
costs time, and changes no id.
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

N_CODES = 1 << 16
"""Size of `characters`: code points of at most three bytes."""

NO_CHARACTER = np.uint64((1 << 20) - 1)
"""Token in `characters` of a character that is not a token."""

NO_JOIN = np.uint64(0)
CHARACTER_JOIN = np.uint64(1)
LEFT_BYTES = np.uint64(2)
RIGHT_BYTES = np.uint64(4)
ANY_JOIN = LEFT_BYTES | RIGHT_BYTES

CHARACTER_BITS = np.uint64(24)
"""Shift to the second of two three-byte characters in a word."""

_WORD_BITS = np.uint64(6)
_WORD_MASK = np.uint64(63)
_AFTER_SHIFT, _BEFORE_SHIFT = np.uint64(20), np.uint64(28)
_SEVEN = np.uint64(7)
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
    return fold_multiply(before << HALF | after, _MIX) & ((np.uint64(joins.size) << _WORD_BITS) - ONE)


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
    """Return the index in `characters` of the character with which a word of bytes starts."""
    high = (word & np.uint64(0xF)) << np.uint64(12)
    return high | (word >> np.uint64(8) & np.uint64(0x3F)) << np.uint64(6) | (word >> np.uint64(16) & np.uint64(0x3F))


@inline
def _after_bit(first):
    """Return the bit of `characters` for a merge with only a part of the next one, which has this lead byte; two share it."""
    return ONE << (_AFTER_SHIFT + (first & _SEVEN))


@inline
def _before_bit(last):
    """Return the same for a part of the previous character, which has this last byte; 16 share it."""
    return ONE << (_BEFORE_SHIFT + (last & THREE))


@inline
def find_join(joins, characters, word):
    """Return which merges may cross the boundary between two three-byte characters.

    Parameters
    ----------
    joins : uint64[a power of two], in
    characters : uint32[N_CODES], in
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
    parts_after = np.uint64(characters[code_of(word)]) & _after_bit(first)
    parts_before = np.uint64(characters[code_of(word >> CHARACTER_BITS)]) & _before_bit(last)
    if parts_after | parts_before != ZERO:
        last |= _SINGLE_BYTE
        first |= _SINGLE_BYTE
        join |= bit_is_set(joins, _join_bit(joins, last, after)) * LEFT_BYTES
        join |= bit_is_set(joins, _join_bit(joins, before, first)) * RIGHT_BYTES
        join |= bit_is_set(joins, _join_bit(joins, last, first)) * ANY_JOIN
    return join


@kernel
def build_joins(pool, starts, splits, joins, pair_bits, characters):
    """Set the bits of all pairs of units between which the last merge of a token occurs, and list the characters.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all internal tokens, end to end; readable 8 bytes past the last.
    starts : int64[n + 1], in
    splits : uint64[n], in
        See `token_derivations`.
    joins : uint64[a power of two], in-out
        All zeros on entry.
    pair_bits : uint64[a power of two], in-out
        All zeros on entry. Receives a bit for each pair of tokens that is the last merge of one.
    characters : uint32[N_CODES], in-out
        NO_CHARACTER on entry. Receives an entry for each three-byte character, indexed by its code point: the token in 20 bits,
        then 8 and 4 bits for the characters after and before it of which a merge may have only a part.

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
                characters[code] = np.uint32(np.uint64(characters[code]) & ~NO_CHARACTER | np.uint64(i))
        left = split >> SPLIT_LEFT_SHIFT & SPLIT_TOKEN_MASK
        right = split >> SPLIT_RIGHT_SHIFT & SPLIT_TOKEN_MASK
        _set_bit(pair_bits, token_pair_bit(pair_bits, left, right))
        middle = start + np.uint64(starts[left + ONE] - starts[left])
        last = np.uint64(pool[middle - ONE])
        first = np.uint64(pool[middle])
        if last & np.uint64(0xC0) != np.uint64(0x80) or first & np.uint64(0xF0) != np.uint64(0xE0):
            continue
        after_bit, before_bit = _after_bit(first), _before_bit(last)
        has_left = middle - start >= THREE and is_character(load_u64(pool, middle - THREE))
        has_right = stop - middle >= THREE and is_character(load_u64(pool, middle))
        left = load_u64(pool, middle - THREE) if has_left else ZERO
        right = load_u64(pool, middle) if has_right else ZERO
        if has_left and not has_right:
            characters[code_of(left)] |= np.uint32(after_bit)
        elif has_right and not has_left:
            characters[code_of(right)] |= np.uint32(before_bit)
        elif not has_left:
            for high in range(1 << 10):  # all characters with this last byte
                characters[np.uint64(high) << _WORD_BITS | last & _WORD_MASK] |= np.uint32(after_bit)
        last = left & _THREE_BYTES if has_left else last | _SINGLE_BYTE
        first = right & _THREE_BYTES if has_right else first | _SINGLE_BYTE
        _set_bit(joins, _join_bit(joins, last, first))
        n += 1
    return n
