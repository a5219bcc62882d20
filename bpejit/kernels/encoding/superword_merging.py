"""Encode with a vocabulary whose last merges join words (*superwords*).

A merge of lower rank comes first. So the merges from some rank on begin when no pair of the others is left, and if each token
is made by one merge, of tokens that earlier merges make, they make no pair of the others again. Whatever the rank, a pre-token
is thus encoded in two steps:

1. With the first merges alone it falls into fragments, between characters that are adjacent in none of their tokens (see
   `merge_rules` and `boundary_filter`). If the other merges begin with the first one that joins words, most fragments are
   words. They are encoded like the pre-tokens of any other vocabulary, through the cache.
2. The tokens of all fragments are merged by the other merges. They fall into short pieces, between tokens that are adjacent in
   no superword: `super_joins` is a bit set of the pairs that are. Pieces of three to five tokens have a cache of their own,
   and those of two are merged by one lookup.

The words of some pre-tokens, or of a part of one, are encoded together. If a piece may continue after them, its tokens stay at
the end of the output until the next words have been encoded.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import count_ones
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE, find_non_ascii, has_avx2, match_groups, write_bit_positions
from bpejit.kernels.constants import DONE, END_POSITION, FOUR, NEED_SCRATCH, ONE, TWO, WORD_BITS, ZERO
from bpejit.kernels.encoding.boundary_filter import is_boundary, load_character
from bpejit.kernels.encoding.interleaved_merging import RECENT_SPANS
from bpejit.kernels.encoding.pretoken_cache import N_DOCUMENTS, N_OPEN, N_OUT, N_SPANS, NEEDED_BYTES, NEXT_SPAN, NEXT_START
from bpejit.kernels.encoding.span_encoding import encode_spans
from bpejit.kernels.encoding.superword_pieces import (
    LAST_PIECE,
    PIECE_WORDS,
    SuperRules,
    copy_tokens,
    encode_piece,
    find_pieces,
)
from bpejit.kernels.encoding.windowed_merging import SCRATCH_EXTRA, SCRATCH_WORDS

MAX_WORDS = RECENT_SPANS
"""Largest number of words that are encoded together."""

_MAX_WORDS = np.uint64(MAX_WORDS - 65)  # with room for those of 64 positions and a special token
_BEFORE, _AFTER = np.uint64(CONTEXT_BEFORE), np.uint64(64 + CONTEXT_SIZE - CONTEXT_BEFORE)
_LEAD_BITS, _REST = np.uint64(0xC0), np.uint64(0x80)
_KIND_SHIFT = np.uint16(8)
_PIECE_WORDS, _LAST_STOP = np.uint64(PIECE_WORDS), np.uint64(RECENT_SPANS - 1)


@inline
def _find_borders(text, block, stop, tables):
    """Return which of 64 positions of `text` from `block` on no token of the first merges spans, as bits."""
    if has_avx2() and block >= _BEFORE and block + _AFTER <= np.uint64(text.size) and find_non_ascii(text, block) == ZERO:
        borders, _ = match_groups(text, block, tables.super_groups, ONE, ONE, ONE)
        return borders
    kinds = tables.super_kinds
    at = max(block, ONE)
    limit = min(block + WORD_BITS, stop)
    while at < limit and np.uint64(text[at]) & _LEAD_BITS == _REST:
        at += ONE
    before = at - ONE
    while before > ZERO and at - before < FOUR and np.uint64(text[before]) & _LEAD_BITS == _REST:
        before -= ONE
    character, length = load_character(text, before, at)
    borders = ZERO
    while at < limit:
        after, length = load_character(text, at, stop)
        is_border = kinds[text[at - ONE]] & kinds[text[at]] >> _KIND_SHIFT != 0
        is_border |= is_boundary(tables.inner_pairs, text, at, character, after)
        borders |= np.uint64(is_border) << (at - block)
        character = after
        at += length
    return borders


@inline
def find_words(text, begin, ends, run, n_runs, tables, workspace):
    """Write the ends of the next words to `workspace.words`, and the number of words up to the end of each pre-token.

    Returns the number of words, and of the pre-tokens that end with one of them.
    """
    words, run_words = workspace.words, workspace.run_words
    stop = np.uint64(ends[n_runs - ONE]) & END_POSITION
    n = n_ended = ZERO
    start = block = begin
    while run + n_ended < n_runs and n < _MAX_WORDS:
        borders = _find_borders(text, block, stop, tables)
        if block == begin:
            borders &= ~ONE
        end = ZERO
        while run + n_ended < n_runs:
            end = np.uint64(ends[run + n_ended])
            if end >= block + WORD_BITS:
                break
            borders |= ONE << (end - block)
            run_words[n_ended] = n + count_ones(borders & ((TWO << (end - block)) - ONE))
            n_ended += ONE
            start = end
        is_special = end > END_POSITION
        if is_special or run + n_ended == n_runs:
            borders &= (TWO << (start - block)) - ONE
        n += write_bit_positions(words, n, block, borders)
        block += WORD_BITS
        if is_special:
            words[n] = end
            n += ONE
            run_words[n_ended] = n
            n_ended += ONE
            start = begin = block = end & END_POSITION
    return n, n_ended


@inline
def _merge_words(tables, workspace, out, begin, n_open, end, first_run, n_ended):
    """Merge the tokens `out[begin:end]` of the pre-tokens from `first_run` on; return the new `begin` and `n_open`.

    The first `n_open` tokens are known to belong to one piece, and so are those that are returned.
    """
    rules = SuperRules(tables.super_merges, tables.super_displacements, tables.super_merged)
    pieces, run_stops = workspace.pieces, workspace.run_stops
    recent_stops, run_words = workspace.recent_stops, workspace.run_words
    records_stops = workspace.progress[N_DOCUMENTS] > 0
    n_out = at = begin
    run = n_stops = ZERO
    n_words = LAST_PIECE + ONE
    while n_words > LAST_PIECE:
        n_words, begin, run = find_pieces(rules, tables.super_joins, workspace, out, begin, n_open, end, run, n_ended)
        n_open = piece = ZERO
        while piece <= n_words:
            is_last = piece == n_words
            following = begin if is_last else pieces[piece]
            while records_stops and n_stops < run:
                stop = recent_stops[np.uint64(run_words[n_stops]) - ONE]
                if stop > following:
                    break
                run_stops[first_run + n_stops & _LAST_STOP] = stop - at + n_out
                n_stops += ONE
            n_out = copy_tokens(out, at, following, n_out)
            at = following
            if not is_last:
                n_out = encode_piece(rules, workspace, out, piece, n_out)
                at += pieces[piece + ONE]
            piece += _PIECE_WORDS
    copy_tokens(out, begin, end, n_out)
    return n_out, end - begin


@kernel
def encode_superwords(text, ends, tables, workspace, out):
    """Encode the spans of a text.

    Parameters
    ----------
    text, ends, workspace, out
        As those of `encode_spans`. If the text consists of documents, `workspace.run_stops` receives the ends of the ids.
    tables : EncoderTables, in
        With rules of later merges.

    Returns
    -------
    int
        As `encode_spans`; after NEED_SPACE and NEED_SCRATCH, progress[N_OPEN] of the ids belong to a piece that may continue.

    Notes
    -----
    A probe for each word and each piece, and O(n log n) for n tokens of a piece. The spans are not checked.
    """
    progress = workspace.progress
    run, n_runs = np.uint64(progress[NEXT_SPAN]), np.uint64(progress[N_SPANS])
    start, n_out = np.uint64(progress[NEXT_START]), np.uint64(progress[N_OUT])
    n_open = np.uint64(progress[N_OPEN]) if start > ZERO else ZERO
    status = DONE
    while run < n_runs:
        n_words, n_ended = find_words(text, start, ends, run, n_runs, tables, workspace)
        progress[NEXT_SPAN] = 0
        progress[N_SPANS] = np.int64(n_words)
        status = encode_spans(text, workspace.words, tables, workspace, out)
        end = np.uint64(progress[N_OUT])
        n_new = end - n_out + n_open
        if status == DONE and n_new * np.uint64(SCRATCH_WORDS) + np.uint64(SCRATCH_EXTRA) > np.uint64(workspace.scratch.size):
            progress[NEEDED_BYTES] = np.int64(n_new)
            status = NEED_SCRATCH
        if status != DONE:
            # These words are encoded again by the next call.
            progress[NEXT_START] = np.int64(start)
            progress[N_OUT] = np.int64(n_out)
            break
        start = np.uint64(progress[NEXT_START])
        n_out, n_open = _merge_words(tables, workspace, out, n_out - n_open, n_open, end, run, n_ended)
        n_out += n_open
        progress[N_OUT] = np.int64(n_out)
        run += n_ended
    progress[N_OPEN] = np.int64(n_open)
    progress[NEXT_SPAN] = np.int64(run)
    progress[N_SPANS] = np.int64(n_runs)
    return status
