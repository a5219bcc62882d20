"""Encode a pre-token of several words with a vocabulary whose last merges join words (*superwords*).

A merge of lower rank comes first. So the merges from some rank on begin when no pair of the others is left, and if each token
is made by one merge, they make no pair of the others again. Whatever the rank, a pre-token is thus encoded in two steps:

1. With the first merges alone it falls into fragments, between bytes that are adjacent in none of their tokens (see
   `merge_rules`). If the other merges begin with the first one that joins words, most fragments are words. They share the cache
   of pre-tokens, under keys of their own, since a pre-token of one word may have other ids.
2. The tokens of all fragments are merged by the other merges. They fall into short pieces, between tokens that are adjacent in
   no superword: `super_joins` is a bit set of the pairs that are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import prefetch
from bpejit.kernels.common.keys import short_key
from bpejit.kernels.constants import EIGHT, LAST_BIT, LOW_BYTE, ONE, SHORT_KEY, SIX, THREE, TWO, ZERO
from bpejit.kernels.encoding.bpe import SCAN_BYTES, encode_pretoken, merge_ranked
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank
from bpejit.kernels.encoding.pretoken_cache import (
    copy_ids,
    find_cache_slot,
    find_home_slot,
    insert_pretoken,
)
from bpejit.kernels.encoding.windowed_merging import (
    END_OF_LIST,
    FANOUT,
    LIST_START,
    SCRATCH_EXTRA,
    SCRATCH_TOO_SMALL,
    SCRATCH_WORDS,
    WINDOW,
    merge_list,
)


class SuperRules(NamedTuple):
    """The later merges, with the names of `EncoderTables`: their rules, and the ids of all tokens."""

    merges: NDArray[np.uint64]
    displacements: NDArray[np.uint8]
    merged: NDArray[np.uint32]
    ids: NDArray[np.uint32]


FRAGMENT_TAG = np.uint64(1 << 60)
"""Bit of the second word of a key, beside the length: the ids are those of the first merges."""

FRAGMENT_WORDS = 4
"""Words of `WorkspaceArrays.fragments` for each fragment: the key, 0 for a long one, its home slot, and its end in the text."""

MAX_FRAGMENTS = 64

_FRAGMENTS, _WORDS = np.uint64(MAX_FRAGMENTS), np.uint64(FRAGMENT_WORDS)
_LIST = np.uint64(LIST_START)
_BLOCK = np.uint64(FANOUT - 1)
_WINDOW = np.uint64(WINDOW)
_SCAN = np.uint64(SCAN_BYTES)
_TOKEN_BITS, _BIT_SHIFT = np.uint64(21), np.uint64(24)
_FACTOR = np.uint64(0x2C_9277)  # of 22 bits, so that products do not overflow


@inline
def _find_fragments(text, start, stop, tables, workspace):
    """Write the keys of the next fragments to `workspace.fragments`, and prefetch their slots; return their number."""
    inner = tables.super_inner
    fragments = workspace.fragments
    slots = workspace.slots
    n = ZERO
    while start < stop and n < _FRAGMENTS:
        at = start + ONE
        pair = np.uint64(text[start])
        while at < stop:
            pair = (pair & LOW_BYTE) << EIGHT | np.uint64(text[at])
            if inner[pair >> SIX] >> (pair & LAST_BIT) & ONE == ZERO:
                break
            at += ONE
        low = high = home = ZERO
        if at - start <= SHORT_KEY:
            low, high = short_key(text, start, at - start)
            high |= FRAGMENT_TAG
            home = find_home_slot(slots, low, high)
            prefetch(slots, home)
        fragment = n * _WORDS
        fragments[fragment] = low
        fragments[fragment + ONE] = high
        fragments[fragment + TWO] = home
        fragments[fragment + THREE] = at
        start = at
        n += ONE
    return n


@inline
def _encode_fragments(text, start, n, tables, workspace, out, n_out):
    """Write the tokens of fragments by the first merges; return the new `n_out`, or SCRATCH_TOO_SMALL."""
    fragments = workspace.fragments
    fragment = ZERO
    last = n * _WORDS
    while fragment < last:
        low, high = fragments[fragment], fragments[fragment + ONE]
        home, stop = fragments[fragment + TWO], fragments[fragment + THREE]
        slot, found = find_cache_slot(workspace, low, high, home) if high != ZERO else (home, False)
        if found:
            n_out = copy_ids(workspace, slot, out, n_out)
        else:
            end = encode_pretoken(text, start, stop - start, tables, workspace.scratch, out, n_out, _WINDOW)
            if end == SCRATCH_TOO_SMALL:
                return SCRATCH_TOO_SMALL
            if high != ZERO:
                insert_pretoken(workspace, home, slot, low, high, out, n_out, end)
            n_out = end
        start = stop
        fragment += _WORDS
    return n_out


def set_joins(left, right, joins):
    """Set the bits of pairs of tokens, uint64 [n] each, in a bit set, uint64 [a power of two]."""
    bits = (left << _TOKEN_BITS | right) * _FACTOR >> _BIT_SHIFT & np.uint64(64 * joins.size - 1)
    np.bitwise_or.at(joins, bits >> SIX, ONE << (bits & LAST_BIT))


@inline
def _are_joined(joins, left, right):
    """Return True if two tokens may be adjacent in a superword."""
    bit = (left << _TOKEN_BITS | right) * _FACTOR >> _BIT_SHIFT & ((np.uint64(joins.size) << SIX) - ONE)
    return joins[bit >> SIX] >> (bit & LAST_BIT) & ONE != ZERO


@inline
def _merge_tokens(rules, scratch, out, begin, n, n_out):
    """Merge the tokens `out[begin:begin + n]`, and write their ids to `out[n_out:]`; return the new `n_out`."""
    ranks = _LIST + (n << TWO)
    for i in range(n):
        token = np.uint64(out[begin + np.uint64(i)])
        scratch[np.uint64(i)] = token
        if np.uint64(i) + ONE < n:
            scratch[ranks + np.uint64(i)] = find_rank(rules, token, np.uint64(out[begin + np.uint64(i) + ONE]))
    return merge_ranked(rules, scratch, ranks, n, out, n_out)


@inline
def _merge_list(rules, scratch, out, begin, n, n_out):
    """Do the same for many tokens."""
    ranks = (_LIST + THREE * n + _BLOCK) & ~_BLOCK
    for i in range(n):
        at = np.uint64(i)
        token = np.uint64(out[begin + at])
        node = _LIST + at * THREE
        is_last = at + ONE == n
        scratch[node] = token
        scratch[node + ONE] = at - ONE if at > ZERO else END_OF_LIST
        scratch[node + TWO] = END_OF_LIST if is_last else at + ONE
        scratch[ranks + at] = NO_RANK if is_last else find_rank(rules, token, np.uint64(out[begin + at + ONE]))
    merge_list(rules, scratch, ranks, n)
    at = ZERO
    while at != END_OF_LIST:
        node = _LIST + at * THREE
        out[n_out] = rules.ids[scratch[node]]
        n_out += ONE
        at = np.uint64(scratch[node + TWO])
    return n_out


@kernel
def encode_superwords(text, start, stop, tables, workspace, out, n_out):
    """Encode a pre-token.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the pre-token.
    start, stop : uint64
        At least one byte, less than 2**31.
    tables : EncoderTables, in
        With `super_ids`.
    workspace : WorkspaceArrays, in-out
        The cache and the scratch space.
    out : uint32[:], out
        Ids are written to `out[n_out:]`, which must have space for one per byte.
    n_out : uint64

    Returns
    -------
    uint64
        The new `n_out`, or SCRATCH_TOO_SMALL.

    Notes
    -----
    A lookup for each fragment, and O(n log n) for n tokens of fragments. The size of `out` is not checked.
    """
    end = n_out
    begin = start
    while begin < stop:
        n = _find_fragments(text, begin, stop, tables, workspace)
        end = _encode_fragments(text, begin, n, tables, workspace, out, end)
        if end == SCRATCH_TOO_SMALL:
            return SCRATCH_TOO_SMALL
        begin = workspace.fragments[n * _WORDS - ONE]
    scratch = workspace.scratch
    if (end - n_out) * np.uint64(SCRATCH_WORDS) + np.uint64(SCRATCH_EXTRA) > np.uint64(scratch.size):
        return SCRATCH_TOO_SMALL
    rules = SuperRules(tables.super_merges, tables.super_displacements, tables.super_merged, tables.super_ids)
    joins = tables.super_joins
    begin = n_out
    while begin < end:
        at = begin + ONE
        left = np.uint64(out[begin])
        while at < end:
            right = np.uint64(out[at])
            if not _are_joined(joins, left, right):
                break
            left = right
            at += ONE
        n = at - begin
        if n == ONE:
            out[n_out] = tables.super_ids[out[begin]]
            n_out += ONE
        elif n <= _SCAN:
            n_out = _merge_tokens(rules, scratch, out, begin, n, n_out)
        else:
            n_out = _merge_list(rules, scratch, out, begin, n, n_out)
        begin = at
    return n_out
