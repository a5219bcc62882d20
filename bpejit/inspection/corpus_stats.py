"""Statistics of a tokenizer on a corpus: `bpejit.stats`; measures of distributions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.corpus.input_paths import Inputs
from bpejit.inspection.names import CountingOptions
from bpejit.inspection.tables import Row, Shown, Table, figure, percent, shown_name
from bpejit.inspection.token_counts import (
    AnyTokenizer,
    InputCounts,
    TokenCounts,
    count_inputs,
    given_inputs,
    text_figures,
)
from bpejit.inspection.vocabulary_measures import TokenProperties, superword_figures, token_properties
from bpejit.model import Model
from bpejit.options import takes

if TYPE_CHECKING:
    from typing_extensions import Unpack

AMOUNTS = "bytes", "characters", "words", "tokens"
PER_TOKEN = "bytes_per_token", "characters_per_token", "words_per_token"

RENYI_ORDER = 2.5
"""The order of the Renyi entropy for which Zouhar et al. (2023), "Tokenization and the Noiseless Channel", found the highest
correlation with the quality of translation.
"""


def renyi_entropy(counts: Array, order: float = RENYI_ORDER) -> float:
    """Return the Renyi entropy of a distribution in bits: log2(sum of p^order) / (1 - order), and Shannon's for order 1.

    The distribution is given by numbers of occurrences; an empty one has entropy 0.
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

    `total` has the figures of the corpus, and `groups` those of each label or file, with its `name`. `scripts` are those of
    `found`. `vocab_tokens` and `unused_tokens` are the tokens of the vocabulary, and those that do not occur. `coverage`,
    `ranks` and `frequencies` are distributions, `superwords` is from `superword_figures`. `most_frequent` and `longest` have
    `n_shown` tokens that occur.
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
            token = model.bytes_of(number) or b""
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
        "superwords": superword_figures(model, dense, properties.lengths),
        "most_frequent": listed(frequent),
        "longest": listed(longest),
    }


class Stats(Shown):
    """The statistics of a tokenizer on a corpus; `rows` has the figures of each file or label, and then those of all."""


def _shown(figures: Row, rows: Sequence[Row], compared: Sequence[Table]) -> Iterator[Table | str]:
    """Yield the tables of the statistics; `compared` is that with the tokens relative to others, if there are any."""
    columns: tuple[Sequence[str], Sequence[str]] = ("name", *AMOUNTS, "used_tokens"), ("text", *AMOUNTS, "used")
    yield Table.of(rows, *columns)
    heads = ("tokens", "bytes each", "characters", "words", "one byte", "partial", "entropy", "Renyi")
    yield Table.of(rows, ("name", *PER_TOKEN, "single_byte_share", "partial_share", "entropy", "renyi_efficiency"), heads)
    yield from compared
    if figures["scripts"]:
        heads = ("script", *AMOUNTS, "bytes each", "characters", "words")
        yield Table.of(figures["scripts"], ("script", *AMOUNTS, *PER_TOKEN), heads)
    used = figures["total"]["used_tokens"]
    in_vocab = figures["vocab_tokens"]
    yield (
        f"used       {used:,} of {in_vocab:,} tokens ({percent(used / in_vocab)})\n"
        f"unused     {figures['unused_tokens']:,} tokens\n"
        f"Renyi efficiency relative to the vocabulary  {figure(figures['total']['vocab_renyi_efficiency'])}"
    )
    if (superwords := figures["superwords"]) is not None:
        yield (
            f"superwords {superwords['used_tokens']:,} of {superwords['tokens']:,} are used; they cover "
            f"{percent(superwords['share'])} of the text\n"
            f"bytes each {figure(superwords['bytes_per_word_token'])} with the tokens of words alone, "
            f"{figure(superwords['bytes_per_token'])} with superwords"
        )
        columns = ("words", "tokens", "count"), ("words", "tokens", "occurrences")
        yield Table.of(superwords["words"], *columns, fold="how many words are in a token")
    share = "the most frequent tokens make up this share of the text"
    yield Table.of(figures["coverage"], ("tokens", "share"), ("tokens", "share"), left=(), title=share, fold=share)
    columns = ("ids", "tokens", "used_share", "share"), ("ids", "tokens", "used", "of the text")
    yield Table.of(figures["ranks"], *columns, fold="how much of the vocabulary is used")
    columns = ("occurrences", "tokens"), ("occurrences", "tokens")
    yield Table.of(figures["frequencies"], *columns, fold="how many tokens occur how often")
    for head, tokens in (("most frequent", figures["most_frequent"]), ("longest used", figures["longest"])):
        if tokens:
            columns = ("id", "count", "bytes", "token"), ("id", "count", "bytes", head)
            yield Table.of(tokens, *columns, left=(3,), fold=f"{head} tokens")


