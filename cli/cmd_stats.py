"""`bpejit stats`, and the inputs of the commands that count tokens."""

from __future__ import annotations

import csv
import dataclasses
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bpejit.errors import BpejitError, shorten

from .command_types import Count, command
from .output_lines import write_lines
from .progress import format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, json_text, report_options, wants_json
from .shared_options import (
    complete_path,
    engine_options,
    input_argument,
    input_options,
    overwrite_option,
    pattern_options,
    read_codec,
)
from .text_output import aligned, optional_number, percent, shown_name, shown_token

if TYPE_CHECKING:
    from bpejit.corpus.sources import Source
    from bpejit.inspection.corpus_stats import CorpusStats, CountedToken, TextStats
    from bpejit.inspection.token_counts import InputCounts

Function = TypeVar("Function", bound=Callable[..., Any])


def label_option(function: Function) -> Function:
    """Add `--label`."""
    return click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="LABEL=GLOB",
        callback=_parse_labels,
        help="Report the files that match a glob together under a label, such as a language; may be repeated.",
    )(function)


def _parse_labels(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for value in values:
        label, _, glob = value.partition("=")
        if not label or not glob:
            raise click.BadParameter(f"{shorten(value)}; expected a label, `=`, and a glob, such as english='en/*.txt'")
        labels[glob] = label
    return labels


@contextmanager
def explaining_order(tokenizers: Sequence[str], inputs: Sequence[str]) -> Iterator[None]:
    """Return a context manager that adds the order of the arguments to an error if an input is where a tokenizer belongs."""
    try:
        yield
    except BpejitError as error:
        wrong = next((path for path in tokenizers if Path(path).exists() and not _is_tokenizer(path)), None)
        found = next((path for path in inputs if Path(path).exists() and _is_tokenizer(path)), None)
        if wrong is None or found is None:
            raise
        raise click.UsageError(
            f"`{wrong}` is where a tokenizer is expected, and `{found}` is a tokenizer; expected tokenizers before the inputs: "
            "exchange them"
        ) from error


def _is_tokenizer(path: str) -> bool:
    from bpejit.formats.recognize import recognize

    try:
        recognize(path)
    except BpejitError:
        return False
    return True


@contextmanager
def repeatable_sources(
    inputs: Sequence[str], reading: Mapping[str, Any], labels: dict[str, str], *, times: int
) -> Iterator[list[Source]]:
    """Return a context manager that yields the sources of inputs, which can be read several times.

    Parameters
    ----------
    inputs : sequence of str
    reading : mapping
        The values of `input_options`.
    labels : dict of str to str
        Labels by path; the label of a copy is added.
    times : int
        How often they will be read. Standard input and pipes are copied to a temporary file if it is more than once.
    """
    if not inputs:
        if labels:
            raise click.UsageError("`--label` groups inputs, and there are none: name them after the tokenizer")
        yield []
        return
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources

    sources = find_sources(inputs, Contents(**reading))
    if times < 2 or all(source.size is not None for source in sources):
        yield sources
        return
    with tempfile.TemporaryDirectory(prefix="bpejit-") as folder:
        found = []
        for number, source in enumerate(sources):
            if source.size is not None:
                found.append(source)
                continue
            copy = Path(folder) / str(number)
            stream = sys.stdin.buffer if source.path == "-" else Path(source.path).open("rb")  # noqa: SIM115
            with stream as file, copy.open("wb") as target:
                shutil.copyfileobj(file, target, 1 << 20)
            labels[str(copy)] = source.path
            found += find_sources([copy], Contents(**reading))
        yield found


def skipped_notes(counts: InputCounts | None) -> list[str]:
    """Return the note about records without text, if there are any."""
    from bpejit.corpus.blocks import skipped_note

    return [skipped_note(counts.skipped.count, counts.skipped.first)] if counts is not None and counts.skipped else []


@command()
@click.argument("tokenizer_path", metavar="TOKENIZER", shell_complete=complete_path)
@input_argument
@click.option(
    "--against",
    multiple=True,
    metavar="TOKENIZER",
    shell_complete=complete_path,
    help="Compare the number of tokens with that of another tokenizer; may be repeated.",
)
@label_option
@click.option("--scripts", "by_script", is_flag=True, help="Report each Unicode script as well.")
@click.option(
    "--count",
    type=Count(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of most frequent and longest tokens to show.",
)
@click.option(
    "--csv",
    "csv_path",
    metavar="FILE",
    shell_complete=complete_path,
    help="Write the figures of files or labels as CSV; - is standard output.",
)
@overwrite_option
@input_options
@engine_options
@pattern_options
@report_options
def stats(
    *,
    tokenizer_path: str,
    inputs: tuple[str, ...],
    against: tuple[str, ...],
    labels: dict[str, str],
    by_script: bool,
    count: int,
    csv_path: str | None,
    overwrite: bool,
    reading: dict[str, Any],
    workers: int | None,
    engine: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
) -> None:
    """Report how a tokenizer encodes a corpus: compression, use of the vocabulary, and the distribution of tokens.

    INPUT is one or more files or globs, or - for standard input.
    Words are separated by white space.
    The Renyi efficiency has order 2.5, relative to a uniform distribution over the tokens that occur.

    \b
    Example:
        bpejit stats tokenizer corpus.txt
        bpejit stats tokenizer 'shards/*.txt' corpus.txt --label shards='shards/*' --scripts
        bpejit stats tokenizer corpus.txt --against my-tokenizer --csv figures.csv
    """
    if csv_path is not None:
        check_json_output(csv_path, "--csv")
    for path in inputs:
        if path.endswith(".csv") and "*" not in path and not Path(path).exists():
            name = shown_name(path)
            raise click.UsageError(f"the input `{name}` does not exist; to write the figures to this file, give `--csv {name}`")
    import time

    from bpejit.formats.recognize import tokenizer_files
    from bpejit.inspection.corpus_stats import corpus_stats
    from bpejit.inspection.token_counts import count_inputs
    from bpejit.storage.outputs import check_outputs, is_standard_output

    begun = time.perf_counter()
    paths = [tokenizer_path, *against]
    order, opened = explaining_order(paths, inputs), repeatable_sources(inputs, reading, labels, times=len(paths))
    with watch() as progress, order, opened as sources:
        if csv_path is not None:
            files = (file for path in paths for file in tokenizer_files(path))
            check_outputs([csv_path], inputs=[*(source.path for source in sources), *files], overwrite=overwrite)
        codec = read_codec(tokenizer_path, pattern, special_tokens, unicode)
        found = count_inputs(
            codec, sources, labels=labels, by_script=by_script, workers=workers, engine=engine, report=progress
        )
        figures = corpus_stats(codec.model, found, n_shown=count)
        others: list[tuple[str, InputCounts]] = []
        for path in against:
            other = read_codec(path, None, None, None)
            others.append((path, count_inputs(other, sources, labels=labels, workers=workers, engine=engine)))
    seconds = time.perf_counter() - begun - progress.compile_seconds
    if csv_path is not None:
        _write_csv(csv_path, figures, others)
    if not wants_json() and not (csv_path is not None and is_standard_output(csv_path)):
        write_lines(_lines(figures, others))
    encode = progress.stages["encode"].seconds
    total = figures.total
    progress.finish(
        f"counted {total.tokens:,} tokens in {format_bytes(total.bytes)}, in {format_seconds(encode)} "
        f"({format_rate(total.bytes, encode, 'bytes')})",
        tokenizer=tokenizer_path,
        tokenizer_sha256=codec.model.sha256,
        total=_group_fields(figures.total),
        groups=[_group_fields(group) for group in figures.groups],
        scripts=[dataclasses.asdict(entry) for entry in figures.scripts],
        vocab_tokens=figures.vocab_tokens,
        unused_tokens=figures.unused_tokens,
        coverage=[dataclasses.asdict(entry) for entry in figures.coverage],
        ranks=[dataclasses.asdict(entry) for entry in figures.ranks],
        frequencies=[dataclasses.asdict(entry) for entry in figures.frequencies],
        most_frequent=[_token_fields(token) for token in figures.most_frequent],
        longest=[_token_fields(token) for token in figures.longest],
        against=[_against_fields(figures, path, counts) for path, counts in others],
        skipped_records=found.skipped.count,
        notes=skipped_notes(found),
        seconds=seconds,
    )


def _group_fields(group: TextStats) -> dict[str, Any]:
    fields = dataclasses.asdict(group)
    if not group.name:
        del fields["name"]
    return fields


def _token_fields(token: CountedToken) -> dict[str, Any]:
    return {"id": token.id, "token": json_text(token.data), "bytes": len(token.data), "count": token.count}


def _against_fields(figures: CorpusStats, path: str, counts: InputCounts) -> dict[str, Any]:
    return {
        "tokenizer": path,
        "tokens": counts.total.total,
        "ratio": _ratio(figures.total.tokens, counts.total.total),
        "groups": {group.name: counts.groups[group.name].total for group in figures.groups},
    }


def _ratio(tokens: int, others: int) -> float | None:
    """Return how many tokens there are for each token of another tokenizer."""
    return tokens / others if others else None


def _write_csv(path: str, figures: CorpusStats, others: Sequence[tuple[str, InputCounts]]) -> None:
    from bpejit.inspection.report_page import unique_names
    from bpejit.storage.files import replacing
    from bpejit.storage.outputs import is_standard_output

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = list(dataclasses.asdict(figures.total))
    writer.writerow([*fields, *(f"tokens of {name}" for name in unique_names([path for path, _ in others]))])
    for group in [*figures.groups, dataclasses.replace(figures.total, name="total")]:
        rest = [counts.total.total if group.name == "total" else counts.groups[group.name].total for _, counts in others]
        writer.writerow([*("" if value is None else value for value in dataclasses.asdict(group).values()), *rest])
    if is_standard_output(path):
        write_lines(text.getvalue().splitlines())
        return
    with replacing(path) as file:
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))


