"""The options of `bpejit encode` and `bpejit datagen` as jobs, and what they report."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from bpejit.errors import shorten

from .command_types import Count
from .output_lines import shell_line
from .progress import Progress, format_bytes, format_rate, format_seconds
from .shared_options import Function

if TYPE_CHECKING:
    from bpejit.jobs.file_encoding import EncodeReport
    from bpejit.t2t.datagen.generation import GenerationReport


def job_fields(report: EncodeReport) -> dict[str, Any]:
    """Return the fields of the JSON report about an encoding job."""
    return {
        "documents": report.documents,
        "left_out": report.left_out,
        "skipped_records": report.skipped.count,
        **_run_fields(report),
        "parts": report.parts,
        "cluster": report.cluster or None,
        "timing": dict(report.stages),
    }


def dataset_fields(report: GenerationReport) -> dict[str, Any]:
    """Return the fields of the JSON report about a data set."""
    return {
        "examples": report.examples,
        "ids": report.ids,
        "bytes": report.bytes,
        "skipped_samples": report.skipped.count,
        **_run_fields(report),
        "timing": dict(report.stages),
        "seconds": report.seconds,
    }


def _run_fields(report: EncodeReport | GenerationReport) -> dict[str, Any]:
    """Return the fields that reports about all jobs have."""
    return {
        "outputs": [str(path) for path in report.paths],
        "manifest": None if report.manifest is None else str(report.manifest),
        "units": report.units,
        "kept_units": report.kept_units,
        "missing_parts": report.missing_parts,
        "new_bytes": report.new_bytes,
        "part": report.part or None,
        "peak_memory": report.peak_memory,
        "worker_memory": report.worker_memory,
    }


def describe_job(report: EncodeReport) -> str:
    """Return the second line of a summary of an encoding job: documents, memory, and where the time went."""
    parts = [_counted(report.documents, "document")]
    if report.left_out:
        parts.append(f"{report.left_out:,} ids that do not fill a row left out")
    if report.skipped:
        parts.append(f"{_counted(report.skipped.count, 'record')} skipped")
    return "; ".join([*parts, *_describe_run(report)])


def describe_new(report: EncodeReport | GenerationReport, apart: float = 0.0) -> str:
    """Return how long a run took, without `apart` seconds, and its rate; the rate is of what this run has encoded."""
    seconds = report.seconds - apart
    if not report.new_bytes and report.bytes:
        return ", all of it in an earlier run"
    rate = f"{format_seconds(seconds)} ({format_rate(report.new_bytes, seconds, 'bytes')})"
    if report.new_bytes < report.bytes:
        return f", {format_bytes(report.new_bytes)} of it in this run, in {rate}"
    return f" in {rate}"


def describe_dataset(report: GenerationReport) -> str:
    """Return the second line of a summary of a data set: vocabularies, memory, and where the time went."""
    parts = [f"vocabulary {', '.join(f'`{path}`' for path in report.vocabularies)}"] if report.vocabularies else []
    if report.skipped:
        parts.append(f"{_counted(report.skipped.count, 'sample')} skipped")
    return "; ".join([*parts, *_describe_run(report)])


def _describe_run(report: EncodeReport | GenerationReport) -> list[str]:
    """Return what summaries of all jobs tell: units of an earlier run, memory, and where the time went."""
    parts = []
    if report.kept_units:
        parts.append(f"{report.kept_units:,} of {report.units:,} units from an earlier run")
    worker = f" (largest worker {format_bytes(report.worker_memory)})" if report.worker_memory else ""
    parts.append(f"peak memory {format_bytes(report.peak_memory)}{worker}")
    if report.stages:
        parts.append("time: " + ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in report.stages.items()))
    return parts


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def dataset_notes(report: GenerationReport) -> list[str]:
    """Return a remark about the samples that were skipped."""
    skipped = report.skipped
    if not skipped:
        return []
    shown = "; ".join(map(str, skipped.first[:3]))
    plural = "" if skipped.count == 1 else "s"
    return [f"skipped {skipped.count:,} malformed or empty sample{plural}: {shown}{'; ...' if skipped.count > 3 else ''}"]


class ShareType(click.ParamType):  # type: ignore[type-arg]
    """A number from 0 up to, but not including, 1, or a percentage."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or fail with what was expected."""
        text = str(value).strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            share = -1.0
        if 0 <= share < 1:
            return share
        return self.fail(f"{shorten(value)}; expected a number from 0 up to 1, such as 0.005 or 0.5%", param, ctx)


