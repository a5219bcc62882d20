"""Encoding a text: splitting and encoding in turns, buffer by buffer."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import kernel
from bpejit.kernels.constants import DONE, SPECIAL_FLAG
from bpejit.kernels.encoding.pretoken_cache import FIRST, N_SPANS, SPAN
from bpejit.kernels.encoding.record_addresses import automaton_at, memory_at, tables_at
from bpejit.kernels.encoding.span_encoding import encode_spans
from bpejit.kernels.splitting.spans import NEED_CALL, split_spans

_POSITION = np.uint64(SPECIAL_FLAG - 1)


@kernel
def encode_text(text, limit, stop, final, fresh, automaton, tables, memory, out):
    """Split a text and encode it.

    Parameters
    ----------
    text : uint8[:], in
        Readable 16 bytes past `stop`.
    limit : int
        Spans that end behind it are not encoded: where a chunk ends, and the text behind it only finishes its last span.
    stop : int
        Where the text ends, for now.
    final : bool
        Whether it ends there for good.
    fresh : bool
        Whether a new text begins here, at byte 0: resets the splitter's state and all of `memory.progress` that belongs to a
        text, N_OUT excepted.
    automaton, tables, memory : int64[:], in
        Addresses of a SplitAutomaton, of EncoderTables and of an EncoderMemory (see `records`), as in `encode_spans`.
    out : uint32[:], out

    Returns
    -------
    int
        As `encode_spans`. After DONE the spans up to `progress[FIRST]` are encoded; what follows waits for more text.

    Notes
    -----
    Spans that `memory.ends` already holds, `progress[N_SPANS]` of them, are encoded first. If `split_state[NEED_CALL]` is 0,
    nothing is split after them, and no pattern is needed.
    """
    rules = tables_at(tables)
    work = memory_at(memory)
    pattern = automaton_at(automaton)
    progress = work.progress
    ends = work.ends
    split_state = work.split_state
    if fresh:
        split_state[:] = 0
        progress[FIRST] = 0
        progress[SPAN] = 0
        progress[N_SPANS] = 0
    while True:
        status = encode_spans(text, ends, rules, work, out)
        if status != DONE:
            return status
        if progress[N_SPANS] > 0 and (split_state[NEED_CALL] == 0 or progress[FIRST] >= limit):
            progress[N_SPANS] = 0
            progress[SPAN] = 0
            return DONE
        n_spans = split_spans(text, stop, final, pattern, split_state, ends)
        while n_spans > 0 and np.int64(ends[n_spans - 1] & _POSITION) > limit:
            n_spans -= 1
        progress[SPAN] = 0
        progress[N_SPANS] = n_spans
        if n_spans == 0 and split_state[NEED_CALL] == 0:
            return DONE
