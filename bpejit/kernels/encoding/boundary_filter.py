"""Split a pre-token into fragments at boundaries that no merge can cross, and encode each fragment on its own.

A merge across a position makes a token that contains the bytes on both sides of it. So if no token contains these two
characters side by side, nor starts or ends with a part of a character such that it could span the position, the two sides are
encoded independently. In a vocabulary of 200,000 tokens this holds between three of four adjacent Chinese or Japanese
characters. A new phrase of forty bytes then has ten fragments, nearly all of which have occurred before, while merging it
takes sixty lookups that each miss the processor's cache.

`inner_pairs` is two bit sets. A set bit means "no boundary": the pair occurs inside a token. A bit that is set without need
costs time, and changes no id. The first 65536 bits are indexed by the two bytes around a position where some token has an
incomplete character. The others are a hash table of the pairs of complete characters that are adjacent in some token.
Only positions next to a byte above 127 are tested.

Most fragments are single characters of three bytes. Their ids are stored in a table of all such characters,
`WorkspaceArrays.character_ids`, which is filled on demand. Longer fragments of up to 15 bytes are looked up in the
pre-token cache; still longer ones are merged at each occurrence.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply, load_u64, store_u64
from bpejit.kernels.common.characters import decode_three
from bpejit.kernels.common.keys import short_key
from bpejit.kernels.constants import EIGHT, FOUR, HALF, LAST_BIT, MIX, ONE, SHORT_KEY, SIX, THREE, TWO, ZERO
from bpejit.kernels.encoding.bpe import encode_pretoken
from bpejit.kernels.encoding.pretoken_cache import (
    COUNT_SHIFT,
    ID_PAIR_MASK,
    copy_ids,
    find_cache_slot,
    find_home_slot,
    insert_pretoken,
)
from bpejit.kernels.encoding.symbol_parts import replace_parts
from bpejit.kernels.encoding.windowed_merging import SCRATCH_TOO_SMALL, WINDOW

BYTE_PAIR_WORDS = 1 << 10
"""Words of `inner_pairs` for pairs of bytes."""

CHARACTER_WORDS = 2
"""Words of `character_ids` per character, in the order of code points: ids 0 and 1, 32 bits each; id 2, and in the top two bits
the number of ids.
"""

N_CHARACTERS = 1 << 16
"""Number of three-byte characters."""

CHARACTER_LENGTHS = np.array([1] * 8 + [0] * 4 + [2, 2, 3, 4], dtype=np.uint64)
"""Length of a character by the upper half of its first byte; 0 if no character starts with that byte."""

_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], dtype=np.uint64)
_REST_MASKS = np.array([0, 0, 0xC000, 0xC0C000, 0xC0C0C000], dtype=np.uint64)
_REST = np.array([0, 0, 0x8000, 0x808000, 0x80808000], dtype=np.uint64)

_ASCII = np.uint64(0x80)
_BYTE_PAIR_WORDS = np.uint64(BYTE_PAIR_WORDS)
_WINDOW = np.uint64(WINDOW)
_TWO_BYTES = np.uint64(0xFFFF)


@inline
def load_character(text, at, stop):
    """Return the bytes of the character at `at` as a number, and its length; 0 and 1 if none is complete before `stop`.

    Parameters
    ----------
    text : uint8[:], in
        Readable up to `at + 8`.
    at, stop : uint64
    """
    length = CHARACTER_LENGTHS[np.uint64(text[at]) >> FOUR]
    word = load_u64(text, at)
    if length == ZERO or at + length > stop or word & _REST_MASKS[length] != _REST[length]:
        return ZERO, ONE
    return word & _MASKS[length], length


@inline
def _character_pair_bit(inner_pairs, before, after):
    """Return the index of the bit for two complete characters."""
    words = np.uint64(inner_pairs.size) - _BYTE_PAIR_WORDS
    return (_BYTE_PAIR_WORDS << SIX) + (fold_multiply(before << HALF | after, MIX) & ((words << SIX) - ONE))


@inline
def _byte_pair_bit(text, at):
    """Return the index of the bit for the two bytes around `at`."""
    return np.uint64(text[at - ONE]) << EIGHT | np.uint64(text[at])


@inline
def _is_set(inner_pairs, bit):
    return inner_pairs[bit >> SIX] >> (bit & LAST_BIT) & ONE


@inline
def is_boundary(inner_pairs, text, at, before, after):
    """Return True if no merge crosses the position `at` between two characters."""
    return (
        (before >= _ASCII or after >= _ASCII)
        and before * after != ZERO
        and _is_set(inner_pairs, _byte_pair_bit(text, at))
        | _is_set(inner_pairs, _character_pair_bit(inner_pairs, before, after))
        == ZERO
    )


@inline
def _encode_fragment(text, start, length, first, tables, workspace, out, n_out):
    """Encode a fragment whose first character is `first`; return the new `n_out`, or SCRATCH_TOO_SMALL.

    A fragment has the ids that it has as a pre-token, so both share the cache, unless some pre-tokens are kept whole. All
    misses are merged by one call, since the compiler copies the whole merging code to each call site.
    """
    character_ids = workspace.character_ids
    is_three_bytes = first > _TWO_BYTES and length == THREE
    is_cacheable = tables.whole_tokens.size == 0 and length <= SHORT_KEY
    low = high = home = slot = entry = ZERO
    if is_three_bytes:
        entry = decode_three(first) * TWO
        second = character_ids[entry + ONE]
        if second != ZERO:
            store_u64(out, n_out, character_ids[entry])
            store_u64(out, n_out + TWO, second & ID_PAIR_MASK)
            return n_out + (second >> COUNT_SHIFT)
    elif is_cacheable:
        low, high = short_key(text, start, length)
        home = find_home_slot(workspace.slots, low, high)
        slot, found = find_cache_slot(workspace, low, high, home)
        if found:
            return copy_ids(workspace, slot, out, n_out)
    end = encode_pretoken(text, start, length, tables, workspace.scratch, out, n_out, _WINDOW)
    if tables.parts.size > 0 and end != SCRATCH_TOO_SMALL:
        end = replace_parts(tables, out, n_out, end)
    if is_three_bytes:
        character_ids[entry] = load_u64(out, n_out)
        character_ids[entry + ONE] = (end - n_out) << COUNT_SHIFT | load_u64(out, n_out + TWO) & ID_PAIR_MASK
    elif is_cacheable and end != SCRATCH_TOO_SMALL:
        insert_pretoken(workspace, home, slot, low, high, out, n_out, end)
    return end


@inline
def encode_fragments(text, start, stop, tables, workspace, out, n_out):
    """Encode a pre-token fragment by fragment; return the new `n_out`, or SCRATCH_TOO_SMALL, and the number of fragments."""
    inner_pairs = tables.inner_pairs
    n_fragments = ZERO
    before, length = load_character(text, start, stop)
    while start < stop:
        first = before
        end = start + length
        while end < stop:
            after, length = load_character(text, end, stop)
            at_boundary = is_boundary(inner_pairs, text, end, before, after)
            before = after
            if at_boundary:
                break
            end += length
        n_out = _encode_fragment(text, start, end - start, first, tables, workspace, out, n_out)
        if n_out == SCRATCH_TOO_SMALL:
            break
        n_fragments += ONE
        start = end
    return n_out, n_fragments


@kernel
def build_inner_pairs(pool, starts, inner_pairs):
    """Set the bits of all pairs that occur inside a token.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all tokens, end to end; readable 8 bytes past the last.
    starts : int64[n + 1], in
    inner_pairs : uint64[BYTE_PAIR_WORDS + a power of two], in-out
        All zeros on entry.

    Returns
    -------
    int
        Number of pairs of complete characters, repetitions included. It determines the size of the table.
    """
    n = 0
    for i in range(starts.size - 1):
        at = np.uint64(starts[i])
        stop = np.uint64(starts[i + 1])
        before = ZERO
        begin = at
        while at < stop:
            after, length = load_character(pool, at, stop)
            if at > begin and np.uint64(pool[at - ONE] | pool[at]) >= _ASCII:
                if before == ZERO or after == ZERO:
                    bit = _byte_pair_bit(pool, at)
                else:
                    bit = _character_pair_bit(inner_pairs, before, after)
                    n += 1
                inner_pairs[bit >> SIX] |= ONE << (bit & LAST_BIT)
            before = after
            at += length
    return n
