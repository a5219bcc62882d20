"""Merge the new sentences of a batch together, with their steps interleaved.

In Chinese and Japanese, sentences are single pre-tokens, and most are new. Merged one by one, each merge waits for the lookups
of the pairs that it makes, and the search for the next one is mispredicted. So before a batch of pre-tokens is encoded, all
sentences in it that are not in the cache are merged from their characters (see `character_merging`):

1. Their elements are written one after the other to `sentences`, with a bit for each boundary that no merge crosses.
2. They are cut into rows of up to 16 elements, at such boundaries and at the ends of sentences.
3. The rows are merged in lockstep, one merge of each at a time: each prefetches what it reads next, and that arrives while the
   others prefetch theirs. Finding and making a merge take a few vector operations, without a branch.
4. Their ids are written one after the other as well, from where the encoding of the text copies them.

Fragments of more than 16 elements are merged one by one, and so are sentences where few elements are merged.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length, load_u64, prefetch, store_u64
from bpejit.jit.simd import lowest_rank, merge_lane, write_tokens
from bpejit.kernels.common.keys import BATCH, LONG_TAG
from bpejit.kernels.constants import HALF, LOW_HALF, ONE, POSITION_MASK, THREE, TWO, ZERO
from bpejit.kernels.encoding.character_joins import (
    ANY_JOIN,
    CHARACTER_BITS,
    LEFT_BYTES,
    NO_CHARACTER,
    NO_JOIN,
    RIGHT_BYTES,
    code_of,
    find_join,
    is_character,
    starts_with_character,
)
from bpejit.kernels.encoding.character_merging import merge_scan
from bpejit.kernels.encoding.last_merges import find_last_merge, merge_place, rank_at
from bpejit.kernels.encoding.long_pretokens import LONG_HASHES, NO_RECORD
from bpejit.kernels.encoding.merge_rules import NEVER_ADJACENT, NO_RANK
from bpejit.kernels.encoding.pretoken_cache import SENTENCE_PAUSE

MAX_SENTENCE_BYTES = 255
"""Longest pre-token that is merged here."""

LEAST_SENTENCES = 8
"""Least number of new long pre-tokens in a batch for which they are merged together."""

PAUSE = 31
"""If fewer than half of the elements of a batch were merged, the sentences of this many batches are merged one by one.

