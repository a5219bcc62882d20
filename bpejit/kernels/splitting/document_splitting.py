"""Split several documents that are adjacent in one text, each by itself."""

from __future__ import annotations

from bpejit.jit.dispatch import kernel
from bpejit.kernels.splitting.automaton_runner import NEED_CALL, POSITION
from bpejit.kernels.splitting.spans import MIN_ENDS, split_spans


@kernel
def split_adjacent(text, stops, first, final, automaton, state, ends):
    """Write the ends of the next pre-tokens of several documents.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last stop; below 2**31 bytes.
    stops : int64[:], in
        The end of each document. Document 0 starts at byte 0, and each other one at the end of the previous one.
    first : int64[1], in-out
        Number of the document to continue with; 0 at the start. When it equals the number of documents, all are split.
    final : bool
        True if the last document ends at its stop. Otherwise, ends that depend on further text are left for a later call.
    automaton : SplitAutomaton, in
    state : int64[STATE_SIZE], in-out
        As for `split_spans`. All zero at the start of document 0.
    ends : uint32[:], out
        As for `split_spans`. At least MIN_ENDS entries.

    Returns
    -------
    int
        Number of ends written, 0 only if all documents are split.

    Notes
    -----
    Linear in the text, as `split_spans`. A document whose spans may not fit into the rest of `ends` is left for the next call.
    The stops are not checked.
    """
    n_documents = stops.size
    capacity = ends.size - MIN_ENDS
    n = 0
    while first[0] < n_documents:
        stop = stops[first[0]]
        # There is at most one span per byte.
        if n > 0 and n + stop - state[POSITION] > capacity:
            break
        complete = final or first[0] + 1 < n_documents
        n += split_spans(text, stop, complete, automaton, state, ends[n:])
        if state[NEED_CALL]:
            break
        first[0] += 1
    return n