@takes(CountingOptions)
def stats(
    tokenizer: AnyTokenizer,
    inputs: Inputs,
    *,
    against: AnyTokenizer | Sequence[AnyTokenizer] = (),
    labels: Mapping[str, str] | None = None,
    by_script: bool = False,
    count: int = 10,
    **options: Unpack[CountingOptions],
) -> Stats:
    """Return statistics of a tokenizer on a corpus: compression, use of the vocabulary, and the distribution of tokens.

    Parameters
    ----------
    tokenizer : Tokenizer or path
    inputs : path, list of paths, or iterator of texts
        As for `bpejit.train`.
    against : Tokenizer, path, or list of these
        Tokenizers whose numbers of tokens are compared with it.
    labels : dict of str to str, optional
        Label of the files that match a glob, such as `{"en/*.txt": "english"}`; they are reported together.
    by_script : bool
        Whether to report each Unicode script as well, which takes longer.
    count : int
        Number of the most frequent and of the longest tokens.
    {options}

    Returns
    -------
    Stats
        With `to_dict()` and `to_pandas()`; notebooks and terminals show tables.

    Raises
    ------
    ArgumentTypeError, CorpusError, OptionError, TokenizerFormatError, EngineError
    """
    n_shown = arguments.whole_number("count", count, least=0)
    scripts = arguments.flag("by_script", by_script)
    others = against if isinstance(against, (list, tuple)) else [against]
    with given_inputs([tokenizer, *others], inputs, labels, options) as given:
        found = count_inputs(given.codecs[0], given.sources, by_script=scripts, **given.counting)
        counts = given.count_each(1, stage="against")
        compared = [[row.total for row in of.rows.values()] for of in counts]
    first, *models = given.models
    figures = corpus_stats(first.model, found, n_shown=n_shown)
    rows: list[Row] = [*figures["groups"], {"name": "total", **figures["total"]}]
    frame = [dict(row) for row in rows]
    ratios: list[list[object]] = [[shown_name(row["name"])] for row in rows]
    heads = [f"tokens{f' of {shown_name(given.names[0], 30)}' if options['names'] else ''} relative to"]
    against_fields = []
    of_others = zip(models, given.names[1:], compared, strict=True)
    for number, (other, name, tokens) in enumerate(of_others, start=1):
        heads.append(shown_name(name if number < len(options["names"]) else other.path, 40))
        for row, ratio, n in zip(frame, ratios, tokens, strict=True):
            row[f"tokens of {name}"] = n
            ratio.append(row["tokens"] / n if n else None)
        groups = {row["name"]: n for row, n in zip(figures["groups"], tokens, strict=False)}
        against_fields.append({"tokenizer": other.path, "tokens": tokens[-1], "ratio": ratios[-1][-1], "groups": groups})
    fields = {
        "tokenizer": first.path,
        "tokenizer_sha256": first.model.sha256,
        **figures,
        "against": against_fields,
        "skipped_records": found.skipped.count,
    }
    n_rows = len(rows) if len(rows) > 2 else 1
    tables = [Table([heads, *ratios[:n_rows]])] if models else []
    return Stats(fields, frame, list(_shown(figures, rows[:n_rows], tables)), found.skipped)
