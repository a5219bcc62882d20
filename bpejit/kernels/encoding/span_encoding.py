"""Encode spans of text to token ids through the cache of pre-tokens.

Nearly all text repeats: 99 of 100 pre-tokens have occurred before, and encoding one is then a single lookup (see
`pretoken_cache`). Misses are handled as follows:

1. A pre-token that is kept whole is one token.
2. A pre-token that is ASCII and at most 15 bytes long leaves a gap in the output, and is merged later, together with others
   (see `interleaved_merging`).
3. A pre-token that starts with a three-byte character is merged from its characters instead of its bytes, with vocabularies
   for which this is exact and faster (see `character_merging`). If a batch has several new sentences, they are merged together
   before the batch is encoded (see `sentence_merging`).
4. Any other one is encoded fragment by fragment, between boundaries that no merge can cross (see `boundary_filter`). Most have
   none, and are merged as a whole (see `bpe`).

With a vocabulary of superwords, the spans are words (see `superword_merging`).

The ids are inserted into the cache, except for a long pre-token that is merged from characters, or has many short fragments.
It is inserted at its second occurrence.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import store_u64
from bpejit.kernels.common.keys import BATCH, LONG_TAG, SPECIAL_TAG, equal_bytes, hash_bytes
from bpejit.kernels.constants import (
    DONE,
    END_POSITION,
    FOUR,
    HALF,
    LAST_BIT,
    LOW_HALF,
    NEED_SCRATCH,
    NEED_SPACE,
    ONE,
    SHORT_KEY,
    THREE,
    TWO,
    ZERO,
)
from bpejit.kernels.encoding.boundary_filter import encode_fragments
from bpejit.kernels.encoding.bpe import encode_pretoken
from bpejit.kernels.encoding.character_joins import starts_with_character
from bpejit.kernels.encoding.character_merging import CHARACTER_SCRATCH_WORDS, encode_characters
from bpejit.kernels.encoding.interleaved_merging import (
    GAP,
    MAX_DEFERRED,
    N_DEFERRED,
    RECENT_SPANS,
    defer,
    encode_deferred,
    enough_deferred,
    is_deferrable,
)
from bpejit.kernels.encoding.long_pretokens import (
    LONG_HASHES,
    NO_RECORD,
    copy_long,
    find_record,
    insert_long,
    is_record_of,
    make_cache_keys,
    prefetch_records,
)
from bpejit.kernels.encoding.pretoken_cache import (
    COUNT_SHIFT,
    ID_PAIR_MASK,
    IDS_PER_COPY,
    N_DOCUMENTS,
    N_OUT,
    N_SPANS,
    NEEDED_BYTES,
    NEXT_SPAN,
    NEXT_START,
    SENTENCE_PAUSE,
    SLOT_WORDS,
    copy_ids,
    find_cache_slot,
    insert_pretoken,
)
from bpejit.kernels.encoding.recurring_sentences import mark_seen
from bpejit.kernels.encoding.row_merging import ROWS_WORDS
from bpejit.kernels.encoding.sentence_merging import LEAST_SENTENCES, NOT_MERGED, copy_merged, merge_sentences, merged_ids
from bpejit.kernels.encoding.symbol_parts import DEFERS, replace_parts
from bpejit.kernels.encoding.windowed_merging import SCRATCH_TOO_SMALL, WINDOW

OUT_SLACK = IDS_PER_COPY
"""Writable ids required after the last one."""

MAX_ID = (1 << 30) - 2
"""Largest token id: ids have 30 bits in a slot, and one value is reserved for NO_ID."""

NO_ID = np.uint32(MAX_ID + 1)
"""Placeholder id, written for a byte that is not in the vocabulary."""

WHOLE_WORDS = 3
"""Words per slot of `EncoderTables.whole_tokens`."""

_SENTENCE_FRAGMENT_BYTES = np.uint64(8)
"""A long pre-token whose fragments have at most this many bytes on average is taken for a sentence, which rarely recurs."""

_GAPS = np.uint64(GAP * MAX_DEFERRED)
_RECENT = np.uint64(RECENT_SPANS - 1)
_SENTENCES = np.uint64(LEAST_SENTENCES)
_WINDOW = np.uint64(WINDOW)


@kernel
def hash_strings(pool, starts, hashes):
    """Compute the hashes by which special and whole tokens are looked up.

    Parameters
    ----------
    pool : uint8[:], in
        Readable 16 bytes past the end.
    starts : int64[n + 1], in
    hashes : uint64[n], out
    """
    for i in range(hashes.size):
        start = np.uint64(starts[i])
        hashes[i] = hash_bytes(pool, start, np.uint64(starts[i + 1]) - start)


@inline
def _find_special(specials, text, start, length):
    """Return the id of the special token in a span, which must be one.

    `specials` is a hash table of distinct hashes and ids.
    """
    hashed = hash_bytes(text, start, length)
    mask = np.uint64(specials.size - 1)
    word = (hashed << ONE) & mask
    while specials[word] != hashed or specials[word + ONE] == ZERO:
        word = (word + TWO) & mask
    return specials[word + ONE] - ONE


@inline
def _find_whole_token(tables, text, start, length):
    """Return the id of a pre-token that is kept whole although its merges produce other tokens, or NO_ID."""
    whole = tables.whole_tokens
    if whole.size == 0:
        return NO_ID
    hashed = hash_bytes(text, start, length)
    slot = hashed & np.uint64(whole.size // WHOLE_WORDS - 1)
    while True:
        word = slot * np.uint64(WHOLE_WORDS)
        position = whole[word + ONE]
        if position == ZERO:
            return NO_ID
        if (
            whole[word] == hashed
            and position & LOW_HALF == length
            and equal_bytes(tables.whole_token_pool, position >> HALF, text, start, length)
        ):
            return np.uint32(whole[word + TWO])
        slot = (slot + ONE) & np.uint64(whole.size // WHOLE_WORDS - 1)


@inline
def _copy_found(workspace, home, slot, out, n_out):
    """Write the ids of a short pre-token that is in another than its home slot, or in the arena; return the new `n_out`."""
    slots = workspace.slots
    if slot != home and n_out & THREE == ZERO and slots[(slot ^ FOUR) + ONE] != ZERO:
        # Swap the entry into its home slot, where the fast path finds it. Doing so one time in four is enough, and keeps two
        # equally rare pre-tokens from swapping each time. The displaced entry is still found: all slots between its home slot
        # and its new one are used, and so are both of this line.
        for i in range(SLOT_WORDS):
            a, b = home + np.uint64(i), slot + np.uint64(i)
            slots[a], slots[b] = slots[b], slots[a]
        slot = home
    return copy_ids(workspace, slot, out, n_out)


@inline
def _encode_new(text, start, length, low, high, home, slot, merged, whole, tables, workspace, out, n_out):
    """Encode a special token, or a pre-token that is not in the cache; return the new `n_out`, or SCRATCH_TOO_SMALL.

    `slot` is where the ids of a short one belong, `merged` is the result of `merge_sentences` for a long one, and `whole` that
    of `_find_whole_token`.
    """
    if high == SPECIAL_TAG:
        out[n_out] = np.uint32(_find_special(tables.specials, text, start, length))
        return n_out + ONE
    found = False
    if whole != NO_ID:
        out[n_out] = whole
        end = n_out + ONE
    else:
        stop = start + length
        end, position = n_out, start
        is_sentence = False
        if merged != NOT_MERGED:
            end, position = copy_merged(workspace.sentences, merged, out, n_out), stop
            is_sentence = length > SHORT_KEY
        elif (
            tables.characters.size > 0
            and workspace.scratch.size >= CHARACTER_SCRATCH_WORDS
            and starts_with_character(text, start, stop)
        ):
            end, position = encode_characters(text, start, stop, tables, workspace, out, n_out)
            is_sentence = length > SHORT_KEY
        else:
            end, n_fragments = encode_fragments(text, start, stop, tables, workspace, out, n_out)
            position = stop
            is_sentence = length > SHORT_KEY and n_fragments * _SENTENCE_FRAGMENT_BYTES >= length
            # The slot may have been taken by a fragment.
            slot, found = find_cache_slot(workspace, low, high, home)
        if position < stop:
            end = encode_pretoken(text, position, stop - position, tables, workspace.scratch, out, end, _WINDOW)
        if tables.parts.size > 0 and end != SCRATCH_TOO_SMALL:
            end = replace_parts(tables, out, n_out, end)
        if is_sentence and mark_seen(workspace, low, length + FOUR * (end - n_out)):  # the first word of a long key is its hash
            return end
    if end != SCRATCH_TOO_SMALL and not found:
        if length > SHORT_KEY:
            insert_long(workspace, low, length, text, start, out, n_out, end)
        else:
            insert_pretoken(workspace, home, slot, low, high, out, n_out, end)
    return end


@inline
def _copy_hits(slots, batch, span, last, k, out, n_out, recent_stops, records_stops):
    """Write the ids of spans up to `last`, or up to the first whose ids are not in its home slot.

    `k` is the position of the span in `batch`. `records_stops` is a constant: with True, the end of the ids of each span is
    written to `recent_stops`. Returns the new `span`, `k` and `n_out`.
    """
    while span < last:
        slot = batch[k + TWO]
        first = slots[slot + TWO]
        second = slots[slot + THREE]
        if (slots[slot] ^ batch[k]) | (slots[slot + ONE] ^ batch[k + ONE]) | (first >> LAST_BIT) != ZERO:
            break
        # All four unconditionally: a branch on the number of ids would often be mispredicted.
        store_u64(out, n_out, first)
        store_u64(out, n_out + TWO, second & ID_PAIR_MASK)
        n_out += (second >> COUNT_SHIFT) + ONE
        if records_stops:
            recent_stops[span & _RECENT] = n_out
        k += THREE
        span += ONE
    return span, k, n_out


@inline
def _choose_batch(ends, start, span, n_spans, space, can_defer):
    """Return the number of spans that are encoded next, 0 if there are none or not enough space, and whether to defer some."""
    size = min(np.uint64(BATCH), n_spans - span)
    if size == ZERO:
        return size, False
    needed = (np.uint64(ends[span + size - ONE]) & END_POSITION) - start + np.uint64(OUT_SLACK)
    if can_defer and needed + _GAPS <= space:
        return size, True
    while size > ZERO and (np.uint64(ends[span + size - ONE]) & END_POSITION) - start + np.uint64(OUT_SLACK) > space:
        size >>= ONE
    return size, False


@kernel
def encode_spans(text, ends, tables, workspace, out):
    """Encode the spans of a text.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    ends : uint32[:], in
        Ends of the spans, with the special flag.
    tables : EncoderTables, in
    workspace : WorkspaceArrays, in-out
        `workspace.progress` holds the position: spans NEXT_SPAN to N_SPANS are encoded, the first of them starts at
        NEXT_START, and ids are written from `out[N_OUT]`. These fields are updated. If N_DOCUMENTS is not
        0, or there are superwords, `workspace.recent_stops` receives the end of the ids of each span.
    out : uint32[:], out

    Returns
    -------
    int
        DONE; NEED_SPACE if `out` has less space than the length of the next span plus OUT_SLACK; NEED_SCRATCH if the scratch
        space is too small for the next span, of NEEDED_BYTES bytes. The next call resumes at that span.

    Notes
    -----
    One probe per span, plus merging for each miss. The spans are not checked.
    """
    progress = workspace.progress
    slots = workspace.slots
    batch = workspace.batch
    deferred = workspace.deferred
    recent_stops = workspace.recent_stops
    n_out = np.uint64(progress[N_OUT])
    start = np.uint64(progress[NEXT_START])
    span = np.uint64(progress[NEXT_SPAN])
    n_spans = np.uint64(progress[N_SPANS])
    records_stops = progress[N_DOCUMENTS] > 0 or tables.super_merged.size > 0
    can_defer = workspace.scratch.size >= ROWS_WORDS and tables.part_limits[DEFERS] > 0
    merges_sentences = tables.merges_sentences[0] > 0 and workspace.scratch.size >= CHARACTER_SCRATCH_WORDS
    status = DONE
    while True:
        size, may_defer = _choose_batch(ends, start, span, n_spans, np.uint64(out.size) - n_out, can_defer)
        is_last = size == ZERO or status != DONE
        if deferred[N_DEFERRED] > ZERO and (is_last or records_stops or not may_defer or enough_deferred(deferred)):
            n_out = encode_deferred(text, tables, workspace, out, n_out, span, records_stops)
            continue
        if is_last:
            if span < n_spans and status == DONE:
                status = NEED_SPACE
            break
        n_long = make_cache_keys(text, start, ends, span, size, workspace)
        n_missing = prefetch_records(workspace, n_long)
        has_merged = False
        if n_missing >= _SENTENCES and merges_sentences:
            if progress[SENTENCE_PAUSE] > 0:
                progress[SENTENCE_PAUSE] -= 1
            else:
                merge_sentences(text, ends, start, span, size, tables, workspace)
                has_merged = True
        i = ZERO
        k = ZERO
        last = span + size
        first_span = span
        while True:
            # In one loop for hits and misses, later passes over code took 6 % longer.
            if records_stops:
                span, k, n_out = _copy_hits(slots, batch, span, last, k, out, n_out, recent_stops, True)
            else:
                span, k, n_out = _copy_hits(slots, batch, span, last, k, out, n_out, recent_stops, False)
            if span == last:
                break
            low = batch[k]
            high = batch[k + ONE]
            home = batch[k + TWO]
            if span > first_span:
                start = np.uint64(ends[span - ONE]) & END_POSITION
            length = (np.uint64(ends[span]) & END_POSITION) - start
            slot, record = home, NO_RECORD
            found = False
            if high >= LONG_TAG:
                record = batch[LONG_HASHES + i]
                i += ONE
                if not is_record_of(workspace, record, length, text, start):
                    record = find_record(workspace, low, length, text, start)
            else:
                slot, found = find_cache_slot(workspace, low, high, home)
            if record != NO_RECORD:
                n_out = copy_long(workspace, record, length, out, n_out)
            elif found:
                n_out = _copy_found(workspace, home, slot, out, n_out)
            else:
                whole = _find_whole_token(tables, text, start, length)
                if may_defer and whole == NO_ID and is_deferrable(deferred, low, high):
                    n_out = defer(deferred, low, high, home, start, span, n_out)
                else:
                    merged = merged_ids(workspace.sentences, span - first_span) if has_merged else NOT_MERGED
                    end = _encode_new(text, start, length, low, high, home, slot, merged, whole, tables, workspace, out, n_out)
                    if end == SCRATCH_TOO_SMALL:
                        progress[NEEDED_BYTES] = np.int64(length)
                        status = NEED_SCRATCH
                        break
                    n_out = end
            if records_stops:
                recent_stops[span & _RECENT] = n_out
            k += THREE
            span += ONE
        if span > first_span:
            start = np.uint64(ends[span - ONE]) & END_POSITION
    progress[NEXT_START] = np.int64(start)
    progress[NEXT_SPAN] = np.int64(span)
    progress[N_OUT] = np.int64(n_out)
    return status
