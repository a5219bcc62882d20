"""Find the runs of words that are one token each, from which superwords are learned."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.kernels.common.keys import pretoken_key
from bpejit.kernels.constants import EIGHT, FOUR, ONE, TWO, ZERO
from bpejit.kernels.counting.interning import find_slot

JOINS = 1 << 16
"""Number of pairs of bytes, the index of which is 256 times the first byte, plus the second."""


@inline
def _end_run(n_ids, n_runs, length, count, run_ends, run_counts):
    """Write where a run ends, or drop its ids if it has fewer than two. Return the numbers of ids and runs."""
    if length < 2:
        return n_ids - length, n_runs
    run_ends[n_runs] = n_ids
    run_counts[n_runs] = count
    return n_ids, n_runs + 1


@kernel
def find_runs(text, ends, stops, counts, table, arena, joins, ids, run_ends, run_counts):
    """Write the ids of the words of each run: at least two adjacent words of a pre-token that are in a table.

    A run also ends between two words if a merge may join the last byte of one with the first byte of the next.

    Parameters
    ----------
    text : uint8[:], in
        Adjacent pre-tokens, readable 16 bytes past the last one.
    ends : uint32[words], in
        The ends of the words; each pre-token consists of at least one word.
    stops : int64[pre-tokens], in
        The ends of the pre-tokens.
    counts : int64[pre-tokens], in
    table : uint64[4 * slots], in
        A hash table of words (see `kernels.counting.interning`); its counts are ids plus one.
    arena : uint8[:], in
        Bytes of the words of more than 15 bytes.
    joins : uint8[JOINS], in
        1 for each pair of the last byte of a left token and the first byte of a right token that a merge joins.
    ids : uint32[words], out
    run_ends : int64[words // 2], out
        The end of each run in `ids`.
    run_counts : int64[words // 2], out
        The count of its pre-token.

    Returns
    -------
    int
        Number of runs.

    Notes
    -----
    One probe per word, 20 ns for English. Nothing is checked.
    """
    mask = np.uint64(table.size // 4 - 1)
    n_ids, n_runs, length, pretoken = 0, 0, 0, 0
    start = ZERO
    for n in range(ends.size):
        end = np.uint64(ends[n])
        low, high, hashed = pretoken_key(text, start, end - start)
        found = table[find_slot(table, low, high, (hashed & mask) * FOUR, text, start, arena) + TWO]
        if length > 0:
            sides = (np.uint64(text[start - ONE]) << EIGHT) | np.uint64(text[start])
            if found == ZERO or joins[sides] != 0:
                n_ids, n_runs = _end_run(n_ids, n_runs, length, counts[pretoken], run_ends, run_counts)
                length = 0
        if found != ZERO:
            ids[n_ids] = np.uint32(found - ONE)
            n_ids += 1
            length += 1
        if np.int64(end) == stops[pretoken]:
            n_ids, n_runs = _end_run(n_ids, n_runs, length, counts[pretoken], run_ends, run_counts)
            length = 0
            pretoken += 1
        start = end
    return n_runs
