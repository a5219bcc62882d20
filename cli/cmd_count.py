"""`bpejit count`, `bpejit merge-counts` and `bpejit counts`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bpejit.counting.count_options import CountOptions, PlanOptions, SplitSettings
from bpejit.options import chosen

from .command_types import Group, command
from .counting_options import (
    counts_fields,
    counts_summary,
    dry_run_option,
    finish_plan,
    options_of_counting,
    repeated_inputs_option,
    skipped_records,
)
from .progress import format_seconds, watch
from .reporting import check_json_output, debug_option, report_options, wants_json, write_json, write_table, wrote
from .shared_options import (
    complete_path,
    missing_input,
    out_option,
    overwrite_option,
    piped_input,
)
from .text_output import quoted

counts_argument = click.argument("path", metavar="COUNTS", shell_complete=complete_path)


@click.group(cls=Group)
@debug_option
def counts() -> None:
    """Show counts files, and convert from and to tab-separated text.

    \b
    Example:
        bpejit counts info corpus.counts
        bpejit counts export corpus.counts --out words.tsv
        bpejit counts import words.tsv --out again.counts
    """


@command("info")
@counts_argument
@click.option("--verify", is_flag=True, help="Read all of the file, and compare its SHA-256.")
@report_options
def describe_counts(*, path: str, verify: bool) -> None:
    """Show the settings, inputs and totals of a counts file.

    \b
    Example:
        bpejit counts info corpus.counts
        bpejit counts info corpus.counts --verify --json
    """
    import bpejit
    from bpejit.splitting.presets import pattern_source

    found = bpejit.Counts.load(path)
    if verify:
        for _ in found.blocks():
            pass
    fields = {
        "path": path,
        "file_bytes": Path(path).stat().st_size,
        "pattern": found.pattern if pattern_source(found.pattern) != found.pattern else None,
        "pattern_source": pattern_source(found.pattern),
        "unicode": found.unicode,
        "special_tokens": list(found.special_tokens),
        "normalize_newlines": found.normalize_newlines,
        **counts_fields(found),
        "inputs": list(found.inputs),
        "verified": verify,
    }
    if wants_json():
        write_json(**fields)
        return
    patterns = [found.pattern] if isinstance(found.pattern, str) else found.pattern
    write_table(
        [
            ("counts file", path),
            ("file size", f"{fields['file_bytes']:,} bytes{', verified' if verify else ''}"),
            ("pre-tokens", f"{found.n_pretokens:,}, {len(found):,} distinct"),
            ("text", f"{found.n_bytes:,} bytes of {len(found.inputs):,} input{'' if len(found.inputs) == 1 else 's'}"),
            ("pattern", ", then ".join(patterns)),
            ("unicode", found.unicode),
            ("special tokens", " ".join(quoted(token.encode("utf-8", "surrogateescape")) for token in found.special_tokens)),
            ("newlines", "normalized" if found.normalize_newlines else "unchanged"),
        ]
    )


@command("export")
@counts_argument
@out_option("File to write; - is standard output.", default="-", show_default=True)
@overwrite_option
@report_options
def export_counts(*, path: str, out: str, overwrite: bool) -> None:
    """Write counts as tab-separated text: a line `count<TAB>word` for each distinct pre-token.

    Lines are sorted by the bytes of the words. In a word, \\\\, \\t, \\n and \\r are a backslash, a tab and the ends of lines,
    and \\xNN is a byte that is not part of UTF-8, or another control character.

    \b
    Example:
        bpejit counts export corpus.counts --out words.tsv
        bpejit counts export corpus.counts | sort -rn | head
    """
    import bpejit
    from bpejit.storage.outputs import is_standard_output

    check_json_output(out)
    with watch() as progress:
        found = bpejit.Counts.load(path)
        found.to_tsv(out, overwrite=overwrite)
        seconds = progress.seconds
    summary = "" if is_standard_output(out) else f"exported {counts_summary(found)} in {format_seconds(seconds)}; {wrote(out)}"
    progress.finish(summary, out=out, **counts_fields(found), seconds=seconds)


@command("import")
@click.argument("path", metavar="TSV", shell_complete=complete_path)
@out_option("File to write the counts to.", required=True)
@overwrite_option
@options_of_counting(SplitSettings)
@report_options
def import_counts(
    *,
    path: str,
    out: str,
    overwrite: bool,
    options: dict[str, Any],
) -> None:
    """Read tab-separated text that was counted elsewhere, a line `count<TAB>word` for each word, in any order.

    Words are escaped as in the output of `bpejit counts export`.
    The options say how the words were found. They become part of tokenizers that are trained from the counts.

    \b
    Example:
        bpejit counts import words.tsv --pattern gpt2 --out words.counts
    """
    import bpejit
    from bpejit.storage.outputs import check_outputs

    check_outputs([out], inputs=[path], overwrite=overwrite)
    with watch() as progress:
        found = bpejit.Counts.from_tsv(path, **options)
        found.save(out, overwrite=overwrite)
        seconds = progress.seconds
    progress.finish(
        f"imported {counts_summary(found)} in {format_seconds(seconds)}; {wrote(out)}",
        out=out,
        **counts_fields(found),
        seconds=seconds,
    )


for _command in (describe_counts, export_counts, import_counts):
    counts.add_command(_command)


@command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, shell_complete=complete_path)
@out_option("File to write the counts to.", required=True)
@overwrite_option
@options_of_counting(CountOptions)
@click.option(
    "--shard",
    metavar="I/N|auto",
    help="Count only part I of N, from 0 to N - 1, for `bpejit merge-counts`. auto reads SLURM_ARRAY_TASK_ID and "
    "SLURM_ARRAY_TASK_COUNT, or RANK and WORLD_SIZE.",
)
@dry_run_option
@report_options
def count(
    *, inputs: tuple[str, ...], out: str, overwrite: bool, options: dict[str, Any], shard: str | None, dry_run: bool
) -> None:
    """Count the distinct pre-tokens of text.

    INPUT is one or more files, folders, globs or URLs, or - for standard input.
    Counts of several corpora are merged by `bpejit merge-counts`, and `bpejit train --counts` trains from them.
    The tokenizer is the same as one trained on the text.

    \b
    Example:
        bpejit count corpus.txt --out corpus.counts
        bpejit count corpus.txt --pattern cl100k --max-memory 2G --out all.counts
        bpejit count --source corpus.txt=2 --source more.txt=1 --out weighted.counts
        bpejit count corpus.txt --shard 0/4 --out part-0.counts
    """
    inputs = inputs or (() if options["sources"] else piped_input())
    if not inputs and not options["sources"]:
        raise missing_input(click.get_current_context(), ", or give files with `--source`")
    import bpejit
    from bpejit.corpus.blocks import skipped_note

    with watch() as progress:
        if dry_run:
            plan = bpejit.plan_count(inputs, **chosen(PlanOptions, options))
        else:
            counts = bpejit.count(inputs, out=out, shard=shard, overwrite=overwrite, progress=progress, **options)
        seconds = progress.seconds
    if dry_run:
        finish_plan(progress, plan, out, after="and then sorting and writing the distinct ones")
        return
    first = [record for entry in counts.header.inputs for record in entry.get("first_skipped", ())]
    n_skipped = skipped_records(counts)
    progress.finish(
        f"counted {counts_summary(counts)} in {format_seconds(seconds)}; {wrote(out)}",
        notes=[skipped_note(n_skipped, first)] if n_skipped else [],
        out=out,
        **counts_fields(counts),
        seconds=seconds,
    )


@command("merge-counts")
@click.argument("inputs", metavar="COUNTS...", nargs=-1, required=True, shell_complete=complete_path)
@out_option("File to write the merged counts to.", required=True)
@overwrite_option
@repeated_inputs_option
@report_options
def merge_counts_command(*, inputs: tuple[str, ...], out: str, overwrite: bool, allow_repeated_inputs: bool) -> None:
    """Merge files written by `bpejit count`.

    Neither the order of the files nor any grouping changes the result, and memory does not grow with their size.
    Files that differ in pattern, version of Unicode, special tokens or normalization of newlines are refused.
    So are files that have counts of the same input.

    \b
    Example:
        bpejit merge-counts one.counts two.counts --out both.counts
    """
    import bpejit
    from bpejit.counting.header import missing_counts

    with watch() as progress:
        counts = bpejit.merge_counts(
            inputs, out, overwrite=overwrite, allow_repeated_inputs=allow_repeated_inputs, progress=progress
        )
        seconds = progress.seconds
    missing = missing_counts(counts.header)
    progress.finish(
        f"merged {len(inputs):,} file{'s' if len(inputs) > 1 else ''}, {counts_summary(counts)}, in {format_seconds(seconds)}; "
        f"{wrote(out)}",
        notes=[missing] if missing else [],
        out=out,
        **counts_fields(counts),
        seconds=seconds,
    )
