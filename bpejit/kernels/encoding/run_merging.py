"""Encoding a run that repeats itself: spaces, dashes, the lines of a table.

Such a run has many pairs and few kinds of them. Each sweep over the tokens makes all merges of the lowest rank, from left to
right; a run of n equal bytes is halved by each, so that n tokens are looked at twice in all and not log n times each as in
`windows`. The order of merges is that of one by one as long as no pair that a merge makes has a lower rank than the merge;
merge rules where one has are left to `windows`.
"""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline
from bpejit.kernels.encoding.merge_rules import APART, NO_RANK, find_rank, rank_bytes

SWEEPS = 64
"""Sweeps after which a run counts as one that does not repeat itself."""

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@inline
def repeats(text, start, length):
    """Whether three of four bytes are the same as the one before."""
    same = 0
    for i in range(_ONE, length):
        same += text[start + np.uint64(i)] == text[start + np.uint64(i) - _ONE]
    return np.uint64(4 * same) >= length * np.uint64(3)


@inline
def merge_sweeps(text, start, length, tables, scratch, out, n_out):
    """Encode a run of bytes; parameters as `bpe.encode_pretoken`. Return where the ids end, or `n_out` if it is not done.

    `scratch` has room for two words per byte: the tokens, and behind them the rank of the pair that each begins.
    """
    pairs = tables.pairs
    ranks = length
    rank_bytes(text, start, length, tables.byte_pairs, scratch, ranks)
    n = length
    for _ in range(SWEEPS):
        best = APART
        for j in range(n - _ONE):
            best = min(best, scratch[ranks + np.uint64(j)])
        if best >= NO_RANK:
            for j in range(n):
                out[n_out + np.uint64(j)] = tables.ids[scratch[np.uint64(j)]]
            return n_out + n
        merged = np.uint64(tables.merged[best])
        # The pair looked up last, and its rank: most are the same.
        last_left, last_right, rank = merged, merged, np.uint32(find_rank(pairs, merged, merged))
        last_first = merged
        i = _ZERO
        size = _ZERO
        changed = False
        while i < n:
            token = np.uint64(scratch[i])
            is_new = i + _ONE < n and scratch[ranks + i] == best
            if is_new:
                # What was merged before this stood a moment before the first token of this pair.
                if changed and token != last_first:
                    last_first = token
                    if find_rank(pairs, merged, token) < best:
                        return n_out
                token = merged
            if size > _ZERO:
                if is_new or changed:
                    left = np.uint64(scratch[size - _ONE])
                    if left != last_left or token != last_right:
                        last_left, last_right, rank = left, token, np.uint32(find_rank(pairs, left, token))
                    if rank < best:
                        return n_out
                    scratch[ranks + size - _ONE] = rank
                else:
                    scratch[ranks + size - _ONE] = scratch[ranks + i - _ONE]
            scratch[size] = token
            size += _ONE
            i += _ONE
            if is_new:
                i += _ONE
            changed = is_new
        n = size
    return n_out
