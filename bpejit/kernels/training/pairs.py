"""The pairs of adjacent tokens: their counts and positions.

The pair table is an open-addressing hash table of 32-byte slots, so reading a pair or decreasing its count touches one
cache line. A pair can gain occurrences only in the merge that makes the newer of its two tokens. Therefore

- the positions of a pair (of its left tokens) are written once, contiguously, into one large array: its *posting list*. The
  list is never updated; entries that no longer match are skipped when they are read;
- after that merge the count of the pair only falls;
- a pair whose count is below a threshold can never reach it again, and needs neither a slot nor a list.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length, count_ones, fold_multiply, prefetch
from bpejit.kernels.constants import DONE, EIGHT, FOUR, HALF, LOW_HALF, MIX, NEED_SPACE, ONE, SEVEN, THREE, WORD_BITS, ZERO
from bpejit.kernels.training.cells import id_at, id_mask, weight_at

PAIR = np.dtype(
    [
        ("key", np.uint64),  # see `pair_key`; 0 in an empty slot
        ("count", np.uint64),  # current number of occurrences; 0 after the pair was merged
        ("start", np.uint64),  # its posting list is postings[start : start + length]
        ("length", np.uint32),
        ("next", np.uint32),  # slot + 1 of the next pair in the same bucket (see buckets.py), 0 for none
    ],
    align=True,
)
"""A slot of the pair table; the table's size is a power of two."""

NO_SLOT = np.uint64(0xFFFF_FFFF)

NOT_FOLLOWED = np.uint64(1 << 63)
"""Instead of the index of the next posting, for a pair without a list. Large, and may increase."""

BITS_OF_SLOT = 4
"""Number of bits in the set of pairs for each slot of the pair table."""


BATCH_WORDS = np.uint64(4)
"""Number of words of selected positions whose slots of the pair table are prefetched together."""

BATCH_POSITIONS = 256
"""Maximum number of positions in that many words."""

PREFETCH_PAIRS = np.uint64(16)
"""Prefetch distance in the pair table."""


@inline
def pair_key(left, right):
    """Return the key of a pair of token ids. It is never 0, and keys are ordered as (left, right)."""
    return (left << HALF | right) + ONE


@inline
def hash_pair(key):
    """Return a 64-bit hash of a key."""
    return fold_multiply(key ^ MIX, MIX)


@inline
def find_pair_slot(pairs, key):
    """Return the slot of `key`, or the empty slot to insert it (uint64). The table must have an empty slot."""
    mask = np.uint64(pairs.size) - ONE
    slot = hash_pair(key) & mask
    while pairs[slot]["key"] != key and pairs[slot]["key"] != ZERO:
        slot = (slot + ONE) & mask
    return slot


@inline
def mark_pair(key, marks):
    """Set the bit of a pair in a bit set of pairs (uint8, a power of two of bytes), which finds absent ones in less memory."""
    bit = hash_pair(key) & (np.uint64(marks.size) * EIGHT - ONE)
    marks[bit >> THREE] |= ONE << (bit & SEVEN)


@inline
def mark_of(key, marks):
    """Return the bit of a pair (uint64): 0 if the pair is absent."""
    bit = hash_pair(key) & (np.uint64(marks.size) * EIGHT - ONE)
    return np.uint64(marks[bit >> THREE]) >> (bit & SEVEN) & ONE


@inline
def key_at(cells, at, mask):
    """Return the key of the pair at `cells[at]` and `cells[at + 1]`, tokens of one cell each."""
    return pair_key(id_at(cells, at, mask), id_at(cells, at + ONE, mask))


@kernel
def bound_counts(cells, n_cells, weights, boundary, limit, sums):
    """Sum the weights of pairs by hash, as upper bounds of their counts.

    Parameters
    ----------
    cells : uint32[:] or uint64[:], in
        Tokens of one cell each; the first `n_cells` are used.
    n_cells : uint64
    weights : uint64[:], in
        See `cells`.
    boundary : uint64
        The id of boundary cells.
    limit : uint64
        The largest number of the type of `sums`, at which they saturate.
    sums : uint16[:] or uint32[:], in-out
        Initially zero; the size is a power of two. The count of a pair is at most `sums[hash_pair(key) & (size - 1)]`, unless
        that is `limit`.

    Notes
    -----
    One pass, O(cells). No branch depends on the text: mispredicted branches would take longer than everything else.
    """
    slots = np.uint64(sums.size) - ONE
    mask, id_bits = id_mask(boundary), bit_length(boundary)
    at = ONE
    while at + ONE < n_cells:
        # A boundary cell has weight 0, so only the right cell needs a test.
        weight = weight_at(cells, at, weights, id_bits)
        weight = ZERO if cells[at + ONE] == boundary else weight
        slot = hash_pair(key_at(cells, at, mask)) & slots
        sums[slot] = min(np.uint64(sums[slot]) + weight, limit)
        at += ONE


