"""Merge new pre-tokens of a text together, with their steps interleaved.

Some thirty pre-tokens are merged in lockstep (see `row_merging`). Only pre-tokens that are ASCII and at most 15 bytes long take
part. All others are merged one by one.

In English text one pre-token in 65 is new, so that thirty of them are spread over a thousand others. A new pre-token is
therefore deferred: it leaves a gap in the output, and the encoding of the text continues. When enough are deferred, they are
merged, and the ids after each gap move to where they belong, which takes a few cycles for each pre-token.

    output before     a a a . . . . . . . . b b b b b c . . . . . . . . d d
    output after      a a a x x b b b b b c y d d

A pre-token that occurs again before it is merged leaves another gap.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.jit.simd import begin_merge, write_tokens
from bpejit.kernels.common.keys import LENGTH_SHIFT
from bpejit.kernels.constants import HIGH_BITS, LAST_BIT, ONE, SHORT_KEY_BYTES, TWO, ZERO
from bpejit.kernels.encoding.pretoken_cache import find_cache_slot, insert_pretoken
from bpejit.kernels.encoding.row_merging import MAX_ROWS, ROW_WORDS, SIZE, merge_rows

MAX_DEFERRED = 128
"""Largest number of gaps."""

RECENT_SPANS = 512
"""Size of `WorkspaceArrays.recent_stops`, a power of two."""

GAP = 16
"""Ids in a gap: as many as `write_tokens` overwrites, and more than a short pre-token has."""

N_NEW, N_DEFERRED, _SEEN = range(3)
"""Fields of `WorkspaceArrays.deferred`: the numbers of different pre-tokens and of gaps, and a bit set of home slots."""

# The following fields: of each pre-token its key, home slot and start, and of each gap its index, pre-token and span.
_LOW, _HIGH, _HOME, _START = (np.uint64(8 + field * MAX_ROWS) for field in range(4))
_AT, _NUMBER, _SPAN = (np.uint64(8 + 4 * MAX_ROWS + field * (MAX_DEFERRED + 1)) for field in range(3))
DEFERRED_WORDS = 8 + 4 * MAX_ROWS + 3 * (MAX_DEFERRED + 1)
"""Words of `WorkspaceArrays.deferred`."""

_ENOUGH_NEW, _ENOUGH_GAPS = np.uint64(MAX_ROWS // 2), np.uint64(MAX_DEFERRED // 2)
_GAP = np.uint64(GAP)
_ROW = np.uint64(ROW_WORDS)
_MAX_NEW, _MAX_GAPS = np.uint64(MAX_ROWS), np.uint64(MAX_DEFERRED)

_ABOVE_SHORT = np.uint64((SHORT_KEY_BYTES + 1) << 56)
_NOT_ASCII_HIGH = np.uint64(0x0080_8080_8080_8080)
_RECENT = np.uint64(RECENT_SPANS - 1)


@inline
def is_deferrable(deferred, low, high):
    """Return True if a new pre-token is ASCII and at most 15 bytes long, and there is room for another one in `deferred`."""
    if high >= _ABOVE_SHORT or (low & HIGH_BITS) | (high & _NOT_ASCII_HIGH) != ZERO:
        return False
    return deferred[N_NEW] < _MAX_NEW and deferred[N_DEFERRED] < _MAX_GAPS


@inline
def enough_deferred(deferred):
    """Return True if enough pre-tokens are deferred to merge them, or half of the gaps are used."""
    return deferred[N_NEW] >= _ENOUGH_NEW or deferred[N_DEFERRED] >= _ENOUGH_GAPS


@inline
def defer(deferred, low, high, home, start, span, n_out):
    """Leave a gap at `n_out` for a pre-token for which `is_deferrable` is true; return the new `n_out`."""
    n_new = deferred[N_NEW]
    bit = ONE << ((home >> TWO) & LAST_BIT)
    number = n_new
    if deferred[_SEEN] & bit != ZERO:
        number = ZERO
        while number < n_new and (deferred[_LOW + number] ^ low) | (deferred[_HIGH + number] ^ high) != ZERO:
            number += ONE
    if number == n_new:
        deferred[_LOW + number] = low
        deferred[_HIGH + number] = high
        deferred[_HOME + number] = home
        deferred[_START + number] = start
        deferred[N_NEW] = number + ONE
        deferred[_SEEN] |= bit
    gap = deferred[N_DEFERRED]
    deferred[_AT + gap] = n_out
    deferred[_NUMBER + gap] = number
    deferred[_SPAN + gap] = span
    deferred[N_DEFERRED] = gap + ONE
    return n_out + _GAP


@kernel
def encode_deferred(text, tables, workspace, out, n_out, span, records_stops):
    """Merge the deferred pre-tokens, insert their ids into the cache, and close the gaps.

    Parameters
    ----------
    text : uint8[:], in
        Readable 17 bytes past the start of each deferred pre-token.
    tables : EncoderTables, in
    workspace : WorkspaceArrays, in-out
        `workspace.deferred` is filled by `defer`, at least once, and empty on return. `workspace.scratch` has at least
        ROWS_WORDS words.
    out : uint32[:], in-out
        The ids of the text, with gaps.
    n_out, span : uint64
        The index after the last id, and the index of the next span.
    records_stops : bool
        Whether the ends of ids in `workspace.recent_stops` are updated. Only RECENT_SPANS spans may then follow the first gap.

    Returns
    -------
    uint64
        The new `n_out`.

    Notes
    -----
    O(merges) steps, and O(ids after the first gap) moves. It is a kernel of its own because it is rarely called: inlined into
    `encode_spans`, it made later passes 6 % slower.
    """
    deferred = workspace.deferred
    recent_stops = workspace.recent_stops
    scratch = workspace.scratch
    n_new = deferred[N_NEW]
    i = ZERO
    while i < n_new:
        length = deferred[_HIGH + i] >> LENGTH_SHIFT
        scratch[SIZE + i] = length
        begin_merge(text, deferred[_START + i], length, tables.byte_pairs, scratch, i * _ROW)
        i += ONE
    merge_rows(tables, scratch, n_new)
    n_gaps = deferred[N_DEFERRED]
    deferred[_AT + n_gaps] = n_out
    deferred[_SPAN + n_gaps] = span
    end = deferred[_AT]
    n_inserted = ZERO
    gap = ZERO
    while gap < n_gaps:
        number = deferred[_NUMBER + gap]
        count = np.uint64(scratch[SIZE + number])
        write_tokens(scratch, number * _ROW, count, tables.ids, out, end)
        begin = end
        end += count
        if number == n_inserted:
            low = deferred[_LOW + number]
            high = deferred[_HIGH + number]
            home = deferred[_HOME + number]
            slot, found = find_cache_slot(workspace, low, high, home)
            if not found:
                insert_pretoken(workspace, home, slot, low, high, out, begin, end)
            n_inserted += ONE
        at = deferred[_AT + gap] + _GAP
        gap += ONE
        stop = deferred[_AT + gap]
        if records_stops:
            i = deferred[_SPAN + gap - ONE]
            while i < deferred[_SPAN + gap]:
                recent_stops[i & _RECENT] -= at - end
                i += ONE
        # Two at a time; the last store may overwrite the first id of the next gap.
        while at < stop:
            store_u64(out, end, load_u64(out, at))
            at += TWO
            end += TWO
        end -= at - stop
    deferred[N_NEW] = ZERO
    deferred[N_DEFERRED] = ZERO
    deferred[_SEEN] = ZERO
    return end