def job_options(function: Function) -> Function:
    """Add the options of an encoding job.

    The function receives their values as the argument `job`, a dict with the names of the arguments of
    `Tokenizer.encode_files`.
    """
    token = "Special token to add at the {} of each document that does not {} with it."
    options = {
        "append_token": click.option("--append-token", metavar="TOKEN", help=token.format("end", "end")),
        "prepend_token": click.option("--prepend-token", metavar="TOKEN", help=token.format("start", "begin")),
        "document_index": click.option(
            "--document-index",
            is_flag=True,
            help="Store the borders of documents, in FILE.docs.npy if the format has none.",
        ),
        "keep_columns": click.option(
            "--keep-column",
            "keep_columns",
            multiple=True,
            metavar="NAME",
            help="Column of Parquet and Arrow inputs, or field of JSON lines, to write beside the ids in Parquet and Arrow "
            "output; may be repeated.",
        ),
        "pack": click.option(
            "--pack",
            type=Count(1),
            metavar="N",
            help="Divide the ids into rows of N, with the lengths of the documents in each row; for parquet and arrow.",
        ),
        "shard_tokens": click.option(
            "--shard-tokens",
            type=Count(1),
            metavar="N",
            help="Write numbered files, each of which ends with the document that reaches N ids.",
        ),
        "shard_exact": click.option("--shard-exact", is_flag=True, help="End these files after exactly N ids."),
        "val_fraction": click.option(
            "--val-fraction",
            type=ShareType(),
            default=0.0,
            metavar="SHARE",
            help="Share of the documents to set aside in FILE-val, such as 0.005 or 0.5%.",
        ),
        "seed": click.option("--seed", type=Count(0), default=0, metavar="N", help="Selects these documents.  [default: 0]"),
        "shard": click.option(
            "--shard",
            metavar="I/N|auto",
            help="Encode only part I of N, from 0 to N - 1. auto reads SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or "
            "RANK and WORLD_SIZE. The last part to finish joins all of them.",
        ),
        "resume": click.option("--resume", is_flag=True, help="Continue an earlier run of the same job where it ended."),
        "dry_run": click.option("--dry-run", is_flag=True, help="Show the plan and the expected time, and write nothing."),
    }

    @functools.wraps(function)
    def collected(*args: Any, **given: Any) -> Any:
        return function(*args, job={name: given.pop(name) for name in options}, **given)

    decorated: Any = collected
    for option in reversed(options.values()):
        decorated = option(decorated)
    found: Function = decorated
    return found


@contextmanager
def telling_what_is_kept(progress: Progress, out: str, *, per_input: bool, job: Mapping[str, Any]) -> Iterator[None]:
    """After an error or an interrupt, write what an unfinished job keeps, and the command that continues it.

    That is the command which began the job, unless this one runs another part of it.
    """
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--resume", "--overwrite")]
    progress.command = shell_line(["bpejit", *arguments, "--resume"])
    try:
        yield
    except BaseException as error:
        from bpejit.jobs.file_encoding import kept_of_job
        from bpejit.storage.outputs import is_standard_output

        kept = None
        with suppress(Exception):  # a storage that cannot be reached
            kept = None if is_standard_output(out) else kept_of_job(out, per_input=per_input)
        if kept is not None:
            text = f"kept {kept.units:,} of {kept.total:,} units ({format_bytes(kept.read)} of input) in `{kept.folder}`"
            command = progress.command if job.get("shard") else kept.command or progress.command
            progress.message(text if "continue it with `" in str(error) else f"{text}; continue with: {command}")
        raise
