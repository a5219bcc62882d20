"""Join the parts of a divided job: what every kind of job checks first, and its messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bpejit.errors import OutputError
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, job_folder, part_folder, read_record
from bpejit.jobs.job_manifest import manifest_path

COMBINED = "combined"
"""The folder with the joined parts, below that of the job; its lock is held while they are joined."""

DATA_SET = "data_set"
"""The field in the description of a job that only data sets have."""

_MOST_PARTS = 8
"""Number of missing parts that a message lists."""


def describes_dataset(out: Path) -> bool:
    """Return True if the job with the output `out`, unfinished or complete, generates a data set."""
    for path in (job_folder(out) / MANIFEST, manifest_path(out, per_input=False)):
        fields: dict[str, Any] | None = read_record(path)
        if fields is not None:
            job = fields.get("job")
            return isinstance(job, dict) and DATA_SET in job
    return False


def missing_parts(folder: Path, parts: int) -> list[int]:
    """Return the parts of a job that are not complete."""
    records = [read_record(part_folder(folder, index, parts) / CHECKPOINT) for index in range(parts)]
    return [index for index, record in enumerate(records) if not (record or {}).get("complete")]


def check_all_parts(out: Path, folder: Path, parts: int) -> None:
    """Raise OutputError if parts of a job are not complete."""
    missing = missing_parts(folder, parts)
    if missing:
        shown = ", ".join(map(str, missing[:_MOST_PARTS])) + (", ..." if len(missing) > _MOST_PARTS else "")
        raise OutputError(
            f"{len(missing)} of the {parts} parts of `{out}` are not complete: {shown}; expected all of them: run each of "
            f'these with `shard="I/{parts}"` and `resume=True`'
        )


def no_parts(out: Path) -> OutputError:
    """Return the error for an output that has no parts."""
    return OutputError(
        f"there are no parts of `{out}`; expected the folder `{job_folder(out)}`, which `bpejit encode --shard` and `bpejit "
        "datagen --shard` write: check the path, which for a data set is FOLDER/NAME, such as `data/translation`"
    )


def joined_by_another(out: Path) -> OutputError:
    """Return the error if another process joins the parts."""
    return OutputError(f"another process joins the parts of `{out}`; expected one at a time: wait until it ends")
