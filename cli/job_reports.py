"""What commands report about jobs: encoding jobs and data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .progress import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from bpejit.datagen.generation import GenerationReport
    from bpejit.encoding.file_encoding import EncodeReport


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
