"""`bpejit report`."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from .command_types import command
from .counted_inputs import explaining_order, label_option, repeatable_sources, skipped_notes
from .options import (
    complete_path,
    engine_options,
    input_options,
    out_option,
    overwrite_option,
    pattern_options,
    read_codec,
)
from .progress import format_bytes, format_seconds, watch
from .reporting import check_json_output, report_options, wrote

N_SAMPLES = 6
"""Number of inputs whose beginning is shown."""

SAMPLE_BYTES = 600
"""Bytes of a sample text."""


@command()
@click.argument("tokenizer_path", metavar="TOKENIZER", shell_complete=complete_path)
@click.argument("inputs", metavar="[INPUT]...", nargs=-1, shell_complete=complete_path)
@out_option("Page to write, such as report.html, or - for standard output.", required=True)
@overwrite_option
@click.option(
    "--against", multiple=True, metavar="TOKENIZER", shell_complete=complete_path, help="Another tokenizer; may be repeated."
)
@label_option
@input_options
@engine_options
@pattern_options
@report_options
def report(
    *,
    tokenizer_path: str,
    inputs: tuple[str, ...],
    out: str,
    overwrite: bool,
    against: tuple[str, ...],
    labels: dict[str, str],
    reading: dict[str, Any],
    workers: int | None,
    engine: str,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
) -> None:
    """Write a page about a tokenizer: figures, plots, all tokens with their counts and merge trees, and sample texts.

    INPUT is files or globs, or - for standard input.
    The page is one file that loads nothing from the network.
    Its plots need matplotlib: pip install 'bpejit[plot]'.

    \b
    Example:
        bpejit report tokenizer corpus.txt --out report.html
        bpejit report tokenizer corpus.txt --against my-tokenizer --out comparison.html
    """
    check_json_output(out)
    from bpejit.formats.recognize import tokenizer_files
    from bpejit.inspection.differing_texts import find_differing_texts, read_sample
    from bpejit.inspection.plots import new_axes
    from bpejit.inspection.report_page import ReportedTokenizer, report_page, unique_names
    from bpejit.inspection.token_counts import count_inputs
    from bpejit.storage.files import replacing
    from bpejit.storage.outputs import check_outputs, is_standard_output

    begun = time.perf_counter()
    new_axes()  # if matplotlib is missing, before the work
    paths = [tokenizer_path, *against]
    order, opened = explaining_order(paths, inputs), repeatable_sources(inputs, reading, labels, times=len(paths) + 2)
    with watch() as progress, order, opened as sources:
        read = [source.path for source in sources]
        check_outputs([out], inputs=[*read, *(file for path in paths for file in tokenizer_files(path))], overwrite=overwrite)
        codecs = [read_codec(tokenizer_path, pattern, special_tokens, unicode)]
        codecs += [read_codec(path, None, None, None) for path in against]
        tokenizers = []
        for name, codec in zip(unique_names(paths), codecs, strict=True):
            found = None
            if sources:
                found = count_inputs(
                    codec, sources, labels=labels, by_script=True, workers=workers, engine=engine, report=progress
                )
            tokenizers.append(ReportedTokenizer(name, codec, found))
        samples = [b"\n".join(read_sample(codecs[0], source, SAMPLE_BYTES)) for source in sources[:N_SAMPLES]]
        differing = find_differing_texts(codecs[0], codecs[1], sources, n_texts=6) if against and sources else []
        page = report_page(tokenizers, [sample for sample in samples if sample], differing).encode()
        if is_standard_output(out):
            sys.stdout.buffer.write(page)
        else:
            with replacing(out) as file:
                file.write(page)
    seconds = time.perf_counter() - begun - progress.compile_seconds
    first = tokenizers[0].counts
    progress.finish(
        f"{wrote(out)} ({format_bytes(len(page))}) in {format_seconds(seconds)}",
        out=out,
        bytes=len(page),
        tokenizers=[{"path": path, "sha256": codec.model.sha256} for path, codec in zip(paths, codecs, strict=True)],
        tokens=None if first is None else first.total.total,
        skipped_records=0 if first is None else first.skipped.count,
        notes=skipped_notes(first),
        seconds=seconds,
    )
