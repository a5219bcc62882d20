"""Split and encode a text, or several documents, alternating between the two, one buffer of spans at a time."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.common.array_addresses import make_reader
from bpejit.kernels.constants import DONE, POSITION_MASK
from bpejit.kernels.encoding.document_spans import all_documents_split, split_documents, store_id_stops
from bpejit.kernels.encoding.encoder_arrays import EncoderTables, WorkspaceArrays
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
from bpejit.kernels.encoding.separator_removal import remove_separators
from bpejit.kernels.encoding.span_encoding import encode_spans
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.kernels.splitting.spans import NEED_CALL, split_spans

_POSITION = np.uint64(POSITION_MASK)

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
            status = encode_spans(text, ends, tables, workspace, out)
            if status != DONE:
                return status
        if progress[SEPARATOR_ID] > 0:
            remove_separators(out, workspace.id_stops, progress)
        if progress[N_DOCUMENTS] > 0:
            store_id_stops(workspace)
            progress[NEXT_SPAN] = 0
            progress[N_SPANS] = 0
            if all_documents_split(workspace):
                return DONE
            progress[N_SPANS] = split_documents(text, pattern, workspace)
            continue
        if progress[N_SPANS] > 0 and (split_state[NEED_CALL] == 0 or progress[NEXT_START] >= limit):
            progress[N_SPANS] = 0
            progress[NEXT_SPAN] = 0
            return DONE
        n_spans = split_spans(text, stop, final, pattern, split_state, ends)
        while n_spans > 0 and np.int64(ends[n_spans - 1] & _POSITION) > limit:
            n_spans -= 1
        progress[NEXT_SPAN] = 0
        progress[N_SPANS] = n_spans
        if n_spans == 0 and split_state[NEED_CALL] == 0:
            return DONE
