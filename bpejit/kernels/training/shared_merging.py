"""Merge a pair with many occurrences in several threads, each in its part of the posting list.

The list is divided between pre-tokens, so the threads write to different cells and to different parts of `postings`, and an
occurrence has no neighbor in another part. Each thread sums the weights of neighbors in arrays of its own. One thread adds
them up in order and updates the pair table; then each thread writes its part of each new posting list. The result is the same
as that of `merge_pair`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.kernels.constants import HALF, LOW_HALF, ONE, THREE, TWO, ZERO
from bpejit.kernels.training.merging import (
    NO_LIST,
    replace_occurrences,
    reset_sums,
    update_neighbors,
    write_new_postings,
)

Array = Any

UNUSED_STEP = np.uint64(32)
"""Distance of the elements of `postings` to which threads write postings without a list: two cache lines, of which the
processor fetches pairs. The array has as many elements for each thread at its end, besides those for prefetching."""


class Parts(NamedTuple):
    """The neighbors in each part of a posting list, one part after the other."""

    before_sums: Array  # NEIGHBOR [parts * n], zeros between merges
    before_seen: Array  # uint32 [parts * n]
    after_sums: Array  # NEIGHBOR [parts * n]
    after_seen: Array  # uint32 [parts * n]
    found: Array  # uint64 [parts * 3]: the numbers of positions, of distinct ids before, and of distinct ids after them


@inline
def shared_pair(arrays):
    """Return the left, the right and the new token of the pair that is being merged, and the start of its list."""
    status = arrays.state[0]
    pair = arrays.pairs[status["slot"]]
    key = pair["key"] - ONE
    return key >> HALF, key & LOW_HALF, status["n_tokens"] - ONE, pair["start"]


@inline
def ids_of_part(begin, arrays):
    """Return where the ids of the neighbors in the part of a list that starts at `begin` are, see `place_of_ids`."""
    ids = arrays.state[0]["ids"]
    return ids if ids == NO_LIST else ids + TWO * begin


@kernel
def replace_in_part(arrays, begin, end, found):
    """Replace the occurrences in one part of the list of the pair that is being merged, and sum the weights of neighbors.

    Parameters
    ----------
    arrays : MergeArrays
        In-out, after `merge_some` returned `SHARED`; `before_sums`, `before_seen`, `after_sums` and `after_seen` are those of
        the part.
    begin, end : uint64
        The part of the list; between it and the others there are boundaries.
    found : uint64[3], out
        See `Parts`.

    Notes
    -----
    O(end - begin).
    """
    left, right, merged, start = shared_pair(arrays)
    ids = ids_of_part(begin, arrays)
    found[0], found[1], found[2] = replace_occurrences(left, right, merged, start + begin, end - begin, ids, arrays)


@inline
def add_part_sums(source, source_seen, base, n_source, sums, seen, n_seen):
    """Add the sums of one part to those of all. Return the number of distinct ids so far."""
    for i in range(base, base + n_source):
        x = np.uint64(source_seen[i])
        own = source[base + x]
        seen[n_seen] = x
        n_seen += ONE if sums[x]["cursor"] == ZERO else ZERO
        sums[x]["weight"] += own["weight"]
        sums[x]["cursor"] += own["cursor"]
    return n_seen


@inline
def divide_lists(source, source_seen, base, n_source, sums):
    """Give one part its places in the new posting lists, after those of the parts before it."""
    for i in range(base, base + n_source):
        x = np.uint64(source_seen[i])
        own, all_parts = source[base + x], sums[x]
        number = own["cursor"]
        own["cursor"] = all_parts["cursor"]
        all_parts["cursor"] += number if all_parts["cursor"] != NO_LIST else ZERO


@kernel
def update_shared(arrays, before_sums, before_seen, after_sums, after_seen, found):
    """Update the pair table, the buckets and the lists after all parts were replaced.

    Parameters
    ----------
    arrays : MergeArrays
        In-out. Its own sums are zero.
    before_sums, before_seen, after_sums, after_seen, found
        In-out, see `Parts`. The cursors become the places of the next postings.

    Returns
    -------
    int
        1 if there are new posting lists.

    Notes
    -----
    O(distinct neighbors of each part).
    """
    left, right, merged, _ = shared_pair(arrays)
    n = np.uint64(arrays.lengths.size)
    n_before = ZERO
    n_after = ZERO
    for part in range(found.size // 3):
        base, numbers = np.uint64(part) * n, np.uint64(part) * THREE
        n_before = add_part_sums(
            before_sums, before_seen, base, found[numbers + ONE], arrays.before_sums, arrays.before_seen, n_before
        )
        n_after = add_part_sums(
            after_sums, after_seen, base, found[numbers + TWO], arrays.after_sums, arrays.after_seen, n_after
        )
    n_postings = arrays.state[0]["n_postings"]
    update_neighbors(left, right, merged, arrays.before_sums, arrays.before_seen, n_before, False, arrays)
    update_neighbors(left, right, merged, arrays.after_sums, arrays.after_seen, n_after, True, arrays)
    for part in range(found.size // 3):
        base, numbers = np.uint64(part) * n, np.uint64(part) * THREE
        divide_lists(before_sums, before_seen, base, found[numbers + ONE], arrays.before_sums)
        divide_lists(after_sums, after_seen, base, found[numbers + TWO], arrays.after_sums)
    reset_sums(arrays.before_sums, arrays.before_seen, n_before)
    reset_sums(arrays.after_sums, arrays.after_seen, n_after)
    arrays.pairs[arrays.state[0]["slot"]]["count"] = ZERO
    return 1 if arrays.state[0]["n_postings"] != n_postings else 0


@kernel
def finish_part(arrays, begin, found, number, has_lists):
    """Write the new postings of one part, and reset its sums.

    Parameters
    ----------
    arrays, begin, found
        As in `replace_in_part`, after `update_shared`.
    number : uint64
        The number of the part.
    has_lists : int
        The result of `update_shared`.

    Notes
    -----
    O(positions + distinct neighbors).
    """
    left, _, merged, start = shared_pair(arrays)
    if has_lists:
        unused = np.uint64(arrays.postings.size) - ONE - number * UNUSED_STEP
        write_new_postings(left, merged, start + begin, found[0], ids_of_part(begin, arrays), unused, arrays)
    reset_sums(arrays.before_sums, arrays.before_seen, found[1])
    reset_sums(arrays.after_sums, arrays.after_seen, found[2])
