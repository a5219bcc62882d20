"""`bpejit datagen`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .command_types import command
from .count_type import Count
from .encoding_job_options import telling_what_is_kept
from .job_reports import dataset_fields, dataset_notes, describe_dataset, describe_new
from .options import LazyChoice, cluster_engine_options, complete_path
from .progress import Progress, format_bytes, format_seconds, watch
from .reporting import report_options

if TYPE_CHECKING:
    from bpejit.datagen.generation import GenerationReport


def _record_formats() -> tuple[str, ...]:
    from bpejit.t2t.record_formats.registry import record_format_names

    return record_format_names()


@command()
@click.argument("problem", metavar="PROBLEM", shell_complete=complete_path)
@click.option(
    "--data-dir",
    metavar="FOLDER",
    required=True,
    shell_complete=complete_path,
    help="Folder for the vocabularies and the shards, or a URL such as s3://bucket/data.",
)
@click.option("--overwrite", is_flag=True, help="Replace a data set that exists. Vocabularies that exist are always used.")
@click.option(
    "--tmp-dir",
    metavar="FOLDER",
    shell_complete=complete_path,
    help="Folder that a Python class may use.  [default: temporary]",
)
@click.option(
    "--format",
    "record_format",
    type=LazyChoice("format", _record_formats),
    default="tfrecord",
    show_default=True,
    metavar="NAME",
    help="Format of the shards: tfrecord, jsonl or parquet.",
)
@click.option("--seed", type=Count(0), default=0, show_default=True, metavar="N", help="Selects the order of the examples.")
@click.option("--strict", is_flag=True, help="Stop at a malformed or empty sample, instead of skipping it.")
@click.option(
    "--max-memory",
    type=Count(1 << 20, is_size=True),
    default="1G",
    show_default=True,
    metavar="SIZE",
    help="Memory for shuffling, of all workers together.",
)
@click.option(
    "--shard",
    metavar="I/N|auto",
    help="Generate only part I of N, from 0 to N - 1. auto reads SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or "
    "RANK and WORLD_SIZE. The last part to finish joins all of them.",
)
@click.option("--task-id", type=Count(0), metavar="I", help="I of --shard I/N, with --num-tasks.")
@click.option("--num-tasks", type=Count(1), metavar="N", help="N of --shard I/N, with --task-id.")
@click.option("--resume", is_flag=True, help="Continue an earlier run of the same job where it ended.")
@click.option("--dry-run", is_flag=True, help="Show the plan and the expected time, and write nothing.")
@cluster_engine_options
@report_options
def datagen(
    *,
    problem: str,
    data_dir: str,
    overwrite: bool,
    tmp_dir: str | None,
    record_format: str,
    seed: int,
    strict: bool,
    max_memory: int,
    shard: str | None,
    task_id: int | None,
    num_tasks: int | None,
    resume: bool,
    dry_run: bool,
    workers: int | None,
    engine: str,
    ray_address: str | None,
) -> None:
    """Generate training data: shards of encoded, shuffled examples.

    PROBLEM is a TOML file that describes the samples and their encoding, or MODULE:CLASS for a Python class.
    A vocabulary that does not exist in the folder of the data is built from a sample of the training set.
    A run that was interrupted or killed continues with --resume.

    \b
    Example:
        bpejit datagen translation.toml --data-dir data
        bpejit datagen translation.toml --data-dir parts --shard 0/8 --resume
        bpejit datagen problems.py:Reversal --data-dir data
    """
    if (task_id is None) != (num_tasks is None) or (task_id is not None and shard is not None):
        raise click.UsageError(
            "`--task-id` and `--num-tasks` stand for `--shard I/N`; expected both of them, or `--shard`, or none: correct the "
            "command"
        )
    if task_id is not None:
        shard = f"{task_id}/{num_tasks}"
    from bpejit.datagen.generation import generate_data
    from bpejit.datagen.problem_files import load_problem

    with watch() as progress:
        loaded = load_problem(problem)
        out = f"{data_dir.rstrip('/') or '/'}/{loaded.dataset_filename()}"
        with telling_what_is_kept(progress, out, per_input=False, job={"resume": resume}):
            report = generate_data(
                loaded,
                data_dir,
                tmp_dir=tmp_dir,
                format=record_format,
                seed=seed,
                strict=strict,
                max_memory=max_memory,
                shard=shard,
                resume=resume,
                dry_run=dry_run,
                overwrite=overwrite,
                workers=workers,
                engine=engine,
                ray_address=ray_address,
                progress=progress,
            )
    fields = {
        "data_dir": data_dir,
        **dataset_fields(report),
        "vocabularies": [str(path) for path in report.vocabularies],
        "dry_run": dry_run,
    }
    if dry_run:
        progress.finish(_describe_dataset_plan(report, out, max_memory), **fields)
        return
    progress.finish(
        _dataset_summary(report, progress, out), details=describe_dataset(report), notes=dataset_notes(report), **fields
    )


def _dataset_summary(report: GenerationReport, progress: Progress, out: str) -> str:
    if not progress.stages:  # nothing was left to do
        files = f"{len(report.paths):,} files, described by `{report.manifest}`"
        return f"{report.examples:,} examples with {report.ids:,} ids in {files}"
    what = f"part {report.part}, " if report.part and report.missing_parts else ""
    text = f"generated {what}{report.examples:,} examples with {report.ids:,} ids from {format_bytes(report.bytes)}"
    text += f"{describe_new(report, report.stages.get('vocabulary', 0.0))}; "
    if report.missing_parts:
        text = text if report.units else f"part {report.part} has no units; "
        return f"{text}{report.missing_parts} of the parts of `{out}` {'is' if report.missing_parts == 1 else 'are'} missing"
    if not report.paths:
        return f"{text}all parts are complete, and another process joins them"
    return f"{text}wrote {len(report.paths):,} files, described by `{report.manifest}`"


def _describe_dataset_plan(report: GenerationReport, out: str, max_memory: int) -> str:
    kept = f", {report.kept_units:,} of them finished by an earlier run" if report.kept_units else ""
    units = f"{report.units:,} unit{'' if report.units == 1 else 's'}"
    if report.cluster:
        units += f", {report.parts:,} part{'' if report.parts == 1 else 's'}, on {report.cluster}"
    built = ", ".join(f"`{path}`" for path in report.new_vocabularies)
    first = f"would build {built}, and " if built else "would "
    expected = ""
    if report.examples:
        expected = (
            f"; expected: {report.examples:,} examples with {report.ids:,} ids in {format_seconds(report.seconds)}, and then "
            f"shuffling with at most {format_bytes(max_memory)} of memory"
        )
    elif built:
        expected = "; the time can be estimated when the vocabulary exists"
    task = f"; memory of a task: {format_bytes(report.worker_memory)}" if report.examples and report.cluster else ""
    return f"{first}generate `{out}` from {format_bytes(report.bytes)} in {units}{kept}{expected}{task}"
