"""Byte-pair encoding of one pre-token: its bytes to tokens, merging the pair of lowest rank first, leftmost among equals.

The merge rules are one hash table from a pair of tokens to the pair's rank and the token it makes:

    word 0   left << 32 | right, plus 1 (0 means the slot is free)
    word 1   rank << 32 | merged token

Rank and merged token are separate because they differ in general: two merges may make the same bytes, hence the same
token, and in a vocabulary without a merge list every split of a token has that token's rank.

Up to 32 bytes are merged by looking for the lowest rank in a small array. That is quadratic, so a longer pre-token uses a
binary heap over a doubly linked list: n log n, whatever the text.

A very long one is encoded in windows, because a heap over a megabyte visits its nodes in the order of ranks, and each visit
misses the cache (4 MB/s; in windows 50). That is exact by this fact, which needs nothing of the merge rules:

    A sequence of tokens is the encoding of its bytes if each two neighbours are the encoding of theirs.

For suppose that a merge crosses the border of two neighbours, and take the first that crosses any border. Until then the
bytes of the two saw the merges that they see when encoded alone, in the same order: what lies outside never touched them,
and the lowest rank of all is the lowest rank among theirs. So encoded alone they would be joined as well. Conversely,
neighbours in any encoding are the encoding of their bytes. So two runs of tokens, each an encoding, that overlap in one
token are together an encoding.
"""

from __future__ import annotations

import numpy as np

from bpejit.kernels._constants import DONE, NEED_SPACE
from bpejit.kernels._jit import inline, kernel
from bpejit.kernels.memory import fold_multiply

SCAN_BYTES = 32
"""Longest pre-token that is merged by scanning."""

WINDOW = 1024
"""Bytes of a window: nodes and heap lie in the first-level cache."""

SCRATCH_WORDS = 5
"""Words of scratch space per byte of a pre-token: three of its node, two of the heap."""

NO_MERGE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""What stands for the rank and token of a pair that has no merge: above every rank."""

NO_ROOM = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Returned in place of a count when the scratch space is too small."""

NO_NODE = np.uint64(0xFFFF_FFFF)
"""End of a list of nodes."""

_LOW_HALF = np.uint64(0xFFFF_FFFF)
_SCAN = np.uint64(SCAN_BYTES)
_HALF = np.uint64(32)
_ZERO, _ONE, _TWO, _THREE = (np.uint64(number) for number in range(4))
_MIX_KEY = np.uint64(0x9E3779B97F4A7C15)
_MIX_CONSTANT = np.uint64(0xD6E8FEB86659FD93)


@inline
def _hash_pair(key):
    return fold_multiply(key ^ _MIX_KEY, _MIX_CONSTANT)


@inline
def find_merge(pairs, mask, left, right):
    """Return `rank << 32 | merged token` of a pair of tokens, or NO_MERGE.

    Parameters
    ----------
    pairs : uint64[2 * slots], in
    mask, left, right : uint64
        `mask` is slots - 1.
    """
    key = (left << _HALF | right) + _ONE
    slot = _hash_pair(key) & mask
    while True:
        found = pairs[slot * _TWO]
        if found == key:
            return pairs[slot * _TWO + _ONE]
        if found == _ZERO:
            return NO_MERGE
        slot = (slot + _ONE) & mask


@kernel
def build_pairs(left, right, ranks, merged, pairs):
    """Build the table of merge rules.

    Parameters
    ----------
    left, right, merged : int32[n], in
        Tokens; none is negative.
    ranks : int32[n], in
        Not negative. Where a pair is given twice, the lower rank holds.
    pairs : uint64[2 * slots], out
        All zero before; slots is a power of two.

    Returns
    -------
    int
        DONE, or NEED_SPACE if the table has less than two slots per rule (it is then unchanged).

    Notes
    -----
    O(n). Half of the slots at least stay free, so a look-up of a pair without a merge, the common case, ends soon.
    """
    slots = pairs.size // 2
    if slots < 2 * left.size:
        return NEED_SPACE
    mask = np.uint64(slots - 1)
    for i in range(left.size):
        key = (np.uint64(left[i]) << _HALF | np.uint64(right[i])) + _ONE
        value = np.uint64(ranks[i]) << _HALF | np.uint64(merged[i])
        slot = _hash_pair(key) & mask
        while pairs[slot * _TWO] != _ZERO and pairs[slot * _TWO] != key:
            slot = (slot + _ONE) & mask
        if pairs[slot * _TWO] == _ZERO or value < pairs[slot * _TWO + _ONE]:
            pairs[slot * _TWO] = key
            pairs[slot * _TWO + _ONE] = value
    return DONE


