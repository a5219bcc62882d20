"""Merge the new sentences of a batch together, with their steps interleaved.

In Chinese and Japanese, sentences are single pre-tokens, and most are new. Merged one by one, each merge waits for the lookups
of the pairs that it makes, and the search for the next one is mispredicted. So before a batch of pre-tokens is encoded, all
sentences in it that are not in the cache, and all such shorter pre-tokens that start with a three-byte character, are merged
from their characters (see `character_merging`):

1. Their elements are written one after the other to `sentences`, with the boundaries that no merge crosses.
2. The ranks of adjacent elements are looked up.
3. The elements are cut into rows of up to 16, at such boundaries and at the ends of sentences.
4. The rows are merged in lockstep (see `row_merging`).
5. Their ids are written one after the other as well, from where the encoding of the text copies them.

Fragments of more than 16 elements are merged one by one, and so are sentences where few elements are merged.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.jit.simd import load_lanes, write_tokens
from bpejit.kernels.common.characters import decode_three
from bpejit.kernels.common.keys import BATCH, LONG_TAG, SPECIAL_TAG
from bpejit.kernels.constants import EIGHT, END_POSITION, HALF, LOW_BYTE, LOW_HALF, ONE, SIXTEEN, THREE, TWO, ZERO
from bpejit.kernels.encoding.bpe import merge_ranked
from bpejit.kernels.encoding.character_joins import (
    ANY_JOIN,
    CHARACTER_BITS,
    KIND_SHIFT,
    LEFT_BYTES,
    NO_CHARACTER,
    NO_JOIN,
    RIGHT_BYTES,
    find_join,
    is_character,
    prefetch_joins,
    starts_with_character,
)
from bpejit.kernels.encoding.character_merging import RANKS
from bpejit.kernels.encoding.long_pretokens import LONG_HASHES, NO_RECORD
from bpejit.kernels.encoding.merge_rules import NEVER_ADJACENT, prefetch_place, rank_at
from bpejit.kernels.encoding.pretoken_cache import SENTENCE_PAUSE, find_cache_slot
from bpejit.kernels.encoding.row_merging import LANES, MAX_ROWS, ROW_WORDS, ROWS_WORDS, SIZE, merge_rows, row_size

NOT_MERGED = ZERO
"""Returned by `merged_ids` for a pre-token that was not merged."""

MAX_SENTENCE_BYTES = 255
"""Longest pre-token that is merged here."""

LEAST_SENTENCES = 8
"""Least number of new long pre-tokens in a batch for which they are merged together."""

PAUSE = 31
"""If a batch has more than MANY_IDS eighths as many ids as elements, the sentences of this many batches are merged one by one.