@kernel
def select_positions(cells, n_cells, boundary, reaching, selected):
    """Find the positions of pairs that may reach the threshold.

    Parameters
    ----------
    cells, n_cells, boundary
        As in `bound_counts`.
    reaching : uint8[:], in
        A bit for each sum of `bound_counts`, lowest bits first: 1 if the sum reaches the threshold.
    selected : uint64[:], out
        A bit for each cell, lowest bits first: 1 if it is the left token of such a pair.

    Returns
    -------
    int
        Number of ones in `selected`.

    Notes
    -----
    One pass, O(cells), without branches. Bits of sums fit into the CPU's second-level cache, unlike sums, and bits of cells
    take a thirty-second of the memory of a list of positions, which costs more to touch for the first time than to use.
    """
    slots = np.uint64(reaching.size) * EIGHT - ONE
    mask = id_mask(boundary)
    last = n_cells - ONE  # a boundary
    n_selected = ZERO
    for word in range(selected.size):
        first = np.uint64(word) * WORD_BITS
        bits = ZERO
        for i in range(min(WORD_BITS, last - min(first, last))):
            at = first + np.uint64(i)
            left, right = id_at(cells, at, mask), id_at(cells, at + ONE, mask)
            slot = hash_pair(pair_key(left, right)) & slots
            bit = np.uint64(reaching[slot >> THREE]) >> (slot & SEVEN) & ONE
            bits |= (bit if (left != boundary) & (right != boundary) else ZERO) << np.uint64(i)
        selected[word] = bits
        n_selected += count_ones(bits)
    return n_selected


@inline
def list_positions(selected, word, batch):
    """Write the positions of the ones in the next words of `selected` to `batch`. Return their number."""
    n_positions = ZERO
    for i in range(word, min(word + BATCH_WORDS, np.uint64(selected.size))):
        bits = selected[i]
        while bits != ZERO:
            rest = bits - ONE
            batch[n_positions] = np.uint64(i) * WORD_BITS + count_ones(bits ^ rest) - ONE
            n_positions += ONE
            bits &= rest
    return n_positions


@inline
def prefetch_slots(cells, batch, n_positions, mask, pairs):
    """Prefetch the slots of the pairs at the positions of a batch."""
    slots = np.uint64(pairs.size) - ONE
    for i in range(n_positions):
        prefetch(pairs, hash_pair(key_at(cells, np.uint64(batch[i]), mask)) & slots)


@kernel
def count_pairs(cells, selected, weights, boundary, batch, numbers, state, pairs):
    """Count the pairs at the selected positions, and number them in the order in which they are found.

    Parameters
    ----------
    cells, weights, boundary
        As in `bound_counts`.
    selected : uint64[:], in
        From `select_positions`.
    batch : uint32[BATCH_POSITIONS]
        Scratch space.
    numbers : uint32[selected positions], out
        The number of the pair at each position, from 0.
    state : STATE[1], in-out
        `position` (the word of `selected` to continue from), `n_postings` (the positions so far), `n_pairs`; initially 0.
    pairs : PAIR[:], in-out
        `count`, the number of positions in `length`, and the number of the pair in `start`.

    Returns
    -------
    int
        `DONE`, or `NEED_SPACE` when the table may be more than three quarters full: call again with a larger one,
        with all pairs.

    Notes
    -----
    O(words + positions).
    """
    status = state[0]
    limit = np.uint64(pairs.size) * THREE // FOUR
    mask, id_bits = id_mask(boundary), bit_length(boundary)
    word, n_counted = status["position"], status["n_postings"]
    while word < np.uint64(selected.size):
        n_positions = list_positions(selected, word, batch)
        if status["n_pairs"] + n_positions > limit:
            status["position"], status["n_postings"] = word, n_counted
            return NEED_SPACE
        prefetch_slots(cells, batch, n_positions, mask, pairs)
        for i in range(n_positions):
            position = np.uint64(batch[i])
            key = key_at(cells, position, mask)
            pair = pairs[find_pair_slot(pairs, key)]
            if pair["key"] == ZERO:
                pair["key"] = key
                pair["start"] = status["n_pairs"]
                status["n_pairs"] += ONE
            pair["count"] += weight_at(cells, position, weights, id_bits)
            pair["length"] += np.uint32(1)
            numbers[n_counted + np.uint64(i)] = pair["start"]
        n_counted += n_positions
        word += BATCH_WORDS
    status["position"], status["n_postings"] = word, n_counted
    return DONE


@kernel
def copy_pairs(source, least, sizes, state, pairs):
    """Copy the pairs that occur at least `least` times, and may be merged, to another table, without their buckets.

    Parameters
    ----------
    source : PAIR[:], in
    least : uint64
    sizes : uint32[:], in
        The size of each token.
    state : STATE[1], in-out
        `max_size` (in): longer pairs are omitted; `n_pairs` (out).
    pairs : PAIR[:], out
        Initially zero; larger than the number of pairs copied.

    Notes
    -----
    O(slots of `source`).
    """
    max_size = state[0]["max_size"]
    n_pairs = ZERO
    for i in range(source.size):
        old = source[i]
        if old["key"] == ZERO or old["count"] < least:
            continue
        left, right = (old["key"] - ONE) >> HALF, (old["key"] - ONE) & LOW_HALF
        if np.uint64(sizes[left]) + np.uint64(sizes[right]) <= max_size:
            new = pairs[find_pair_slot(pairs, old["key"])]
            new["key"] = old["key"]
            new["count"] = old["count"]
            new["start"] = old["start"]
            new["length"] = old["length"]
            n_pairs += ONE
    state[0]["n_pairs"] = n_pairs
