"""`bpejit stats`, and the inputs of the commands that count tokens."""

from __future__ import annotations

import csv
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpejit.errors import BpejitError, shorten
from bpejit.inspection.tables import Row, figure, percent, table

from . import shared_options as shared
from .command_types import command
from .progress import format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, this_command, write_lines
from .text_output import aligned, shown_name, shown_token

if TYPE_CHECKING:
    from bpejit.corpus.sources import Source

AMOUNTS = "bytes", "characters", "words", "tokens"
PER_TOKEN = "bytes_per_token", "characters_per_token", "words_per_token"


def _parse_labels(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for value in values:
        label, _, glob = value.partition("=")
        if not label or not glob:
            raise click.BadParameter(f"{shorten(value)}; expected a label, `=`, and a glob, such as english='en/*.txt'")
        labels[glob] = label
    return labels


label_option = shared.repeated_option(
    *("--label", "labels"),
    metavar="LABEL=GLOB",
    callback=_parse_labels,
    help="Report the files that match a glob together under a label, such as a language; may be repeated.",
)


@contextmanager
def opened_inputs(
    tokenizers: Sequence[shared.TokenizerChoice],
    inputs: Sequence[str],
    reading: Mapping[str, Any],
    labels: dict[str, str],
    *,
    times: int,
    out: str | None = None,
    overwrite: bool = False,
) -> Iterator[list[Source]]:
    """Return a context manager that yields the sources of inputs, which can be read several `times`.

    An error explains the order of the arguments if an input is where a tokenizer belongs. Standard input and pipes are copied
    to temporary files if they are read more than once; the labels of the copies are added to `labels`. The output `out` must
    not replace an input or a file of a tokenizer.
    """
    try:
        with ExitStack() as stack:
            sources = _repeatable_sources(inputs, reading, labels, stack if times > 1 else None)
            if out is not None:
                from bpejit.storage.outputs import check_outputs

                files = [str(file) for tokenizer in tokenizers for file in tokenizer.files()]
                check_outputs([out], inputs=[*(source.path for source in sources), *files], overwrite=overwrite)
            yield sources
    except BpejitError as error:
        paths = [tokenizer.path for tokenizer in tokenizers]
        wrong = next((path for path in paths if Path(path).exists() and not _is_tokenizer(path)), None)
        found = next((path for path in inputs if Path(path).exists() and _is_tokenizer(path)), None)
        if wrong is None or found is None:
            raise
        raise click.UsageError(
            f"`{wrong}` is where a tokenizer is expected, and `{found}` is a tokenizer; expected tokenizers before the inputs: "
            "exchange them"
        ) from error


def _is_tokenizer(path: str) -> bool:
    from bpejit.formats.any_format import recognize

    try:
        recognize(path)
    except BpejitError:
        return False
    return True


def _repeatable_sources(
    inputs: Sequence[str], reading: Mapping[str, Any], labels: dict[str, str], copies: ExitStack | None
) -> list[Source]:
    if not inputs:
        if labels:
            raise click.UsageError("`--label` groups inputs, and there are none: name them after the tokenizer")
        return []

    found: list[Source] = []
    for number, source in enumerate(shared.read_sources(inputs, reading)):
        if copies is None or source.size is not None:
            found.append(source)
            continue
        copy = Path(copies.enter_context(tempfile.TemporaryDirectory(prefix="bpejit-"))) / str(number)
        stream = sys.stdin.buffer if source.path == "-" else Path(source.path).open("rb")  # noqa: SIM115
        with stream as file, copy.open("wb") as target:
            shutil.copyfileobj(file, target, 1 << 20)
        labels[str(copy)] = source.path
        found += shared.read_sources([copy], reading)
    return found


@command()
@shared.tokenizer_argument
@shared.input_argument
@shared.path_option(
    "--against",
    multiple=True,
    metavar="TOKENIZER",
    help="Compare the number of tokens with that of another tokenizer; may be repeated.",
)
@label_option
@shared.flag("--scripts", "by_script", help="Report each Unicode script as well.")
@shared.count_option("--count", least=0, default=10, text="Number of most frequent and longest tokens to show.")
@shared.path_option(
    "--csv", "csv_path", metavar="FILE", help="Write the figures of files or labels as CSV; - is standard output."
)
@shared.overwrite_option
@shared.input_options
@shared.engine_options
@shared.pattern_options
def stats(
    *,
    tokenizer: shared.TokenizerChoice,
    inputs: tuple[str, ...],
    against: tuple[str, ...],
    labels: dict[str, str],
    by_script: bool,
    count: int,
    csv_path: str | None,
    overwrite: bool,
    reading: dict[str, Any],
    work: dict[str, Any],
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
    from bpejit.inspection.corpus_stats import corpus_stats
    from bpejit.inspection.token_counts import count_inputs
    from bpejit.storage.outputs import is_standard_output

    choices = [tokenizer, *map(shared.TokenizerChoice, against)]
    with (
        watch() as progress,
        opened_inputs(choices, inputs, reading, labels, times=len(choices), out=csv_path, overwrite=overwrite) as sources,
    ):
        codec = tokenizer.codec()
        found = count_inputs(codec, sources, labels=labels, by_script=by_script, **work, report=progress)
        figures = corpus_stats(codec.model, found, n_shown=count)
        rows = [*figures["groups"], {"name": "total", **figures["total"]}]
        others = []
        for other in choices[1:]:
            counted = count_inputs(other.codec(), sources, labels=labels, **work)
            tokens = [group.total for group in counted.groups.values()]
            others.append((other.path, [*tokens, counted.total.total]))
    if csv_path is not None:
        _write_csv(csv_path, rows, others)
    if not this_command().json and not (csv_path is not None and is_standard_output(csv_path)):
        write_lines(_lines(figures, rows, others))
    encode = progress.stages["encode"].seconds
    total = figures["total"]
    progress.finish(
        f"counted {total['tokens']:,} tokens in {format_bytes(total['bytes'])}, in {format_seconds(encode)} "
        f"({format_rate(total['bytes'], encode, 'bytes')})",
        tokenizer=tokenizer.path,
        tokenizer_sha256=codec.model.sha256,
        **figures,
        against=[
            {
                "tokenizer": path,
                "tokens": tokens[-1],
                "ratio": _ratio(total["tokens"], tokens[-1]),
                "groups": {row["name"]: n for row, n in zip(figures["groups"], tokens, strict=False)},
            }
            for path, tokens in others
        ],
        skipped_records=found.skipped.count,
        notes=shared.skipped_notes(found.skipped),
    )


def _ratio(tokens: int, others: int) -> float | None:
    """Return how many tokens there are for each token of another tokenizer."""
    return tokens / others if others else None


def _write_csv(path: str, rows: Sequence[Row], others: Sequence[tuple[str, Sequence[int]]]) -> None:
    from bpejit.inspection.report_page import unique_names
    from bpejit.storage.files import replacing
    from bpejit.storage.outputs import is_standard_output

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = unique_names([other for other, _ in others])
    writer.writerow([*rows[0], *(f"tokens of {name}" for name in names)])
    for row, *tokens in zip(rows, *(of_other for _, of_other in others), strict=True):
        writer.writerow([*row.values(), *tokens])
    if is_standard_output(path):
        write_lines(text.getvalue().splitlines())
        return
    with replacing(path) as file:
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))


