"""Encoding a pre-token of any length: a heap of its ranks over a linked list of its tokens, and windows.

Looking for the lowest rank in an array is quadratic. Here the tokens are in a doubly linked list, and their ranks are the
leaves of a heap: a tree in which each node is the minimum of its 16 children. So a run of n bytes takes n log n, whatever
the text. The leaves stay where the tokens are, so a rank is changed in place; a binary heap of (rank, position) with lazy
deletion, which was here before, collects stale entries and ran at 4.4 MB/s on a pre-token of a megabyte, this one at 19.

A very long pre-token is encoded in windows, because going through a megabyte in the order of ranks misses the cache at each
step. That is exact by this fact, which asks nothing of the merge rules:

    A sequence of tokens is the encoding of its bytes if each two neighbours are the encoding of theirs.

For suppose that a merge crosses the border of two neighbours, and take the first that crosses any border. Until then the
bytes of the two saw the merges that they see when they are encoded alone, in the same order: nothing outside touched them,
and the lowest rank of all is the lowest among theirs. So encoded alone they would be joined as well. Conversely,
neighbours in any encoding are the encoding of their bytes. So two runs of tokens, each an encoding, that overlap in one
token are together an encoding.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.kernels.encoding.merge_rules import APART, NO_RANK, find_rank

WINDOW = 256
"""Bytes of a window: two levels of the tree, and everything in the first-level cache."""

FAN = 16
"""Children of a node of the tree: as many ranks as a cache line holds."""

LIST = 8
"""Word of the scratch space where the list of tokens begins. Before it is where each level of the tree begins."""

SCRATCH_WORDS = 5
"""Words of scratch space per byte of a window: three for its token, and a little more than one for its rank."""

SCRATCH_EXTRA = 256
"""Words of scratch space for a window of any size: each level of the tree is filled up to whole blocks."""

NO_ROOM = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Returned in place of a count when the scratch space is too small."""

NO_TOKEN = np.uint64(0xFFFF_FFFF)
"""Link before the first token of a list, and behind the last."""

_ZERO, _ONE, _TWO, _THREE = (np.uint64(number) for number in range(4))
_LIST = np.uint64(LIST)
_BYTE_BITS = np.uint64(8)
_FAN_BITS = np.uint64(4)
_FAN_MASK = np.uint64(FAN - 1)
_MARGIN_BITS = np.uint64(3)
_GROWTH = np.uint64(4)


@inline
def _lowest(scratch, begin):
    """Return the lowest of the FAN ranks from `begin` on."""
    lowest = APART
    for i in range(FAN):
        lowest = min(lowest, scratch[begin + np.uint64(i)])
    return lowest


@inline
def _place_of(scratch, begin, rank):
    """Return which of the FAN ranks from `begin` on is the first that equals `rank`."""
    place = np.uint32(FAN)
    for i in range(FAN):
        # No early exit: so the loop becomes a few vector instructions.
        place = min(place, np.uint32(i) if scratch[begin + np.uint64(i)] == rank else np.uint32(FAN))
    return np.uint64(place)


@inline
def _update(scratch, levels, position):
    """Bring the minima above the rank at `position` up to date, as far as they change."""
    level = _ZERO
    while level + _ONE < levels:
        position >>= _FAN_BITS
        lowest = _lowest(scratch, np.uint64(scratch[level]) + (position << _FAN_BITS))
        level += _ONE
        place = np.uint64(scratch[level]) + position
        if scratch[place] == lowest:
            break
        scratch[place] = lowest


@inline
def _build_tree(scratch, base, length):
    """Build the minima above the `length` ranks that begin at `base`; return the number of levels.

    `scratch[level]` says where a level begins. A level is filled up with NO_RANK to whole blocks of FAN.
    """
    levels = _ZERO
    while True:
        scratch[levels] = base
        levels += _ONE
        blocks = (length + _FAN_MASK) >> _FAN_BITS
        above = base + (blocks << _FAN_BITS)
        for i in range(base + length, above):
            scratch[np.uint64(i)] = NO_RANK
        if blocks == _ONE:
            return levels
        for i in range(blocks):
            scratch[above + np.uint64(i)] = _lowest(scratch, base + (np.uint64(i) << _FAN_BITS))
        base = above
        length = blocks


