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
from bpejit.kernels.constants import DONE, NEED_SCRATCH, ONE, ZERO
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
from bpejit.kernels.encoding.superword_words import find_words
from bpejit.kernels.encoding.windowed_merging import SCRATCH_EXTRA, SCRATCH_WORDS

_PIECE_WORDS, _LAST_STOP = np.uint64(PIECE_WORDS), np.uint64(RECENT_SPANS - 1)


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
