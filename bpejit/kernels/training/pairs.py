"""The pairs of adjacent tokens: how often each occurs, and where.

The pair table is an open-addressing hash table of 32-byte slots, so that looking at a pair, or lowering its count,
touches one cache line. A pair can gain occurrences only in the step that makes the newer of its two tokens, which gives
the three facts that the trainer rests on:

- the positions of a pair (where its left token starts) are written once, side by side, into one large array: its
  *posting list*; it is never cleaned, and an entry that no longer matches is skipped when it is met;
- after that step the count of a pair only falls;
- so a pair that occurs less often than a threshold now will never reach it later, and needs neither slot nor list.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import fold_multiply, prefetch
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.training.cells import HALF, LOW_HALF, ONE, TWO, ZERO, weight_of

PAIR = np.dtype(
    [
        ("key", np.uint64),  # see `pair_key`; 0 in an empty slot
        ("count", np.uint64),  # how often the pair occurs now; 0 once it has been merged
        ("start", np.uint64),  # its posting list is postings[start : start + length]
        ("length", np.uint32),
        ("next", np.uint32),  # slot + 1 of the next pair in the same bucket (see buckets.py), 0 for none
    ],
    align=True,
)
"""A slot of the pair table; the table's size is a power of two."""

NO_SLOT = np.uint64(0xFFFF_FFFF)
MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)
SUM_LIMIT = np.uint64(0xFFFF_FFFF)

AHEAD = np.uint64(16)
"""Pairs between asking for a cache line and using it."""


@inline
def pair_key(left, right):
    """Key of a pair of token ids: never 0, and smaller ids have smaller keys."""
    return (left << HALF | right) + ONE


@inline
def hash_key(key):
    """Spread a key over 64 bits."""
    return fold_multiply(key ^ MULTIPLIER, MULTIPLIER)


@inline
def find_slot(pairs, key):
    """Slot that holds `key`, or the empty slot where it belongs (uint64); the table must have an empty slot."""
    mask = np.uint64(pairs.size) - ONE
    slot = hash_key(key) & mask
    while pairs[slot]["key"] != key and pairs[slot]["key"] != ZERO:
        slot = (slot + ONE) & mask
    return slot


@inline
def key_at(cells, at):
    """Key of the pair of two tokens of one cell each, at `cells[at]` and `cells[at + 1]`."""
    return pair_key(cells[at] & LOW_HALF, cells[at + ONE] & LOW_HALF)


@kernel
def bound_counts(cells, n_cells, heavy, border, sums):
    """Add up the weights of pairs by hash: an upper bound of each pair's count, in little memory.

    Parameters
    ----------
    cells : uint64[:], in
        Tokens of one cell each; the first `n_cells` are meaningful.
    n_cells : uint64
    heavy : uint64[:], in
        See `cells`.
    border : uint64
        The id that stands for "no token".
    sums : uint32[:], in-out
        Zeros at first; the size is a power of two. The count of a pair is at most `sums[hash_key(key) & (size - 1)]`,
        except that a sum stops at 2^32 - 1.

    Notes
    -----
    One pass, O(cells). No branch depends on the text: mispredicted ones would take longer than all the rest.
    """
    mask = np.uint64(sums.size) - ONE
    at = ONE
    while at + ONE < n_cells:
        # A border has the weight 0, so only a border on the right needs a look.
        weight = weight_of(cells[at], heavy)
        weight = ZERO if cells[at + ONE] == border else weight
        slot = hash_key(key_at(cells, at)) & mask
        sums[slot] = min(np.uint64(sums[slot]) + weight, SUM_LIMIT)
        at += ONE


@kernel
def select_places(cells, n_cells, border, sums, lengths, state, places):
    """Find the places of the pairs that may reach the threshold.

    Parameters
    ----------
    cells, n_cells, border, sums
        As in `bound_counts`, which has filled `sums`.
    lengths : uint32[:], in
        Number of bytes of each token.
    state : STATE[1], in
        `threshold`, `max_bytes`.
    places : uint32[:], out
        As large as `cells`. Positions of left tokens, ascending.

    Returns
    -------
    int
        Number of places.

    Notes
    -----
    Pairs of more than `max_bytes` bytes are left out. One pass, O(cells), without branches.
    """
    wanted = min(state[0]["threshold"], SUM_LIMIT)
    max_bytes = state[0]["max_bytes"]
    mask = np.uint64(sums.size) - ONE
    n_places = ZERO
    at = ONE
    while at + ONE < n_cells:
        left, right = cells[at] & LOW_HALF, cells[at + ONE] & LOW_HALF
        enough = np.uint64(sums[hash_key(pair_key(left, right)) & mask]) >= wanted
        fits = np.uint64(lengths[left]) + np.uint64(lengths[right]) <= max_bytes
        places[n_places] = at
        n_places += ONE if enough & fits & (left != border) & (right != border) else ZERO
        at += ONE
    return n_places


