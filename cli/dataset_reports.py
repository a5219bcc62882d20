"""Reports about data sets, of `bpejit datagen` and `bpejit combine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .progress import format_bytes, format_seconds

if TYPE_CHECKING:
    from bpejit.datagen.generation import GenerationReport


def dataset_fields(report: GenerationReport) -> dict[str, Any]:
    """Return the fields of the JSON report about a data set."""
    return {
        "examples": report.examples,
        "ids": report.ids,
        "bytes": report.bytes,
        "skipped_samples": report.skipped.count,
        "outputs": [str(path) for path in report.paths],
        "manifest": None if report.manifest is None else str(report.manifest),
        "units": report.units,
        "kept_units": report.kept_units,
        "missing_parts": report.missing_parts,
        "peak_memory": report.peak_memory,
        "worker_memory": report.worker_memory,
        "timing": dict(report.stages),
        "seconds": report.seconds,
    }


def describe_dataset(report: GenerationReport) -> str:
    """Return the second line of a summary: vocabularies, memory, and where the time went."""
    parts = [f"vocabulary {', '.join(f'`{path}`' for path in report.vocabularies)}"] if report.vocabularies else []
    if report.skipped:
        parts.append(f"{report.skipped.count:,} sample{'' if report.skipped.count == 1 else 's'} skipped")
    if report.kept_units:
        parts.append(f"{report.kept_units:,} of {report.units:,} units from an earlier run")
    worker = f" (largest worker {format_bytes(report.worker_memory)})" if report.worker_memory else ""
    parts.append(f"peak memory {format_bytes(report.peak_memory)}{worker}")
    times = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in report.stages.items())
    return "; ".join(parts) + (f"; time: {times}" if times else "")


def dataset_notes(report: GenerationReport) -> list[str]:
    """Return a remark about the samples that were skipped."""
    skipped = report.skipped
    if not skipped:
        return []
    shown = "; ".join(map(str, skipped.first[:3]))
    plural = "" if skipped.count == 1 else "s"
    return [f"skipped {skipped.count:,} malformed or empty sample{plural}: {shown}{'; ...' if skipped.count > 3 else ''}"]
