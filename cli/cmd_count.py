"""`bpejit count` and `bpejit merge-counts`."""

from __future__ import annotations

from typing import Any

import click

from .command_types import command
from .count_options import (
    DEFAULT_PATTERN,
    chosen_special_tokens,
    count_setting_options,
    counts_fields,
    counts_summary,
    memory_options,
    repeated_inputs_option,
    skipped_records,
)
from .counting_plans import dry_run_option, finish_plan
from .options import (
    cluster_engine_options,
    complete_path,
    input_options,
    missing_input,
    out_option,
    overwrite_option,
    piped_input,
    sampling_options,
)
from .progress import format_seconds, watch
from .reporting import report_options, wrote


@command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, shell_complete=complete_path)
@out_option("File to write the counts to.", required=True)
@overwrite_option
@count_setting_options
@input_options
@sampling_options
@click.option(
    "--shard",
    metavar="I/N|auto",
    help="Count only part I of N, from 0 to N - 1, for `bpejit merge-counts`. auto reads SLURM_ARRAY_TASK_ID and "
    "SLURM_ARRAY_TASK_COUNT, or RANK and WORLD_SIZE.",
)
@memory_options
@dry_run_option
@cluster_engine_options
@report_options
def count(
    *,
    inputs: tuple[str, ...],
    out: str,
    overwrite: bool,
    pattern: str | None,
    special_tokens: tuple[str, ...],
    no_special_tokens: bool,
    normalize_newlines: bool,
    unicode: str | None,
    reading: dict[str, Any],
    sources: dict[str, int] | None,
    max_bytes: int | None,
    seed: int,
    shard: str | None,
    max_memory: int | None,
    temporary_folder: str | None,
    dry_run: bool,
    workers: int | None,
    engine: str,
    ray_address: str | None,
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
    inputs = inputs or (() if sources else piped_input())
    if not inputs and not sources:
        raise missing_input(click.get_current_context(), ", or give files with `--source`")
    special_tokens = chosen_special_tokens(special_tokens, no_special_tokens)
    import bpejit
    from bpejit.corpus.blocks import skipped_note

    with watch() as progress:
        counting: dict[str, Any] = {
            "pattern": pattern or DEFAULT_PATTERN,
            "special_tokens": special_tokens,
            "normalize_newlines": normalize_newlines,
            "unicode": unicode,
            **reading,
            "sources": sources,
            "max_bytes": max_bytes,
            "seed": seed,
            "max_memory": max_memory,
            "workers": workers,
            "engine": engine,
            "ray_address": ray_address,
        }
        if dry_run:
            plan = bpejit.plan_count(inputs, **counting)
        else:
            counts = bpejit.count(
                inputs,
                out=out,
                shard=shard,
                temporary_folder=temporary_folder,
                overwrite=overwrite,
                progress=progress,
                **counting,
            )
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
    from bpejit.counts.header import missing_counts

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