@inline
def _build_list(text, start, length, byte_pairs, scratch, ranks):
    """Make a list of single bytes, with the rank of each pair from `scratch[ranks]` on."""
    token = np.uint64(text[start])
    before = NO_TOKEN
    at = _ZERO
    while at < length:
        node = _LIST + at * _THREE
        scratch[node] = token
        scratch[node + _ONE] = before
        before = at
        if at + _ONE < length:
            following = np.uint64(text[start + at + _ONE])
            scratch[node + _TWO] = at + _ONE
            scratch[ranks + at] = byte_pairs[token << _BYTE_BITS | following]
            token = following
        else:
            scratch[node + _TWO] = NO_TOKEN
            scratch[ranks + at] = NO_RANK
        at += _ONE


@kernel
def merge_window(text, start, length, tables, scratch):
    """Encode a run of bytes into a linked list of tokens.

    Parameters
    ----------
    text : uint8[:], in
    start, length : uint64
        At least one byte, less than 2**31.
    tables : EncoderTables, in
    scratch : uint32[SCRATCH_WORDS * length + SCRATCH_EXTRA], out
        The token that begins with byte i is in the three words from `LIST + 3 * i` on: the token, where the one before it
        begins, and the one after it. The first begins with byte 0; the last has NO_TOKEN after it.

    Notes
    -----
    O(length log length): a merge changes three ranks, mostly in one block of the tree, and follows one path of it.
    """
    pairs = tables.pairs
    ranks = (_LIST + _THREE * length + _FAN_MASK) & ~_FAN_MASK  # a block is a cache line
    _build_list(text, start, length, tables.byte_pairs, scratch, ranks)
    levels = _build_tree(scratch, ranks, length)
    while True:
        level = levels - _ONE
        lowest = _lowest(scratch, np.uint64(scratch[level]))
        if lowest >= NO_RANK:
            return
        at = _place_of(scratch, np.uint64(scratch[level]), lowest)
        while level > _ZERO:
            level -= _ONE
            at <<= _FAN_BITS
            at += _place_of(scratch, np.uint64(scratch[level]) + at, lowest)
        node = _LIST + at * _THREE
        token = np.uint64(tables.merged[lowest])
        before = np.uint64(scratch[node + _ONE])
        gone = np.uint64(scratch[node + _TWO])
        after = np.uint64(scratch[_LIST + gone * _THREE + _TWO])
        scratch[node] = token
        scratch[node + _TWO] = after
        scratch[ranks + gone] = NO_RANK
        rank = NO_RANK
        if after != NO_TOKEN:
            node = _LIST + after * _THREE
            scratch[node + _ONE] = at
            rank = find_rank(pairs, token, np.uint64(scratch[node]))
        scratch[ranks + at] = rank
        block = at >> _FAN_BITS
        if before != NO_TOKEN:
            scratch[ranks + before] = find_rank(pairs, np.uint64(scratch[_LIST + before * _THREE]), token)
            if before >> _FAN_BITS != block:
                _update(scratch, levels, before)
        if gone >> _FAN_BITS != block:
            _update(scratch, levels, gone)
        _update(scratch, levels, at)


@inline
def _accept(ids, scratch, size, limit, out, n_out):
    """Write the ids of the tokens of a window that end by `limit`; return where the ids end and where the last begins."""
    at = _ZERO
    last = _ZERO
    while at != NO_TOKEN:
        node = _LIST + at * _THREE
        after = np.uint64(scratch[node + _TWO])
        if min(after, size) > limit:
            break
        out[n_out] = ids[scratch[node]]
        n_out += _ONE
        last = at
        at = after
    return n_out, last


@kernel
def merge_long(text, start, length, tables, scratch, out, n_out, window):
    """Encode a pre-token of any length; parameters and result as `bpe.encode_pretoken`.

    Notes
    -----
    Each window begins with the last token accepted. If that comes out again, the window's other tokens are accepted, but
    for those near its end, which the bytes behind it may change. If it does not, or if a token spans the window, all begins
    anew with windows four times as large, and at last with one. So the worst case is O(n log n) as well, with a constant
    that only rules made for it would show.
    """
    while True:
        position = _ZERO
        n = n_out
        accepted = APART
        while True:
            size = min(window, length - position)
            if size * np.uint64(SCRATCH_WORDS) + np.uint64(SCRATCH_EXTRA) > np.uint64(scratch.size):
                return NO_ROOM
            merge_window(text, start + position, size, tables, scratch)
            if n > n_out:
                if scratch[_LIST] != accepted:
                    break
                n -= _ONE
            if position + size == length:
                n, _ = _accept(tables.ids, scratch, size, size, out, n)
                return n
            n, last = _accept(tables.ids, scratch, size, size - (size >> _MARGIN_BITS), out, n)
            if last == _ZERO:
                break
            accepted = scratch[_LIST + last * _THREE]
            position += last
        window *= _GROWTH
