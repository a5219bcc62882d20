"""`bpejit stats`, and the arguments of the commands that count tokens."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import bpejit
from bpejit.errors import BpejitError, shorten, visible
from bpejit.inspection.names import CountingOptions

from . import shared_options as shared
from .command_types import command
from .progress import counted, format_bytes, format_rate, format_seconds, watch
from .reporting import check_json_output, fields_of, this_command, write_lines

if TYPE_CHECKING:
    from bpejit.inspection.tables import Row
    from bpejit.inspection.token_counts import GivenModel


def _parse_labels(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for value in values:
        label, _, glob = value.partition("=")
        if not label or not glob:
            raise click.BadParameter(f"{shorten(value)}; expected a label, `=`, and a glob, such as english='en/*.txt'")
        labels[glob] = label
    return labels


counting_options = shared.added(
    shared.repeated_option(
        *("--label", "labels"),
        metavar="LABEL=GLOB",
        callback=_parse_labels,
        help="Report the files that match a glob together under a label, such as a language; may be repeated.",
    ),
    shared.declared_options(CountingOptions, into="options"),
    change=lambda given: given | {"options": given["options"] | {"labels": given.pop("labels")}},
)
"""Decorator that adds the options of the functions that count tokens, which are the argument `options`, a dict."""


@contextmanager
def given_tokenizers(
    tokenizers: Sequence[shared.TokenizerChoice],
    inputs: Sequence[str],
    options: dict[str, Any],
    *,
    out: str | None = None,
    overwrite: bool = False,
) -> Iterator[list[GivenModel]]:
    """Return a context manager that yields tokenizers, and explains the order of the arguments if the block fails.

    The output `out` must not replace an input or a file of a tokenizer.
    """
    from bpejit.corpus.input_paths import list_inputs
    from bpejit.inspection.token_counts import GivenModel
    from bpejit.storage.outputs import check_outputs

    if options["labels"] and not inputs:
        raise click.UsageError("`--label` groups inputs, and there are none: name them after the tokenizer")
    try:
        if out is not None:
            files = [str(file) for tokenizer in tokenizers for file in tokenizer.files()]
            check_outputs([out], inputs=[*(list_inputs(inputs) if inputs else ()), *files], overwrite=overwrite)
        yield [GivenModel(tokenizer.path, tokenizer.model()) for tokenizer in tokenizers]
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

    with suppress(BpejitError):
        recognize(path)
        return True
    return False


@command()
@shared.tokenizer_argument
@shared.input_argument
@shared.path_option(
    "--against",
    multiple=True,
    metavar="TOKENIZER",
    help="Compare the number of tokens with that of another tokenizer; may be repeated.",
)
@counting_options
@shared.flag("--scripts", "by_script", help="Report each Unicode script as well.")
@shared.count_option("--count", least=0, default=10, text="Number of most frequent and longest tokens to show.")
@shared.path_option(
    "--csv", "csv_path", metavar="FILE", help="Write the figures of files or labels as CSV; - is standard output."
)
@shared.overwrite_option
@shared.pattern_options
def stats(
    *,
    tokenizer: shared.TokenizerChoice,
    inputs: tuple[str, ...],
    against: tuple[str, ...],
    options: dict[str, Any],
    csv_path: str | None,
    overwrite: bool,
    **shown: Any,
) -> None:
    """Report how a tokenizer encodes a corpus.

    The report is about compression, the use of the vocabulary, and the distribution of tokens.
    INPUT is one or more files or globs, or - for standard input.
    Words are separated by white space.
    The Renyi efficiency has order 2.5, relative to a uniform distribution over the tokens that occur.

    \b
    Example:
        bpejit stats tokenizer corpus.txt
        bpejit stats tokenizer 'shards/*.txt' --label shards='shards/*' --scripts
        bpejit stats tokenizer corpus.txt --against my-tokenizer --csv figures.csv
    """
    if csv_path is not None:
        check_json_output(csv_path, "--csv")
    for path in inputs:
        if path.endswith(".csv") and "*" not in path and not Path(path).exists():
            name = visible(path)
            raise click.UsageError(f"the input `{name}` does not exist; to write the figures to this file, give `--csv {name}`")
    choices = [tokenizer, *map(shared.TokenizerChoice, against)]
    with watch() as progress, given_tokenizers(choices, inputs, options, out=csv_path, overwrite=overwrite) as (first, *others):
        found = bpejit.stats(first, inputs, against=others, **options, **shown, progress=progress)
    is_printed = csv_path is not None and _write_csv(csv_path, found.rows)
    if not (this_command().json or is_printed):
        write_lines(found.lines())
    encode = progress.stages["encode"].seconds
    fields = found.to_dict()
    n_bytes = fields["total"]["bytes"]
    progress.finish(
        f"counted {fields['total']['tokens']:,} tokens in {format_bytes(n_bytes)}, in {format_seconds(encode)} "
        f"({format_rate(n_bytes, encode, 'bytes')})",
        **fields,
        notes=shared.skipped_notes(found.skipped),
    )


@command("count-tokens")
@shared.input_argument
@shared.tokenizer_option
@shared.plain_option("--each", type=click.Choice(["document"]), help="Write the number of each document, one a line.")
@shared.input_options
@shared.engine_options
def count_tokens_command(
    *,
    inputs: tuple[str, ...],
    tokenizer: shared.TokenizerChoice,
    each: str | None,
    reading: dict[str, Any],
    work: dict[str, Any],
) -> None:
    """Count the tokens of text, without writing them.

    The number is written to standard output.
    INPUT is one or more files, folders, globs or URLs, or - for standard input.
    Documents and tokens are those of bpejit encode.

    \b
    Example:
        bpejit count-tokens corpus.txt
        bpejit count-tokens 'shards/*.txt' --each document
        zcat corpus.txt.gz | bpejit count-tokens -
    """
    from bpejit.encoding.codec import Codec
    from bpejit.engines import checked_work
    from bpejit.jobs.file_encoding import count_documents
    from bpejit.jobs.job_folder import Totals

    is_json = this_command().json
    totals = Totals()
    listed: list[int] = []
    with watch() as progress:
        codec = Codec(tokenizer.model())
        sources = shared.read_sources(inputs, reading)
        begun = progress.seconds
        for counts in count_documents(codec, sources, totals, checked_work(work | {"progress": progress})):
            if each and is_json:
                listed += counts.tolist()
            elif each:
                write_lines(map(str, counts.tolist()))
        seconds = progress.seconds - begun
    if not (each or is_json):
        write_lines([str(totals.tokens)])
    fields: dict[str, Any] = {"tokenizer": tokenizer.path, **fields_of(totals, "tokens", "documents", "bytes")}
    fields |= {"tokens_of_documents": listed if each else None, "skipped_records": totals.skipped.count}
    progress.finish(
        f"counted {counted(totals.tokens, 'token')} of {counted(totals.documents, 'document')}, {format_bytes(totals.bytes)}, "
        f"in {format_seconds(seconds)} ({format_rate(totals.bytes, seconds, 'bytes')})",
        notes=shared.skipped_notes(totals.skipped),
        **fields,
    )


def _write_csv(path: str, rows: Sequence[Row]) -> bool:
    """Write the figures as CSV, and return True if they went to standard output."""
    from bpejit.storage.files import replacing
    from bpejit.storage.outputs import is_standard_output

    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if is_standard_output(path):
        write_lines(text.getvalue().splitlines())
        return True
    with replacing(path) as file:
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))
    return False
