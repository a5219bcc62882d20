"""Split several documents that are adjacent in one text, and find where the ids of each end.

Short documents are encoded in groups: a call of `encode_spans` per document would cost as much as encoding ten pre-tokens, and
its batches of keys would be too small to hide cache misses. So documents are split until their spans fill a group, the group
is encoded at once, and the ends of the documents' ids are read from the ends of the spans' ids.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.kernels.encoding.interleaved_merging import RECENT_SPANS
from bpejit.kernels.encoding.pretoken_cache import FIRST_DOCUMENT, N_DOCUMENTS, N_OUT, NEXT_DOCUMENT
from bpejit.kernels.splitting.spans import MIN_ENDS, NEED_CALL, POSITION, split_spans

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
    workspace.recent_stops[_LAST] = np.uint64(progress[N_OUT])
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
def store_id_stops(workspace):
    """Replace the numbers of spans in `id_stops` by the ends of the ids, after the spans of the group have been encoded."""
    progress = workspace.progress
    id_stops = workspace.id_stops
    for document in range(progress[FIRST_DOCUMENT], progress[NEXT_DOCUMENT]):
        id_stops[document] = np.int64(workspace.recent_stops[(id_stops[document] - 1) & _LAST])
    progress[FIRST_DOCUMENT] = progress[NEXT_DOCUMENT]


@inline
def all_documents_split(workspace):
    """Return True if no text is left to split."""
    return workspace.progress[NEXT_DOCUMENT] == workspace.progress[N_DOCUMENTS]