def _lines(figures: CorpusStats, others: Sequence[tuple[str, InputCounts]]) -> Iterator[str]:
    total = figures.total
    groups = list(figures.groups) if len(figures.groups) > 1 else []
    named = [*groups, dataclasses.replace(total, name="total" if groups else figures.groups[0].name)]
    yield from aligned([("text", "bytes", "characters", "words", "tokens", "used"), *map(_amounts, named)])
    yield ""
    head = ("tokens", "bytes each", "characters", "words", "one byte", "partial", "entropy", "Renyi")
    yield from aligned([head, *map(_ratios, named)])
    if others:
        yield ""
        yield from aligned(_against_rows(figures, others, bool(groups)))
    if figures.scripts:
        yield ""
        yield from aligned(_script_rows(figures))
    yield ""
    used = figures.vocab_tokens - figures.unused_tokens
    yield f"used       {used:,} of {figures.vocab_tokens:,} tokens ({percent(used / figures.vocab_tokens)})"
    yield f"unused     {figures.unused_tokens:,} tokens"
    yield f"Renyi efficiency relative to the vocabulary  {optional_number(total.vocab_renyi_efficiency)}"
    yield ""
    yield "the most frequent tokens make up this share of the text"
    yield from aligned(
        [("tokens", "share"), *((f"{entry.tokens:,}", percent(entry.share)) for entry in figures.coverage)], left=0
    )
    yield ""
    yield from aligned(
        [
            ("ids", "tokens", "used", "of the text"),
            *(
                (f"{part.first} to {part.last}", f"{part.tokens:,}", percent(part.used / part.tokens), percent(part.share))
                for part in figures.ranks
            ),
        ]
    )
    yield ""
    rows = [
        (f"{entry.least:,} to {entry.most:,}" if entry.most > 1 else f"{entry.least}", f"{entry.tokens:,}")
        for entry in figures.frequencies
    ]
    yield from aligned([("occurrences", "tokens"), *rows])
    for title, tokens in (("most frequent", figures.most_frequent), ("longest used", figures.longest)):
        if tokens:
            yield ""
            shown = ((f"{token.id}", f"{token.count:,}", f"{len(token.data)}", shown_token(token.data)) for token in tokens)
            yield from _token_table(title, shown)


