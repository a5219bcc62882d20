"""Statistics of a tokenizer on a corpus: what `bpejit stats` reports; measures of distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array
from bpejit.inspection.token_counts import InputCounts, ScriptCounts, TokenCounts, per_token
from bpejit.inspection.token_rows import token_bytes
from bpejit.inspection.vocabulary_measures import TokenProperties, token_properties
from bpejit.model import Model

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
    """Return the coverage of the 1, 2, 5, 10, 20, 50, ... most frequent tokens, up to all tokens that occur."""
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
    """Divide the ids in use, a mask, by rank into ranges of equal size, and return how much of each occurs."""
    ids = np.flatnonzero(in_use)
    total = max(int(counts.sum()), 1)
    found = []
    for part in np.array_split(ids, min(n_ranges, ids.size)):
        of_part = counts[part]
        used = int(np.count_nonzero(of_part))
        found.append(
            RankRange(
                int(part[0]),
                int(part[-1]),
                int(part.size),
                used,
                int(of_part.sum()) / total,
            )
        )
    return found


@dataclass(frozen=True)
class FrequencyClass:
    """The number of tokens that occur at least `least` and at most `most` times."""

    least: int
    most: int
    tokens: int


def frequency_classes(counts: Array) -> list[FrequencyClass]:
    """Return the number of tokens in each class of frequencies: 0, 1, 2 to 9, 10 to 99, ...; counts include zeros."""
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


@dataclass(frozen=True)
class TextStats:
    """Figures of one text, label or corpus.

    Parameters
    ----------
    name : str
        A file, a label, or an empty string for the corpus.
    bytes, characters, words, tokens : int
    bytes_per_token, characters_per_token, words_per_token : float, optional
        None if there are no tokens.
    used_tokens : int
        Number of different tokens.
    single_byte_share, partial_share : float
        Share of the tokens of the text that are a single byte, and that start or end inside a character.
    entropy : float
        Shannon entropy of the tokens in bits.
    renyi_efficiency : float, optional
        Renyi entropy of order 2.5, divided by that of a uniform distribution over the tokens that occur.
    vocab_renyi_efficiency : float, optional
        The same, over the vocabulary.
    """

    name: str
    bytes: int
    characters: int
    words: int
    tokens: int
    bytes_per_token: float | None
    characters_per_token: float | None
    words_per_token: float | None
    used_tokens: int
    single_byte_share: float
    partial_share: float
    entropy: float
    renyi_efficiency: float | None
    vocab_renyi_efficiency: float | None


@dataclass(frozen=True)
class CountedToken:
    """A token and its number of occurrences."""

    id: int
    data: bytes
    count: int


@dataclass(frozen=True)
class CorpusStats:
    """All statistics of a tokenizer on a corpus.

    Parameters
    ----------
    total : TextStats
    groups : list of TextStats
        By label or file.
    scripts : list of ScriptCounts
    vocab_tokens, unused_tokens : int
        Tokens of the vocabulary, and those that do not occur.
    coverage : list of Coverage
    ranks : list of RankRange
    frequencies : list of FrequencyClass
    most_frequent, longest : list of CountedToken
        `longest` has the longest tokens that occur.
    """

    total: TextStats
    groups: list[TextStats]
    scripts: list[ScriptCounts]
    vocab_tokens: int
    unused_tokens: int
    coverage: list[Coverage]
    ranks: list[RankRange]
    frequencies: list[FrequencyClass]
    most_frequent: list[CountedToken]
    longest: list[CountedToken]


def text_stats(name: str, found: TokenCounts, properties: TokenProperties, vocab_tokens: int) -> TextStats:
    """Return the figures of counted tokens."""
    n_tokens = found.total
    counts, ids = found.counts, found.ids
    amounts = found.measures.bytes, found.measures.characters, found.measures.words

    def share(chosen: Array) -> float:
        return int(counts[chosen[ids]].sum()) / n_tokens if n_tokens else 0.0

    entropy = renyi_entropy(counts)
    return TextStats(
        name,
        *amounts,
        n_tokens,
        *per_token(n_tokens, *amounts),
        int(ids.size),
        share(properties.lengths == 1),
        share(properties.partial),
        renyi_entropy(counts, 1),
        efficiency(entropy, int(ids.size)),
        efficiency(entropy, vocab_tokens),
    )


def corpus_stats(model: Model, found: InputCounts, *, n_shown: int = 10) -> CorpusStats:
    """Return all statistics of counted inputs.

    Parameters
    ----------
    model : Model
    found : InputCounts
    n_shown : int
        Number of the most frequent and of the longest tokens.
    """
    properties = token_properties(model)
    in_use = properties.lengths > 0
    vocab_tokens = int(np.count_nonzero(in_use))
    total = found.total
    dense = total.dense(model.vocab_size)
    frequent = total.ids[np.lexsort((total.ids, -total.counts))[:n_shown]]
    ordinary = total.ids[~properties.special[total.ids]]
    longest = ordinary[np.lexsort((ordinary, -properties.lengths[ordinary]))[:n_shown]]

    def listed(ids: Array) -> list[CountedToken]:
        return [CountedToken(number, token_bytes(model, number), int(dense[number])) for number in ids.tolist()]

    return CorpusStats(
        text_stats("", total, properties, vocab_tokens),
        [text_stats(name, counts, properties, vocab_tokens) for name, counts in found.groups.items()],
        found.scripts,
        vocab_tokens,
        vocab_tokens - int(total.ids.size),
        coverage(total.counts),
        usage_by_rank(dense, in_use),
        frequency_classes(dense[in_use]),
        listed(frequent),
        listed(longest),
    )
