"""Join the parts of a divided job: what every kind of job checks first, its lock, and its messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bpejit.errors import OutputError
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    MANIFEST,
    LockHeldError,
    held,
    job_folder,
    part_folder,
    read_record,
    remove_folder,
)
from bpejit.jobs.job_manifest import FOLDER_VERSION, manifest_path
from bpejit.jobs.output_files import remove_links

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


def check_version(begun: dict[str, Any] | None, folder: str) -> None:
    """Raise OutputError if the folder of an unfinished job was written by another version."""
    if begun is not None and begun.get("folder_version") != FOLDER_VERSION:
        raise OutputError(
            f"`{folder}` was written by another version of bpejit; expected parts of this version: join them with that "
            "version, or remove the folder, and run the job again"
        )


def check_all_parts(out: Path, folder: Path, parts: int) -> None:
    """Raise OutputError if parts of a job are not complete."""
    missing = missing_parts(folder, parts)
    if missing:
        shown = ", ".join(map(str, missing[:_MOST_PARTS])) + (", ..." if len(missing) > _MOST_PARTS else "")
        verb = "is" if len(missing) == 1 else "are"
        raise OutputError(
            f"{len(missing)} of the {parts} parts of `{out}` {verb} not complete: {shown}; expected all of them: run each of "
            f'these with `shard="I/{parts}"` and `resume=True`'
        )


@contextmanager
def joining_parts(folder: Path, parts: int) -> Iterator[bool]:
    """Be the only process that finishes a job, and remove the folder of the job at the end.

    Parameters
    ----------
    folder : Path
        The folder of the job.
    parts : int

    Yields
    ------
    bool
        False if another process joins the parts, or has done so: there is nothing to do. The parts of a job often finish at
        the same time, so this is no error.

    Raises
    ------
    OutputError
        If the folder cannot be written to or removed.
    """
    manifest = folder / MANIFEST
    with ExitStack() as stack:
        if parts > 1:
            try:
                (folder / COMBINED).mkdir(exist_ok=True)
                stack.enter_context(held(folder / COMBINED, "joins the parts of this job", creates=False))
            except (FileNotFoundError, LockHeldError):  # the former if another process has just removed the folder
                yield False
                return
            if not manifest.exists():  # another process removes the folder
                yield False
                return
            remove_links(folder)  # to spools of an interrupted run; the parts stay until the end
        yield True
        if parts > 1:  # before the lock is released: the next process to take it must find that nothing is left to join
            manifest.unlink(missing_ok=True)
    remove_folder(folder)


def no_parts(out: Path) -> OutputError:
    """Return the error for an output that has no parts."""
    return OutputError(
        f"there are no parts of `{out}`; expected the folder `{job_folder(out)}`, which `bpejit encode --shard` and `bpejit "
        "datagen --shard` write: check the path, which for a data set is FOLDER/NAME, such as `data/translation`"
    )


def joined_by_another(out: Path) -> OutputError:
    """Return the error if another process joins the parts."""
    return OutputError(f"another process joins the parts of `{out}`; expected one at a time: wait until it ends")
