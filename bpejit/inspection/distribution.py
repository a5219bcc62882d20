"""Measures of the frequency distribution of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array

RENYI_ORDER = 2.5
"""The order of the Renyi entropy for which Zouhar et al. (2023), "Tokenization and the Noiseless Channel", found the highest
correlation with the quality of translation.
"""


def renyi_entropy(counts: Array, order: float = RENYI_ORDER) -> float:
    """Return the Renyi entropy of a distribution in bits: log2(sum of p^order) / (1 - order), and Shannon's for order 1.

    Parameters
    ----------
    counts : int64 [n]
        Numbers of occurrences. An empty array has entropy 0.
    order : float
    """
    counts = counts[counts > 0]
    if not counts.size:
        return 0.0
    shares = counts / counts.sum()
    if order == 1:
        return float(-(shares * np.log2(shares)).sum()) + 0.0
    return float(np.log2((shares**order).sum()) / (1 - order)) + 0.0


def efficiency(entropy: float, n_types: int) -> float | None:
    """Return an entropy divided by the largest possible one, log2 of the number of types; None for fewer than two types."""
    return entropy / float(np.log2(n_types)) if n_types > 1 else None


@dataclass(frozen=True)
class Coverage:
    """The share of a text, in tokens, that the most frequent tokens make up."""

    tokens: int
    share: float


def coverage(counts: Array) -> list[Coverage]:
    """Return the coverage of the 1, 2, 5, 10, 20, 50, ... most frequent tokens, up to all tokens that occur.

    Parameters
    ----------
    counts : int64 [n]
    """
    ordered = np.sort(counts[counts > 0])[::-1]
    if not ordered.size:
        return []
    sums = np.cumsum(ordered)
    numbers = [base * 10**power for power in range(9) for base in (1, 2, 5)]
    shown = [*(number for number in numbers if number < ordered.size), ordered.size]
    return [Coverage(number, float(sums[number - 1] / sums[-1])) for number in shown]


@dataclass(frozen=True)
class RankRange:
    """The tokens of a range of ids, in which ids are in order of rank for a trained vocabulary.

    Parameters
    ----------
    first, last : int
        Ids.
    tokens, used : int
        Tokens in the range, and those that occur.
    share : float
        Share of the text in tokens.
    """

    first: int
    last: int
    tokens: int
    used: int
    share: float


def usage_by_rank(counts: Array, in_use: Array, n_ranges: int = 10) -> list[RankRange]:
    """Divide a vocabulary by rank into ranges of equal size, and return how much of each is used.

    Parameters
    ----------
    counts : int64 [vocab_size]
    in_use : bool [vocab_size]
        Whether the vocabulary has a token with this id.
    n_ranges : int
    """
    ids = np.flatnonzero(in_use)
    total = max(int(counts.sum()), 1)
    found = []
    for part in np.array_split(ids, min(n_ranges, ids.size)):
        of_part = counts[part]
        used = int(np.count_nonzero(of_part))
        found.append(RankRange(int(part[0]), int(part[-1]), int(part.size), used, int(of_part.sum()) / total))
    return found


@dataclass(frozen=True)
class FrequencyClass:
    """The number of tokens that occur at least `least` and at most `most` times."""

    least: int
    most: int
    tokens: int


def frequency_classes(counts: Array) -> list[FrequencyClass]:
    """Return the number of tokens in each class of frequencies: 0, 1, 2 to 9, 10 to 99, ...

    Parameters
    ----------
    counts : int64 [tokens]
        Of all tokens of the vocabulary, with zeros.
    """
    largest = int(counts.max(initial=0))
    limits = [(0, 0), (1, 1), (2, 9)]
    while limits[-1][1] < largest:
        limits.append((limits[-1][1] + 1, limits[-1][1] * 10 + 9))
    ordered = np.sort(counts)
    return [
        FrequencyClass(least, most, int(np.searchsorted(ordered, most, "right") - np.searchsorted(ordered, least, "left")))
        for least, most in limits
        if least <= largest or not least
    ]
