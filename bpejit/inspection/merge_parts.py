"""The two tokens that each token is merged from, as arrays by id."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.formats.ranked_merges import recover_merges
from bpejit.model import Model


class MergeParts(NamedTuple):
    """How tokens are merged.

    Parameters
    ----------
    left, right : int32 [vocab_size]
        Ids of the two tokens; -1 for tokens without a merge: single bytes, special tokens, and tokens that no merge makes.
    order : int64 [merges]
        The tokens that are merged, in order of rank.
    """

    left: Array
    right: Array
    order: Array


def merge_parts(model: Model) -> MergeParts:
    """Return how the tokens of a model are merged: for each token, the pair of the lowest rank."""
    merges = recover_merges(model.tokens)[0] if model.ranked else model.merges
    ids = model.ids
    left, right = (np.full(model.vocab_size, -1, dtype=np.int32) for _ in range(2))
    order = []
    for first, second in merges:
        merged = ids[first + second]
        if left[merged] < 0 and first in ids and second in ids:
            left[merged], right[merged] = ids[first], ids[second]
            order.append(merged)
    return MergeParts(left, right, np.array(order, dtype=np.int64))


def compression_curve(model: Model, parts: MergeParts, counts: Array) -> tuple[Array, Array]:
    """Return the number of tokens of a text for each smaller vocabulary, from the tokens of the complete one.

    The encoding with the first k merges is the state of the complete encoding before merge k. So merge k removes one token for
    each of its occurrences in the merge trees of the tokens of the text. For a vocabulary in which no other pair makes a token,
    as in all that a trainer produces, the result is exact.

    Parameters
    ----------
    model : Model
    parts : MergeParts
    counts : int64 [vocab_size]
        Number of occurrences of each token in the text.

    Returns
    -------
    sizes : int64 [merges + 1]
        Numbers of ordinary tokens: those that no merge makes, with 0, 1, 2, ... merges.
    tokens : int64 [merges + 1]
        Number of tokens of the text for each size.
    """
    uses = counts.tolist()
    left, right = parts.left.tolist(), parts.right.tolist()
    for token in reversed(parts.order.tolist()):
        n_uses = uses[token]
        if n_uses:
            uses[left[token]] += n_uses
            uses[right[token]] += n_uses
    applied = np.array([uses[token] for token in parts.order.tolist()], dtype=np.int64)
    tokens = int(counts.sum()) + int(applied.sum()) - np.concatenate([[0], np.cumsum(applied)])
    first = len(model.tokens) - parts.order.size
    return first + np.arange(parts.order.size + 1), tokens
