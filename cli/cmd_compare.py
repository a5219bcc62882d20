"""`bpejit compare` and `bpejit report`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.inspection.tables import Row, figure, percent

from . import shared_options as shared
from .cmd_stats import label_option, opened_inputs
from .command_types import command
from .progress import format_bytes, format_seconds, watch
from .reporting import check_json_output, this_command, write_lines, wrote
from .text_output import aligned, color_console, color_option, separator, shown_name, shown_token, styled_rows

if TYPE_CHECKING:
    from rich.console import Console

    from bpejit.encoding.codec import Codec

N_SAMPLES = 6  # inputs whose beginning is shown
SAMPLE_BYTES = 600  # of a sample text


@command()
@shared.tokenizer_argument
@shared.path_argument("inputs", "[INPUT]...", nargs=-1)
@shared.out_option("Page to write, such as report.html, or - for standard output.", required=True)
@shared.path_option("--against", multiple=True, metavar="TOKENIZER", help="Another tokenizer; may be repeated.")
@label_option
@shared.input_options
@shared.engine_options
@shared.pattern_options
def report(
    *,
    tokenizer: shared.TokenizerChoice,
    inputs: tuple[str, ...],
    out: str,
    overwrite: bool,
    against: tuple[str, ...],
    labels: dict[str, str],
    reading: dict[str, Any],
    work: dict[str, Any],
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
    from bpejit.inspection.differing_texts import find_differing_texts, read_sample
    from bpejit.inspection.plots import new_axes
    from bpejit.inspection.report_page import ReportedTokenizer, report_page, unique_names
    from bpejit.inspection.token_counts import count_inputs
    from bpejit.storage.files import replacing
    from bpejit.storage.outputs import is_standard_output

    new_axes()  # if matplotlib is missing, before the work
    choices = [tokenizer, *map(shared.TokenizerChoice, against)]
    paths = [choice.path for choice in choices]
    with (
        watch() as progress,
        opened_inputs(choices, inputs, reading, labels, times=len(paths) + 2, out=out, overwrite=overwrite) as sources,
    ):
        codecs = [choice.codec() for choice in choices]
        tokenizers = [
            ReportedTokenizer(
                name,
                codec,
                count_inputs(codec, sources, labels=labels, by_script=True, **work, report=progress) if sources else None,
            )
            for name, codec in zip(unique_names(paths), codecs, strict=True)
        ]
        samples = [b"\n".join(read_sample(codecs[0], source, SAMPLE_BYTES)) for source in sources[:N_SAMPLES]]
        differing = find_differing_texts(codecs[0], codecs[1], sources, n_texts=6) if against and sources else []
        page = report_page(tokenizers, [sample for sample in samples if sample], differing).encode()
        if is_standard_output(out):
            sys.stdout.buffer.write(page)
        else:
            with replacing(out) as file:
                file.write(page)
    first = tokenizers[0].counts
    progress.finish(
        f"{wrote(out)} ({format_bytes(len(page))}) in {format_seconds(progress.seconds)}",
        out=out,
        bytes=len(page),
        tokenizers=_hashes(paths, codecs),
        tokens=None if first is None else first.total.total,
        skipped_records=0 if first is None else first.skipped.count,
        notes=shared.skipped_notes(None if first is None else first.skipped),
    )


def _hashes(paths: Sequence[str], codecs: Sequence[Codec]) -> list[dict[str, str]]:
    return [{"path": path, "sha256": codec.model.sha256} for path, codec in zip(paths, codecs, strict=True)]


@command()
@shared.path_argument("first", "A")
@shared.path_argument("second", "B")
@shared.path_argument("inputs", "[INPUT]...", nargs=-1)
@label_option
@shared.count_option("--count", least=0, default=10, text="Number of tokens and ranks to show, 0 for none.")
@shared.count_option("--texts", "n_texts", least=0, default=3, text="Number of differing texts to show.")
@color_option
@shared.input_options
@shared.engine_options
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
    work: dict[str, Any],
) -> None:
    """Compare two tokenizers: their vocabularies, the order of their merges, and how they encode texts.

    A and B are tokenizers; INPUT is files or globs, or - for standard input.
    The texts that differ most are looked for in the first 4 MB of each input.

    \b
    Example:
        bpejit compare tokenizer my-tokenizer
        bpejit compare tokenizer my-tokenizer corpus.txt --texts 5
    """
    from bpejit.inspection.differing_texts import find_differing_texts
    from bpejit.inspection.token_counts import count_inputs
    from bpejit.inspection.token_rows import token_rows
    from bpejit.inspection.vocabulary_measures import compare_vocabularies

    choices = [shared.TokenizerChoice(path) for path in (first, second)]
    with watch() as progress, opened_inputs(choices, inputs, reading, labels, times=3) as sources:
        codecs = [choice.codec() for choice in choices]
        found = compare_vocabularies(codecs[0].model, codecs[1].model, n_rows=count)
        counts = [count_inputs(codec, sources, labels=labels, **work) for codec in codecs if sources]
        texts = find_differing_texts(codecs[0], codecs[1], sources, n_texts=n_texts) if sources and n_texts else []
    groups = []
    for name, group in counts[0].groups.items() if counts else ():
        groups.append(_compared(name, group.measures.bytes, [group.total, counts[1].groups[name].total]))
    if not this_command().json:
        names = f"A {shown_name(Path(first).name, 30)}", f"B {shown_name(Path(second).name, 30)}"
        write_lines(_vocabulary_lines(codecs, found, names, count))
        if counts:
            total = _compared("total", counts[0].total.measures.bytes, [found.total.total for found in counts])
            lines: list[Sequence[object]] = [("text", "bytes", *(f"tokens of {name}" for name in names), "ratio")]
            rows = [*groups, total] if len(groups) > 1 else groups
            lines += [(shown_name(row["name"]), row["bytes"], *row["tokens"], row["ratio"]) for row in rows]
            write_lines(["", *aligned(lines)])
        _write_texts(codecs, texts, names, color_console(color))
    progress.finish(
        "",
        tokenizers=_hashes([first, second], codecs),
        vocabulary=found,
        groups=groups,
        texts=[
            {**entry, "tokens": [[row.data for row in token_rows(codec, entry["text"])] for codec in codecs]} for entry in texts
        ],
        skipped_records=counts[0].skipped.count if counts else 0,
        notes=shared.skipped_notes(counts[0].skipped if counts else None),
    )


def _compared(name: str, n_bytes: int, tokens: list[int]) -> Row:
    """Return the numbers of tokens of a text, and their ratio."""
    return {"name": name, "bytes": n_bytes, "tokens": tokens, "ratio": tokens[0] / tokens[1] if tokens[1] else None}


def _vocabulary_lines(codecs: Sequence[Codec], found: Row, names: tuple[str, str], count: int) -> Iterator[str]:
    sizes = [len(codec.model.tokens) for codec in codecs]
    shared = found["shared"]
    alone = (found["only_first"], found["only_second"])
    yield from aligned(
        [
            ("vocabulary", *names),
            ("tokens", *sizes),
            ("shared", *(f"{shared:,} ({percent(shared / size)})" for size in sizes)),
            ("alone", *map(len, alone)),
            ("special alone", len(found["only_first_special"]), len(found["only_second_special"])),
        ]
    )
    yield ""
    yield f"{found['same_ids']:,} shared tokens have the same id"
    yield f"the first {found['same_merges']:,} merges are the same"
    yield f"rank correlation of the shared tokens  {figure(found['rank_correlation'])}"
    for name, tokens in zip(names, alone, strict=True):
        if tokens and count:
            shown = "  ".join(shown_token(token, 30) for token in tokens[:count])
            yield f"only in {name}  {shown}{'  ...' if len(tokens) > count else ''}"
    if found["ranks"]:
        yield ""
        table = [("rank", names[0], "rank in B", names[1], "rank in A")]
        for row in found["ranks"]:
            left, right = (("-" if row[name] is None else shown_token(row[name], 30)) for name in ("first", "second"))
            ranks = [("-" if row[name] is None else str(row[name])) for name in ("rank_of_first", "rank_of_second")]
            table.append((str(row["rank"]), left, ranks[0], right, ranks[1]))
        yield from aligned(table, left=5)


def _write_texts(codecs: Sequence[Codec], texts: Sequence[Row], names: tuple[str, str], console: Console | None) -> None:
    from bpejit.inspection.token_rows import plain_tokens, token_rows

    for entry in texts:
        ours, theirs = entry["tokens"]
        write_lines(["", f"{shown_name(entry['path'])}: {ours} and {theirs} tokens, ratio {entry['ratio']:.2f}"])
        for name, codec in zip(names, codecs, strict=True):
            rows = token_rows(codec, entry["text"])
            write_lines([f"  {name}"])
            if console is None:
                write_lines(f"  {plain_tokens(rows, separator())}".split("\n"))
            else:
                console.print(styled_rows(rows), soft_wrap=True)
