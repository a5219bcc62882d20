"""Merge the tokens of words to superwords: find the pieces that can merge, and encode them (see `superword_merging`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpejit.jit.dispatch import inline
from bpejit.jit.memory import bit_length, count_ones, load_u64, prefetch, store_u64
from bpejit.kernels.common.keys import LENGTH_SHIFT, hash_key
from bpejit.kernels.constants import FOUR, HALF, LAST_BIT, ONE, SIX, THREE, TWO, ZERO
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank, prefetch_place, rank_at
from bpejit.kernels.encoding.pretoken_cache import COUNT_SHIFT, pack_ids
from bpejit.kernels.encoding.windowed_merging import END_OF_LIST, FANOUT, LIST_START, merge_list


class SuperRules(NamedTuple):
    """The rules of the later merges, with the names of `EncoderTables`."""

    merges: NDArray[np.uint64]
    displacements: NDArray[np.uint8]
    merged: NDArray[np.uint32]


PIECE_WORDS = 5
"""Words of `WorkspaceArrays.pieces` for each piece: its first token and number of tokens, its key and its slot.

A piece of two tokens has no key, and the place of its rule instead of a slot.
"""

MAX_PIECES = 128

LAST_PIECE = np.uint64(PIECE_WORDS * (MAX_PIECES - 32))
"""With more words than these, `find_pieces` returns, since another 64 tokens may have more pieces than there is room for."""

PIECE_SLOTS = 1 << 13
"""Slots of `WorkspaceArrays.piece_slots`, a power of two: few, so that they stay in the processor's cache.