def _lines(figures: Row, rows: Sequence[Row], others: Sequence[tuple[str, Sequence[int]]]) -> Iterator[str]:
    shown = rows if len(rows) > 2 else rows[:1]
    named = [{**row, "name": shown_name(row["name"])} for row in shown]
    yield from aligned(table(named, ("name", *AMOUNTS, "used_tokens"), ("text", *AMOUNTS, "used")))
    yield ""
    head_of_ratios = ("tokens", "bytes each", "characters", "words", "one byte", "partial", "entropy", "Renyi")
    shares = ("single_byte_share", "partial_share", "entropy", "renyi_efficiency")
    yield from aligned(table(named, ("name", *PER_TOKEN, *shares), head_of_ratios))
    if others:
        yield ""
        columns: list[list[Any]] = [["tokens relative to", *(row["name"] for row in named)]]
        for path, tokens in others:
            ratios = [_ratio(row["tokens"], n) for row, n in zip(named, tokens, strict=False)]
            columns.append([shown_name(path, 40), *ratios])
        yield from aligned(zip(*columns, strict=True))
    if figures["scripts"]:
        yield ""
        head_of_scripts = ("script", *AMOUNTS, "bytes each", "characters", "words")
        yield from aligned(table(figures["scripts"], ("script", *AMOUNTS, *PER_TOKEN), head_of_scripts))
    yield ""
    in_vocab = figures["vocab_tokens"]
    used = figures["total"]["used_tokens"]
    yield f"used       {used:,} of {in_vocab:,} tokens ({percent(used / in_vocab)})"
    yield f"unused     {figures['unused_tokens']:,} tokens"
    yield f"Renyi efficiency relative to the vocabulary  {figure(figures['total']['vocab_renyi_efficiency'])}"
    yield ""
    yield "the most frequent tokens make up this share of the text"
    yield from aligned(table(figures["coverage"], ("tokens", "share"), ("tokens", "share")), left=0)
    yield ""
    fields_of_ranks = ("ids", "tokens", "used_share", "share")
    yield from aligned(table(figures["ranks"], fields_of_ranks, ("ids", "tokens", "used", "of the text")))
    yield ""
    yield from aligned(table(figures["frequencies"], ("occurrences", "tokens"), ("occurrences", "tokens")))
    for title, tokens in (("most frequent", figures["most_frequent"]), ("longest used", figures["longest"])):
        if tokens:
            yield ""
            # Tokens are not aligned: their width on a terminal is not known.
            numbers = [("id", "count", "bytes")]
            numbers += [(str(token["id"]), token["count"], token["bytes"]) for token in tokens]
            texts = [title, *(shown_token(token["token"]) for token in tokens)]
            yield from (f"{line}  {token}" for line, token in zip(aligned(numbers, left=0), texts, strict=True))
