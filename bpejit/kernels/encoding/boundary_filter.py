"""Pre-tokens that fall apart: where no merge crosses the place between two characters, and how such are encoded.

A merge that crosses a place makes a token that contains both of its sides. So where no token has these two characters side by
side, nor a beginning or an end that could lie across the place, the two sides are encoded as if each stood alone. In a
vocabulary of 200,000 tokens that is so between three of four Chinese or Japanese characters: a new phrase of forty bytes is
ten parts, and nearly all of those have been seen before, while merging it took sixty look-ups that each missed the cache.

`joints` says which places are none: two sets of bits, and a bit that is set too much costs time, nothing else. The first
65536 bits are pairs of bytes around a place at which some token has a piece of a character; the rest is a hash table of the
pairs of whole characters that stand side by side in some token. Only places with a byte above 127 beside them are looked at.

Most parts are single characters of three bytes. Their ids are kept in a table of all these, `EncoderMemory.characters`, that
is filled as they occur. Larger parts are looked up like pre-tokens.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply, load_u64, store_u64
from bpejit.kernels.common.keys import short_key
from bpejit.kernels.constants import SHORT_KEY_BYTES
from bpejit.kernels.encoding.bpe import encode_pretoken
from bpejit.kernels.encoding.pretoken_cache import COUNT_SHIFT, IDS, copy_ids, find_slot, home_of, remember
from bpejit.kernels.encoding.windowed_merging import NO_ROOM, WINDOW

PIECE_WORDS = 1 << 10
"""Words of `joints` for the pairs of bytes."""

CHARACTER_WORDS = 2
"""Words of `characters` for a character: ids 0 and 1, 32 bits each; id 2, and in the top two bits their number, or 0."""

CHARACTERS = 1 << 16
"""Characters of three bytes."""

LENGTHS = np.array([1] * 8 + [0] * 4 + [2, 2, 3, 4], dtype=np.uint64)
"""Bytes of a character by the upper half of its first byte; 0 if no character begins so."""

_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], dtype=np.uint64)
_REST_MASKS = np.array([0, 0, 0xC000, 0xC0C000, 0xC0C0C000], dtype=np.uint64)
_REST = np.array([0, 0, 0x8000, 0x808000, 0x80808000], dtype=np.uint64)

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_HALF_BYTE = np.uint64(4)
_BYTE_BITS = np.uint64(8)
_HALF = np.uint64(32)
_WORD_BITS = np.uint64(6)
_WORD_MASK = np.uint64(63)
_ASCII = np.uint64(0x80)
_PIECES = np.uint64(PIECE_WORDS)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_TWO, _THREE = np.uint64(2), np.uint64(3)
_SHORT = np.uint64(SHORT_KEY_BYTES)
_WINDOW = np.uint64(WINDOW)
_TWO_BYTES = np.uint64(0xFFFF)


@inline
def read_character(text, at, stop):
    """Return the bytes of the character at `at` as a number, and their count; 0 and 1 if there is none before `stop`.

    Parameters
    ----------
    text : uint8[:], in
        Readable up to `at + 8`.
    at, stop : uint64
    """
    length = LENGTHS[np.uint64(text[at]) >> _HALF_BYTE]
    word = load_u64(text, at)
    if length == _ZERO or at + length > stop or word & _REST_MASKS[length] != _REST[length]:
        return _ZERO, _ONE
    return word & _MASKS[length], length


@inline
def _pair_bit(joints, before, after):
    """Return the number of the bit of two characters."""
    words = np.uint64(joints.size) - _PIECES
    return (_PIECES << _WORD_BITS) + (fold_multiply(before << _HALF | after, _MIX) & ((words << _WORD_BITS) - _ONE))


@inline
def _piece_bit(text, at):
    """Return the number of the bit of the two bytes around `at`."""
    return np.uint64(text[at - _ONE]) << _BYTE_BITS | np.uint64(text[at])


@inline
def _is_set(joints, bit):
    return joints[bit >> _WORD_BITS] >> (bit & _WORD_MASK) & _ONE


@inline
def _is_joint(joints, text, at, before, after):
    """Whether no merge crosses the place `at` between two characters."""
    return (
        (before >= _ASCII or after >= _ASCII)
        and before * after != _ZERO
        and _is_set(joints, _piece_bit(text, at)) | _is_set(joints, _pair_bit(joints, before, after)) == _ZERO
    )


@inline
def find_part(text, start, stop, joints):
    """Return where the part that begins at `start` ends, at most `stop`.

    Parameters
    ----------
    text : uint8[:], in
        Readable up to `stop + 8`.
    start, stop : uint64
    joints : uint64[PIECE_WORDS + a power of two], in
    """
    before, length = read_character(text, start, stop)
    at = start + length
    while at < stop:
        after, length = read_character(text, at, stop)
        if _is_joint(joints, text, at, before, after):
            return at
        before = after
        at += length
    return stop


@inline
def _word_of(character):
    """Return the first word of `characters` for a character of three bytes: neighbours in Unicode are neighbours there."""
    number = (character & np.uint64(0xF)) << np.uint64(12)
    number |= (character >> np.uint64(8) & np.uint64(0x3F)) << np.uint64(6)
    number |= character >> np.uint64(16) & np.uint64(0x3F)
    return number * np.uint64(CHARACTER_WORDS)


@inline
def _encode_part(text, start, length, first, tables, memory, out, n_out):
    """Encode a part, `first` being its first character; return where the ids end, or NO_ROOM.

    The ids of a part are those that it has as a pre-token, so the cache serves both; but not where some pre-tokens are left
    whole. What is new is encoded at one place, as the compiler makes a copy of all merging for each.
    """
    characters = memory.characters
    is_character = first > _TWO_BYTES and length == _THREE
    is_kept = tables.whole.size == 0 and length <= _SHORT
    low = high = home = word = _ZERO
    if is_character:
        word = _word_of(first)
        second = characters[word + _ONE]
        if second != _ZERO:
            store_u64(out, n_out, characters[word])
            store_u64(out, n_out + _TWO, second & IDS)
            return n_out + (second >> COUNT_SHIFT)
    elif is_kept:
        low, high = short_key(text, start, length)
        home = home_of(memory.slots, low, high)
        word, found = find_slot(memory, low, high, home, text, start)
        if found:
            return copy_ids(memory, word, out, n_out)
    end = encode_pretoken(text, start, length, tables, memory.scratch, out, n_out, _WINDOW)
    if is_character:
        characters[word] = load_u64(out, n_out)
        characters[word + _ONE] = (end - n_out) << COUNT_SHIFT | load_u64(out, n_out + _TWO) & IDS
    elif is_kept and end != NO_ROOM:
        remember(memory, home, word, low, high, text, start, out, n_out, end)
    return end


@inline
def encode_parts(text, start, stop, tables, memory, out, n_out):
    """Encode a pre-token that falls apart; return where the ids end, or NO_ROOM, and the number of parts."""
    joints = tables.joints
    n_parts = _ZERO
    before, length = read_character(text, start, stop)
    while start < stop:
        first = before
        end = start + length
        while end < stop:
            after, length = read_character(text, end, stop)
            joint = _is_joint(joints, text, end, before, after)
            before = after
            if joint:
                break
            end += length
        n_out = _encode_part(text, start, end - start, first, tables, memory, out, n_out)
        if n_out == NO_ROOM:
            break
        n_parts += _ONE
        start = end
    return n_out, n_parts


@kernel
def build_joints(pool, starts, joints):
    """Set the bits of all places within tokens.

    Parameters
    ----------
    pool : uint8[:], in
        Bytes of all tokens, end to end; readable 8 bytes past the last.
    starts : int64[n + 1], in
    joints : uint64[PIECE_WORDS + a power of two], in-out
        Zero before.

    Returns
    -------
    int
        How many places set a bit for two characters, repetitions included: what the size of the table depends on.
    """
    n = 0
    for i in range(starts.size - 1):
        at = np.uint64(starts[i])
        stop = np.uint64(starts[i + 1])
        before = _ZERO
        begun = at
        while at < stop:
            after, length = read_character(pool, at, stop)
            if at > begun and np.uint64(pool[at - _ONE] | pool[at]) >= _ASCII:
                if before == _ZERO or after == _ZERO:
                    bit = _piece_bit(pool, at)
                else:
                    bit = _pair_bit(joints, before, after)
                    n += 1
                joints[bit >> _WORD_BITS] |= _ONE << (bit & _WORD_MASK)
            before = after
            at += length
    return n
