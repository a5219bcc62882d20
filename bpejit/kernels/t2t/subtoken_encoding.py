"""Tokens and ids of text, as Tensor2Tensor's SubwordTextEncoder has them: splitting, the table of subtokens, encoding.

A text is cut where letters and digits meet other characters; `encode_words` looks each token up in a cache of tokens of up
to 15 bytes, whose keys are those of interning. On a miss the token is escaped and matched from the left.

    slot of the cache   words 0 and 1: the key, 0 in word 1 means free
                        word 2: the first two ids         or, above three ids, where they lie in the arena
                        word 3: the third id, and the number of ids from bit 56
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import store_u64
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.common.keys import hash_key, short_key
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE, SHORT_KEY_BYTES, SPECIAL_FLAG
from bpejit.kernels.t2t.subtoken_tree import ESCAPE_ROOM, UNDERSCORE, escape_point

# Classes of characters.
OTHER, WORD, LINE_END = 0, 1, 2

# Fields of the `state` of `split_words`.
POSITION, BEFORE = 0, 1

# Fields of the `state` of `encode_words`.
NEXT, WRITTEN, CACHED, ARENA_USED = 0, 1, 2, 3

UNWRITABLE = 4
"""Status: a token has a character that the subtokens cannot write; NEXT is its span."""

_FLAG = np.uint32(SPECIAL_FLAG)
_PLACE = np.uint32(SPECIAL_FLAG - 1)
_ZERO, _ONE, _TWO, _THREE, _FOUR = (np.uint64(number) for number in range(5))
_COUNT_SHIFT = np.uint64(56)
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)
_POINT_BITS = np.uint64(21)
_ROOT = np.uint64(1)


@kernel
def split_words(text, stop, class_of, byte_class, ends, state):
    """Cut text where the class of characters changes.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    stop : int
    class_of : uint8[0x110000], in
    byte_class : uint8[256], in
        Classes of ASCII, and of bytes that are not UTF-8.
    ends : uint32[:], out
    state : int64[2], in-out
        POSITION, and BEFORE: the class of the character before it, or -1 at the beginning.

    Returns
    -------
    int
        How many ends were written. The text is done when POSITION is `stop`; else call again.

    Notes
    -----
    About 1.5 ns per byte. Each place is written as an end and counts only where the class changes: no branch depends on
    where tokens end.
    """
    position = np.uint64(state[POSITION])
    limit = np.uint64(stop)
    written = np.uint64(0)
    room = np.uint64(ends.size - 1)
    before = np.uint64(state[BEFORE]) if state[BEFORE] >= 0 else np.uint64(OTHER)
    if state[BEFORE] < 0 and position < limit:
        before, _ = read_character(text, position, limit, True, class_of, byte_class)
    while position < limit and written < room:
        block = min(limit, position + (room - written))
        while position < block:
            byte = np.uint64(text[position])
            width = _ONE
            if byte < np.uint64(0x80):
                now = np.uint64(byte_class[byte])
            else:
                now, width = read_character(text, position, limit, True, class_of, byte_class)
            ends[written] = np.uint32(position)
            written += _ONE if now != before else _ZERO
            before = now
            position += width
    if position >= limit and stop > 0:
        ends[written] = np.uint32(limit)
        written += _ONE
    state[POSITION] = np.int64(position)
    state[BEFORE] = np.int64(before)
    return np.int64(written)


@inline
def is_dropped(text, start, end, stop, by_lines):
    """Whether a span is a single space between two words; at the end of a line or text it stays."""
    if text[start] != 0x20 or end - start != _ONE or start == _ZERO or end >= stop:
        return False
    return not by_lines or (text[start - _ONE] != 0x0A and text[end] != 0x0A)


@kernel
def drop_spaces(text, first, ends, n_ends, stop, by_lines):
    """Mark the spans that are no tokens with the flag of special tokens, so that counting skips them.

    Parameters
    ----------
    text : uint8[:], in
    first : int
        Where span 0 starts.
    ends : uint32[:], in-out
    n_ends : int
    stop : int
        Where the text ends.
    by_lines : bool
        Whether line ends are spans of their own, and each line a text.

    Notes
    -----
    O(spans).
    """
    start = np.uint64(first)
    limit = np.uint64(stop)
    for i in range(n_ends):
        end = np.uint64(ends[i])
        if is_dropped(text, start, end, limit, by_lines) or (by_lines and text[start] == 0x0A):
            ends[i] |= _FLAG
        start = end


@inline
def _find_edge(edges, mask, key):
    """Return the first word of the slot of an edge, or of the free slot where it belongs."""
    slot = hash_key(key, _ZERO) & mask
    while edges[slot * _TWO] != _ZERO and edges[slot * _TWO] != key:
        slot = (slot + _ONE) & mask
    return slot * _TWO


@kernel
def build_edges(points, starts, edges):
    """Make the table of subtokens: a trie whose edges are in one hash table.

    Parameters
    ----------
    points : uint32[:], in
        The subtokens, in order of id; of equal ones the last counts, and empty ones do not.
    starts : int64[n + 1], in
    edges : uint64[2 * slots], in-out
        All 0 before; a power of two of slots, at least twice as many as `points`. A slot holds the node above and the
        character, and the node below with the id of its subtoken, plus one, in the low half.

    Notes
    -----
    O(characters).
    """
    mask = np.uint64(edges.size // 2 - 1)
    nodes = _ROOT
    for number in range(starts.size - 1):
        node = _ROOT
        word = _ZERO
        for i in range(starts[number], starts[number + 1]):
            key = node << _POINT_BITS | np.uint64(points[i])
            word = _find_edge(edges, mask, key)
            if edges[word] == _ZERO:
                nodes += _ONE
                edges[word] = key
                edges[word + _ONE] = nodes << _HALF
            node = edges[word + _ONE] >> _HALF
        if starts[number] < starts[number + 1]:
            edges[word + _ONE] = node << _HALF | np.uint64(number + 1)


@inline
def _match(escaped, length, edges, out, at):
    """Write the ids of an escaped token by greedy longest match; return the next free place, or -1."""
    mask = np.uint64(edges.size // 2 - 1)
    start = 0
    while start < length:
        node = _ROOT
        found = _ZERO
        after = start
        i = start
        while i < length:
            key = node << _POINT_BITS | np.uint64(escaped[i])
            word = _find_edge(edges, mask, key)
            if edges[word] == _ZERO:
                break
            value = edges[word + _ONE]
            node = value >> _HALF
            i += 1
            if value & _LOW_HALF != _ZERO:
                found = value & _LOW_HALF
                after = i
        if found == _ZERO:
            return -1
        out[at] = np.uint32(found - _ONE)
        at += 1
        start = after
    return at


@inline
def _encode_word(text, start, end, alphabet, edges, scratch, out, at):
    """Escape and match one token; return the next free place, or -1 where it cannot be written."""
    length = 0
    position = start
    while position < end:
        # The class does not matter: any table will do.
        _, width = read_character(text, position, end, True, alphabet, alphabet)
        point = np.int64(text[position])
        if width == _ONE:
            if point >= 0x80:
                point += 0xDC00
        else:
            point &= 0xFF >> (np.int64(width) + 1)
            for offset in range(1, np.int64(width)):
                point = point << 6 | np.int64(text[position + np.uint64(offset)]) & 0x3F
        length = escape_point(point, alphabet, scratch, length)
        position += width
    scratch[length] = np.uint32(UNDERSCORE)
    return _match(scratch, length + 1, edges, out, at)


@inline
def _remember(slots, arena, state, word, low, high, out, at, count):
    """Put the ids `out[at:at + count]` into a free slot of the cache."""
    slots[word] = low
    slots[word + _ONE] = high
    packed = np.uint64(count) << _COUNT_SHIFT
    if count > 3:
        slots[word + _TWO] = np.uint64(state[ARENA_USED])
        for i in range(count):
            arena[state[ARENA_USED] + i] = out[at + i]
        state[ARENA_USED] += count
    else:
        slots[word + _TWO] = np.uint64(out[at])
        if count > 1:
            slots[word + _TWO] |= np.uint64(out[at + 1]) << _HALF
        if count > 2:
            packed |= np.uint64(out[at + 2])
    slots[word + _THREE] = packed
    state[CACHED] += 1


@kernel
def encode_words(text, first, ends, n_ends, stop, by_lines, line_id, alphabet, edges, slots, arena, scratch, out, state):
    """Write the ids of the tokens among the spans of a text.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    first, stop, by_lines
        As in `drop_spaces`.
    ends : uint32[:], in
        From `split_words`; flags do not matter.
    n_ends : int
    line_id : int
        The id to write at each line end, or -1 for none.
    alphabet : uint8[0x110000], in
    edges : uint64[2 * slots], in
        From `build_edges`.
    slots : uint64[4 * slots], in-out
        The cache, see the module; a power of two of slots. Emptied when it is three quarters full, or the arena is full.
    arena : uint32[:], in-out
        At least ESCAPE_ROOM * 16.
    scratch : uint32[:], scratch
    out : uint32[:], out
    state : int64[4], in-out
        NEXT: the first span that is not encoded; WRITTEN: how many ids are in `out`; CACHED slots; ARENA_USED.

    Returns
    -------
    int
        DONE; NEED_SPACE or NEED_SCRATCH when `out` or `scratch` may not hold ESCAPE_ROOM elements for each byte of the next
        span and one more: empty or enlarge it and call again; UNWRITABLE.

    Notes
    -----
    One probe per short token. A longer one, or one that is new, takes a probe for each character that is matched.
    """
    mask = np.uint64(slots.size // 4 - 1)
    start = np.uint64(first) if state[NEXT] == 0 else np.uint64(ends[state[NEXT] - 1] & _PLACE)
    limit = np.uint64(stop)
    at = state[WRITTEN]
    for n in range(state[NEXT], n_ends):
        end = np.uint64(ends[n] & _PLACE)
        state[NEXT] = n
        state[WRITTEN] = at
        length = end - start
        need = ESCAPE_ROOM * (np.int64(length) + 1)
        if at + need > out.size:
            return NEED_SPACE
        if by_lines and text[start] == 0x0A:
            if line_id >= 0:
                for _ in range(np.int64(length)):
                    out[at] = np.uint32(line_id)
                    at += 1
        elif length > np.uint64(SHORT_KEY_BYTES):
            if need > scratch.size:
                return NEED_SCRATCH
            at = _encode_word(text, start, end, alphabet, edges, scratch, out, at)
        elif not is_dropped(text, start, end, limit, by_lines):
            low, high = short_key(text, start, length)
            word = (hash_key(low, high) & mask) * _FOUR
            while slots[word + _ONE] != _ZERO and (slots[word] != low or slots[word + _ONE] != high):
                word = (word + _FOUR) & (mask * _FOUR)
            if slots[word + _ONE] != _ZERO:
                packed = slots[word + _THREE]
                count = np.int64(packed >> _COUNT_SHIFT)
                if count <= 3:
                    store_u64(out, at, slots[word + _TWO])
                    out[at + 2] = np.uint32(packed & _LOW_HALF)
                else:
                    begin = np.int64(slots[word + _TWO])
                    for i in range(count):
                        out[at + i] = arena[begin + i]
                at += count
            else:
                if need > scratch.size:
                    return NEED_SCRATCH
                after = _encode_word(text, start, end, alphabet, edges, scratch, out, at)
                if after >= 0:
                    _remember(slots, arena, state, word, low, high, out, at, after - at)
                    if state[CACHED] * 4 > slots.size // 4 * 3 or state[ARENA_USED] + ESCAPE_ROOM * 16 > arena.size:
                        slots[:] = _ZERO
                        state[CACHED] = 0
                        state[ARENA_USED] = 0
                at = after
        if at < 0:
            return UNWRITABLE
        start = end
    state[NEXT] = n_ends
    state[WRITTEN] = at
    return DONE
