"""Split and encode text like Tensor2Tensor's SubwordTextEncoder.

A text is split where letters and digits meet other characters. `encode_words` looks up each token in a cache of tokens of up to
15 bytes, with the same keys as interning. On a miss, the token is escaped and matched greedily from left to right.

    cache slot   words 0 and 1: the key; word 1 is 0 in a free slot
                 word 2: the first two ids, or the offset of the ids in the arena if there are more than three
                 word 3: the third id, and from bit 56 the number of ids
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import store_u64
from bpejit.kernels.common.characters import read_character
from bpejit.kernels.common.keys import hash_key, short_key
from bpejit.kernels.constants import (
    DONE,
    FOUR,
    HALF,
    LAST_BIT,
    LOW_HALF,
    NEED_SCRATCH,
    NEED_SPACE,
    ONE,
    SHORT_KEY,
    SPECIAL_FLAG,
    THREE,
    TWO,
    ZERO,
)
from bpejit.kernels.t2t.subtoken_tree import MAX_ESCAPE_LENGTH, UNDERSCORE, escape_point

# Classes of characters.
OTHER, WORD, LINE_END = 0, 1, 2

# Fields of the `state` of `split_words`.
POSITION, BEFORE = 0, 1

# Fields of the `state` of `encode_words`.
NEXT, WRITTEN, CACHED, ARENA_USED = 0, 1, 2, 3

UNENCODABLE = 4
"""Status: a token contains a character that the vocabulary cannot represent; NEXT is its span."""

_FLAG = np.uint32(SPECIAL_FLAG)
_POSITION_MASK = np.uint32(SPECIAL_FLAG - 1)
_COUNT_SHIFT = np.uint64(56)
_POINT_BITS = np.uint64(21)
_ROOT = np.uint64(1)

HAS_CHILDREN = np.uint64(1 << 31)
"""Flag in the value of an edge: the child node has edges of its own. The bits below are the id of its subtoken plus one."""

_ID_MASK = np.uint64((1 << 31) - 1)

ROOTS = 1 << 16
"""Number of characters whose edge from the root is also in a table, which takes one load instead of a probe."""

_ROOTS = np.uint64(ROOTS)
_ALL_BITS = np.uint64((1 << 64) - 1)


@kernel
def split_words(text, stop, class_of, byte_class, ends, state):
    """Split text where the class of characters changes.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    stop : int
    class_of : uint8[0x110000], in
    byte_class : uint8[256], in
        Classes of ASCII characters and of bytes that are not valid UTF-8.
    ends : uint32[:], out
    state : int64[2], in-out
        POSITION, and BEFORE: the class of the preceding character, or -1 at the start of the text.

    Returns
    -------
    int
        Number of ends written. The text is complete when POSITION is `stop`; otherwise call again.

    Notes
    -----
    About 1.5 ns per byte. Every position is written as an end, but the output index advances only where the class changes, so
    that no branch depends on the length of tokens.
    """
    position = np.uint64(state[POSITION])
    limit = np.uint64(stop)
    written = np.uint64(0)
    capacity = np.uint64(ends.size - 1)
    before = np.uint64(state[BEFORE]) if state[BEFORE] >= 0 else np.uint64(OTHER)
    if state[BEFORE] < 0 and position < limit:
        before, _ = read_character(text, position, limit, True, class_of, byte_class)
    while position < limit and written < capacity:
        block = min(limit, position + (capacity - written))
        while position < block:
            byte = np.uint64(text[position])
            width = ONE
            if byte < np.uint64(0x80):
                now = np.uint64(byte_class[byte])
            else:
                now, width = read_character(text, position, limit, True, class_of, byte_class)
            ends[written] = np.uint32(position)
            written += ONE if now != before else ZERO
            before = now
            position += width
    if position >= limit and stop > 0:
        ends[written] = np.uint32(limit)
        written += ONE
    state[POSITION] = np.int64(position)
    state[BEFORE] = np.int64(before)
    return np.int64(written)


@inline
def is_dropped(text, start, end, stop, by_lines):
    """Return True if a span is a single space between two words. A space at the end of a line or text is kept."""
    if text[start] != 0x20 or end - start != ONE or start == ZERO or end >= stop:
        return False
    return not by_lines or (text[start - ONE] != 0x0A and text[end] != 0x0A)


@kernel
def drop_spaces(text, first, ends, n_ends, stop, by_lines):
    """Set the special-token flag on spans that are not tokens, so that counting skips them.

    Parameters
    ----------
    text : uint8[:], in
    first : int
        Start of span 0.
    ends : uint32[:], in-out
    n_ends : int
    stop : int
        End of the text.
    by_lines : bool
        Whether each line is a text. Newlines are then spans of their own.

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
    """Return the index of the first word of the slot of an edge, or of the free slot for it."""
    slot = hash_key(key, ZERO) & mask
    while edges[slot * TWO] != ZERO and edges[slot * TWO] != key:
        slot = (slot + ONE) & mask
    return slot * TWO


