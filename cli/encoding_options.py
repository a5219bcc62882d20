"""The options of `bpejit encode` and `bpejit datagen` as jobs, and what they report."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from bpejit.errors import shorten

from .progress import Progress, counted, format_bytes, format_rate, format_seconds
from .reporting import shell_line
from .shared_options import (
    collected,
    count_option,
    dry_run_option,
    flag,
    pack_option,
    repeated_option,
    resume_option,
    shard_option,
)

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
        "timing": report.stages,
    }


def dataset_fields(report: GenerationReport) -> dict[str, Any]:
    """Return the fields of the JSON report about a data set."""
    return {
        "examples": report.examples,
        "ids": report.ids,
        "bytes": report.bytes,
        "skipped_samples": report.skipped.count,
        **_run_fields(report),
        "timing": report.stages,
        "seconds": report.seconds,
    }


def _run_fields(report: EncodeReport | GenerationReport) -> dict[str, Any]:
    """Return the fields that reports about all jobs have."""
    return {
        "outputs": report.paths,
        "manifest": report.manifest,
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
    left_out = f"{report.left_out:,} ids that do not fill a row left out" if report.left_out else ""
    skipped = f"{counted(report.skipped.count, 'record')} skipped" if report.skipped else ""
    return _describe_run(report, counted(report.documents, "document"), left_out, skipped)


def describe_dataset(report: GenerationReport) -> str:
    """Return the second line of a summary of a data set: vocabularies, memory, and where the time went."""
    built = f"vocabulary {', '.join(f'`{path}`' for path in report.vocabularies)}" if report.vocabularies else ""
    return _describe_run(report, built, f"{counted(report.skipped.count, 'sample')} skipped" if report.skipped else "")


def _describe_run(report: EncodeReport | GenerationReport, *parts: str) -> str:
    """Return what summaries of all jobs tell after `parts`: units of an earlier run, memory, and where the time went."""
    kept = f"{report.kept_units:,} of {report.units:,} units from an earlier run" if report.kept_units else ""
    worker = f" (largest worker {format_bytes(report.worker_memory)})" if report.worker_memory else ""
    memory = f"peak memory {format_bytes(report.peak_memory)}{worker}"
    stages = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in report.stages.items())
    return "; ".join(filter(None, (*parts, kept, memory, f"time: {stages}" if stages else "")))


def describe_new(report: EncodeReport | GenerationReport, apart: float = 0.0) -> str:
    """Return how long a run took, without `apart` seconds, and its rate; the rate is of what this run has encoded."""
    seconds = report.seconds - apart
    if not report.new_bytes and report.bytes:
        return ", all of it in an earlier run"
    rate = f"{format_seconds(seconds)} ({format_rate(report.new_bytes, seconds, 'bytes')})"
    if report.new_bytes < report.bytes:
        return f", {format_bytes(report.new_bytes)} of it in this run, in {rate}"
    return f" in {rate}"


def describe_missing(report: EncodeReport | GenerationReport, text: str, out: str) -> str:
    """Return the summary of a part of a job whose other parts are missing; `text` is about what it has done."""
    text = text if report.units else f"part {report.part} has no units; "
    return f"{text}{report.missing_parts} of the parts of `{out}` {'is' if report.missing_parts == 1 else 'are'} missing"


def describe_units(report: EncodeReport | GenerationReport) -> str:
    """Return the units of a plan, and where they run."""
    parts = f", {counted(report.parts, 'part')}, on {report.cluster}" if report.cluster else ""
    kept = f", {report.kept_units:,} of them finished by an earlier run" if report.kept_units else ""
    return f"{counted(report.units, 'unit')}{parts}{kept}"


def dataset_notes(report: GenerationReport) -> list[str]:
    """Return a remark about the samples that were skipped."""
    skipped = report.skipped
    if not skipped:
        return []
    shown = "; ".join(map(str, skipped.first[:3]))
    more = "; ..." if skipped.count > 3 else ""
    return [f"skipped {counted(skipped.count, 'malformed or empty sample')}: {shown}{more}"]


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


_TOKEN = "Special token to add at the {} of each document that does not {} with it."

job_options = collected(
    "job",
    {
        "append_token": click.option("--append-token", metavar="TOKEN", help=_TOKEN.format("end", "end")),
        "prepend_token": click.option("--prepend-token", metavar="TOKEN", help=_TOKEN.format("start", "begin")),
        "document_index": flag(
            "--document-index", help="Store the borders of documents, in FILE.docs.npy if the format has none."
        ),
        "keep_columns": repeated_option(
            *("--keep-column", "keep_columns"),
            metavar="NAME",
            help="Column of Parquet and Arrow inputs, or field of JSON lines, to write beside the ids in Parquet and Arrow "
            "output; may be repeated.",
        ),
        "pack": pack_option("Divide the ids"),
        "shard_tokens": count_option(
            "--shard-tokens", text="Write numbered files, each of which ends with the document that reaches N ids."
        ),
        "shard_exact": flag("--shard-exact", help="End these files after exactly N ids."),
        "val_fraction": click.option(
            "--val-fraction",
            type=ShareType(),
            default=0.0,
            metavar="SHARE",
            help="Share of the documents to set aside in FILE-val, such as 0.005 or 0.5%.",
        ),
        "seed": count_option("--seed", least=0, default=0, show_default=False, text="Selects these documents.  [default: 0]"),
        "shard": shard_option("Encode only part I of N, from 0 to N - 1"),
        "resume": resume_option,
        "dry_run": dry_run_option,
    },
)
"""Decorator that adds the options of an encoding job.

The function receives their values as the argument `job`, a dict with the names of the arguments of `Tokenizer.encode_files`.
"""


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
