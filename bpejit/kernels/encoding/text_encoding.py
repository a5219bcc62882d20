"""Split and encode a text, or several documents, alternating between the two, one buffer of spans at a time;
and find the ends of the texts in the ids.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64, store_u64
from bpejit.kernels.common.array_addresses import make_reader
from bpejit.kernels.constants import DONE, END_POSITION, FOUR, HALF, ONE, TWO
from bpejit.kernels.encoding.encoder_arrays import EncoderTables, WorkspaceArrays
from bpejit.kernels.encoding.interleaved_merging import RECENT_SPANS
from bpejit.kernels.encoding.pretoken_cache import (
    FIRST_DOCUMENT,
    N_DOCUMENTS,
    N_OUT,
    N_SEPARATED,
    N_SPANS,
    NEXT_DOCUMENT,
    NEXT_SPAN,
    NEXT_START,
    SEPARATED_TO,
    SEPARATOR_ID,
)
from bpejit.kernels.encoding.span_encoding import encode_spans
from bpejit.kernels.encoding.superword_merging import encode_superwords
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.kernels.splitting.spans import MIN_ENDS, NEED_CALL, POSITION, split_spans

_ALMOST = np.uint64(0x7FFF_FFFF_7FFF_FFFF)
_TOP_BITS = np.uint64(0x8000_0000_8000_0000)


@inline
def remove_separators(out, id_stops, progress):
    """Remove the separators from `out[progress[SEPARATED_TO] : progress[N_OUT]]`, and update the progress.

    Parameters
    ----------
    out : uint32[:], in-out
        Ids below 2**30.
    id_stops : int64[:], out
        From index N_SEPARATED on, the end of the ids of each text, up to its separator. One more entry is overwritten. If there
        are more separators than entries, the last entry is overwritten again and again, and only their number is of use.
    progress : int64[:], in-out
        SEPARATOR_ID is the id of a separator, plus 1.
    """
    separator = np.uint64(progress[SEPARATOR_ID] - 1)
    both = separator << HALF | separator
    n = np.uint64(progress[SEPARATED_TO])
    n_texts = np.uint64(progress[N_SEPARATED])
    last = np.uint64(id_stops.size - 1)
    i = n
    end = np.uint64(progress[N_OUT])
    while i < end:
        # Four at a time: one by one took 7 instead of 3 ms for 3.5 million ids.
        while i + FOUR <= end:
            first = load_u64(out, i)
            second = load_u64(out, i + TWO)
            # The top bit of a half remains 0 only if its id is a separator.
            if ((first ^ both) + _ALMOST) & ((second ^ both) + _ALMOST) & _TOP_BITS != _TOP_BITS:
                break
            store_u64(out, n, first)
            store_u64(out, n + TWO, second)
            i += FOUR
            n += FOUR
        for _ in range(min(FOUR, end - i)):
            number = np.uint64(out[i])
            out[n] = number
            id_stops[min(n_texts, last)] = n
            is_separator = np.uint64(number == separator)
            n_texts += is_separator
            n += ONE - is_separator
            i += ONE
    progress[N_SEPARATED] = n_texts
    progress[SEPARATED_TO] = n
    progress[N_OUT] = n


_LAST = RECENT_SPANS - 1


@inline
def split_documents(text, pattern, workspace):
    """Split the next group of documents; return its number of spans.

    Documents FIRST_DOCUMENT to NEXT_DOCUMENT end in this group. Their entries of `id_stops` are set to the number of spans up
    to their ends. A document of more spans than `ends` can hold continues in the next group.
    """
    progress = workspace.progress
    stops = workspace.document_stops
    state = workspace.split_state
    ends = workspace.ends
    document = progress[NEXT_DOCUMENT]
    progress[FIRST_DOCUMENT] = document
    # For a group of several documents, so that `recent_stops` retains the end of each span. There is at most one per byte.
    capacity = min(_LAST, ends.size - MIN_ENDS)
    # The end of the ids of a document without spans.
    workspace.recent_stops[_LAST] = workspace.run_stops[_LAST] = np.uint64(progress[N_OUT])
    n_spans = 0
    while document < progress[N_DOCUMENTS]:
        length = stops[document] - state[POSITION]
        if document > progress[FIRST_DOCUMENT] and n_spans + length > capacity:
            break
        if length > 0 or state[NEED_CALL]:
            n_spans += split_spans(text, stops[document], True, pattern, state, ends[n_spans:])
            if state[NEED_CALL]:
                break
        workspace.id_stops[document] = n_spans
        document += 1
    progress[NEXT_DOCUMENT] = document
    return n_spans


@inline
def store_id_stops(tables, workspace):
    """Replace the numbers of spans in `id_stops` by the ends of the ids, after the spans of the group have been encoded."""
    progress = workspace.progress
    id_stops = workspace.id_stops
    stops = workspace.run_stops if tables.super_merged.size > 0 else workspace.recent_stops
    for document in range(progress[FIRST_DOCUMENT], progress[NEXT_DOCUMENT]):
        id_stops[document] = np.int64(stops[(id_stops[document] - 1) & _LAST])
    progress[FIRST_DOCUMENT] = progress[NEXT_DOCUMENT]


_read_automaton = make_reader(SplitAutomaton)
_read_tables = make_reader(EncoderTables)
_read_workspace = make_reader(WorkspaceArrays)


@kernel
def encode_text(text, limit, stop, final, fresh, automaton_addresses, tables_addresses, workspace_addresses, out):
    """Split a text, or several documents, and encode them.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    limit : int
        End of the chunk. Spans that end after it are not encoded; the text after it only completes the last span.
    stop : int
        End of the available text.
    final : bool
        Whether the text ends at `stop`.
    fresh : bool
        Whether a new text starts at byte 0. Resets the state of the splitter, and all fields of `workspace.progress` that
        belong to a text, except N_OUT.
    automaton_addresses, tables_addresses, workspace_addresses : int64[:], in
        Addresses of a SplitAutomaton, of EncoderTables and of WorkspaceArrays (see `array_addresses`).
    out : uint32[:], out

    Returns
    -------
    int
        As `encode_spans`. After DONE the spans up to `progress[NEXT_START]` are encoded; the rest needs more text.

    Notes
    -----
    The `progress[N_SPANS]` spans already in `workspace.ends` are encoded first. If `split_state[NEED_CALL]` is 0, nothing is
    split after them, and no pattern is needed.

    If `progress[N_DOCUMENTS]` is not 0, the text consists of this number of documents, which end at `workspace.document_stops`.
    Each is encoded by itself, and `workspace.id_stops` receives the end of its ids in `out`. `limit`, `stop` and `final` are
    then ignored. A kernel of its own would take a fifth of the compilation time of a first run.

    If `progress[SEPARATOR_ID]` is not 0, the text consists of several texts with a separator after each, which has this id,
    less 1. Each is encoded by itself, and `workspace.id_stops` receives the end of its ids. The ids of separators are removed.
    """
    pattern = _read_automaton(automaton_addresses)
    tables = _read_tables(tables_addresses)
    workspace = _read_workspace(workspace_addresses)
    progress = workspace.progress
    ends = workspace.ends
    split_state = workspace.split_state
    if fresh:
        split_state[:] = 0
        progress[NEXT_START] = 0
        progress[NEXT_SPAN] = 0
        progress[N_SPANS] = 0
        progress[FIRST_DOCUMENT] = 0
        progress[NEXT_DOCUMENT] = 0
        progress[N_SEPARATED] = 0
        progress[SEPARATED_TO] = progress[N_OUT]
    while True:
        if progress[NEXT_SPAN] < progress[N_SPANS]:
            if tables.super_merged.size > 0:
                status = encode_superwords(text, ends, tables, workspace, out)
            else:
                status = encode_spans(text, ends, tables, workspace, out)
            if status != DONE:
                return status
        if progress[SEPARATOR_ID] > 0:
            remove_separators(out, workspace.id_stops, progress)
        if progress[N_DOCUMENTS] > 0:
            store_id_stops(tables, workspace)
            progress[NEXT_SPAN] = 0
            progress[N_SPANS] = 0
            if progress[NEXT_DOCUMENT] == progress[N_DOCUMENTS]:
                return DONE
            progress[N_SPANS] = split_documents(text, pattern, workspace)
            continue
        if progress[N_SPANS] > 0 and (split_state[NEED_CALL] == 0 or progress[NEXT_START] >= limit):
            progress[N_SPANS] = 0
            progress[NEXT_SPAN] = 0
            return DONE
        n_spans = split_spans(text, stop, final, pattern, split_state, ends)
        while n_spans > 0 and np.int64(ends[n_spans - 1] & END_POSITION) > limit:
            n_spans -= 1
        progress[NEXT_SPAN] = 0
        progress[N_SPANS] = n_spans
        if n_spans == 0 and split_state[NEED_CALL] == 0:
            return DONE
