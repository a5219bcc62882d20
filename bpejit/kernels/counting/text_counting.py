"""Split text and count its pre-tokens, block by block: the ends of a block are in the CPU cache until they are counted."""

from __future__ import annotations

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import DONE, NEED_SPACE, POSITION_MASK
from bpejit.kernels.counting.interning import NEXT, count_spans
from bpejit.kernels.splitting.spans import split_adjacent

# Fields of the `progress` of `count_text`.
DOCUMENT, FIRST, N_ENDS = 0, 1, 2


@kernel
def count_text(text, stops, cut, final, automaton, split_state, ends, progress, table, arena, state, scratch):
    """Split adjacent documents, and count their pre-tokens.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past the last stop; below 2**31 bytes.
    stops : int64[:], in
        The end of each document, as for `split_adjacent`.
    cut : int
        Pre-tokens that end after it are not counted: text after a safe cut is read only to finish the last one before it.
    final : bool
        True if the last document ends at its stop.
    automaton : SplitAutomaton, in
    split_state : int64[STATE_SIZE], in-out
        State of the splitter; all zero at the start.
    ends : uint32[:], in-out
        The ends of a block, which has at most as many bytes. At least MIN_ENDS entries.
    progress : int64[3], in-out
        DOCUMENT: number of the document to continue with; FIRST: start of the first pre-token of the block; N_ENDS: number of
        its pre-tokens. All zero at the start.
    table, arena, state, scratch
        As for `count_spans`. NEXT is 0 at the start.

    Returns
    -------
    int
        DONE, or NEED_SPACE as from `count_spans`: enlarge the table or the arena, and call again.

    Notes
    -----
    Linear in the text. One call for a chunk instead of two for each block: a thread waits for the GIL after each call, and
    counting in two threads took 1.3 times as long.
    """
    while True:
        if count_spans(text, progress[FIRST], ends, progress[N_ENDS], table, arena, state, scratch) == NEED_SPACE:
            return NEED_SPACE
        state[NEXT] = 0
        if progress[N_ENDS] > 0:
            progress[FIRST] = ends[progress[N_ENDS] - 1] & POSITION_MASK
        if progress[DOCUMENT] == stops.size:
            progress[N_ENDS] = 0
            return DONE
        n = split_adjacent(text, stops, progress[: DOCUMENT + 1], final, automaton, split_state, ends)
        while n > 0 and ends[n - 1] & POSITION_MASK > cut:
            n -= 1
        progress[N_ENDS] = n
