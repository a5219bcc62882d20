"""Merge a fragment of any length: a heap of ranks over a linked list of tokens, in overlapping windows.

Scanning an array for the lowest rank is quadratic. Here the tokens form a doubly linked list, and their ranks are the leaves
of a heap. The heap is a tournament tree: each node is the minimum of its 16 children. So n bytes cost O(n log n), whatever the
text. The leaves stay at the positions of the tokens, so a rank is updated in place. A binary heap of (rank, position) with lazy
deletion accumulated stale entries: it ran at 4.4 MB/s on a pre-token of one megabyte, and this one runs at 19.

A very long fragment is merged in windows, because visiting a megabyte in order of rank misses the processor's caches at each
step. This is exact because of the following fact, which holds for any merge rules:

    A sequence of tokens is the encoding of its bytes if every two adjacent tokens are the encoding of theirs.

Proof: suppose that a merge crosses the boundary between two adjacent tokens, and consider the first one that crosses any
boundary. Until then the bytes of these two tokens underwent the merges that they undergo when encoded alone, in the same
order: nothing outside affected them, and the lowest rank of all is the lowest among theirs. So encoded alone they would be
merged as well. Conversely, adjacent tokens in any encoding are the encoding of their bytes. So two sequences of tokens, each
an encoding, that overlap in one token together form an encoding.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.simd import lowest_rank
from bpejit.kernels.constants import EIGHT, ONE, THREE, TWO, ZERO
from bpejit.kernels.encoding.merge_rules import NEVER_ADJACENT, NO_RANK, find_rank

WINDOW = 256
"""Bytes of a window: the tree has two levels, and everything fits into the first-level cache."""

FANOUT = 16
"""Children of a node of the tree: a cache line of ranks."""

LIST_START = 8
"""Offset of the list of tokens in the scratch space. The words before it hold the offset of each level of the tree."""

SCRATCH_WORDS = 5
"""Words of scratch space per byte of a window: three for its token, and slightly more than one for its rank."""

SCRATCH_EXTRA = 256
"""Additional words of scratch space: each level of the tree is padded to whole blocks."""

SCRATCH_TOO_SMALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Returned instead of an output position if the scratch space is too small."""

END_OF_LIST = np.uint64(0xFFFF_FFFF)
"""Link before the first token of a list, and after the last."""

_LIST_START = np.uint64(LIST_START)
_FANOUT_BITS = np.uint64(4)
_FANOUT_MASK = np.uint64(FANOUT - 1)
_MARGIN_BITS = np.uint64(3)
_GROWTH = np.uint64(4)


@inline
def _update_minima(scratch, levels, position):
    """Update the minima above the rank at `position`, up to the first that does not change."""
    level = ZERO
    while level + ONE < levels:
        position >>= _FANOUT_BITS
        lowest, _ = lowest_rank(scratch, np.uint64(scratch[level]) + (position << _FANOUT_BITS))
        level += ONE
        index = np.uint64(scratch[level]) + position
        if scratch[index] == lowest:
            break
        scratch[index] = lowest


@inline
def _build_tree(scratch, base, length):
    """Build the minima above the `length` ranks that start at `base`; return the number of levels.

    `scratch[level]` is set to the offset of each level. A level is padded with NO_RANK to whole blocks of FANOUT.
    """
    levels = ZERO
    while True:
        scratch[levels] = base
        levels += ONE
        blocks = (length + _FANOUT_MASK) >> _FANOUT_BITS
        above = base + (blocks << _FANOUT_BITS)
        for i in range(base + length, above):
            scratch[np.uint64(i)] = NO_RANK
        if blocks == ONE:
            return levels
        for i in range(blocks):
            scratch[above + np.uint64(i)], _ = lowest_rank(scratch, base + (np.uint64(i) << _FANOUT_BITS))
        base = above
        length = blocks


@inline
def _build_list(text, start, length, byte_pairs, scratch, ranks):
    """Build the list of single bytes, and write the rank of each pair to `scratch[ranks:]`."""
    token = np.uint64(text[start])
    before = END_OF_LIST
    at = ZERO
    while at < length:
        node = _LIST_START + at * THREE
        scratch[node] = token
        scratch[node + ONE] = before
        before = at
        if at + ONE < length:
            following = np.uint64(text[start + at + ONE])
            scratch[node + TWO] = at + ONE
            scratch[ranks + at] = byte_pairs[token << EIGHT | following]
            token = following
        else:
            scratch[node + TWO] = END_OF_LIST
            scratch[ranks + at] = NO_RANK
        at += ONE