@kernel
def count_pairs(cells, places, n_places, heavy, state, pairs):
    """Count the pairs at the given places.

    Parameters
    ----------
    cells, heavy
        As in `bound_counts`.
    places : uint32[:], in
        The first `n_places` are meaningful.
    n_places : uint64
    state : STATE[1], in-out
        `position` (the place to go on from, 0 at first), `n_pairs`.
    pairs : PAIR[:], in-out
        `count`, and the number of places in `length`.

    Returns
    -------
    int
        `DONE`, or `NEED_SPACE` when the table is half full: call again with a larger one.

    Notes
    -----
    O(places).
    """
    status = state[0]
    limit = np.uint64(pairs.size) // TWO
    mask = np.uint64(pairs.size) - ONE
    at = status["position"]
    while at < n_places:
        later = np.uint64(places[min(at + AHEAD, n_places - ONE)])
        prefetch(pairs, hash_key(key_at(cells, later)) & mask)
        place = np.uint64(places[at])
        key = key_at(cells, place)
        pair = pairs[find_slot(pairs, key)]
        if pair["key"] == ZERO:
            if status["n_pairs"] == limit:
                status["position"] = at
                return NEED_SPACE
            status["n_pairs"] += ONE
            pair["key"] = key
        pair["count"] += weight_of(cells[place], heavy)
        pair["length"] += np.uint32(1)
        at += ONE
    status["position"] = at
    return DONE


@kernel
def copy_pairs(source, least, state, pairs):
    """Copy the pairs that occur at least `least` times into another table, and forget the buckets they were in.

    Parameters
    ----------
    source : PAIR[:], in
    least : uint64
    state : STATE[1], in-out
        `n_pairs`.
    pairs : PAIR[:], out
        Zeros at first; must be larger than the number of pairs that are copied.

    Notes
    -----
    O(slots of `source`).
    """
    n_pairs = ZERO
    for i in range(source.size):
        old = source[i]
        if old["key"] != ZERO and old["count"] >= least:
            new = pairs[find_slot(pairs, old["key"])]
            new["key"] = old["key"]
            new["count"] = old["count"]
            new["start"] = old["start"]
            new["length"] = old["length"]
            n_pairs += ONE
    state[0]["n_pairs"] = n_pairs


@kernel
def plan_postings(pairs, state):
    """Give each pair its place in the array of postings.

    Parameters
    ----------
    pairs : PAIR[:], in-out
        `length` is read and set back to 0, `start` is written.
    state : STATE[1], in-out
        `n_postings`: the room that all lists need together; `longest`: the length of the longest list.

    Notes
    -----
    O(slots).
    """
    used = ZERO
    longest = ZERO
    for i in range(pairs.size):
        pair = pairs[i]
        if pair["key"] != ZERO:
            length = np.uint64(pair["length"])
            pair["start"] = used
            pair["length"] = np.uint32(0)
            used += length
            longest = max(longest, length)
    state[0]["n_postings"] = used
    state[0]["longest"] = longest


@kernel
def write_postings(cells, places, n_places, pairs, postings):
    """Write the posting list of each pair of the table.

    Parameters
    ----------
    cells, places, n_places
        As in `count_pairs`.
    pairs : PAIR[:], in-out
        As `plan_postings` leaves them; `length` is written.
    postings : uint32[:], out
        Each list is in ascending order.

    Notes
    -----
    O(places).
    """
    mask = np.uint64(pairs.size) - ONE
    for i in range(n_places):
        later = np.uint64(places[min(np.uint64(i) + AHEAD, n_places - ONE)])
        prefetch(pairs, hash_key(key_at(cells, later)) & mask)
        place = np.uint64(places[i])
        key = key_at(cells, place)
        pair = pairs[find_slot(pairs, key)]
        if pair["key"] == key:
            postings[pair["start"] + np.uint64(pair["length"])] = place
            pair["length"] += np.uint32(1)
