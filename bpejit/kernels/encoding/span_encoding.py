"""Encoding: spans of text to token ids, through a cache of pre-tokens.

Nearly all text repeats: 99 of 100 pre-tokens have been seen before, and then encoding is one look-up (see `cache`). What is
new is merged (`bpe`), the new ones of a batch together (`together`).
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import store_u64
from bpejit.kernels.common.keys import BATCH, SPECIAL_TAG, equal_bytes, hash_bytes, make_keys
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE, SHORT_KEY_BYTES, SPECIAL_FLAG
from bpejit.kernels.encoding.boundary_filter import encode_parts, find_part
from bpejit.kernels.encoding.bpe import encode_pretoken
from bpejit.kernels.encoding.interleaved_merging import TOGETHER_WORDS, encode_together, is_new
from bpejit.kernels.encoding.pretoken_cache import (
    AT_ONCE,
    COUNT_SHIFT,
    FIRST,
    IDS,
    N_OUT,
    N_SPANS,
    NEEDED,
    RECORD,
    SLOT_WORDS,
    SPAN,
    copy_ids,
    find_slot,
    is_first_time,
    prefetch_records,
    remember,
)
from bpejit.kernels.encoding.windowed_merging import NO_ROOM, WINDOW

OUT_SLACK = AT_ONCE
"""Room for ids beyond the last one."""

MAX_ID = (1 << 30) - 2
"""Largest id of a token: it has 30 bits in a slot, and one number is kept for NO_ID."""

NO_ID = np.uint32(MAX_ID + 1)
"""Stands for what has no id: written for a byte that the vocabulary lacks."""

WHOLE_WORDS = 3
"""Words of a slot of `EncoderTables.whole`."""

_MANY_PARTS = np.uint64(8)
"""A long pre-token whose parts have fewer bytes than that on average is kept only when it comes again: it is a sentence."""

_FEW_LONG = np.uint64(8)
"""If less than one in so many pre-tokens is long, records are too rare to be asked for."""

_POSITION = np.uint64(SPECIAL_FLAG - 1)
_ZERO, _ONE, _TWO, _THREE, _FOUR = (np.uint64(number) for number in range(5))
_SHORT = np.uint64(SHORT_KEY_BYTES)
_HALF = np.uint64(32)
_HALF_MASK = np.uint64(0xFFFF_FFFF)
_WINDOW = np.uint64(WINDOW)


@kernel
def hash_strings(pool, starts, hashes):
    """Hash byte strings as `find_special` does.

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
    """Return the id of the special token that a span is.

    `specials` is a hash table of hashes and ids; the hashes differ, and the span is certain to be one of them.
    """
    hashed = hash_bytes(text, start, length)
    mask = np.uint64(specials.size - 1)
    word = (hashed << _ONE) & mask
    while specials[word] != hashed or specials[word + _ONE] == _ZERO:
        word = (word + _TWO) & mask
    return specials[word + _ONE] - _ONE


