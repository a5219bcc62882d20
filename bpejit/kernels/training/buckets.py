"""Select the next pair: frequency buckets that are updated lazily, and a heap for ties.

A bucket is a linked list, through the pair table, of the pairs of one count or of a small range of large counts. Counts
only fall, so a pair is in its bucket or in a higher one, and nothing needs to be done when a count falls. `top`, the index
of the open bucket, only moves down. When it reaches a bucket, pairs whose count has fallen move to lower buckets, and the
others, the candidates, are pushed onto a heap ordered by count and tie rule. If the count of a candidate falls while it is
in the heap, this is detected when it is popped, and the pair goes back to the bucket of its count.

Only the pairs of one bucket are compared with each other. At the end of training hundreds of thousands of pairs usually
occur twice each; each of them costs O(log n).
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length
from bpejit.kernels.constants import HALF, LOW_HALF, ONE, TWO, ZERO
from bpejit.kernels.training.pairs import NO_SLOT, find_pair_slot, mark_pair

CANDIDATE = np.dtype([("count", np.uint64), ("key", np.uint64)], align=True)
"""An entry of the heap: the key of a pair, and its count when it was pushed."""

FRACTION_BITS = np.uint64(7)
"""Each count below 2^8 has its own bucket; above, each power of two is divided into 2^7 buckets."""

N_BUCKETS = ((64 - 7 + 1) << 7) + 1
"""Greater than the bucket of any 64-bit count."""

GREATEST_BYTES = np.uint64(0)
SMALLEST_BYTES = np.uint64(1)
GREATEST_IDS = np.uint64(2)
SMALLEST_IDS = np.uint64(3)

COMPARISONS = {
    "greatest-bytes": GREATEST_BYTES,
    "smallest-bytes": SMALLEST_BYTES,
    "greatest-ids": GREATEST_IDS,
    "smallest-ids": SMALLEST_IDS,
}
"""The comparisons that `comes_first` implements, by their names in `bpejit.training.tie_rules`."""

PREFIX_BYTES = np.uint64(8)
"""The first bytes of a token, as one big-endian number, decide most comparisons."""


@inline
def bucket_of(count):
    """Return the bucket of a count (uint64). Monotonic, and equal to the count below 2^8."""
    bits = bit_length(count)
    if bits <= FRACTION_BITS + ONE:
        return count
    exponent = bits - FRACTION_BITS - ONE
    return (exponent << FRACTION_BITS) + (count >> exponent)


@inline
def compare_tokens(a, b, tokens):
    """Compare the bytes of tokens `a` and `b`. Return 1 if `a` is greater, -1 if it is smaller, 0 if they are equal."""
    if a == b:
        return 0
    if tokens.prefixes[a] != tokens.prefixes[b]:
        return 1 if tokens.prefixes[a] > tokens.prefixes[b] else -1
    # Equal prefixes: the first 8 bytes are equal, or the shorter token is a prefix and the next bytes of the other are zeros.
    length_a, length_b = np.uint64(tokens.lengths[a]), np.uint64(tokens.lengths[b])
    start_a, start_b = tokens.starts[a], tokens.starts[b]
    at = PREFIX_BYTES
    while at < length_a and at < length_b:
        byte_a, byte_b = tokens.pool[start_a + at], tokens.pool[start_b + at]
        if byte_a != byte_b:
            return 1 if byte_a > byte_b else -1
        at += ONE
    if length_a == length_b:
        return 0
    return 1 if length_a > length_b else -1


@inline
def comes_first(count_a, key_a, count_b, key_b, rule, tokens):
    """Return True if pair `a` is merged before pair `b`: by count, then by the comparison `rule` (see `COMPARISONS`)."""
    if count_a != count_b:
        return count_a > count_b
    # Keys are ordered as (left id, right id).
    if rule == SMALLEST_IDS:
        return key_a < key_b
    if rule == GREATEST_IDS:
        return key_a > key_b
    order = compare_tokens((key_a - ONE) >> HALF, (key_b - ONE) >> HALF, tokens)
    if order == 0:
        order = compare_tokens((key_a - ONE) & LOW_HALF, (key_b - ONE) & LOW_HALF, tokens)
    return order > 0 if rule == GREATEST_BYTES else order < 0


@inline
def push_candidate(heap, size, count, key, rule, tokens):
    """Push a pair onto the heap of `size` candidates. The first one to merge is `heap[0]`."""
    at = size
    while at > ZERO:
        parent = (at - ONE) // TWO
        above = heap[parent]
        if not comes_first(count, key, above["count"], above["key"], rule, tokens):
            break
        heap[at]["count"] = above["count"]
        heap[at]["key"] = above["key"]
        at = parent
    heap[at]["count"] = count
    heap[at]["key"] = key


@inline
def pop_candidate(heap, size, rule, tokens):
    """Remove `heap[0]` from the heap of `size` candidates."""
    last = size - ONE
    count, key = heap[last]["count"], heap[last]["key"]
    at = ZERO
    while True:
        child = TWO * at + ONE
        if child >= last:
            break
        best = heap[child]
        if child + ONE < last:
            other = heap[child + ONE]
            if comes_first(other["count"], other["key"], best["count"], best["key"], rule, tokens):
                child += ONE
                best = other
        if comes_first(count, key, best["count"], best["key"], rule, tokens):
            break
        heap[at]["count"] = best["count"]
        heap[at]["key"] = best["key"]
        at = child
    heap[at]["count"] = count
    heap[at]["key"] = key


@inline
def bucket_pair(slot, arrays):
    """Add the pair in `slot` to the bucket of its count, or to the heap if that bucket is open."""
    status = arrays.state[0]
    pair = arrays.pairs[slot]
    count = pair["count"]
    if count < status["threshold"]:
        return
    bucket = bucket_of(count)
    if bucket < status["top"]:
        pair["next"] = arrays.heads[bucket]
        arrays.heads[bucket] = slot + ONE
    else:
        push_candidate(arrays.heap, status["n_candidates"], count, pair["key"], status["rule"], arrays)
        status["n_candidates"] += ONE


@kernel
def bucket_pairs(arrays):
    """Fill the buckets and the bit set with all pairs of the table.

    Parameters
    ----------
    arrays : MergeArrays
        `pairs` (in-out), `marks` (in-out, initially zero), `heads` and `heap` (out), and of `state`: `top`, `n_candidates`
        (out), `threshold` (in).

    Notes
    -----
    O(slots + buckets).
    """
    status = arrays.state[0]
    status["top"] = np.uint64(arrays.heads.size)
    status["n_candidates"] = ZERO
    for i in range(arrays.heads.size):
        arrays.heads[i] = 0
    for i in range(arrays.pairs.size):
        if arrays.pairs[i]["key"] != ZERO:
            mark_pair(arrays.pairs[i]["key"], arrays.marks)
            bucket_pair(np.uint64(i), arrays)


@inline
def open_bucket(arrays):
    """Move `top` down to the next bucket that has pairs, and push its candidates. Return False if there is none."""
    status = arrays.state[0]
    last = bucket_of(status["threshold"])
    while status["top"] > last:
        status["top"] -= ONE
        entry = arrays.heads[status["top"]]
        if entry != 0:
            arrays.heads[status["top"]] = 0
            while entry != 0:
                slot = np.uint64(entry) - ONE
                entry = arrays.pairs[slot]["next"]
                bucket_pair(slot, arrays)
            return True
    return False


@inline
def next_pair(arrays):
    """Pop the next pair to merge. Return its slot, or `NO_SLOT` if no pair reaches the threshold."""
    status = arrays.state[0]
    while True:
        while status["n_candidates"] > ZERO:
            first = arrays.heap[0]
            count = first["count"]
            slot = find_pair_slot(arrays.pairs, first["key"])
            pop_candidate(arrays.heap, status["n_candidates"], status["rule"], arrays)
            status["n_candidates"] -= ONE
            if arrays.pairs[slot]["count"] == count:
                return slot
            bucket_pair(slot, arrays)
        if not open_bucket(arrays):
            return NO_SLOT