@inline
def merge_scan(text, start, length, pairs, ids, scratch, out, n_out):
    """Encode a pre-token of up to SCAN_BYTES bytes; see `encode_pretoken`.

    `scratch` holds, for each token, the value of the pair that it begins, then the tokens themselves. A merge looks up two
    pairs; the values of all others stay.
    """
    mask = np.uint64(pairs.size // 2 - 1)
    tokens = _SCAN
    n = length
    token = np.uint64(text[start])
    for i in range(n - _ONE):
        scratch[tokens + np.uint64(i)] = token
        following = np.uint64(text[start + np.uint64(i) + _ONE])
        scratch[np.uint64(i)] = find_merge(pairs, mask, token, following)
        token = following
    scratch[tokens + n - _ONE] = token
    while n > _ONE:
        best = scratch[_ZERO]
        at = _ZERO
        i = _ONE
        while i < n - _ONE:
            value = scratch[i]
            if value < best:
                best = value
                at = i
            i += _ONE
        if best == NO_MERGE:
            break
        token = best & _LOW_HALF
        scratch[tokens + at] = token
        n -= _ONE
        i = at + _ONE
        while i < n:
            scratch[tokens + i] = scratch[tokens + i + _ONE]
            scratch[i] = scratch[i + _ONE]
            i += _ONE
        if at > _ZERO:
            scratch[at - _ONE] = find_merge(pairs, mask, scratch[tokens + at - _ONE], token)
        if at + _ONE < n:
            scratch[at] = find_merge(pairs, mask, token, scratch[tokens + at + _ONE])
    for i in range(n):
        out[n_out + np.uint64(i)] = ids[scratch[tokens + np.uint64(i)]]
    return n_out + n


@inline
def _sift_down(scratch, heap, at, size):
    """Restore the min-heap `scratch[heap:heap + size]` below `at`."""
    entry = scratch[heap + at]
    child = at * _TWO + _ONE
    while child < size:
        if child + _ONE < size and scratch[heap + child + _ONE] < scratch[heap + child]:
            child += _ONE
        below = scratch[heap + child]
        if entry <= below:
            break
        scratch[heap + at] = below
        at = child
        child = at * _TWO + _ONE
    scratch[heap + at] = entry


@inline
def _push(scratch, heap, size, entry):
    """Add an entry to the min-heap `scratch[heap:heap + size]`; return its new size."""
    at = size
    while at > _ZERO:
        parent = (at - _ONE) >> _ONE
        above = scratch[heap + parent]
        if above <= entry:
            break
        scratch[heap + at] = above
        at = parent
    scratch[heap + at] = entry
    return size + _ONE


@inline
def _merge_node(pairs, mask, scratch, position, merged, heap, size):
    """Put `merged` in the place of the node at `position` and the one after it; return the new size of the heap."""
    node = position * _THREE
    before = scratch[node + _TWO] >> _HALF
    gone = (scratch[node + _TWO] & _LOW_HALF) * _THREE
    after = scratch[gone + _TWO] & _LOW_HALF
    scratch[gone] = NO_MERGE
    value = NO_MERGE
    if after != NO_NODE:
        node_after = after * _THREE
        scratch[node_after + _TWO] = position << _HALF | (scratch[node_after + _TWO] & _LOW_HALF)
        value = find_merge(pairs, mask, merged, scratch[node_after + _ONE])
    scratch[node] = value
    scratch[node + _ONE] = merged
    scratch[node + _TWO] = before << _HALF | after
    if value != NO_MERGE:
        size = _push(scratch, heap, size, (value & ~_LOW_HALF) | position)
    if before != NO_NODE:
        value = find_merge(pairs, mask, scratch[before * _THREE + _ONE], merged)
        scratch[before * _THREE] = value
        if value != NO_MERGE:
            size = _push(scratch, heap, size, (value & ~_LOW_HALF) | before)
    return size


@kernel
def merge_window(text, start, length, pairs, scratch):
    """Encode a run of bytes into a linked list of tokens.

    Parameters
    ----------
    text : uint8[:], in
    start, length : uint64
        At least one byte, less than 2**31.
    pairs : uint64[2 * slots], in
    scratch : uint64[SCRATCH_WORDS * length], out
        Node i, three words from `3 * i` on, is the token that begins at byte i: the value of the pair that it begins, the
        token, and its links (previous << 32 | next). Node 0 begins the list; the next of the last is NO_NODE.

    Notes
    -----
    O(n log n). The heap holds (rank << 32 | position). It is never searched: an entry is dropped when it is popped and its
    node no longer begins a pair of that rank. A merge pops one entry and pushes two at most, so 2 n words hold the heap.
    """
    mask = np.uint64(pairs.size // 2 - 1)
    heap = length * _THREE
    size = _ZERO
    token = np.uint64(text[start])
    position = _ZERO
    before = NO_NODE
    while position < length:
        value = NO_MERGE
        following = _ZERO
        after = NO_NODE
        if position + _ONE < length:
            after = position + _ONE
            following = np.uint64(text[start + after])
            value = find_merge(pairs, mask, token, following)
        if value != NO_MERGE:
            scratch[heap + size] = (value & ~_LOW_HALF) | position
            size += _ONE
        node = position * _THREE
        scratch[node] = value
        scratch[node + _ONE] = token
        scratch[node + _TWO] = before << _HALF | after
        before = position
        token = following
        position += _ONE
    at = size >> _ONE
    while at > _ZERO:
        at -= _ONE
        _sift_down(scratch, heap, at, size)
    while size > _ZERO:
        entry = scratch[heap]
        size -= _ONE
        scratch[heap] = scratch[heap + size]
        _sift_down(scratch, heap, _ZERO, size)
        position = entry & _LOW_HALF
        value = scratch[position * _THREE]
        if value != NO_MERGE and value >> _HALF == entry >> _HALF:
            size = _merge_node(pairs, mask, scratch, position, value & _LOW_HALF, heap, size)


@inline
def _accept(ids, scratch, size, limit, out, n):
    """Write the ids of the tokens of a window that end by `limit`; return the count of ids and where the last begins."""
    node = _ZERO
    last = _ZERO
    while node != NO_NODE:
        after = scratch[node * _THREE + _TWO] & _LOW_HALF
        if min(after, size) > limit:
            break
        out[n] = ids[scratch[node * _THREE + _ONE]]
        n += _ONE
        last = node
        node = after
    return n, last


@kernel
def merge_long(text, start, length, pairs, ids, scratch, out, n_out, window):
    """Encode a pre-token of any length, window by window; parameters and result as `encode_pretoken`.

    Notes
    -----
    Each window begins with the last token accepted. If that token comes out again, the window's other tokens are accepted,
    except those near its end, which the following bytes may change. If not, or if a token spans the window, all begins anew
    with windows four times as large; the last attempt is one window. So the worst case is O(n log n), with a large
    constant that only merge rules made for it would show.
    """
    while True:
        position = _ZERO
        n = n_out
        anchor = _ZERO
        while True:
            size = min(window, length - position)
            if size * np.uint64(SCRATCH_WORDS) > np.uint64(scratch.size):
                return NO_ROOM
            merge_window(text, start + position, size, pairs, scratch)
            if n > n_out:
                if scratch[_ONE] != anchor:
                    break
                n -= _ONE
            if position + size == length:
                n, _ = _accept(ids, scratch, size, size, out, n)
                return n
            n, last = _accept(ids, scratch, size, size - (size >> _THREE), out, n)
            if last == _ZERO:
                break
            anchor = scratch[last * _THREE + _ONE]
            position += last
        window *= np.uint64(4)


@inline
def encode_pretoken(text, start, length, pairs, ids, scratch, out, n_out, window):
    """Encode one pre-token.

    Parameters
    ----------
    text : uint8[:], in
    start, length : uint64
        Where the pre-token lies; at least one byte, less than 2**31.
    pairs : uint64[2 * slots], in
        From `build_pairs`.
    ids : uint32[tokens], in
        The id of each token.
    scratch : uint64[at least SCRATCH_WORDS * SCAN_BYTES], scratch
        SCRATCH_WORDS * min(length, window) words are enough in practice, SCRATCH_WORDS * length always.
    out : uint32[:], out
        Ids are written from `n_out` on; room for `length` is needed.
    n_out, window : uint64
        `window` is WINDOW; the tests make it smaller.

    Returns
    -------
    uint64
        Where the ids end; NO_ROOM if `scratch` is too small for this pre-token.

    Notes
    -----
    O(length ** 2) up to SCAN_BYTES, O(length log length) above. The room in `out` is not checked.
    """
    if length <= _SCAN:
        return merge_scan(text, start, length, pairs, ids, scratch, out, n_out)
    return merge_long(text, start, length, pairs, ids, scratch, out, n_out, window)