@inline
def merge_list(rules, scratch, ranks, length):
    """Merge a list of tokens, given the rank of the pair that each starts, from `ranks` on, and NO_RANK for the last.

    A merge changes three ranks, mostly in one block of the tree, and updates one path.
    """
    levels = _build_tree(scratch, ranks, length)
    while True:
        level = levels - ONE
        lowest, at = lowest_rank(scratch, np.uint64(scratch[level]))
        if lowest >= NO_RANK:
            return
        while level > ZERO:
            level -= ONE
            at <<= _FANOUT_BITS
            at += lowest_rank(scratch, np.uint64(scratch[level]) + at)[1]
        node = _LIST_START + at * THREE
        token = np.uint64(rules.merged[lowest])
        before = np.uint64(scratch[node + ONE])
        removed = np.uint64(scratch[node + TWO])
        after = np.uint64(scratch[_LIST_START + removed * THREE + TWO])
        scratch[node] = token
        scratch[node + TWO] = after
        scratch[ranks + removed] = NO_RANK
        rank = NO_RANK
        if after != END_OF_LIST:
            node = _LIST_START + after * THREE
            scratch[node + ONE] = at
            rank = find_rank(rules, token, np.uint64(scratch[node]))
        scratch[ranks + at] = rank
        block = at >> _FANOUT_BITS
        if before != END_OF_LIST:
            scratch[ranks + before] = find_rank(rules, np.uint64(scratch[_LIST_START + before * THREE]), token)
            if before >> _FANOUT_BITS != block:
                _update_minima(scratch, levels, before)
        if removed >> _FANOUT_BITS != block:
            _update_minima(scratch, levels, removed)
        _update_minima(scratch, levels, at)


@kernel
def merge_window(text, start, length, tables, scratch):
    """Merge a sequence of bytes into a linked list of tokens.

    Parameters
    ----------
    text : uint8[:], in
    start, length : uint64
        At least one byte, less than 2**31.
    tables : EncoderTables, in
    scratch : uint32[SCRATCH_WORDS * length + SCRATCH_EXTRA], out
        The token that starts at byte i has three words at `LIST_START + 3 * i`: the token, and the start of the previous and
        of the next one. The first starts at byte 0; the last has END_OF_LIST as its next.

    Notes
    -----
    O(length log length).
    """
    ranks = (_LIST_START + THREE * length + _FANOUT_MASK) & ~_FANOUT_MASK  # a block is a cache line
    _build_list(text, start, length, tables.byte_pairs, scratch, ranks)
    merge_list(tables, scratch, ranks, length)


@inline
def _accept(ids, scratch, size, limit, out, n_out):
    """Write the ids of the tokens of a window that end by `limit`; return the new `n_out` and the start of the last token."""
    at = ZERO
    last = ZERO
    while at != END_OF_LIST:
        node = _LIST_START + at * THREE
        after = np.uint64(scratch[node + TWO])
        if min(after, size) > limit:
            break
        out[n_out] = ids[scratch[node]]
        n_out += ONE
        last = at
        at = after
    return n_out, last


@kernel
def merge_long(text, start, length, tables, scratch, out, n_out, window):
    """Encode a fragment of any length; parameters and result as in `bpe.encode_pretoken`.

    Notes
    -----
    Each window starts with the last accepted token. If the window reproduces that token, its other tokens are accepted, except
    those near its end, which may depend on the bytes that follow. If it does not, or if a token spans the window, merging
    restarts with windows four times as large, and finally with a single one. So the worst case is O(n log n) as well, with a
    constant that only merge rules designed for it would show.
    """
    while True:
        position = ZERO
        n = n_out
        accepted = NEVER_ADJACENT
        while True:
            size = min(window, length - position)
            if size * np.uint64(SCRATCH_WORDS) + np.uint64(SCRATCH_EXTRA) > np.uint64(scratch.size):
                return SCRATCH_TOO_SMALL
            merge_window(text, start + position, size, tables, scratch)
            if n > n_out:
                if scratch[_LIST_START] != accepted:
                    break
                n -= ONE
            if position + size == length:
                n, _ = _accept(tables.ids, scratch, size, size, out, n)
                return n
            n, last = _accept(tables.ids, scratch, size, size - (size >> _MARGIN_BITS), out, n)
            if last == ZERO:
                break
            accepted = scratch[_LIST_START + last * THREE]
            position += last
        window *= _GROWTH
