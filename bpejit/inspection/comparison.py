"""Several tokenizers beside each other: `bpejit.compare` and `bpejit.report`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING

from bpejit import arguments
from bpejit.corpus.blocks import NOTHING_SKIPPED
from bpejit.corpus.input_paths import Inputs
from bpejit.inspection.corpus_stats import token_figures
from bpejit.inspection.differing_texts import find_differing_texts, typical_texts
from bpejit.inspection.names import CountingOptions
from bpejit.inspection.report_page import report_page
from bpejit.inspection.tables import Row, Shown, Table, figure, percent, shown_name, shown_token
from bpejit.inspection.token_counts import AnyTokenizer, InputCounts, given_inputs
from bpejit.inspection.token_rows import ShownText, token_rows
from bpejit.inspection.vocabulary_measures import compare_vocabularies, superwords_of, token_properties
from bpejit.options import takes
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import write_output

if TYPE_CHECKING:
    from typing_extensions import Unpack

N_SAMPLES = 6
"""Labels or inputs of which a report shows a text."""

N_DIFFERING = 6
"""Texts of a report that two tokenizers encode most differently."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Two tokenizers beside each other, as `bpejit.compare` returns them: further fields of `Shown`.

    Parameters
    ----------
    titles : sequence of str
        `A` and `B`, each with the name of a tokenizer.
    texts : list of (str, list of ShownText)
        The texts that differ most: a line about each, and its tokens with both tokenizers.
    """

    titles: Sequence[str]
    texts: Sequence[tuple[str, list[ShownText]]]

    def all_lines(self) -> Iterator[str | ShownText]:
        """Yield the lines of the result, and then those about the texts, with each text in its place."""
        yield from self.lines()
        for line, shown in self.texts:
            yield from ("", line)
            for title, text in zip(self.titles, shown, strict=True):
                yield f"  {title}"
                yield text

    def __repr__(self) -> str:
        return "\n".join(line if isinstance(line, str) else f"  {line!r}" for line in self.all_lines())

    def _repr_html_(self) -> str:
        parts = [super()._repr_html_()]
        for line, shown in self.texts:
            parts.append(f"<p>{escape(line)}</p>")
            for title, text in zip(self.titles, shown, strict=True):
                parts += [f"<div><b>{escape(title)}</b></div>", text._repr_html_()]
        return "".join(parts)


@takes(CountingOptions)
def compare(
    first: AnyTokenizer,
    second: AnyTokenizer,
    inputs: Inputs | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    count: int = 10,
    n_texts: int = 3,
    **options: Unpack[CountingOptions],
) -> Comparison:
    """Compare two tokenizers: their vocabularies, the order of their merges, and how they encode texts.

    Parameters
    ----------
    first, second : Tokenizer or path
    inputs : path, list of paths, or iterator of texts, optional
        As for `bpejit.train`. The texts that differ most are looked for in the first 4 MB of each input.
    labels : dict of str to str, optional
        As for `bpejit.stats`.
    count : int
        Number of tokens and ranks to list.
    n_texts : int
        Number of differing texts to find.
    {options}

    Returns
    -------
    Comparison
        With `to_dict()` and `to_pandas()`; notebooks and terminals show tables.

    Raises
    ------
    ArgumentTypeError, CorpusError, OptionError, TokenizerFormatError, EngineError
    """
    n_rows = arguments.whole_number("count", count, least=0)
    most = arguments.whole_number("n_texts", n_texts, least=0)
    with given_inputs([first, second], inputs, labels, options, more_reads=1) as given:
        models = [entry.model for entry in given.models]
        vocabulary = compare_vocabularies(*models, n_rows=n_rows)
        words = [superwords_of(model) for model in models]
        vocabulary |= {name: [of[name] for of in words] for name in words[0]}
        counts = list(given.count_each())
        differing = find_differing_texts(given.codecs[0], given.codecs[1], given.sources, n_texts=most) if most else []
    titles = [f"{letter} {shown_name(name, 30)}" for letter, name in zip("AB", given.names, strict=True)]
    groups = _compared_groups(counts)
    skipped = counts[0].skipped if counts else NOTHING_SKIPPED
    texts = []
    for row in differing:
        ours, theirs = row["tokens"]
        shown = [ShownText(token_rows(codec, row["text"])) for codec in given.codecs]
        texts.append((f"{shown_name(row['path'])}: {ours} and {theirs} tokens, ratio {row['ratio']:.2f}", shown))
    tokens = [[[token.data for token in text.rows] for text in shown] for _, shown in texts]
    fields = {
        "tokenizers": given.hashes(),
        "vocabulary": vocabulary,
        "groups": groups[:-1],
        "texts": [{**row, "tokens": of_text} for row, of_text in zip(differing, tokens, strict=True)],
        "skipped_records": skipped.count,
    }
    rows = []
    for row in groups:
        of_row = {f"tokens of {title}": n for title, n in zip(titles, row["tokens"], strict=True)}
        rows.append({"name": row["name"], "bytes": row["bytes"], **of_row, "ratio": row["ratio"]})
    blocks = list(_compared_tables([len(model.tokens) for model in models], vocabulary, titles, groups, n_rows))
    return Comparison(fields, rows, blocks, skipped, titles, texts)


def _compared_groups(counts: Sequence[InputCounts]) -> list[Row]:
    """Return the numbers of tokens of each file or label and of the whole text, with two tokenizers, and their ratios."""
    if not counts:
        return []
    first, second = (of.rows for of in counts)
    rows = []
    for (name, ours), theirs in zip(first.items(), second.values(), strict=True):
        ratio = ours.total / theirs.total if theirs.total else None
        rows.append({"name": name, "bytes": ours.measures.bytes, "tokens": [ours.total, theirs.total], "ratio": ratio})
    return rows


def _compared_tables(
    sizes: Sequence[int], found: Row, titles: Sequence[str], groups: Sequence[Row], count: int
) -> Iterator[Table | str]:
    """Yield the tables of a comparison, and lines about what two vocabularies share."""
    common = found["shared"]
    alone = (found["only_first"], found["only_second"])
    rows: list[Sequence[object]] = [
        ("vocabulary", *titles),
        ("tokens", *sizes),
        ("shared", *(f"{common:,} ({percent(common / size)})" for size in sizes)),
        ("alone", *map(len, alone)),
        ("special alone", len(found["only_first_special"]), len(found["only_second_special"])),
    ]
    if any(found["superwords"]):
        rows += [("superwords", *found["superwords"]), ("words in a token, most", *found["most_words"])]
    yield Table(rows)
    lines = [
        f"{found['same_ids']:,} shared tokens have the same id",
        f"the first {found['same_merges']:,} merges are the same",
        f"rank correlation of the shared tokens  {figure(found['rank_correlation'])}",
    ]
    for title, tokens in zip(titles, alone, strict=True):
        if tokens and count:
            shown = "  ".join(shown_token(token, 30) for token in tokens[:count])
            lines.append(f"only in {title}  {shown}{'  ...' if len(tokens) > count else ''}")
    yield "\n".join(lines)
    if found["ranks"]:
        fields = ("rank", "first", "rank_of_first", "second", "rank_of_second")
        yield Table.of(found["ranks"], fields, ("rank", titles[0], "rank in B", titles[1], "rank in A"), left=range(5))
    if groups:
        heads = ("text", "bytes", *(f"tokens of {title}" for title in titles), "ratio")
        chosen = groups if len(groups) > 2 else groups[:1]
        cells = [(shown_name(row["name"]), row["bytes"], *row["tokens"], row["ratio"]) for row in chosen]
        yield Table([heads, *cells])


@dataclass(frozen=True, eq=False, repr=False)
class Report(Shown):
    """A page about a tokenizer, as `bpejit.report` returns it; a notebook shows it in a frame.

    Parameters
    ----------
    page : str
        HTML that loads nothing.
    """

    page: str

    def save(self, path: StrPath, *, overwrite: bool = False) -> None:
        """Write the page to a file; `-` is standard output.

        Raises
        ------
        OutputError
            If the file cannot be written, or exists and `overwrite` is False.
        """
        write_output(path, self.page.encode(), overwrite=overwrite)

    def __repr__(self) -> str:
        names = " and ".join(row["name"] for row in self.rows)
        return f"<bpejit.Report about {names}: {len(self.page):,} characters of HTML; save(path) writes them>"

    def _repr_html_(self) -> str:
        style = "width:100%;height:640px;border:1px solid #8884"
        page = self.page.replace("<head>", '<head><base href="about:srcdoc">', 1)  # links inside the page stay in the frame
        return f'<iframe srcdoc="{escape(page, quote=True)}" style="{style}"></iframe>'


@takes(CountingOptions)
def report(
    tokenizer: AnyTokenizer,
    inputs: Inputs | None = None,
    *,
    against: AnyTokenizer | Sequence[AnyTokenizer] = (),
    labels: Mapping[str, str] | None = None,
    **options: Unpack[CountingOptions],
) -> Report:
    """Make a page about a tokenizer: figures, charts, all tokens with their counts and merge trees, and sample texts.

    Parameters
    ----------
    tokenizer : Tokenizer or path
    inputs : path, list of paths, or iterator of texts, optional
        As for `bpejit.train`.
    against, labels
        As for `bpejit.stats`.
    {options}

    Returns
    -------
    Report
        A notebook shows it, `save(path)` writes it, and `to_pandas()` has a row for each tokenizer.

    Raises
    ------
    ArgumentTypeError, CorpusError, OptionError, TokenizerFormatError, EngineError
    """
    others = against if isinstance(against, (list, tuple)) else [against]
    with given_inputs([tokenizer, *others], inputs, labels, options, more_reads=2) as given:
        counts = list(given.count_each(by_script=True))
        samples = typical_texts(given.codecs[0], given.sources, given.counting["labels"], N_SAMPLES)
        differing: list[Row] = []
        if others:
            differing = find_differing_texts(given.codecs[0], given.codecs[1], given.sources, n_texts=N_DIFFERING)
    page = report_page(dict(zip(given.names, given.codecs, strict=True)), counts, samples, differing)
    rows: list[Row] = []
    for name, (_, model), found in zip_longest(given.names, given.models, counts):
        rows.append({"name": name, "vocab_tokens": len(model.vocab), "sha256": model.sha256})
        if found is not None:
            rows[-1] |= token_figures(found.total, token_properties(model), len(model.vocab))
    skipped = counts[0].skipped if counts else NOTHING_SKIPPED
    fields = {
        "bytes": len(page.encode()),
        "tokenizers": given.hashes(),
        "tokens": counts[0].total.total if counts else None,
        "skipped_records": skipped.count,
    }
    return Report(fields, rows, [], skipped, page)