def _token_table(title: str, rows: Iterator[tuple[str, str, str, str]]) -> Iterator[str]:
    """Yield a table whose last column is a token, aligned to the left."""
    table = [("id", "count", "bytes", title), *rows]
    numbers = aligned([row[:3] for row in table], left=0)
    for line, row in zip(numbers, table, strict=True):
        yield f"{line}  {row[3]}"


def _amounts(group: TextStats) -> tuple[str, ...]:
    numbers = (group.bytes, group.characters, group.words, group.tokens, group.used_tokens)
    return shown_name(group.name), *(f"{number:,}" for number in numbers)


def _ratios(group: TextStats) -> tuple[str, ...]:
    return (
        shown_name(group.name),
        optional_number(group.bytes_per_token),
        optional_number(group.characters_per_token),
        optional_number(group.words_per_token),
        percent(group.single_byte_share),
        percent(group.partial_share),
        f"{group.entropy:.2f} bits",
        optional_number(group.renyi_efficiency),
    )


def _against_rows(figures: CorpusStats, others: Sequence[tuple[str, InputCounts]], grouped: bool) -> Iterator[tuple[str, ...]]:
    yield ("tokens relative to", *(shown_name(path, 40) for path, _ in others))
    for group in figures.groups if grouped else ():
        ratios = (_ratio(group.tokens, counts.groups[group.name].total) for _, counts in others)
        yield (shown_name(group.name), *(optional_number(ratio) for ratio in ratios))
    ratios = (_ratio(figures.total.tokens, counts.total.total) for _, counts in others)
    yield ("total" if grouped else shown_name(figures.groups[0].name), *(optional_number(ratio) for ratio in ratios))


def _script_rows(figures: CorpusStats) -> Iterator[tuple[str, ...]]:
    yield "script", "bytes", "characters", "words", "tokens", "bytes each", "characters", "words"
    for entry in figures.scripts:
        amounts = (entry.bytes, entry.characters, entry.words, entry.tokens)
        each = (entry.bytes_per_token, entry.characters_per_token, entry.words_per_token)
        yield entry.script, *(f"{amount:,}" for amount in amounts), *map(optional_number, each)
