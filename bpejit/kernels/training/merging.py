"""The merge loop.

Merging the pair (a, b) into c changes the counts of the pairs around each occurrence x a b y: (x, a) and (b, y) lose its
weight, (x, c) and (c, y) gain it. The changes are first summed by neighbor, in two dense arrays indexed by x and by y. Then
the pair table is accessed once for each distinct neighbor, and a second pass over the occurrences writes the posting lists
of the new pairs.

One case is special. In a b a b the first occurrence is counted with the right neighbor a, which is then merged itself; the
second occurrence has the left neighbor c. So the weight that is counted for (c, c) is subtracted from (c, a).

Overlapping occurrences in a run all count: a a a contains the pair (a, a) twice. Merging from the left makes c a, and the
posting of the second occurrence is skipped, because no a starts there any more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length, prefetch
from bpejit.kernels.constants import DONE, EXHAUSTED, HALF, LOW_HALF, NEED_SPACE, ONE, SHARED, TWO, ZERO
from bpejit.kernels.training.buckets import PREFIX_BYTES, bucket_pair, next_pair
from bpejit.kernels.training.cells import id_at, id_mask
from bpejit.kernels.training.pairs import NO_SLOT, PREFETCH_PAIRS, find_pair_slot, hash_pair, mark_of, mark_pair, pair_key

Array = Any

STATE = np.dtype(
    [
        # settings
        ("threshold", np.uint64),  # pairs that occur less often are not followed
        ("max_size", np.uint64),  # maximum size of a token
        ("rule", np.uint64),  # how ties are resolved, see `COMPARISONS` in buckets.py
        ("boundary", np.uint64),  # the id of boundary cells, greater than any token id
        ("shared", np.uint64),  # pairs with as many postings are merged by several threads, see shared_merging.py
        # state of the kernels between calls
        ("n_tokens", np.uint64),
        ("n_pairs", np.uint64),  # slots in use
        ("n_postings", np.uint64),
        ("n_candidates", np.uint64),  # pairs in the heap
        ("top", np.uint64),  # the open bucket; the buckets above it are empty
        ("longest", np.uint64),  # length of the longest posting list
        ("longest_token", np.uint64),
        ("n_bytes", np.uint64),  # bytes of all tokens
        ("position", np.uint64),  # where to continue
        # a merge that several threads make, see shared_merging.py
        ("slot", np.uint64),
        ("ids", np.uint64),  # see `place_of_ids`
    ]
)
"""Settings, and the state of the kernels between calls; an array of one record."""

NEIGHBOR = np.dtype([("weight", np.uint64), ("cursor", np.uint64)], align=True)
"""A neighboring token during one merge: the weight of its occurrences; their number, and later the index at which the next
posting of its new pair is written."""

PREFETCH_CELLS = np.uint64(24)
"""Prefetch distance in a posting list; the array of postings has as many extra elements."""

DENSE_CELLS = np.uint64(16)
"""A pair is dense if it has a posting for each so many cells: on average, one in each cache line."""

NO_LIST = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class MergeArrays(NamedTuple):
    """The arrays of the merge loop. They are not nested, so a call takes a few microseconds instead of a hundred."""

    cells: Array  # uint32 or uint64 [...], see cells.py
    weights: Array  # uint64 [...]
    pairs: Array  # PAIR [power of two], see pairs.py
    marks: Array  # uint8 [power of two], a set of the pairs of the table, see `mark_pair`
    postings: Array  # uint32 [...]
    heads: Array  # uint32 [N_BUCKETS], see buckets.py: slot + 1 of the first pair, 0 for none
    heap: Array  # CANDIDATE [three quarters of the slots]
    # The tokens, by id; each array has an element for the boundary too.
    lengths: Array  # uint32 [n], bytes
    sizes: Array  # uint32 [n], what `max_size` limits: the same as `lengths`, or characters
    widths: Array  # uint32 [n], cells
    prefixes: Array  # uint64 [n], the first 8 bytes as a big-endian number, zero-padded
    starts: Array  # uint64 [n], index in `pool` of the first byte of the token
    pool: Array  # uint8 [...]
    # The tokens before and after the pair that is being merged, by token id, zeros between merges; their distinct ids.
    before_sums: Array  # NEIGHBOR [n]
    before_seen: Array  # uint32 [n]
    after_sums: Array  # NEIGHBOR [n]
    after_seen: Array  # uint32 [n]
    followed: Array  # uint32 [n], scratch space: neighbors
    left: Array  # int32 [merges], the result
    right: Array  # int32 [merges]
    counts: Array  # int64 [merges]
    state: Array  # STATE [1]


@inline
def add_token(left, right, tokens):
    """Append the token `left` + `right` to the arrays of the merge loop. Return its id."""
    status = tokens.state[0]
    token = status["n_tokens"]
    start = status["n_bytes"]
    length_left, length_right = np.uint64(tokens.lengths[left]), np.uint64(tokens.lengths[right])
    tokens.starts[token] = start
    tokens.lengths[token] = length_left + length_right
    tokens.sizes[token] = np.uint64(tokens.sizes[left]) + np.uint64(tokens.sizes[right])
    tokens.widths[token] = np.uint64(tokens.widths[left]) + np.uint64(tokens.widths[right])
    tokens.prefixes[token] = tokens.prefixes[left]
    if length_left < PREFIX_BYTES:
        tokens.prefixes[token] |= tokens.prefixes[right] >> (length_left << np.uint64(3))
    for i in range(length_left):
        tokens.pool[start + np.uint64(i)] = tokens.pool[tokens.starts[left] + np.uint64(i)]
    for i in range(length_right):
        tokens.pool[start + length_left + np.uint64(i)] = tokens.pool[tokens.starts[right] + np.uint64(i)]
    status["n_tokens"] = token + ONE
    status["n_bytes"] = start + length_left + length_right
    status["longest_token"] = max(status["longest_token"], length_left + length_right)
    return token


@inline
def place_of_ids(number, arrays):
    """Return where in `postings` the ids of the neighbors of a pair with `number` postings are, or `NO_LIST`.

    The place is after the new lists of the merge. If the pair occurs in most cache lines of the cells, the ids are read there
    again instead: new memory, eight bytes for each posting, takes longer.
    """
    if number * DENSE_CELLS >= np.uint64(arrays.cells.size):
        return NO_LIST
    return arrays.state[0]["n_postings"] + TWO * number


@inline
def replace_occurrences(left, right, merged, first, number, ids, arrays):
    """Write the new token at each occurrence of the pair, and sum the weights of its neighbors.

    The positions that are still valid are moved to the front of `postings[first:]`, and the ids before and after each of them
    are written to `postings[ids:]`, unless `ids` is `NO_LIST`. Return their number, the number of distinct ids before them, and
    the number of distinct ids after them.
    """
    cells, postings = arrays.cells, arrays.postings
    before_sums, before_seen, after_sums, after_seen = (
        arrays.before_sums,
        arrays.before_seen,
        arrays.after_sums,
        arrays.after_seen,
    )
    width_left = np.uint64(arrays.widths[left])
    width = np.uint64(arrays.widths[merged])
    boundary = arrays.state[0]["boundary"]
    mask, id_bits = id_mask(boundary), bit_length(boundary)
    n_positions = ZERO
    n_before = ZERO
    n_after = ZERO
    at = first
    end = first + number
    while at < end:
        # Often the tokens before and after the pair are not in the same cache line.
        ahead = np.uint64(postings[at + PREFETCH_CELLS])
        prefetch(cells, max(ahead, ONE) - ONE)
        prefetch(cells, ahead + width)
        position = np.uint64(postings[at])
        at += ONE
        cell = np.uint64(cells[position])
        if cell & mask != left or id_at(cells, position + width_left, mask) != right:
            continue
        weight = arrays.weights[cell >> id_bits]
        x = id_at(cells, position - ONE, mask)
        y = id_at(cells, position + width, mask)
        cell = cell >> id_bits << id_bits | merged
        # No token starts at the right token any more. If it was a single cell, the next line sets it again.
        cells[position + width_left] = boundary
        cells[position + width - ONE] = cell
        cells[position] = cell
        postings[first + n_positions] = position
        if ids != NO_LIST:
            postings[ids] = x
            postings[ids + ONE] = y
            ids += TWO
        n_positions += ONE
        # A boundary counts as a neighbor here, and is skipped later. That is cheaper than an unpredictable branch.
        before_seen[n_before] = x
        n_before += ONE if before_sums[x]["cursor"] == ZERO else ZERO
        before_sums[x]["weight"] += weight
        before_sums[x]["cursor"] += ONE
        after_seen[n_after] = y
        n_after += ONE if after_sums[y]["cursor"] == ZERO else ZERO
        after_sums[y]["weight"] += weight
        after_sums[y]["cursor"] += ONE
    return n_positions, n_before, n_after


@inline
def decrease_count(key, weight, pairs):
    """Subtract `weight` from the count of a pair, if the pair is in the table."""
    pair = pairs[find_pair_slot(pairs, key)]
    if pair["key"] != ZERO:
        pair["count"] -= weight


@inline
def add_pair(key, weight, number, arrays):
    """Add a new pair to the table, unless the token would be too long. Return the start of its posting list, or `NO_LIST`."""
    status = arrays.state[0]
    sizes = arrays.sizes
    left, right = (key - ONE) >> HALF, (key - ONE) & LOW_HALF
    if np.uint64(sizes[left]) + np.uint64(sizes[right]) > status["max_size"]:
        return NO_LIST
    slot = find_pair_slot(arrays.pairs, key)
    start = status["n_postings"]
    pair = arrays.pairs[slot]
    pair["key"] = key
    pair["count"] = weight
    pair["start"] = start
    pair["length"] = number
    mark_pair(key, arrays.marks)
    status["n_pairs"] += ONE
    status["n_postings"] = start + number
    bucket_pair(slot, arrays)
    return start


@inline
def adjacent_key(token, neighbor, follows):
    """Return the key of a token and its neighbor, which follows it or precedes it."""
    return pair_key(token, neighbor) if follows else pair_key(neighbor, token)


@inline
def update_neighbors(left, right, merged, sums, seen, n_seen, follows, arrays):
    """Decrease the counts of (x, left), and add the pairs (x, merged); or those of (right, x) and (merged, x) if x follows."""
    pairs, followed = arrays.pairs, arrays.followed
    threshold, boundary = arrays.state[0]["threshold"], arrays.state[0]["boundary"]
    token = right if follows else left
    n_followed = ZERO
    for i in range(n_seen):
        x = np.uint64(seen[i])
        # Nine of ten of these pairs are not in the table in Chinese, and nearly no new pair is frequent enough.
        followed[n_followed] = x
        n_followed += mark_of(adjacent_key(token, x, follows), arrays.marks)
        neighbor = sums[x]
        number, weight = neighbor["cursor"], neighbor["weight"]
        neighbor["cursor"] = NO_LIST
        if follows and x == left:
            # Where the next occurrence follows immediately, its left token is merged too: that weight is (merged, merged).
            weight -= arrays.before_sums[merged]["weight"]
        if weight >= threshold and x != boundary:
            neighbor["cursor"] = add_pair(adjacent_key(merged, x, follows), weight, number, arrays)
    for i in range(n_followed):
        ahead = np.uint64(followed[min(np.uint64(i) + PREFETCH_PAIRS, n_followed - ONE)])
        prefetch(pairs, hash_pair(adjacent_key(token, ahead, follows)) & (np.uint64(pairs.size) - ONE))
        x = np.uint64(followed[i])
        # If x is the merged token itself, (x, left) is not in the table yet, and nothing is subtracted.
        decrease_count(adjacent_key(token, x, follows), sums[x]["weight"], pairs)


@inline
def write_new_postings(left, merged, first, n_positions, ids, unused, arrays):
    """Write the postings of the new pairs, one for the token before each occurrence and one for the token after it."""
    cells, postings, widths = arrays.cells, arrays.postings, arrays.widths
    before_sums, after_sums = arrays.before_sums, arrays.after_sums
    width = np.uint64(widths[merged])
    mask = id_mask(arrays.state[0]["boundary"])
    # Whether a neighbor has a list is unpredictable, so postings without one are written, too: to an element that is only
    # there for prefetching.
    for i in range(n_positions):
        position = np.uint64(postings[first + np.uint64(i)])
        if ids == NO_LIST:
            x = id_at(cells, position - ONE, mask)
            y = id_at(cells, position + width, mask)
            # Only an occurrence that follows immediately has become the merged token since.
            y = left if y == merged else y
        else:
            x = np.uint64(postings[ids])
            y = np.uint64(postings[ids + ONE])
            ids += TWO
        cursor = before_sums[x]["cursor"]
        postings[min(cursor, unused)] = position - np.uint64(widths[x])
        before_sums[x]["cursor"] = cursor + (ONE if cursor != NO_LIST else ZERO)
        cursor = after_sums[y]["cursor"]
        postings[min(cursor, unused)] = position
        after_sums[y]["cursor"] = cursor + (ONE if cursor != NO_LIST else ZERO)


@inline
def reset_sums(sums, seen, n_seen):
    """Reset the sums of the neighbors to zero."""
    for i in range(n_seen):
        neighbor = sums[seen[i]]
        neighbor["weight"] = ZERO
        neighbor["cursor"] = ZERO


@inline
def merge_pair(slot, arrays):
    """Merge one pair everywhere, and update the pair table, the buckets and the posting lists."""
    pair = arrays.pairs[slot]
    left, right = (pair["key"] - ONE) >> HALF, (pair["key"] - ONE) & LOW_HALF
    first, number = pair["start"], np.uint64(pair["length"])
    merged = add_token(left, right, arrays)
    n_postings, ids = arrays.state[0]["n_postings"], place_of_ids(number, arrays)
    n_positions, n_before, n_after = replace_occurrences(left, right, merged, first, number, ids, arrays)
    update_neighbors(left, right, merged, arrays.before_sums, arrays.before_seen, n_before, False, arrays)
    update_neighbors(left, right, merged, arrays.after_sums, arrays.after_seen, n_after, True, arrays)
    if arrays.state[0]["n_postings"] != n_postings:
        unused = np.uint64(arrays.postings.size) - ONE
        write_new_postings(left, merged, first, n_positions, ids, unused, arrays)
    reset_sums(arrays.before_sums, arrays.before_seen, n_before)
    reset_sums(arrays.after_sums, arrays.after_seen, n_after)
    pair["count"] = ZERO


@inline
def has_capacity(arrays):
    """Return True if the pair table and the pool have the capacity for any next merge."""
    status = arrays.state[0]
    new_pairs = TWO * min(status["n_tokens"] + ONE, status["longest"])
    limit = np.uint64(arrays.pairs.size) * np.uint64(3) // np.uint64(4)
    new_bytes = TWO * status["longest_token"]
    return status["n_pairs"] + new_pairs <= limit and status["n_bytes"] + new_bytes <= np.uint64(arrays.pool.size)


@kernel
def merge_some(arrays, n_tokens):
    """Merge pairs until there are `n_tokens` tokens.

    Parameters
    ----------
    arrays : MergeArrays
        In-out. In `state`, `shared` is at least 1.
    n_tokens : uint64

    Returns
    -------
    int
        `DONE`; `NEED_SPACE` if the pair table or the pool is too small for the next merge: call again with larger ones
        (see `copy_pairs` and `bucket_pairs`); `EXHAUSTED` if no pair reaches the threshold; `SHARED` if the pair in
        `state["slot"]` has a token, but has to be merged by several threads (see shared_merging.py) before the next call.

    Notes
    -----
    O(1) for each occurrence that is merged and for each distinct neighbor of a pair, O(log pairs) for each pair that is
    pushed onto the heap. Not checked: `postings` needs two elements for each pair of adjacent tokens and for each
    posting of the longest list (four if threads merge), besides the initial lists, and the arrays of tokens need an element
    for each token.
    """
    status = arrays.state[0]
    while status["n_tokens"] < n_tokens:
        if not has_capacity(arrays):
            return NEED_SPACE
        slot = next_pair(arrays)
        if slot == NO_SLOT:
            return EXHAUSTED
        merge = status["n_tokens"] - np.uint64(256)
        key = arrays.pairs[slot]["key"] - ONE
        arrays.left[merge] = key >> HALF
        arrays.right[merge] = key & LOW_HALF
        arrays.counts[merge] = arrays.pairs[slot]["count"]
        if np.uint64(arrays.pairs[slot]["length"]) >= status["shared"]:
            status["slot"] = slot
            status["ids"] = place_of_ids(np.uint64(arrays.pairs[slot]["length"]), arrays)
            add_token(key >> HALF, key & LOW_HALF, arrays)
            return SHARED
        merge_pair(slot, arrays)
    return DONE
