"""Merge fragments that consist mostly of runs of one byte: spaces, dashes, the lines of a table.

Such a fragment has many pairs, but few distinct ones. Each pass over the tokens applies all merges of the lowest rank, from
left to right. A pass halves a run of equal bytes, so n bytes cost about 2 n steps in total, instead of log n steps each as in
`windowed_merging`. The result equals that of merging one pair at a time if no pair made by a merge has a lower rank than that
merge. Where one has, this kernel gives up and `windowed_merging` merges the fragment.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.kernels.constants import ONE, ZERO
from bpejit.kernels.encoding.merge_rules import NO_RANK, find_rank, least_rank, rank_bytes

MAX_PASSES = 64
"""Number of passes after which merging gives up: the fragment is not repetitive enough."""


@inline
def is_repetitive(text, start, length):
    """Return True if at least three of four bytes equal the preceding byte."""
    same = 0
    for i in range(ONE, length):
        same += text[start + np.uint64(i)] == text[start + np.uint64(i) - ONE]
    return np.uint64(4 * same) >= length * np.uint64(3)


@inline
def merge_runs(text, start, length, tables, scratch, out, n_out):
    """Encode a fragment; return the new `n_out`, or the old one on giving up. Parameters as in `bpe.encode_pretoken`.

    `scratch` has space for two words per byte: the tokens, followed by the rank of the pair that each token starts.
    """
    ranks = length
    rank_bytes(text, start, length, tables.byte_pairs, scratch, ranks)
    n = length
    for _ in range(MAX_PASSES):
        best = least_rank(scratch, ranks, n - ONE)
        if best >= NO_RANK:
            for j in range(n):
                out[n_out + np.uint64(j)] = tables.ids[scratch[np.uint64(j)]]
            return n_out + n
        merged = np.uint64(tables.merged[best])
        # The last pair looked up, and its rank: most pairs are equal.
        last_left, last_right, rank = merged, merged, np.uint32(find_rank(tables, merged, merged))
        last_first = merged
        i = ZERO
        size = ZERO
        changed = False
        while i < n:
            token = np.uint64(scratch[i])
            merges_here = i + ONE < n and scratch[ranks + i] == best
            if merges_here:
                # Before this merge, the previous merged token was adjacent to the first token of this pair.
                if changed and token != last_first:
                    last_first = token
                    if find_rank(tables, merged, token) < best:
                        return n_out
                token = merged
            if size > ZERO:
                if merges_here or changed:
                    left = np.uint64(scratch[size - ONE])
                    if left != last_left or token != last_right:
                        last_left, last_right, rank = left, token, np.uint32(find_rank(tables, left, token))
                    if rank < best:
                        return n_out
                    scratch[ranks + size - ONE] = rank
                else:
                    scratch[ranks + size - ONE] = scratch[ranks + i - ONE]
            scratch[size] = token
            size += ONE
            i += ONE
            if merges_here:
                i += ONE
            changed = merges_here
        n = size
    return n_out
