"""Merge pairs with many occurrences in several threads."""

from __future__ import annotations

import numpy as np

from bpejit.arrays import Array
from bpejit.kernels.training import merging, shared_merging
from bpejit.training.cell_ranges import CellRanges

LEAST_POSTINGS = 1 << 15
"""Minimum number of occurrences for each thread, which takes half a millisecond. Starting threads and waiting for them takes
0.2 ms on a virtual machine."""

LEAST_FINISHED = 1 << 17
"""The same for writing new postings, which takes a fifth of the time of replacing occurrences."""

CUTS = 16
"""Number of places for each thread at which a posting list may be divided."""


class SharedMerges:
    """The arrays of the threads that merge one pair, for one phase.

    Parameters
    ----------
    ranges : CellRanges
        At the start of a phase: each token is one cell.
    n_tokens : int
        Size of the arrays by token.
    least_postings : int
        Minimum number of occurrences for each thread.
    """

    def __init__(self, ranges: CellRanges, n_tokens: int, least_postings: int) -> None:
        self._ranges = ranges
        self._n = n_tokens
        self._least = least_postings
        n_threads = len(ranges)
        self._cuts = ranges.find_cuts(CUTS * n_threads)
        self._parts = shared_merging.Parts(
            # Memory that is never written costs nothing.
            before_sums=np.zeros(n_threads * n_tokens, merging.NEIGHBOR),
            before_seen=np.empty(n_threads * n_tokens, np.uint32),
            after_sums=np.zeros(n_threads * n_tokens, merging.NEIGHBOR),
            after_seen=np.empty(n_threads * n_tokens, np.uint32),
            found=np.zeros(3 * n_threads, np.uint64),
        )

    def merge(self, arrays: merging.MergeArrays) -> None:
        """Merge a pair after `merge_some` returned `SHARED`."""
        pair = arrays.pairs[int(arrays.state[0]["slot"])]
        first, length = int(pair["start"]), int(pair["length"])
        n_parts = max(1, min(len(self._ranges), length // self._least))
        bounds = self._divide(arrays.postings[first : first + length], n_parts)
        found = [self._parts.found[3 * part : 3 * part + 3] for part in range(n_parts)]
        own = [self._arrays_of(arrays, part) for part in range(n_parts)]

        def replace(part: int) -> None:
            shared_merging.replace_in_part(own[part], bounds[part], bounds[part + 1], found[part])

        def finish(part: int) -> None:
            shared_merging.finish_part(own[part], bounds[part], found[part], np.uint64(part), has_lists)

        self._ranges.run(replace, n_parts)
        parts = self._parts._replace(found=self._parts.found[: 3 * n_parts])
        has_lists = shared_merging.update_shared(arrays, *parts)
        if has_lists and length >= n_parts * LEAST_FINISHED:
            self._ranges.run(finish, n_parts)
        else:
            for part in range(n_parts):
                finish(part)

    def _arrays_of(self, arrays: merging.MergeArrays, part: int) -> merging.MergeArrays:
        """Return the arrays with the neighbors of one part."""
        place = slice(part * self._n, (part + 1) * self._n)
        return arrays._replace(
            before_sums=self._parts.before_sums[place],
            before_seen=self._parts.before_seen[place],
            after_sums=self._parts.after_sums[place],
            after_seen=self._parts.after_seen[place],
        )

    def _divide(self, postings: Array, n_parts: int) -> list[np.uint64]:
        """Return the bounds of parts of about the same length, between which there are boundaries."""
        middles = postings[np.arange(1, n_parts) * postings.size // n_parts]
        cuts = self._cuts[np.searchsorted(self._cuts, middles, side="right") - 1]
        inner = np.searchsorted(postings, cuts).astype(np.uint64)
        return [np.uint64(0), *inner, np.uint64(postings.size)]
