"""Statistics of a tokenizer on a corpus: what `bpejit stats` reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array
from bpejit.inspection.distribution import (
    Coverage,
    FrequencyClass,
    RankRange,
    coverage,
    efficiency,
    frequency_classes,
    renyi_entropy,
    usage_by_rank,
)
from bpejit.inspection.token_counts import InputCounts, ScriptCounts, TokenCounts
from bpejit.inspection.token_properties import TokenProperties, token_properties
from bpejit.inspection.token_rows import token_bytes
from bpejit.model import Model


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
    counts, ids, measures = found.counts, found.ids, found.measures

    def per_token(amount: int) -> float | None:
        return amount / n_tokens if n_tokens else None

    def share(chosen: Array) -> float:
        return int(counts[chosen[ids]].sum()) / n_tokens if n_tokens else 0.0

    entropy = renyi_entropy(counts)
    return TextStats(
        name,
        measures.bytes,
        measures.characters,
        measures.words,
        n_tokens,
        per_token(measures.bytes),
        per_token(measures.characters),
        per_token(measures.words),
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