In the cache of pre-tokens they took half of the slots, and later passes over English 1.15 times as long.
"""

MAX_ID = (1 << 21) - 1
"""Largest id of a token: a key of a piece has 21 bits for each."""

_PIECE_SLOTS = np.uint64(PIECE_SLOTS - 1)
_PIECE_TOKENS, _PIECE_WORDS = np.uint64(5), np.uint64(PIECE_WORDS)
# Masks of the two words of a key by the number of tokens.
_LOW_MASK = np.array([(1 << 21 * min(n, 3)) - 1 for n in range(5 + 1)], dtype=np.uint64)
_HIGH_MASK = np.array([(1 << 21 * max(n - 3, 0)) - 1 for n in range(5 + 1)], dtype=np.uint64)
_TOKENS = np.uint64(63)  # so that a shift by their number is defined
_LIST = np.uint64(LIST_START)
_BLOCK = np.uint64(FANOUT - 1)
_TOKEN_BITS, _TWO_TOKENS, _BIT_SHIFT = np.uint64(21), np.uint64(42), np.uint64(24)
_FACTOR = np.uint64(0x2C_9277)  # of 22 bits, so that products do not overflow


def set_joins(left, right, joins):
    """Set the bits of pairs of ids, uint64 [n] each, in a bit set, uint64 [a power of two]."""
    bits = (left << _TOKEN_BITS | right) * _FACTOR >> _BIT_SHIFT & np.uint64(64 * joins.size - 1)
    np.bitwise_or.at(joins, bits >> SIX, ONE << (bits & LAST_BIT))


@inline
def _are_joined(joins, left, right):
    """Return 1 if two tokens may be adjacent in a superword, otherwise 0."""
    bit = (left << _TOKEN_BITS | right) * _FACTOR >> _BIT_SHIFT & ((np.uint64(joins.size) << SIX) - ONE)
    return joins[bit >> SIX] >> (bit & LAST_BIT) & ONE


@inline
def _merge_list(rules, scratch, out, begin, n, n_out):
    """Merge the tokens `out[begin:begin + n]`, and write them to `out[n_out:]`; return the new `n_out`."""
    ranks = (_LIST + THREE * n + _BLOCK) & ~_BLOCK
    token = np.uint64(out[begin])
    for i in range(n):
        at = np.uint64(i)
        node = _LIST + at * THREE
        is_last = at + ONE == n
        following = ZERO if is_last else np.uint64(out[begin + at + ONE])
        scratch[node] = token
        scratch[node + ONE] = at - ONE if at > ZERO else END_OF_LIST
        scratch[node + TWO] = END_OF_LIST if is_last else at + ONE
        scratch[ranks + at] = NO_RANK if is_last else find_rank(rules, token, following)
        token = following
    merge_list(rules, scratch, ranks, n)
    at = ZERO
    while at != END_OF_LIST:
        node = _LIST + at * THREE
        out[n_out] = scratch[node]
        n_out += ONE
        at = np.uint64(scratch[node + TWO])
    return n_out


@inline
def _piece_key(out, begin, n):
    """Return the two words of the key of up to five tokens."""
    low = np.uint64(out[begin]) | np.uint64(out[begin + ONE]) << _TOKEN_BITS | np.uint64(out[begin + TWO]) << _TWO_TOKENS
    high = np.uint64(out[begin + THREE]) | np.uint64(out[begin + FOUR]) << _TOKEN_BITS
    return low & _LOW_MASK[n], high & _HIGH_MASK[n] | n << LENGTH_SHIFT


@inline
def _add_piece(rules, workspace, out, begin, n, piece):
    """Write a piece to `workspace.pieces`, and prefetch its slot, or its only pair; return the new `piece`."""
    pieces = workspace.pieces
    low = high = place = ZERO
    if n == TWO:
        place = prefetch_place(rules, np.uint64(out[begin]), np.uint64(out[begin + ONE]))
    elif n <= _PIECE_TOKENS:
        low, high = _piece_key(out, begin, n)
        place = (hash_key(low, high) & _PIECE_SLOTS) << TWO
        prefetch(workspace.piece_slots, place)
    pieces[piece] = begin
    pieces[piece + ONE] = n
    pieces[piece + TWO] = low
    pieces[piece + THREE] = high
    pieces[piece + FOUR] = place
    return piece + _PIECE_WORDS


@inline
def find_pieces(rules, joins, workspace, out, begin, n_open, end, run, n_ended):
    """Write the next pieces of several tokens to `workspace.pieces`.

    The first starts at `begin`, with at least `n_open` tokens, and `run` is the next pre-token that ends. Returns the number of
    words written, and the new `begin` and `run`.
    """
    recent_stops, run_words = workspace.recent_stops, workspace.run_words
    piece = ZERO
    while begin < end and piece <= LAST_PIECE:
        # As bits: a branch for each token, which is rarely predicted, took twice as long.
        n = min(_TOKENS, end - begin)
        joined = ZERO
        left = np.uint64(out[begin])
        at = ONE
        while at < n:
            right = np.uint64(out[begin + at])
            joined |= _are_joined(joins, left, right) << (at - ONE)
            left = right
            at += ONE
        n_closed = bit_length(~joined & ((ONE << (n - ONE)) - ONE))
        stop = end
        while run < n_ended:
            stop = recent_stops[np.uint64(run_words[run]) - ONE]
            if stop > begin + n:
                break
            joined &= ~(ONE << (stop - begin - ONE))
            n_closed = max(n_closed, stop - begin)
            run += ONE
        if n_closed == ZERO:
            # One piece of all these tokens, and perhaps more.
            stop = stop if run < n_ended else end
            at = begin + max(n, n_open)
            while at < stop and _are_joined(joins, np.uint64(out[at - ONE]), np.uint64(out[at])) != ZERO:
                at += ONE
            if at == stop:
                if run == n_ended:
                    break
                run += ONE
            piece = _add_piece(rules, workspace, out, begin, at - begin, piece)
            n_closed = at - begin
            joined = ZERO
        else:
            joined &= (ONE << n_closed) - ONE
        while joined != ZERO:
            first = count_ones(~joined & (joined - ONE))
            rest = ~(joined >> first)
            size = count_ones(~rest & (rest - ONE)) + ONE
            piece = _add_piece(rules, workspace, out, begin + first, size, piece)
            joined &= joined + (ONE << first)
        begin += n_closed
        n_open = ZERO
    return piece, begin, run


@inline
def copy_tokens(out, begin, end, n_out):
    """Copy ids to `out[n_out:]`, which overlaps them, and up to one more; return the new `n_out`."""
    stop = n_out + (end - begin)
    if n_out < begin:
        while n_out < stop:
            store_u64(out, n_out, load_u64(out, begin))
            begin += TWO
            n_out += TWO
    return stop


@inline
def encode_piece(rules, workspace, out, piece, n_out):
    """Write the ids of a piece to `out[n_out:]`; return the new `n_out`."""
    slots = workspace.piece_slots
    pieces = workspace.pieces
    begin = pieces[piece]
    n = pieces[piece + ONE]
    low = pieces[piece + TWO]
    high = pieces[piece + THREE]
    slot = pieces[piece + FOUR]
    if n == TWO:
        left = np.uint64(out[begin])
        right = np.uint64(out[begin + ONE])
        rank = rank_at(rules, slot, left, right)
        is_merged = rank != NO_RANK
        out[n_out] = rules.merged[rank] if is_merged else left
        out[n_out + ONE] = right  # one more than there are, or none
        return n_out + (ONE if is_merged else TWO)
    if high != ZERO and slots[slot] == low and slots[slot + ONE] == high:
        # No more ids than there are tokens: the next token may follow them.
        second = slots[slot + THREE]
        store_u64(out, n_out, slots[slot + TWO])
        n_ids = (second >> COUNT_SHIFT) + ONE
        if n_ids > TWO:
            out[n_out + TWO] = second & np.uint64(MAX_ID)
            if n_ids > THREE:
                out[n_out + THREE] = second >> HALF & np.uint64(MAX_ID)
        return n_out + n_ids
    end = _merge_list(rules, workspace.scratch, out, begin, n, n_out)
    if high != ZERO and end - n_out <= FOUR:
        slots[slot] = low
        slots[slot + ONE] = high
        slots[slot + TWO], slots[slot + THREE] = pack_ids(out, n_out, end - n_out)
    return end
