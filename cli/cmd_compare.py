"""`bpejit compare` and `bpejit report`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .cmd_stats import explaining_order, label_option, repeatable_sources, skipped_notes
from .command_types import Count, command
from .output_lines import write_lines
from .progress import format_bytes, format_seconds, watch
from .reporting import check_json_output, json_text, report_options, wants_json, wrote
from .shared_options import (
    complete_path,
    engine_options,
    input_options,
    out_option,
    overwrite_option,
    pattern_options,
    read_codec,
)
from .text_output import (
    aligned,
    color_console,
    color_option,
    optional_number,
    percent,
    separator,
    shown_name,
    shown_token,
    styled_tokens,
)

if TYPE_CHECKING:
    from rich.console import Console

    from bpejit.encoding.codec import Codec
    from bpejit.inspection.differing_texts import DifferingText
    from bpejit.inspection.token_counts import InputCounts
    from bpejit.inspection.vocabulary_measures import VocabularyComparison

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


@command()
@click.argument("first", metavar="A", shell_complete=complete_path)
@click.argument("second", metavar="B", shell_complete=complete_path)
@click.argument("inputs", metavar="[INPUT]...", nargs=-1, shell_complete=complete_path)
@label_option
@click.option(
    "--count", type=Count(0), default=10, show_default=True, metavar="N", help="Number of tokens and ranks to show, 0 for none."
)
@click.option(
    "--texts", "n_texts", type=Count(0), default=3, show_default=True, metavar="N", help="Number of differing texts to show."
)
@color_option
@input_options
@engine_options
@report_options
def compare(
    *,
    first: str,
    second: str,
    inputs: tuple[str, ...],
    labels: dict[str, str],
    count: int,
    n_texts: int,
    color: str,
    reading: dict[str, Any],
    workers: int | None,
    engine: str,
) -> None:
    """Compare two tokenizers: their vocabularies, the order of their merges, and how they encode texts.

    A and B are tokenizers; INPUT is files or globs, or - for standard input.
    The texts that differ most are looked for in the first 4 MB of each input.

    \b
    Example:
        bpejit compare tokenizer my-tokenizer
        bpejit compare tokenizer my-tokenizer corpus.txt --texts 5
    """
    import time

    from bpejit.inspection.differing_texts import find_differing_texts
    from bpejit.inspection.token_counts import count_inputs
    from bpejit.inspection.vocabulary_measures import compare_vocabularies

    begun = time.perf_counter()
    order, opened = explaining_order([first, second], inputs), repeatable_sources(inputs, reading, labels, times=3)
    with watch() as progress, order, opened as sources:
        codecs = [read_codec(path, None, None, None) for path in (first, second)]
        found = compare_vocabularies(codecs[0].model, codecs[1].model, n_rows=count)
        counts = [count_inputs(codec, sources, labels=labels, workers=workers, engine=engine) for codec in codecs if sources]
        texts = find_differing_texts(codecs[0], codecs[1], sources, n_texts=n_texts) if sources and n_texts else []
    if not wants_json():
        names = f"A {shown_name(Path(first).name, 30)}", f"B {shown_name(Path(second).name, 30)}"
        write_lines(_vocabulary_lines(codecs, found, names, count))
        if counts:
            write_lines(["", *aligned(_count_rows(counts, names))])
        _write_texts(codecs, texts, names, color_console(color))
    progress.finish(
        "",
        tokenizers=[{"path": path, "sha256": codec.model.sha256} for path, codec in zip((first, second), codecs, strict=True)],
        vocabulary=_vocabulary_fields(found),
        groups=_group_fields(counts),
        texts=[_text_fields(codecs, entry) for entry in texts],
        skipped_records=counts[0].skipped.count if counts else 0,
        notes=skipped_notes(counts[0] if counts else None),
        seconds=time.perf_counter() - begun - progress.compile_seconds,
    )


def _vocabulary_lines(
    codecs: Sequence[Codec], found: VocabularyComparison, names: tuple[str, str], count: int
) -> Iterator[str]:
    sizes = [len(codec.model.tokens) for codec in codecs]
    rows = [
        ("vocabulary", *names),
        ("tokens", *(f"{size:,}" for size in sizes)),
        ("shared", *(f"{found.shared:,} ({percent(found.shared / size)})" for size in sizes)),
        ("alone", f"{len(found.only_first):,}", f"{len(found.only_second):,}"),
        ("special alone", f"{len(found.only_first_special):,}", f"{len(found.only_second_special):,}"),
    ]
    yield from aligned(rows)
    yield ""
    yield f"{found.same_ids:,} shared tokens have the same id"
    yield f"the first {found.same_merges:,} merges are the same"
    yield f"rank correlation of the shared tokens  {optional_number(found.rank_correlation)}"
    for name, tokens in zip(names, (found.only_first, found.only_second), strict=True):
        if tokens and count:
            shown = "  ".join(shown_token(token, 30) for token in tokens[:count])
            yield f"only in {name}  {shown}{'  ...' if len(tokens) > count else ''}"
    if found.rows:
        yield ""
        table = [("rank", names[0], "rank in B", names[1], "rank in A")]
        for row in found.rows:
            left, right = (("-" if token is None else shown_token(token, 30)) for token in (row.first, row.second))
            ranks = (("-" if rank is None else f"{rank}") for rank in (row.rank_of_first, row.rank_of_second))
            table.append((f"{row.rank}", left, next(ranks), right, next(ranks)))
        yield from aligned(table, left=5)


def _count_rows(counts: Sequence[InputCounts], names: tuple[str, str]) -> Iterator[tuple[str, ...]]:
    yield "text", "bytes", f"tokens of {names[0]}", f"tokens of {names[1]}", "ratio"
    groups = counts[0].groups
    total = [("total", [found.total for found in counts])] if len(groups) > 1 else []
    for name, of_group in [*((shown_name(name), [found.groups[name] for found in counts]) for name in groups), *total]:
        numbers = [entry.total for entry in of_group]
        ratio = numbers[0] / numbers[1] if numbers[1] else None
        yield name, f"{of_group[0].measures.bytes:,}", *(f"{number:,}" for number in numbers), optional_number(ratio)


def _write_texts(
    codecs: Sequence[Codec], texts: Sequence[DifferingText], names: tuple[str, str], console: Console | None
) -> None:
    from bpejit.inspection.token_rows import plain_tokens, token_rows

    for entry in texts:
        write_lines(["", f"{shown_name(entry.path)}: {entry.tokens[0]} and {entry.tokens[1]} tokens, ratio {entry.ratio:.2f}"])
        for name, codec in zip(names, codecs, strict=True):
            rows = token_rows(codec, entry.text)
            write_lines([f"  {name}"])
            if console is None:
                write_lines(f"  {plain_tokens(rows, separator())}".split("\n"))
            else:
                console.print(styled_tokens(rows), soft_wrap=True)


def _vocabulary_fields(found: VocabularyComparison) -> dict[str, Any]:
    return {
        "shared": found.shared,
        "same_ids": found.same_ids,
        "only_first": [json_text(token) for token in found.only_first],
        "only_second": [json_text(token) for token in found.only_second],
        "only_first_special": found.only_first_special,
        "only_second_special": found.only_second_special,
        "same_merges": found.same_merges,
        "rank_correlation": found.rank_correlation,
        "ranks": [
            {
                "rank": row.rank,
                "first": None if row.first is None else json_text(row.first),
                "second": None if row.second is None else json_text(row.second),
                "rank_of_first": row.rank_of_first,
                "rank_of_second": row.rank_of_second,
            }
            for row in found.rows
        ],
    }


def _group_fields(counts: Sequence[InputCounts]) -> list[dict[str, Any]]:
    if not counts:
        return []
    fields = []
    for name, group in counts[0].groups.items():
        numbers = [group.total, counts[1].groups[name].total]
        ratio = numbers[0] / numbers[1] if numbers[1] else None
        fields.append({"name": name, "bytes": group.measures.bytes, "tokens": numbers, "ratio": ratio})
    return fields


def _text_fields(codecs: Sequence[Codec], entry: DifferingText) -> dict[str, Any]:
    from bpejit.inspection.token_rows import token_rows

    tokens = [[json_text(row.data) for row in token_rows(codec, entry.text)] for codec in codecs]
    return {"path": entry.path, "text": json_text(entry.text), "ratio": entry.ratio, "tokens": tokens}
