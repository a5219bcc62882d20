"""Between which characters merges occur: tables for merging from characters (see `character_merging`).

They tell at which boundaries the last merge of some token occurs, and whether the characters on both sides are complete:

- `joins` is a hash table of bits for the pairs of complete characters.
- `neighbors` has two sets for each kind of character: the lead bytes of characters after it of which a merge may have only a
  part, and the last bytes of such characters before it. Few kinds are different (a hundred in a vocabulary of Japanese), so the
  sets are in the first-level cache, and `characters` has the kind of each character beside its token.

All of these are read for each boundary, without a branch. A bit that is set without need costs time, and changes no id.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply, load_u64, prefetch
from bpejit.kernels.common.characters import decode_three
from bpejit.kernels.constants import EIGHT, LAST_BIT, MIX, ONE, SIX, SIXTEEN, THREE, TWELVE, TWO, ZERO
from bpejit.kernels.encoding.merge_rules import LEFT_SHIFT
from bpejit.kernels.encoding.token_derivations import UNREACHABLE

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

KIND_SHIFT = np.uint64(20)
"""Shift to the kind of a character in `characters`."""

ALL_NEIGHBORS = np.uint64((1 << 64) - 1)
"""A set of all neighbors."""

MAX_KINDS = 1 << 12
"""Largest number of kinds."""

_CHARACTER_MASK = np.uint64(0xC0C0F0)
_CHARACTER = np.uint64(0x8080E0)


@inline
def _join_bit(joins, before, after):
    """Return the index of the bit for two characters."""
    return fold_multiply(before << SIXTEEN | after, MIX) & ((np.uint64(joins.size) << SIX) - ONE)


@inline
def is_character(word):
    """Return True if a word of bytes starts with a lead byte of three and two continuation bytes."""
    return word & _CHARACTER_MASK == _CHARACTER


@inline
def starts_with_character(text, start, stop):
    """Return True if a pre-token starts with a three-byte character, after at most one other byte."""
    word = load_u64(text, start)
    length = stop - start
    return (length >= THREE and is_character(word)) or (length > THREE and is_character(word >> EIGHT))


@inline
def _after_bit(first):
    """Return the bit of the first set of `neighbors` for a character after this one, by its lead byte."""
    return ONE << (first & np.uint64(0xF))


@inline
def _before_bit(last):
    """Return the bit of the second set for a character before this one, by its last byte."""
    return ONE << (last & LAST_BIT)


@inline
def prefetch_joins(tables, text, start, stop):
    """Prefetch what `find_join` reads at the boundaries in a text that consists of three-byte characters."""
    code = decode_three(load_u64(text, start))
    while start < stop:
        start += THREE
        following = decode_three(load_u64(text, start))
        prefetch(tables.characters, following)
        prefetch(tables.joins, _join_bit(tables.joins, code, following) >> SIX)
        code = following


@inline
def find_join(tables, before, kind_before, after, kind_after):
    """Return which merges may cross the boundary between two three-byte characters, given by their codes and kinds.

    The result is NO_JOIN, or the sum of: CHARACTER_JOIN, if tokens with both characters may merge; LEFT_BYTES and RIGHT_BYTES,
    if tokens may merge that have only a part of the left or of the right one.
    """
    neighbors = tables.neighbors
    bit = _join_bit(tables.joins, before, after)
    join = tables.joins[bit >> SIX] >> (bit & LAST_BIT) & ONE
    parts_after = neighbors[kind_before * TWO] >> (after >> TWELVE) & ONE
    parts_before = neighbors[kind_after * TWO + ONE] >> (before & LAST_BIT) & ONE
    return join | parts_before * LEFT_BYTES | parts_after * RIGHT_BYTES


@kernel
def build_joins(pool, starts, splits, joins, characters, neighbors):
    """List the characters, and between which of them the last merge of a token occurs.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all internal tokens, end to end; readable 8 bytes past the last.
    starts : int64[n + 1], in
    splits : uint64[n], in
        See `token_derivations`.
    joins : uint64[a power of two], in-out
        All zeros on entry.
    characters : uint32[N_CODES], in-out
        NO_CHARACTER on entry. Receives the token of each three-byte character, indexed by its code point.
    neighbors : uint64[2 * N_CODES], in-out
        All zeros on entry. Receives the two sets of each character (see above).

    Returns
    -------
    int
        Number of merges between complete characters.
    """
    n = 0
    for i in range(splits.size):
        split = splits[i]
        if split == ZERO or split == UNREACHABLE:
            continue
        start, stop = np.uint64(starts[i]), np.uint64(starts[i + 1])
        if stop - start == THREE and is_character(load_u64(pool, start)):
            code = decode_three(load_u64(pool, start))
            if code >= np.uint64(0x800):  # not an overlong character
                characters[code] = i
        left_token = split >> LEFT_SHIFT
        middle = start + np.uint64(starts[left_token + ONE] - starts[left_token])
        last = np.uint64(pool[middle - ONE])
        first = np.uint64(pool[middle])
        if last & np.uint64(0xC0) != np.uint64(0x80) or first & np.uint64(0xF0) != np.uint64(0xE0):
            continue
        has_left = middle - start >= THREE and is_character(load_u64(pool, middle - THREE))
        has_right = stop - middle >= THREE and is_character(load_u64(pool, middle))
        left = load_u64(pool, middle - THREE)
        right = load_u64(pool, middle)
        if has_left and has_right:
            bit = _join_bit(joins, decode_three(left), decode_three(right))
            joins[bit >> SIX] |= ONE << (bit & LAST_BIT)
            n += 1
        elif has_left:
            neighbors[decode_three(left) * TWO] |= _after_bit(first)
        elif has_right:
            neighbors[decode_three(right) * TWO + ONE] |= _before_bit(last)
        else:
            # All characters with this last byte, and all with this lead byte.
            for high in range(1 << 10):
                neighbors[(np.uint64(high) << SIX | last & LAST_BIT) * TWO] |= _after_bit(first)
            for low in range(1 << 12):
                neighbors[((first & np.uint64(0xF)) << TWELVE | np.uint64(low)) * TWO + ONE] |= _before_bit(last)
    return n
