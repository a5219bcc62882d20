"""Which pair is merged next: frequency buckets with a lazy refresh, and the tie rules.

A bucket holds the pairs of one count, or of one small range of large counts, as a linked list through the pair table.
Counts only fall, so the bucket of a pair may be too high and is never too low, and nothing is done when a count falls.
`top` only moves down. When it reaches a bucket, the pairs in it are looked at: one whose count is lower by now moves to
its own bucket, and the others, the true candidates, go into a heap ordered by count and tie rule. A candidate whose
count falls while it waits is found out when it comes up, and is put back where it belongs.

So the pairs that many steps compare again and again are those of one bucket, and hundreds of thousands of pairs that
occur twice each, the usual end of training, cost a logarithm each.

Another tie rule goes into `comes_first`; its name goes into `TIE_RULES` in training/merge_learner.py.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import bit_length
from bpejit.kernels.training.cells import HALF, LOW_HALF, ONE, TWO, ZERO
from bpejit.kernels.training.pairs import NO_SLOT, find_slot

CANDIDATE = np.dtype([("count", np.uint64), ("key", np.uint64)], align=True)
"""An entry of the heap: a pair, and its count when it was put there."""

FRACTION_BITS = np.uint64(7)
"""Counts below 2^8 have a bucket each; above, each power of two is divided into 2^7 buckets."""

N_BUCKETS = ((64 - 7 + 1) << 7) + 1
"""More than the bucket of any 64-bit count."""

GREATEST_BYTES = np.uint64(0)
SMALLEST_IDS = np.uint64(1)

PREFIX_BYTES = np.uint64(8)
"""The first bytes of a token, as one big-endian number, decide most comparisons."""


@inline
def bucket_of(count):
    """Bucket of a count (uint64): never falls as the count grows, and is the count itself below 2^8."""
    bits = bit_length(count)
    if bits <= FRACTION_BITS + ONE:
        return count
    exponent = bits - FRACTION_BITS - ONE
    return (exponent << FRACTION_BITS) + (count >> exponent)


@inline
def compare_tokens(a, b, tokens):
    """Compare the bytes of tokens `a` and `b`: 1 if `a` is greater, -1 if it is smaller, 0 if they are equal."""
    if a == b:
        return 0
    if tokens.prefixes[a] != tokens.prefixes[b]:
        return 1 if tokens.prefixes[a] > tokens.prefixes[b] else -1
    # Equal prefixes: both go on with the same 8 bytes, or the shorter one with nothing, or with zero bytes.
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
    """Whether pair `a` is merged before pair `b`: the greater count, and among equal counts the tie rule."""
    if count_a != count_b:
        return count_a > count_b
    if rule == GREATEST_BYTES:
        order = compare_tokens((key_a - ONE) >> HALF, (key_b - ONE) >> HALF, tokens)
        if order == 0:
            order = compare_tokens((key_a - ONE) & LOW_HALF, (key_b - ONE) & LOW_HALF, tokens)
        return order > 0
    # SMALLEST_IDS: keys are ordered as (left id, right id)
    return key_a < key_b


@inline
def push_candidate(heap, size, count, key, rule, tokens):
    """Put a pair into the heap of `size` candidates; the best one is `heap[0]`."""
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
def drop_first(heap, size, rule, tokens):
    """Take the best of `size` candidates out of the heap."""
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
def file_pair(slot, work):
    """Put the pair in `slot` where its count belongs: into its bucket, or into the heap if that bucket is open."""
    status = work.state[0]
    pair = work.pairs[slot]
    count = pair["count"]
    if count < status["threshold"]:
        return
    bucket = bucket_of(count)
    if bucket < status["top"]:
        pair["next"] = work.heads[bucket]
        work.heads[bucket] = slot + ONE
    else:
        push_candidate(work.heap, status["n_candidates"], count, pair["key"], status["rule"], work.tokens)
        status["n_candidates"] += ONE


@kernel
def file_pairs(work):
    """Put all pairs of the table into buckets, from nothing.

    Parameters
    ----------
    work : Work
        `pairs` (in-out), `heads` and `heap` (out), and of `state`: `top`, `n_candidates` (out), `threshold` (in).

    Notes
    -----
    O(slots + buckets).
    """
    status = work.state[0]
    status["top"] = np.uint64(work.heads.size)
    status["n_candidates"] = ZERO
    for i in range(work.heads.size):
        work.heads[i] = 0
    for i in range(work.pairs.size):
        if work.pairs[i]["key"] != ZERO:
            file_pair(np.uint64(i), work)


@inline
def open_bucket(work):
    """Move `top` down to the next bucket that has pairs, and its true candidates into the heap; False if none is left."""
    status = work.state[0]
    last = bucket_of(status["threshold"])
    while status["top"] > last:
        status["top"] -= ONE
        entry = work.heads[status["top"]]
        if entry != 0:
            work.heads[status["top"]] = 0
            while entry != 0:
                slot = np.uint64(entry) - ONE
                entry = work.pairs[slot]["next"]
                file_pair(slot, work)
            return True
    return False


@inline
def next_pair(work):
    """Slot of the pair to merge now, taken out of the heap; `NO_SLOT` if no pair reaches the threshold."""
    status = work.state[0]
    while True:
        while status["n_candidates"] > ZERO:
            first = work.heap[0]
            count = first["count"]
            slot = find_slot(work.pairs, first["key"])
            drop_first(work.heap, status["n_candidates"], status["rule"], work.tokens)
            status["n_candidates"] -= ONE
            if work.pairs[slot]["count"] == count:
                return slot
            file_pair(slot, work)
        if not open_bucket(work):
            return NO_SLOT
