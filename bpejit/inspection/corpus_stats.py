"""Statistics of a tokenizer on a corpus: what `bpejit stats` reports; measures of distributions."""

from __future__ import annotations

import numpy as np

from bpejit.arrays import Array
from bpejit.inspection.tables import Row
from bpejit.inspection.token_counts import InputCounts, TokenCounts, text_figures
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


def coverage(counts: Array) -> list[Row]:
    """Return the share of a text that the 1, 2, 5, 10, 20, 50, ... most frequent tokens make up, up to all that occur."""
    ordered = np.sort(counts[counts > 0])[::-1]
    if not ordered.size:
        return []
    sums = np.cumsum(ordered)
    numbers = [base * 10**power for power in range(9) for base in (1, 2, 5)]
    shown = [*(number for number in numbers if number < ordered.size), ordered.size]
    return [{"tokens": number, "share": float(sums[number - 1] / sums[-1])} for number in shown]


def usage_by_rank(counts: Array, in_use: Array, n_ranges: int = 10) -> list[Row]:
    """Divide the ids in use, a mask, into ranges of equal size, and return how much of each occurs.

    Ids are in order of rank for a trained vocabulary. A row has the `first` and `last` id, the number of `tokens` of the range
    and of those that are `used`, and their `share` of the text in tokens.
    """
    ids = np.flatnonzero(in_use)
    total = max(int(counts.sum()), 1)
    found = []
    for part in np.array_split(ids, min(n_ranges, ids.size)):
        of_part = counts[part]
        found.append(
            {
                "first": int(part[0]),
                "last": int(part[-1]),
                "tokens": int(part.size),
                "used": int(np.count_nonzero(of_part)),
                "share": int(of_part.sum()) / total,
            }
        )
    return found


def frequency_classes(counts: Array) -> list[dict[str, int]]:
    """Return the number of `tokens` in each class of frequencies: 0, 1, 2 to 9, 10 to 99, ...; counts include zeros.

    A class has the frequencies from `least` to `most`.
    """
    largest = int(counts.max(initial=0))
    limits = [(0, 0), (1, 1), (2, 9)]
    while limits[-1][1] < largest:
        limits.append((limits[-1][1] + 1, limits[-1][1] * 10 + 9))
    found = []
    for least, most in limits:
        if least <= largest or not least:
            inside = (counts >= least) & (counts <= most)
            found.append({"least": least, "most": most, "tokens": int(np.count_nonzero(inside))})
    return found


def token_figures(found: TokenCounts, properties: TokenProperties, vocab_tokens: int) -> Row:
    """Return the figures of counted tokens.

    These are the amounts of `text_figures`; the number of different tokens (`used_tokens`); the shares of the tokens of a text
    that are a single byte, and that start or end inside a character (`partial_share`); Shannon's entropy of the tokens in bits;
    and the Renyi entropy, divided by that of a uniform distribution over the tokens that occur (`renyi_efficiency`), and over
    the vocabulary.
    """
    n_tokens = found.total
    counts = found.counts
    ids = found.ids
    measures = found.measures

    def share(chosen: Array) -> float:
        return int(counts[chosen[ids]].sum()) / n_tokens if n_tokens else 0.0

    entropy = renyi_entropy(counts)
    return {
        **text_figures(n_tokens, measures.bytes, measures.characters, measures.words),
        "used_tokens": int(ids.size),
        "single_byte_share": share(properties.lengths == 1),
        "partial_share": share(properties.partial),
        "entropy": renyi_entropy(counts, 1),
        "renyi_efficiency": efficiency(entropy, int(ids.size)),
        "vocab_renyi_efficiency": efficiency(entropy, vocab_tokens),
    }


def corpus_stats(model: Model, found: InputCounts, *, n_shown: int = 10) -> Row:
    """Return all statistics of counted inputs, as the fields of a report.

    Parameters
    ----------
    model : Model
    found : InputCounts
    n_shown : int
        Number of the most frequent and of the longest tokens.

    Returns
    -------
    dict
        `total` has the figures of the corpus, and `groups` those of each label or file, with its `name`. `scripts` are those of
        `found`. `vocab_tokens` and `unused_tokens` are the tokens of the vocabulary, and those that do not occur. `coverage`,
        `ranks` and `frequencies` are distributions. `most_frequent` and `longest` have tokens that occur.
    """
    properties = token_properties(model)
    in_use = properties.lengths > 0
    vocab_tokens = int(np.count_nonzero(in_use))
    total = found.total
    dense = total.dense(model.vocab_size)
    frequent = total.ids[np.lexsort((total.ids, -total.counts))[:n_shown]]
    ordinary = total.ids[~properties.special[total.ids]]
    longest = ordinary[np.lexsort((ordinary, -properties.lengths[ordinary]))[:n_shown]]

    def listed(ids: Array) -> list[Row]:
        rows = []
        for number in ids.tolist():
            token = token_bytes(model, number)
            rows.append({"id": number, "token": token, "bytes": len(token), "count": int(dense[number])})
        return rows

    return {
        "total": token_figures(total, properties, vocab_tokens),
        "groups": [{"name": name, **token_figures(of, properties, vocab_tokens)} for name, of in found.groups.items()],
        "scripts": found.scripts,
        "vocab_tokens": vocab_tokens,
        "unused_tokens": vocab_tokens - int(total.ids.size),
        "coverage": coverage(total.counts),
        "ranks": usage_by_rank(dense, in_use),
        "frequencies": frequency_classes(dense[in_use]),
        "most_frequent": listed(frequent),
        "longest": listed(longest),
    }
