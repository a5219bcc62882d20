"""The merge loop.

Merging the pair (a, b) into c changes the counts of pairs around each place where it stands, x a b y: (x, a) and (b, y)
lose the weight of the place, (x, c) and (c, y) gain it. The changes are summed by neighbour first, in two dense arrays
indexed by x and by y; the pair table is looked at once per distinct neighbour afterwards, and the posting lists of the new
pairs are written by a second walk over the places.

One case needs care. In a b a b the first place is counted with the neighbour a on its right, and that a is then merged
itself: the second place sees c on its left. So whatever was counted for (c, c) is taken back from (c, a).

Overlapping places of a run count as they stand: a a a holds the pair (a, a) twice. Merging it from the left makes c a, and
the entry of the second place is skipped, because no a starts there any more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import prefetch
from bpejit.kernels.constants import DONE, EXHAUSTED, NEED_SPACE
from bpejit.kernels.training.buckets import PREFIX_BYTES, file_pair, next_pair
from bpejit.kernels.training.cells import HALF, LOW_HALF, ONE, TWO, ZERO, weight_of
from bpejit.kernels.training.pairs import AHEAD, NO_SLOT, find_slot, hash_key, pair_key

Array = Any

STATE = np.dtype(
    [
        # settings
        ("threshold", np.uint64),  # pairs that occur less often are not followed
        ("max_bytes", np.uint64),  # longest token that may be made
        ("rule", np.uint64),  # tie rule
        ("border", np.uint64),  # the id that stands for "no token", greater than that of any token
        # what the kernels remember from call to call
        ("n_tokens", np.uint64),
        ("n_pairs", np.uint64),  # slots in use
        ("n_postings", np.uint64),
        ("n_candidates", np.uint64),  # pairs in the heap
        ("top", np.uint64),  # the open bucket; those above it are empty
        ("longest", np.uint64),  # no posting list is longer
        ("longest_token", np.uint64),
        ("n_bytes", np.uint64),  # bytes of all tokens
        ("position", np.uint64),  # cell to go on from
    ]
)
"""Settings, and what the kernels remember from call to call; an array of one."""

NEIGHBOUR = np.dtype([("weight", np.uint64), ("cursor", np.uint64)], align=True)
"""What one merge learns about a neighbouring token: the weight of the places where it stands; their number, and then
where the next posting of its new pair goes."""

POSTINGS_AHEAD = np.uint64(24)
"""Places between asking for their cells and using them; the array of postings is longer by as many."""

NO_LIST = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


class Tokens(NamedTuple):
    """The tokens, by id. Each array has a place for the border too."""

    lengths: Array  # uint32 [n], bytes
    widths: Array  # uint32 [n], cells
    prefixes: Array  # uint64 [n], the first 8 bytes as a big-endian number, filled up with zeros
    starts: Array  # uint64 [n], the bytes of the token begin at pool[start]
    pool: Array  # uint8 [...]


class Neighbours(NamedTuple):
    """The tokens that stand on one side of the pair that is being merged."""

    sums: Array  # NEIGHBOUR [n], by token id; zeros between merges
    seen: Array  # uint32 [n], the distinct ids
    ids: Array  # uint32 [longest posting list], the id at each place


class Work(NamedTuple):
    """Everything the merge loop works on."""

    cells: Array  # uint64 [...], see cells.py
    heavy: Array  # uint64 [...]
    pairs: Array  # PAIR [power of two], see pairs.py
    postings: Array  # uint32 [...]
    heads: Array  # uint32 [N_BUCKETS], see buckets.py: slot + 1 of the first pair, 0 for none
    heap: Array  # CANDIDATE [three quarters of the slots]
    tokens: Tokens
    before: Neighbours
    after: Neighbours
    left: Array  # int32 [merges], the result
    right: Array  # int32 [merges]
    counts: Array  # int64 [merges]
    state: Array  # STATE [1]


@inline
def add_token(left, right, tokens, state):
    """Append the token `left` + `right`; returns its id."""
    status = state[0]
    token = status["n_tokens"]
    start = status["n_bytes"]
    length_left, length_right = np.uint64(tokens.lengths[left]), np.uint64(tokens.lengths[right])
    tokens.starts[token] = start
    tokens.lengths[token] = length_left + length_right
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
def replace_places(left, right, merged, first, number, work):
    """Write the new token at each place of the pair, and sum up the neighbours.

    The places that were still valid are written back to `postings[first:]`. Returns their number, the number of
    distinct ids before them, and the number after them.
    """
    cells, postings, before, after = work.cells, work.postings, work.before, work.after
    width_left = np.uint64(work.tokens.widths[left])
    width = np.uint64(work.tokens.widths[merged])
    border = work.state[0]["border"]
    n_places = ZERO
    n_before = ZERO
    n_after = ZERO
    at = first
    end = first + number
    while at < end:
        prefetch(cells, postings[at + POSTINGS_AHEAD])
        place = np.uint64(postings[at])
        at += ONE
        cell = cells[place]
        if cell & LOW_HALF != left or cells[place + width_left] & LOW_HALF != right:
            continue
        weight = weight_of(cell, work.heavy)
        x = cells[place - ONE] & LOW_HALF
        y = cells[place + width] & LOW_HALF
        cell = cell >> HALF << HALF | merged
        # The start of the right token must not look like one any more; it may be the last cell, which the next line sets.
        cells[place + width_left] = border
        cells[place + width - ONE] = cell
        cells[place] = cell
        postings[first + n_places] = place
        before.ids[n_places] = x
        after.ids[n_places] = y
        n_places += ONE
        # A border counts as a neighbour here, and is left out later: cheaper than a branch that cannot be predicted.
        before.seen[n_before] = x
        n_before += ONE if before.sums[x]["cursor"] == ZERO else ZERO
        before.sums[x]["weight"] += weight
        before.sums[x]["cursor"] += ONE
        after.seen[n_after] = y
        n_after += ONE if after.sums[y]["cursor"] == ZERO else ZERO
        after.sums[y]["weight"] += weight
        after.sums[y]["cursor"] += ONE
    return n_places, n_before, n_after


@inline
def lower_count(left, right, weight, pairs):
    """Take `weight` from the count of a pair; nothing to do if the pair is not followed."""
    pair = pairs[find_slot(pairs, pair_key(left, right))]
    if pair["key"] != ZERO:
        pair["count"] -= weight


@inline
def add_pair(left, right, weight, number, work):
    """Follow a new pair, if it can be merged at all. Returns where its postings go, or `NO_LIST`."""
    status = work.state[0]
    lengths = work.tokens.lengths
    if weight < status["threshold"] or np.uint64(lengths[left]) + np.uint64(lengths[right]) > status["max_bytes"]:
        return NO_LIST
    key = pair_key(left, right)
    slot = find_slot(work.pairs, key)
    start = status["n_postings"]
    pair = work.pairs[slot]
    pair["key"] = key
    pair["count"] = weight
    pair["start"] = start
    pair["length"] = number
    status["n_pairs"] += ONE
    status["n_postings"] = start + number
    file_pair(slot, work)
    return start


@inline
def prefetch_pair(left, right, pairs):
    """Ask for the slot of a pair."""
    prefetch(pairs, hash_key(pair_key(left, right)) & (np.uint64(pairs.size) - ONE))


@inline
def update_before(left, merged, n_before, work):
    """Lower the counts of (x, left), add the pairs (x, merged)."""
    border = work.state[0]["border"]
    before = work.before
    for i in range(n_before):
        later = np.uint64(before.seen[min(np.uint64(i) + AHEAD, n_before - ONE)])
        prefetch_pair(later, left, work.pairs)
        prefetch_pair(later, merged, work.pairs)
        x = np.uint64(before.seen[i])
        place = before.sums[x]
        if x == border:
            place["cursor"] = NO_LIST
            continue
        # Where x is the merged token itself, (x, left) is not in the table yet, and there is nothing to lower.
        lower_count(x, left, place["weight"], work.pairs)
        place["cursor"] = add_pair(x, merged, place["weight"], place["cursor"], work)


@inline
def update_after(left, right, merged, n_after, work):
    """Lower the counts of (right, y), add the pairs (merged, y)."""
    border = work.state[0]["border"]
    after = work.after
    for i in range(n_after):
        later = np.uint64(after.seen[min(np.uint64(i) + AHEAD, n_after - ONE)])
        prefetch_pair(right, later, work.pairs)
        prefetch_pair(merged, later, work.pairs)
        y = np.uint64(after.seen[i])
        place = after.sums[y]
        if y == border:
            place["cursor"] = NO_LIST
            continue
        weight = place["weight"]
        lower_count(right, y, weight, work.pairs)
        if y == left:
            # where the next place follows at once, its left token is gone: (merged, merged) has that share
            weight -= work.before.sums[merged]["weight"]
        place["cursor"] = add_pair(merged, y, weight, place["cursor"], work)


@inline
def write_places(first, n_places, work):
    """Write the postings of the new pairs: each place goes to the list of the token before it and of the one after it."""
    postings, before, after, widths = work.postings, work.before, work.after, work.tokens.widths
    for i in range(n_places):
        place = np.uint64(postings[first + np.uint64(i)])
        x = np.uint64(before.ids[i])
        cursor = before.sums[x]["cursor"]
        if cursor != NO_LIST:
            postings[cursor] = place - np.uint64(widths[x])
            before.sums[x]["cursor"] = cursor + ONE
        y = np.uint64(after.ids[i])
        cursor = after.sums[y]["cursor"]
        if cursor != NO_LIST:
            postings[cursor] = place
            after.sums[y]["cursor"] = cursor + ONE


@inline
def forget(neighbours, n_seen):
    """Set the sums of the neighbours back to zero."""
    for i in range(n_seen):
        place = neighbours.sums[neighbours.seen[i]]
        place["weight"] = ZERO
        place["cursor"] = ZERO


@inline
def merge_pair(slot, work):
    """Merge one pair everywhere, and bring the pair table, the buckets and the posting lists up to date."""
    pair = work.pairs[slot]
    left, right = (pair["key"] - ONE) >> HALF, (pair["key"] - ONE) & LOW_HALF
    first, number = pair["start"], np.uint64(pair["length"])
    merged = add_token(left, right, work.tokens, work.state)
    n_places, n_before, n_after = replace_places(left, right, merged, first, number, work)
    n_postings = work.state[0]["n_postings"]
    update_before(left, merged, n_before, work)
    update_after(left, right, merged, n_after, work)
    if work.state[0]["n_postings"] != n_postings:
        write_places(first, n_places, work)
    forget(work.before, n_before)
    forget(work.after, n_after)
    pair["count"] = ZERO


@inline
def has_room(work):
    """Whether the pair table and the pool have room for whatever one merge may add."""
    status = work.state[0]
    new_pairs = TWO * min(status["n_tokens"] + ONE, status["longest"])
    limit = np.uint64(work.pairs.size) * np.uint64(3) // np.uint64(4)
    new_bytes = TWO * status["longest_token"]
    return status["n_pairs"] + new_pairs <= limit and status["n_bytes"] + new_bytes <= np.uint64(work.tokens.pool.size)


@kernel
def merge_some(work, n_tokens):
    """Merge the next pair, again and again, until there are `n_tokens` tokens.

    Parameters
    ----------
    work : Work
        In-out.
    n_tokens : uint64

    Returns
    -------
    int
        `DONE`; `NEED_SPACE` if the pair table or the pool is too small for the next merge: call again with larger ones
        (see `copy_pairs` and `file_pairs`); `EXHAUSTED` if no pair reaches the threshold.

    Notes
    -----
    Each place where a pair is merged costs O(1), each distinct neighbour of a pair O(1) and each pair O(log pairs) once
    in the heap. `postings` must have room for two entries for each pair of adjacent tokens beyond the lists that
    it has at first; that is not checked. Neither is the room for tokens.
    """
    status = work.state[0]
    while status["n_tokens"] < n_tokens:
        if not has_room(work):
            return NEED_SPACE
        slot = next_pair(work)
        if slot == NO_SLOT:
            return EXHAUSTED
        merge = status["n_tokens"] - np.uint64(256)
        key = work.pairs[slot]["key"] - ONE
        work.left[merge] = key >> HALF
        work.right[merge] = key & LOW_HALF
        work.counts[merge] = work.pairs[slot]["count"]
        merge_pair(slot, work)
    return DONE