In Chinese, where most fragments are a character or two, a first pass took 1.05 times as long without this.
"""

LANES = 16
"""Largest number of elements of a row."""

_MAX_ROWS = 64
_ENOUGH_ELEMENTS = 768
_MAX_ELEMENTS = _ENOUGH_ELEMENTS + MAX_SENTENCE_BYTES + LANES

# Fields of `WorkspaceArrays.sentences`: rows of 16 tokens and 16 ranks, and of each row its number of elements, its lane,
# its token, the places of its pairs, and its index in the order of those that are left; the elements of sentences; a bit for
# each, in words of 32; the end of the elements and the number in `batch` of each sentence; their ids.
_LANES = np.uint64(LANES)
_ROW = np.uint64(2 * LANES)
_SIZE, _LANE, _TOKEN, _BEFORE, _AFTER, _ORDER = (np.uint64(_MAX_ROWS * (2 * LANES + field)) for field in range(6))
_ELEMENTS = np.uint64(_MAX_ROWS * (2 * LANES + 6))
_CUTS = _ELEMENTS + np.uint64(_MAX_ELEMENTS)
_N_CUTS = np.uint64(_MAX_ELEMENTS // 32 + 4)
_STOPS = _CUTS + _N_CUTS
_NUMBERS = _STOPS + np.uint64(BATCH)
_PIECES = _NUMBERS + np.uint64(BATCH)
_IDS = _PIECES + np.uint64(_MAX_ELEMENTS)
_ROWS = np.uint64(_MAX_ROWS)
_ENOUGH = np.uint64(_ENOUGH_ELEMENTS)

SENTENCE_WORDS = int(_IDS) + BATCH * (MAX_SENTENCE_BYTES + 1) + LANES
"""Words of `WorkspaceArrays.sentences`."""

_MAX_BYTES = np.uint64(MAX_SENTENCE_BYTES)
_POSITION = np.uint64(POSITION_MASK)
_NO_RANK = np.uint64(NO_RANK)
_FIVE = np.uint64(5)
_LOW_FIVE = np.uint64(31)
_BYTE = np.uint64(0xFF)
_BYTE_BITS, _SIXTEEN_BITS = np.uint64(8), np.uint64(16)


@inline
def is_merged(record):
    """Return True if a sentence was merged by `merge_sentences`, whose result replaces its hash in `batch`."""
    return record > NO_RECORD


@inline
def copy_sentence(sentences, record, out, n_out):
    """Write the ids of a merged sentence to `out[n_out:]`; return the new `n_out`. One more id may be overwritten."""
    first = _IDS + (record >> HALF ^ NO_RECORD >> HALF)
    count = record & LOW_HALF
    i = ZERO
    while i < count:
        store_u64(out, n_out + i, load_u64(sentences, first + i))
        i += TWO
    return n_out + count


@inline
def _end_element(sentences, n, join):
    """Set the bit of the last of `n` elements if `join` is NO_JOIN."""
    last = n - ONE
    word = _CUTS + (last >> _FIVE)
    sentences[word] |= np.uint32(np.uint64(join == NO_JOIN) << (last & _LOW_FIVE))


@inline
def _append_bytes(sentences, n, word):
    element = _ELEMENTS + n
    sentences[element] = word & _BYTE
    sentences[element + ONE] = word >> _BYTE_BITS & _BYTE
    sentences[element + TWO] = word >> _SIXTEEN_BITS & _BYTE
    return n + THREE


@inline
def _read_sentence(text, at, stop, tables, sentences, n):
    """Append the elements of a sentence, as in `encode_characters`; return their new number."""
    before = NO_JOIN
    while at < stop:
        word = load_u64(text, at)
        if is_character(word) and at + THREE <= stop:
            after = NO_JOIN
            if at + THREE < stop:
                after = ANY_JOIN
                if at + THREE + THREE <= stop and is_character(word >> CHARACTER_BITS):
                    after = find_join(tables.joins, tables.characters, word)
            token = np.uint64(tables.characters[code_of(word)]) & NO_CHARACTER
            if (before & RIGHT_BYTES) | (after & LEFT_BYTES) != ZERO or token == NO_CHARACTER:
                n = _append_bytes(sentences, n, word)
            else:
                sentences[_ELEMENTS + n] = token
                n += ONE
            at += THREE
        else:
            sentences[_ELEMENTS + n] = word & _BYTE
            n += ONE
            at += ONE
            after = ANY_JOIN if at < stop else NO_JOIN
        _end_element(sentences, n, after)
        before = after
    return n


@inline
def _merge_rows(tables, rows, n):
    """Merge `n` rows; the field _SIZE of each becomes its number of tokens."""
    i = ZERO
    while i < n:
        rows[_ORDER + i] = i
        i += ONE
    while True:
        n_left = ZERO
        j = ZERO
        while j < n:
            i = np.uint64(rows[_ORDER + j])
            best, lane = lowest_rank(rows, i * _ROW)
            rows[_LANE + i] = lane
            rows[_TOKEN + i] = best
            prefetch(tables.merged, min(best, np.uint64(tables.merged.size)))
            rows[_ORDER + n_left] = i
            n_left += np.uint64(best < _NO_RANK)
            j += ONE
        n = n_left
        if n == ZERO:
            return
        j = ZERO
        while j < n:
            i = np.uint64(rows[_ORDER + j])
            token = np.uint64(tables.merged[rows[_TOKEN + i]])
            rows[_TOKEN + i] = token
            at = i * _ROW + np.uint64(rows[_LANE + i])
            before = merge_place(tables, np.uint64(rows[max(at, ONE) - ONE]), token)
            after = merge_place(tables, token, np.uint64(rows[at + TWO]))
            prefetch(tables.last_merges, before)
            prefetch(tables.last_merges, after)
            rows[_BEFORE + i] = before
            rows[_AFTER + i] = after
            j += ONE
        j = ZERO
        while j < n:
            i = np.uint64(rows[_ORDER + j])
            token = np.uint64(rows[_TOKEN + i])
            lane = np.uint64(rows[_LANE + i])
            at = i * _ROW + lane
            before_at = max(at, ONE) - ONE
            before = rank_at(tables, np.uint64(rows[_BEFORE + i]), np.uint64(rows[before_at]), token)
            after = rank_at(tables, np.uint64(rows[_AFTER + i]), token, np.uint64(rows[at + TWO]))
            # Boundaries that no merge crosses remain.
            before = NEVER_ADJACENT if rows[before_at + _LANES] == NEVER_ADJACENT else before
            after = NEVER_ADJACENT if rows[at + ONE + _LANES] == NEVER_ADJACENT else after
            merge_lane(rows, i * _ROW, lane, token, np.uint64(before), np.uint64(after))
            rows[_SIZE + i] -= np.uint32(1)
            j += ONE


@inline
def _fill_row(tables, sentences, first, size, row):
    """Write elements and the ranks of their pairs to a row."""
    lane = row * _ROW
    for j in range(LANES):
        sentences[lane + _LANES + np.uint64(j)] = NEVER_ADJACENT
    element = _ELEMENTS + first
    token = np.uint64(sentences[element])
    cuts = load_u64(sentences, _CUTS + (first >> _FIVE)) >> (first & _LOW_FIVE)
    last = lane + size - ONE
    while lane < last:
        sentences[lane] = token
        element += ONE
        following = np.uint64(sentences[element])
        rank = find_last_merge(tables, token, following)
        sentences[lane + _LANES] = NEVER_ADJACENT if cuts & ONE != ZERO else rank
        cuts >>= ONE
        token = following
        lane += ONE
    sentences[lane] = token
    sentences[_SIZE + row] = size


@inline
def _row_size(sentences, first, stop):
    """Return the number of elements from `first` to the last boundary that a row may end at, or of a longer fragment."""
    cuts = load_u64(sentences, _CUTS + (first >> _FIVE)) >> (first & _LOW_FIVE)
    size = bit_length(cuts & ((ONE << min(stop - first, _LANES)) - ONE))
    if size == ZERO:
        size = _LANES + ONE
        while True:
            last = first + size - ONE
            if sentences[_CUTS + (last >> _FIVE)] >> np.uint32(last & _LOW_FIVE) & np.uint32(1) != 0:
                break
            size += ONE
    return size


@inline
def _merge_group(tables, workspace, n_sentences, n_elements, n_ids):
    """Merge the sentences that have been read, and write where their ids are to `batch`; return the new number of ids."""
    sentences = workspace.sentences
    batch = workspace.batch
    scratch = workspace.scratch
    # First the pieces: rows, and fragments that are too long for one.
    n_pieces = ZERO
    first = ZERO
    number = ZERO
    while number < n_sentences:
        stop = np.uint64(sentences[_STOPS + number])
        while first < stop:
            size = _row_size(sentences, first, stop)
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
                _fill_row(tables, sentences, at, size, n_rows)
                n_rows += ONE
            at += size
            piece += ONE
        _merge_rows(tables, sentences, n_rows)
        row = ZERO
        while done < piece:
            size = np.uint64(sentences[_PIECES + done])
            if size <= _LANES:
                count = np.uint64(sentences[_SIZE + row])
                write_tokens(sentences, row * _ROW, count, tables.ids, sentences, _IDS + n_ids)
                n_ids += count
                row += ONE
            else:
                for j in range(size):
                    scratch[np.uint64(j)] = sentences[_ELEMENTS + first + np.uint64(j)]
                n_ids = merge_scan(tables, scratch, size, sentences, _IDS + n_ids) - _IDS
            first += size
            done += ONE
            if first == np.uint64(sentences[_STOPS + number]):
                batch[LONG_HASHES + np.uint64(sentences[_NUMBERS + number])] = NO_RECORD | begin << HALF | (n_ids - begin)
                begin = n_ids
                number += ONE
    i = ZERO
    while i <= n_elements >> _FIVE:
        sentences[_CUTS + i] = 0
        i += ONE
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
        With `last_merges`.
    workspace : WorkspaceArrays, in-out
        `workspace.batch` is filled by `make_cache_keys` and `prefetch_records`. NO_RECORD of each sentence of up to
        MAX_SENTENCE_BYTES is replaced by where its ids are (see `copy_sentence`). `workspace.scratch` has at least
        CHARACTER_SCRATCH_WORDS. `workspace.progress[SENTENCE_PAUSE]` becomes PAUSE if few elements were merged.

    Notes
    -----
    O(bytes + merges) steps; each merge takes the same time, in rows of any size.
    """
    batch = workspace.batch
    sentences = workspace.sentences
    last = span + size
    k = ONE
    i = ZERO
    n = ZERO
    n_sentences = ZERO
    n_ids = ZERO
    n_elements = ZERO
    while span < last:
        stop = np.uint64(ends[span]) & _POSITION
        if batch[k] >= LONG_TAG:
            if batch[LONG_HASHES + i] == NO_RECORD and stop - start <= _MAX_BYTES and starts_with_character(text, start):
                n = _read_sentence(text, start, stop, tables, sentences, n)
                sentences[_STOPS + n_sentences] = n
                sentences[_NUMBERS + n_sentences] = i
                n_sentences += ONE
            i += ONE
        start = stop
        k += THREE
        span += ONE
        if n >= _ENOUGH or span == last:
            n_elements += n
            n_ids = _merge_group(tables, workspace, n_sentences, n, n_ids)
            n = ZERO
            n_sentences = ZERO
    if n_ids * TWO > n_elements:
        workspace.progress[SENTENCE_PAUSE] = PAUSE
