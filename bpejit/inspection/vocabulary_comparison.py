"""What two vocabularies share, and how the order of their merges differs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from bpejit.model import Model, in_order


@dataclass(frozen=True)
class RankRow:
    """One rank of two vocabularies.

    Parameters
    ----------
    rank : int
        From 0; ranks are those of the tokens of several bytes.
    first, second : bytes, optional
        The token of this rank in each vocabulary; None beyond its end.
    rank_of_first, rank_of_second : int, optional
        Rank of `first` in the second vocabulary, and of `second` in the first. None if it is not in it.
    """

    rank: int
    first: bytes | None
    second: bytes | None
    rank_of_first: int | None
    rank_of_second: int | None


@dataclass(frozen=True)
class VocabularyComparison:
    """Tokens of two vocabularies, special tokens excluded.

    Parameters
    ----------
    shared : int
        Number of tokens that are in both.
    same_ids : int
        Number of these that have the same id.
    only_first, only_second : list of bytes
        The tokens that only one of them has, in order of rank.
    only_first_special, only_second_special : list of str
    same_merges : int
        Number of ranks, from the first, up to which both have the same tokens.
    rank_correlation : float, optional
        Spearman's correlation between the ranks of the shared tokens of several bytes; None for fewer than two.
    rows : list of RankRow
        The first ranks.
    """

    shared: int
    same_ids: int
    only_first: list[bytes]
    only_second: list[bytes]
    only_first_special: list[str]
    only_second_special: list[str]
    same_merges: int
    rank_correlation: float | None
    rows: list[RankRow]


def merged_tokens(model: Model) -> list[bytes]:
    """Return the tokens of several bytes in order of rank: of the merges, or of the ids if the model merges by rank."""
    if model.ranked:
        return [token for token in in_order(model.tokens) if len(token) > 1]
    return list(dict.fromkeys(left + right for left, right in model.merges))


def compare_vocabularies(first: Model, second: Model, *, n_rows: int = 20) -> VocabularyComparison:
    """Compare two vocabularies.

    Parameters
    ----------
    first, second : Model
    n_rows : int
        Number of ranks to list.
    """
    ours, theirs = first.ids, second.ids
    ranked = merged_tokens(first), merged_tokens(second)
    ranks = tuple({token: rank for rank, token in enumerate(tokens)} for tokens in ranked)
    pairs = list(zip_longest(*ranked))
    same = next((rank for rank, (left, right) in enumerate(pairs) if left != right), len(pairs))
    both = [(rank, ranks[1][token]) for token, rank in ranks[0].items() if token in ranks[1]]
    rows = [
        RankRow(rank, left, right, None if left is None else ranks[1].get(left), None if right is None else ranks[0].get(right))
        for rank, (left, right) in enumerate(pairs[:n_rows])
    ]
    return VocabularyComparison(
        sum(token in theirs for token in ours),
        sum(theirs.get(token) == number for token, number in ours.items()),
        [token for token in in_order(first.tokens) if token not in theirs],
        [token for token in in_order(second.tokens) if token not in ours],
        [text for text in first.special_tokens if text not in second.special_tokens],
        [text for text in second.special_tokens if text not in first.special_tokens],
        same,
        _rank_correlation(both),
        rows,
    )


def _rank_correlation(pairs: list[tuple[int, int]]) -> float | None:
    if len(pairs) < 2:
        return None
    # Spearman's correlation is that of the ranks among the shared tokens; there are no ties.
    orders = [np.argsort(np.argsort(column)) for column in zip(*pairs, strict=True)]
    return float(np.corrcoef(orders[0], orders[1])[0, 1])