In Chinese, where most fragments are a character or two, a first pass took 1.08 times as long without this.
"""

MANY_IDS = 5
"""With 4, a quarter of Japanese was merged one by one, and a first pass took 1.05 times as long."""

_ENOUGH_ELEMENTS = 768
_MAX_ELEMENTS = _ENOUGH_ELEMENTS + MAX_SENTENCE_BYTES + LANES

# Fields of `WorkspaceArrays.sentences`: rows (see `row_merging`); the elements of sentences, with _END added where no merge
# crosses the boundary after one; the rank of each and the next; the end of the elements of each sentence, and its number in the
# batch; the first id and the number of ids of each pre-token of the batch; the sizes of pieces; the ids.
_LANES = np.uint64(LANES)
_ROW = np.uint64(ROW_WORDS)
_ELEMENTS = np.uint64(ROWS_WORDS)
_RANKS = _ELEMENTS + np.uint64(_MAX_ELEMENTS)
_STOPS = _RANKS + np.uint64(_MAX_ELEMENTS)
_NUMBERS = _STOPS + np.uint64(BATCH)
_FIRST_IDS = _NUMBERS + np.uint64(BATCH)
_ID_COUNTS = _FIRST_IDS + np.uint64(BATCH)
_PIECES = _ID_COUNTS + np.uint64(BATCH)
_IDS = _PIECES + np.uint64(_MAX_ELEMENTS)
_ROWS = np.uint64(MAX_ROWS)
_ENOUGH = np.uint64(_ENOUGH_ELEMENTS)

SENTENCE_WORDS = int(_IDS) + BATCH * (MAX_SENTENCE_BYTES + 1) + LANES
"""Words of `WorkspaceArrays.sentences`."""

_END_SHIFT = np.uint64(31)
_END = ONE << _END_SHIFT
_TOKEN_MASK = _END - ONE
_MANY_IDS = np.uint64(MANY_IDS)
_MAX_BYTES = np.uint64(MAX_SENTENCE_BYTES)


@inline
def merged_ids(sentences, number):
    """Return where the ids of a pre-token of the batch are, for `copy_merged`, or NOT_MERGED."""
    return np.uint64(sentences[_FIRST_IDS + number]) << HALF | np.uint64(sentences[_ID_COUNTS + number])


@inline
def copy_merged(sentences, merged, out, n_out):
    """Write the ids of a merged pre-token to `out[n_out:]`; return the new `n_out`. One more id may be overwritten."""
    first = _IDS + (merged >> HALF)
    count = merged & LOW_HALF
    i = ZERO
    while i < count:
        store_u64(out, n_out + i, load_u64(sentences, first + i))
        i += TWO
    return n_out + count


@inline
def _read_sentence(text, at, stop, tables, sentences, n):
    """Append the elements of a sentence, as in `encode_characters`; return their new number.

    All steps for a character are without a branch: three elements are written, and the next character overwrites two of them
    unless a part of this one may merge.
    """
    characters = tables.characters
    # In a pass of their own, these loads overlap; the loop below has too many other steps for that.
    prefetch_joins(tables, text, at, stop)
    before = NO_JOIN
    code = decode_three(load_u64(text, at))
    entry = np.uint64(characters[code])
    while at < stop:
        word = load_u64(text, at)
        element = _ELEMENTS + n
        if is_character(word) and at + THREE <= stop:
            at += THREE
            following = decode_three(word >> CHARACTER_BITS)
            next_entry = np.uint64(characters[following])
            after = find_join(tables, code, entry >> KIND_SHIFT, following, next_entry >> KIND_SHIFT)
            if at + THREE > stop or not is_character(word >> CHARACTER_BITS):
                after = ANY_JOIN if at < stop else NO_JOIN
            # Selected by masks, since branches would be compiled for conditional expressions.
            end = np.uint64(after == NO_JOIN) << _END_SHIFT
            token = entry & NO_CHARACTER
            is_divided = np.uint64((before & RIGHT_BYTES) | (after & LEFT_BYTES) != ZERO) | np.uint64(token == NO_CHARACTER)
            whole = token | end
            sentences[element] = whole ^ (whole ^ word & LOW_BYTE) & ((is_divided << HALF) - is_divided)
            sentences[element + ONE] = word >> EIGHT & LOW_BYTE
            sentences[element + TWO] = word >> SIXTEEN & LOW_BYTE | end
            n += ONE + is_divided * TWO
            code, entry = following, next_entry
        else:
            at += ONE
            after = ANY_JOIN if at < stop else NO_JOIN
            sentences[element] = word & LOW_BYTE | (_END if after == NO_JOIN else ZERO)
            n += ONE
            code = decode_three(word >> EIGHT)
            entry = np.uint64(characters[code])
        before = after
    return n


@inline
def _rank_elements(tables, sentences, n):
    """Write the rank of each element and the next one, NEVER_ADJACENT if no merge crosses the boundary between them."""
    i = ZERO
    while i < n:
        element = _ELEMENTS + i
        left, right = np.uint64(sentences[element]), np.uint64(sentences[element + ONE])
        sentences[_RANKS + i] = prefetch_place(tables, left & _TOKEN_MASK, right & _TOKEN_MASK)
        i += ONE
    i = ZERO
    while i < n:
        element = _ELEMENTS + i
        left, right = np.uint64(sentences[element]), np.uint64(sentences[element + ONE])
        rank = rank_at(tables, np.uint64(sentences[_RANKS + i]), left & _TOKEN_MASK, right & _TOKEN_MASK)
        sentences[_RANKS + i] = NEVER_ADJACENT if left >= _END else rank
        i += ONE


@inline
def _merge_group(tables, workspace, n_sentences, n_ids):
    """Merge the sentences that have been read, and write where their ids are; return the new number of ids."""
    sentences = workspace.sentences
    scratch = workspace.scratch
    # First the pieces: rows, and fragments that are too long for one.
    n_pieces = ZERO
    first = ZERO
    number = ZERO
    while number < n_sentences:
        stop = np.uint64(sentences[_STOPS + number])
        while first < stop:
            size = row_size(sentences, _RANKS + first, stop - first)
            sentences[_PIECES + n_pieces] = size
            n_pieces += ONE
            first += size
        number += ONE
    first = ZERO
    done = ZERO
    piece = ZERO
    number = ZERO
    begin = n_ids
    while done < n_pieces:
        n_rows = ZERO
        at = first
        while piece < n_pieces and n_rows < _ROWS:
            size = np.uint64(sentences[_PIECES + piece])
            if size <= _LANES:
                load_lanes(sentences, n_rows * _ROW, _ELEMENTS + at, _RANKS + at, size, _TOKEN_MASK)
                sentences[SIZE + n_rows] = size
                n_rows += ONE
            at += size
            piece += ONE
        merge_rows(tables, sentences, n_rows)
        row = ZERO
        while done < piece:
            size = np.uint64(sentences[_PIECES + done])
            if size <= _LANES:
                count = np.uint64(sentences[SIZE + row])
                write_tokens(sentences, row * _ROW, count, tables.ids, sentences, _IDS + n_ids)
                n_ids += count
                row += ONE
            else:
                for j in range(size):
                    i = np.uint64(j)
                    scratch[i] = np.uint64(sentences[_ELEMENTS + first + i]) & _TOKEN_MASK
                    scratch[RANKS + i] = sentences[_RANKS + first + i]
                n_ids = merge_ranked(tables, scratch, RANKS, size, sentences, _IDS + n_ids) - _IDS
            first += size
            done += ONE
            if first == np.uint64(sentences[_STOPS + number]):
                pretoken = np.uint64(sentences[_NUMBERS + number])
                sentences[_FIRST_IDS + pretoken] = begin
                sentences[_ID_COUNTS + pretoken] = n_ids - begin
                begin = n_ids
                number += ONE
    return n_ids


@kernel
def merge_sentences(text, ends, start, span, size, tables, workspace):
    """Merge the new sentences of a batch.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    ends : uint32[:], in
    start, span, size : uint64
        As in `make_cache_keys`.
    tables : EncoderTables, in
        With `characters`.
    workspace : WorkspaceArrays, in-out
        `workspace.batch` is filled by `make_cache_keys` and `prefetch_records`. `workspace.sentences` receives the ids of each
        pre-token of up to MAX_SENTENCE_BYTES that starts with a three-byte character and is not in the cache (see
        `merged_ids`). `workspace.scratch` has at least CHARACTER_SCRATCH_WORDS. `workspace.progress[SENTENCE_PAUSE]` becomes
        PAUSE if few elements were merged.

    Notes
    -----
    O(bytes + merges) steps; each merge takes the same time, in rows of any size.
    """
    batch = workspace.batch
    sentences = workspace.sentences
    last = span + size
    first_span = span
    k = ONE
    i = ZERO
    n = ZERO
    n_sentences = ZERO
    n_ids = ZERO
    n_elements = ZERO
    for number in range(BATCH):
        sentences[_FIRST_IDS + np.uint64(number)] = 0
        sentences[_ID_COUNTS + np.uint64(number)] = 0
    while span < last:
        stop = np.uint64(ends[span]) & END_POSITION
        if batch[k] >= LONG_TAG:
            is_new = batch[LONG_HASHES + i] == NO_RECORD and stop - start <= _MAX_BYTES
            i += ONE
        else:
            low, high, home = batch[k - ONE], batch[k], batch[k + ONE]
            # Most are in their home slot, which needs fewer branches than the whole lookup.
            is_home = (workspace.slots[home] ^ low) | (workspace.slots[home + ONE] ^ high) == ZERO
            is_new = not is_home and high != SPECIAL_TAG and not find_cache_slot(workspace, low, high, home)[1]
        if is_new and starts_with_character(text, start, stop):
            n = _read_sentence(text, start, stop, tables, sentences, n)
            sentences[_STOPS + n_sentences] = n
            sentences[_NUMBERS + n_sentences] = span - first_span
            n_sentences += ONE
        start = stop
        k += THREE
        span += ONE
        if n >= _ENOUGH or span == last:
            n_elements += n
            _rank_elements(tables, sentences, n)
            n_ids = _merge_group(tables, workspace, n_sentences, n_ids)
            n = ZERO
            n_sentences = ZERO
    if n_ids * EIGHT > n_elements * _MANY_IDS:
        workspace.progress[SENTENCE_PAUSE] = PAUSE