@inline
def _find_whole(tables, text, start, length):
    """Return the id of the token that a pre-token is as a whole though its merges give others, or NO_ID."""
    whole = tables.whole
    if whole.size == 0:
        return NO_ID
    hashed = hash_bytes(text, start, length)
    slot = hashed & np.uint64(whole.size // WHOLE_WORDS - 1)
    while True:
        word = slot * np.uint64(WHOLE_WORDS)
        place = whole[word + _ONE]
        if place == _ZERO:
            return NO_ID
        if (
            whole[word] == hashed
            and place & _HALF_MASK == length
            and equal_bytes(tables.whole_pool, place >> _HALF, text, start, length)
        ):
            return np.uint32(whole[word + _TWO])
        slot = (slot + _ONE) & np.uint64(whole.size // WHOLE_WORDS - 1)


@inline
def _encode_slowly(text, start, length, low, high, home, tables, memory, out, n_out):
    """Encode a span that the first slot does not answer; return where the ids end, or NO_ROOM."""
    if high == SPECIAL_TAG:
        out[n_out] = np.uint32(_find_special(tables.specials, text, start, length))
        return n_out + _ONE
    slots = memory.slots
    word, found = find_slot(memory, low, high, home, text, start)
    if not found:
        whole = _find_whole(tables, text, start, length)
        if whole != NO_ID:
            out[n_out] = whole
            end = n_out + _ONE
        elif find_part(text, start, start + length, tables.joints) < start + length:
            end, n_parts = encode_parts(text, start, start + length, tables, memory, out, n_out)
            if length > _SHORT and n_parts * _MANY_PARTS >= length and is_first_time(memory, low):
                return end
            # The parts may have taken its slot.
            word, found = find_slot(memory, low, high, home, text, start)
        else:
            end = encode_pretoken(text, start, length, tables, memory.scratch, out, n_out, _WINDOW)
        if end != NO_ROOM and not found:
            remember(memory, home, word, low, high, text, start, out, n_out, end)
        return end
    if word != home and n_out & _THREE == _ZERO and slots[(word ^ _FOUR) + _ONE] != _ZERO:
        # What is used often is used again: in its first slot the fast path finds it. One time in four does for that, and spares
        # two sentences that are equally rare from changing places each time. What lay there is found from its own first slot
        # on, since all slots between are in use, and both of this line.
        for i in range(SLOT_WORDS):
            here, there = home + np.uint64(i), word + np.uint64(i)
            slots[here], slots[there] = slots[there], slots[here]
        word = home
    return copy_ids(memory, word, out, n_out)


@kernel
def encode_spans(text, ends, tables, memory, out):
    """Encode the spans of a text.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last span.
    ends : uint32[:], in
        Ends of the spans, with the special flag.
    tables : EncoderTables, in
    memory : EncoderMemory, in-out
        `memory.progress` says where to go on: spans SPAN to N_SPANS are encoded, the first of them begins at FIRST, and ids
        are written from `out[N_OUT]` on. These fields are brought up to date.
    out : uint32[:], out

    Returns
    -------
    int
        DONE; NEED_SPACE if `out` has less room than the next span has bytes, plus OUT_SLACK; NEED_SCRATCH if the scratch
        space is too small for the next span, of NEEDED bytes. Both go on at that span when called again.

    Notes
    -----
    One probe per span, and a merge for each pre-token that is not in the cache. Spans are not checked.
    """
    progress = memory.progress
    slots = memory.slots
    batch = memory.batch
    n_out = np.uint64(progress[N_OUT])
    start = np.uint64(progress[FIRST])
    span = np.uint64(progress[SPAN])
    n_spans = np.uint64(progress[N_SPANS])
    together = tables.whole.size == 0 and memory.scratch.size >= TOGETHER_WORDS
    status = DONE
    while span < n_spans and status == DONE:
        size = min(np.uint64(BATCH), n_spans - span)
        room = np.uint64(out.size) - n_out
        while size > _ZERO and (np.uint64(ends[span + size - _ONE]) & _POSITION) - start + np.uint64(OUT_SLACK) > room:
            size >>= _ONE
        if size == _ZERO:
            status = NEED_SPACE
        n_long = make_keys(text, start, ends, span, size, slots, batch)
        if n_long * _FEW_LONG > size:
            prefetch_records(memory, size)
        k = _ZERO
        waiting = together
        last = span + size
        begun = span
        while span < last:
            low = batch[k]
            high = batch[k + _ONE]
            word = batch[k + _TWO]
            first = slots[word + _TWO]
            second = slots[word + _THREE]
            if (slots[word] ^ low) | (slots[word + _ONE] ^ high) | (first & RECORD) == _ZERO:
                # All four at once: the number of ids is not worth a branch that is often mispredicted.
                store_u64(out, n_out, first)
                store_u64(out, n_out + _TWO, second & IDS)
                n_out += (second >> COUNT_SHIFT) + _ONE
            else:
                if span > begun:
                    start = np.uint64(ends[span - _ONE]) & _POSITION
                length = (np.uint64(ends[span]) & _POSITION) - start
                if waiting and is_new(low, high, word, text, start, memory):
                    encode_together(text, ends, span, last, k, tables, memory)
                    waiting = False
                end = _encode_slowly(text, start, length, low, high, word, tables, memory, out, n_out)
                if end == NO_ROOM:
                    progress[NEEDED] = np.int64(length)
                    status = NEED_SCRATCH
                    break
                n_out = end
            k += _THREE
            span += _ONE
        if span > begun:
            start = np.uint64(ends[span - _ONE]) & _POSITION
    progress[FIRST] = np.int64(start)
    progress[SPAN] = np.int64(span)
    progress[N_OUT] = np.int64(n_out)
    return status
