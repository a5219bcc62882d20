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

from . import shared_options as shared
from .command_types import command
from .progress import format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, this_command, write_lines
from .text_output import aligned, figure, percent, shown_name, shown_token

if TYPE_CHECKING:
    from bpejit.corpus.sources import Source
    from bpejit.inspection.token_counts import InputCounts

AMOUNTS = "bytes", "characters", "words", "tokens"


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
    tokenizers: Sequence[str], inputs: Sequence[str], reading: Mapping[str, Any], labels: dict[str, str], *, times: int
) -> Iterator[list[Source]]:
    """Return a context manager that yields the sources of inputs, which can be read several `times`.

    An error explains the order of the arguments if an input is where a tokenizer belongs. Standard input and pipes are copied
    to temporary files if they are read more than once; the labels of the copies are added to `labels`.
    """
    try:
        with ExitStack() as stack:
            yield _repeatable_sources(inputs, reading, labels, stack if times > 1 else None)
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
    from bpejit.storage.outputs import check_outputs, is_standard_output

    choices = [tokenizer, *map(shared.TokenizerChoice, against)]
    paths = [choice.path for choice in choices]
    with watch() as progress, opened_inputs(paths, inputs, reading, labels, times=len(paths)) as sources:
        if csv_path is not None:
            read = [*(source.path for source in sources), *(str(file) for choice in choices for file in choice.files())]
            check_outputs([csv_path], inputs=read, overwrite=overwrite)
        codec = tokenizer.codec()
        found = count_inputs(codec, sources, labels=labels, by_script=by_script, **work, report=progress)
        figures = corpus_stats(codec.model, found, n_shown=count)
        others = [(other.path, count_inputs(other.codec(), sources, labels=labels, **work)) for other in choices[1:]]
    if csv_path is not None:
        _write_csv(csv_path, figures, others)
    if not this_command().json and not (csv_path is not None and is_standard_output(csv_path)):
        write_lines(_lines(figures, others))
    encode = progress.stages["encode"].seconds
    total = figures["total"]
    progress.finish(
        f"counted {total['tokens']:,} tokens in {format_bytes(total['bytes'])}, in {format_seconds(encode)} "
        f"({format_rate(total['bytes'], encode, 'bytes')})",
        tokenizer=tokenizer.path,
        tokenizer_sha256=codec.model.sha256,
        **figures,
        against=[_against_fields(figures, path, counts) for path, counts in others],
        skipped_records=found.skipped.count,
        notes=shared.skipped_notes(found.skipped),
    )


def _against_fields(figures: Mapping[str, Any], path: str, counts: InputCounts) -> dict[str, Any]:
    return {
        "tokenizer": path,
        "tokens": counts.total.total,
        "ratio": _ratio(figures["total"]["tokens"], counts.total.total),
        "groups": {name: group.total for name, group in counts.groups.items()},
    }


def _ratio(tokens: int, others: int) -> float | None:
    """Return how many tokens there are for each token of another tokenizer."""
    return tokens / others if others else None


def _write_csv(path: str, figures: Mapping[str, Any], others: Sequence[tuple[str, InputCounts]]) -> None:
    from bpejit.inspection.report_page import unique_names
    from bpejit.storage.files import replacing
    from bpejit.storage.outputs import is_standard_output

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", *figures["total"], *(f"tokens of {name}" for name in unique_names([path for path, _ in others]))])
    for group in figures["groups"]:
        writer.writerow([*group.values(), *(counts.groups[group["name"]].total for _, counts in others)])
    writer.writerow(["total", *figures["total"].values(), *(counts.total.total for _, counts in others)])
    if is_standard_output(path):
        write_lines(text.getvalue().splitlines())
        return
    with replacing(path) as file:
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))


def _lines(figures: Mapping[str, Any], others: Sequence[tuple[str, InputCounts]]) -> Iterator[str]:
    groups = figures["groups"]
    named = [*groups, {"name": "total", **figures["total"]}] if len(groups) > 1 else groups
    names = [shown_name(group["name"]) for group in named]
    rows = ((group[key] for key in (*AMOUNTS, "used_tokens")) for group in named)
    yield from aligned([("text", *AMOUNTS, "used"), *((name, *row) for name, row in zip(names, rows, strict=True))])
    yield ""
    head_of_ratios = ("tokens", "bytes each", "characters", "words", "one byte", "partial", "entropy", "Renyi")
    yield from aligned([head_of_ratios, *((name, *_ratios(group)) for name, group in zip(names, named, strict=True))])
    if others:
        yield ""
        head_of_others = ("tokens relative to", *(shown_name(path, 40) for path, _ in others))
        yield from aligned([head_of_others, *((name, *row) for name, row in zip(names, _against(named, others), strict=True))])
    if figures["scripts"]:
        yield ""
        head_of_scripts = ("script", *AMOUNTS, "bytes each", "characters", "words")
        yield from aligned([head_of_scripts, *(list(entry.values()) for entry in figures["scripts"])])
    yield ""
    in_vocab, used = figures["vocab_tokens"], figures["total"]["used_tokens"]
    yield f"used       {used:,} of {in_vocab:,} tokens ({percent(used / in_vocab)})"
    yield f"unused     {figures['unused_tokens']:,} tokens"
    yield f"Renyi efficiency relative to the vocabulary  {figure(figures['total']['vocab_renyi_efficiency'])}"
    yield ""
    yield "the most frequent tokens make up this share of the text"
    yield from aligned(
        [("tokens", "share"), *((entry["tokens"], percent(entry["share"])) for entry in figures["coverage"])], left=0
    )
    yield ""
    ranks = (
        (f"{part['first']} to {part['last']}", part["tokens"], percent(part["used"] / part["tokens"]), percent(part["share"]))
        for part in figures["ranks"]
    )
    yield from aligned([("ids", "tokens", "used", "of the text"), *ranks])
    yield ""
    classes = (
        (f"{entry['least']:,} to {entry['most']:,}" if entry["most"] > 1 else str(entry["least"]), entry["tokens"])
        for entry in figures["frequencies"]
    )
    yield from aligned([("occurrences", "tokens"), *classes])
    for title, tokens in (("most frequent", figures["most_frequent"]), ("longest used", figures["longest"])):
        if tokens:
            yield ""
            # Tokens are not aligned: their width on a terminal is not known.
            numbers = [("id", "count", "bytes"), *((str(token["id"]), token["count"], str(token["bytes"])) for token in tokens)]
            shown = [title, *(shown_token(token["token"]) for token in tokens)]
            yield from (f"{line}  {token}" for line, token in zip(aligned(numbers, left=0), shown, strict=True))


def _ratios(group: Mapping[str, Any]) -> Iterator[object]:
    yield from (group[f"{name}_per_token"] for name in AMOUNTS[:3])
    yield from (percent(group["single_byte_share"]), percent(group["partial_share"]))
    yield from (f"{group['entropy']:.2f} bits", group["renyi_efficiency"])


def _against(named: Sequence[Mapping[str, Any]], others: Sequence[tuple[str, InputCounts]]) -> Iterator[list[float | None]]:
    """Yield how many tokens each text has for each token of the other tokenizers."""
    for group in named:
        found = [counts.total if group is named[-1] else counts.groups[group["name"]] for _, counts in others]
        yield [_ratio(group["tokens"], of.total) for of in found]