@kernel
def build_edges(points, starts, edges, roots):
    """Build a trie of the subtokens, whose edges are stored in one hash table.

    Parameters
    ----------
    points : uint32[:], in
        Code points of the subtokens, in order of id. Of equal subtokens the last one is used; empty subtokens are skipped.
    starts : int64[n + 1], in
    edges : uint64[2 * slots], in-out
        All 0 on entry. The number of slots is a power of two and at least twice the number of edges. The first word of a slot
        contains the parent node and the character. The second one contains the child node, and in the low half HAS_CHILDREN
        and the id of its subtoken plus one.
    roots : uint64[2 * ROOTS], in-out
        All 0 on entry. Word `2 * c` is the second word of the edge of character c from the root. In word `2 * c + 1`, bit k is
        set if the child node has an edge whose character is k modulo 64.

    Returns
    -------
    int
        Number of edges.

    Notes
    -----
    O(characters).
    """
    mask = np.uint64(edges.size // 2 - 1)
    nodes = _ROOT
    for token_id in range(starts.size - 1):
        node = _ROOT
        word = ZERO
        for i in range(starts[token_id], starts[token_id + 1]):
            if node != _ROOT:
                edges[word + ONE] |= HAS_CHILDREN
            key = node << _POINT_BITS | np.uint64(points[i])
            word = _find_edge(edges, mask, key)
            if edges[word] == ZERO:
                nodes += ONE
                edges[word] = key
                edges[word + ONE] = nodes << HALF
            node = edges[word + ONE] >> HALF
        if starts[token_id] < starts[token_id + 1]:
            edges[word + ONE] = edges[word + ONE] & ~_ID_MASK | np.uint64(token_id + 1)
            first = np.uint64(points[starts[token_id]])
            if first < _ROOTS:
                roots[first * TWO] = edges[_find_edge(edges, mask, _ROOT << _POINT_BITS | first) + ONE]
                if starts[token_id + 1] - starts[token_id] > 1:
                    roots[first * TWO + ONE] |= ONE << (np.uint64(points[starts[token_id] + 1]) & LAST_BIT)
    return np.int64(nodes - _ROOT)


@inline
def _match(escaped, length, edges, roots, out, at):
    """Write the ids of an escaped token, found by greedy longest match. Return the next index in `out`, or -1."""
    mask = np.uint64(edges.size // 2 - 1)
    start = ZERO
    stop = np.uint64(length)
    written = np.uint64(at)
    while start < stop:
        point = np.uint64(escaped[start])
        following = _ALL_BITS
        if point < _ROOTS:
            value = roots[point * TWO]
            following = roots[point * TWO + ONE]
        else:
            value = edges[_find_edge(edges, mask, _ROOT << _POINT_BITS | point) + ONE]
        found = value & _ID_MASK
        start += ONE
        after = start
        i = start
        # Most subtokens are no prefix of another one, and the probe that fails would take as long as the others.
        while value & HAS_CHILDREN != ZERO and i < stop:
            point = np.uint64(escaped[i])
            if following >> (point & LAST_BIT) & ONE == ZERO:
                break
            following = _ALL_BITS
            word = _find_edge(edges, mask, (value >> HALF) << _POINT_BITS | point)
            value = edges[word + ONE]
            i += ONE
            if value & _ID_MASK != ZERO:
                found = value & _ID_MASK
                after = i
        if found == ZERO:
            return -1
        out[written] = np.uint32(found - ONE)
        written += ONE
        start = after
    return np.int64(written)


@inline
def _encode_word(text, start, end, alphabet, edges, roots, scratch, out, at):
    """Escape and match one token. Return the next index in `out`, or -1 if the token cannot be encoded."""
    length = 0
    position = start
    while position < end:
        # The class is not used, so any table will do.
        _, width = read_character(text, position, end, True, alphabet, alphabet)
        point = np.int64(text[position])
        if width == ONE:
            if point >= 0x80:
                point += 0xDC00
        else:
            point &= 0xFF >> (np.int64(width) + 1)
            for offset in range(1, np.int64(width)):
                point = point << 6 | np.int64(text[position + np.uint64(offset)]) & 0x3F
        length = escape_point(point, alphabet, scratch, length)
        position += width
    scratch[length] = np.uint32(UNDERSCORE)
    return _match(scratch, length + 1, edges, roots, out, at)


@inline
def _store(slots, arena, state, word, low, high, out, at, count):
    """Store the ids `out[at:at + count]` in a free slot of the cache."""
    slots[word] = low
    slots[word + ONE] = high
    packed = np.uint64(count) << _COUNT_SHIFT
    if count > 3:
        slots[word + TWO] = np.uint64(state[ARENA_USED])
        for i in range(count):
            arena[state[ARENA_USED] + i] = out[at + i]
        state[ARENA_USED] += count
    else:
        slots[word + TWO] = np.uint64(out[at])
        if count > 1:
            slots[word + TWO] |= np.uint64(out[at + 1]) << HALF
        if count > 2:
            packed |= np.uint64(out[at + 2])
    slots[word + THREE] = packed
    state[CACHED] += 1


@kernel
def encode_words(text, first, ends, n_ends, stop, by_lines, line_id, alphabet, edges, roots, slots, arena, scratch, out, state):
    """Encode the tokens among the spans of a text.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    first, stop, by_lines
        As in `drop_spaces`.
    ends : uint32[:], in
        From `split_words`. Flags are ignored.
    n_ends : int
    line_id : int
        The id to write at each newline, or -1 for none.
    alphabet : uint8[0x110000], in
    edges : uint64[2 * slots], in
    roots : uint64[2 * ROOTS], in
        Both from `build_edges`.
    slots : uint64[4 * slots], in-out
        The cache, described above. The number of slots is a power of two. Cleared when it is three quarters full or the arena
        is full.
    arena : uint32[:], in-out
        At least MAX_ESCAPE_LENGTH * 16.
    scratch : uint32[:], scratch
    out : uint32[:], out
    state : int64[4], in-out
        NEXT: the first span not yet encoded; WRITTEN: the number of ids in `out`; CACHED: used slots; ARENA_USED.

    Returns
    -------
    int
        DONE; UNENCODABLE; NEED_SPACE or NEED_SCRATCH if `out` or `scratch` has fewer free elements than MAX_ESCAPE_LENGTH times
        the length of the next span plus one: empty or enlarge it and call again.

    Notes
    -----
    One cache probe per short token. A longer or new token takes a load for the first character of each subtoken, and one probe
    of the trie per character matched after it. Tokens of more than three ids are also stored: without, many languages take 10
    percent less time, and English 20 percent more.
    """
    mask = np.uint64(slots.size // 4 - 1)
    start = np.uint64(first) if state[NEXT] == 0 else np.uint64(ends[state[NEXT] - 1] & _POSITION_MASK)
    limit = np.uint64(stop)
    at = state[WRITTEN]
    for n in range(state[NEXT], n_ends):
        end = np.uint64(ends[n] & _POSITION_MASK)
        state[NEXT] = n
        state[WRITTEN] = at
        length = end - start
        required = MAX_ESCAPE_LENGTH * (np.int64(length) + 1)
        if at + required > out.size:
            return NEED_SPACE
        if by_lines and text[start] == 0x0A:
            if line_id >= 0:
                for _ in range(np.int64(length)):
                    out[at] = np.uint32(line_id)
                    at += 1
        elif length > SHORT_KEY:
            if required > scratch.size:
                return NEED_SCRATCH
            at = _encode_word(text, start, end, alphabet, edges, roots, scratch, out, at)
        elif not is_dropped(text, start, end, limit, by_lines):
            low, high = short_key(text, start, length)
            word = (hash_key(low, high) & mask) * FOUR
            while slots[word + ONE] != ZERO and (slots[word] != low or slots[word + ONE] != high):
                word = (word + FOUR) & (mask * FOUR)
            if slots[word + ONE] != ZERO:
                packed = slots[word + THREE]
                count = np.int64(packed >> _COUNT_SHIFT)
                if count <= 3:
                    store_u64(out, at, slots[word + TWO])
                    out[at + 2] = np.uint32(packed & LOW_HALF)
                else:
                    begin = np.int64(slots[word + TWO])
                    for i in range(count):
                        out[at + i] = arena[begin + i]
                at += count
            else:
                if required > scratch.size:
                    return NEED_SCRATCH
                after = _encode_word(text, start, end, alphabet, edges, roots, scratch, out, at)
                if after >= 0:
                    _store(slots, arena, state, word, low, high, out, at, after - at)
                    if state[CACHED] * 4 > slots.size // 4 * 3 or state[ARENA_USED] + MAX_ESCAPE_LENGTH * 16 > arena.size:
                        slots[:] = ZERO
                        state[CACHED] = 0
                        state[ARENA_USED] = 0
                at = after
        if at < 0:
            return UNENCODABLE
        start = end
    state[NEXT] = n_ends
    state[WRITTEN] = at
    return DONE
