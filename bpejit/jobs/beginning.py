"""Begin jobs: check the outputs and what an earlier run left, and claim the job; `bpejit.jobs.job_plan` has the states."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bpejit.errors import BpejitError, OutputError
from bpejit.jobs.checkpoints import CHECKPOINT_FORMAT
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    MANIFEST,
    WAIT_SECONDS,
    claim_record,
    find_kept,
    found_parts,
    is_held,
    part_folder,
    read_record,
    remove_folder,
)
from bpejit.jobs.job_manifest import begun_manifest, find_begun_difference
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_plan import Finished, JobOutputs, JobPlan
from bpejit.jobs.output_files import remove_links
from bpejit.storage.files import check_writable, write_error


def begin_job(plan: JobPlan, parts: int, say: Callable[[str], None], *, patience: float = 0.0) -> Finished | int:
    """Check the outputs of a job, and what an earlier run left.

    Parameters
    ----------
    plan : JobPlan
    parts : int
        The number of parts, unless the job is begun already.
    say : callable
        Called with remarks for the user.
    patience : float
        Seconds to wait for processes that work on the job, and end.

    Returns
    -------
    Finished or int
        The complete output if the job is resumed and nothing is left to do; otherwise the number of parts, which is that of the
        unfinished job if that is resumed.

    Raises
    ------
    OutputError
    """
    if plan.remote is not None:
        return plan.remote.begin(plan, parts, say)
    done = find_settled(plan.names, plan.job) if plan.options.resume else None
    if done is not None:
        say(f"nothing is left to do: `{plan.names.manifest}` describes the complete output of this job")
        return done
    plan.names.check(plan.inputs, overwrite=plan.options.overwrite)
    return prepare_folder(plan, say, parts=parts, patience=patience)


def find_settled(names: JobOutputs, job: Mapping[str, Any] | None) -> Finished | None:
    """Return the complete outputs of a job, and remove the rest of the folder of the unfinished one."""
    names.recover()
    done = names.find_complete(job)
    if done is not None and names.folder.exists() and not any(is_held(path) for _, _, path in found_parts(names.folder)):
        remove_links(names.folder)
        remove_folder(names.folder)
    return done


@contextmanager
def without_empty_job(plan: JobPlan) -> Iterator[None]:
    """Remove the folder of the job after an error, unless it keeps finished units."""
    try:
        yield
    except BaseException:
        if find_kept(plan.names.out, per_input=plan.names.per_input) is None:
            _remove_empty(plan, plan.folder)
        raise


@contextmanager
def without_empty_folder(plan: JobPlan, folder: Path) -> Iterator[None]:
    """Remove the folder of a part after an error, unless it keeps finished units."""
    try:
        yield
    except BaseException:
        if (read_record(folder / CHECKPOINT) or {}).get("format") != CHECKPOINT_FORMAT:
            _remove_empty(plan, folder if plan.options.part else plan.folder)
        raise


def _remove_empty(plan: JobPlan, folder: Path) -> None:
    with suppress(OutputError):
        remove_folder(folder)
    if plan.names.per_input:
        with suppress(OSError):
            plan.names.out.rmdir()  # if it is empty


@contextmanager
def naming_output(out: Path) -> Iterator[None]:
    """Turn errors of the system about spools into errors that name the output."""
    try:
        yield
    except (BpejitError, BrokenPipeError):
        raise
    except OSError as cause:
        raise write_error(str(cause.filename or out), cause) from cause


def prepare_folder(plan: JobPlan, say: Callable[[str], None], *, parts: int, patience: float) -> int:
    """Check what an earlier run left, and remove it unless the job goes on from there.

    Parameters
    ----------
    plan : JobPlan
    say : callable
        Called with remarks for the user.
    parts : int
        The number of parts of a job that is not begun yet. An unfinished job with another number is resumed, unless the plan is
        that of a part.
    patience : float
        Seconds to wait for processes that work on the job, and end.

    Returns
    -------
    int
        The number of parts.

    Raises
    ------
    OutputError
    """
    options = plan.options
    folder = plan.folder
    wanted_parts = (options.part or (0, parts))[1]
    if not folder.exists():
        if plan.names.per_input:
            with suppress(FileExistsError):
                folder.parent.mkdir(parents=True)
        elif not plan.names.has_many_files:
            check_writable(plan.names.out)
        return wanted_parts
    found = found_parts(folder)
    begun = read_record(folder / MANIFEST)
    difference = find_begun_difference(begun, plan.job, options.texts)
    if begun is not None and difference is None and begun.get("parts") != wanted_parts:
        if options.part is not None:
            difference = f"it is divided into {begun.get('parts')} parts, and this one into {wanted_parts}"
        else:
            wanted_parts = int(begun["parts"])
    kept = sum(_count_units(path) for _, _, path in found)
    remains = f"`{folder}` keeps {_units(kept)} of an unfinished job"
    if options.part is not None:
        if begun is not None and difference is not None:
            raise OutputError(
                f"{remains}, but {difference}; expected the same job in all parts: {continuing(begun)}, or remove the folder"
            )
        if begun is not None:
            _prepare_part(part_folder(folder, *options.part), options)
        return wanted_parts
    _wait_for_others(plan, [path for _, _, path in found], patience)
    remove_links(folder)
    if options.resume and difference is None:
        return wanted_parts
    if kept and not options.overwrite:
        if options.resume:
            raise OutputError(
                f"{remains}, but {difference}; expected the same job to resume it: {continuing(begun)}, or start again with "
                "`overwrite=True`"
            )
        if difference is None:
            raise OutputError(_unfinished(remains))
    size = remove_folder(folder)
    say(f"removed {size:,} bytes in `{folder}`, which an unfinished run left")
    return parts


def continuing(begun: Mapping[str, Any] | None) -> str:
    """Return an advice to continue an unfinished job with the command that began it, if that is known."""
    command = (begun or {}).get("command")
    return f"continue it with `{command}`" if command else "give the same inputs and options"


def _prepare_part(folder: Path, options: JobOptions) -> None:
    """Remove what an earlier run left of a part, unless it is resumed, or another process works on it."""
    if folder.exists() and not options.resume and not is_held(folder):
        kept = _count_units(folder)
        if kept and not options.overwrite:
            raise OutputError(_unfinished(f"`{folder}` keeps {_units(kept)} of this part"))
        remove_folder(folder)


def _wait_for_others(plan: JobPlan, folders: Sequence[Path], patience: float) -> None:
    """Wait until no other process works on a job, whose parts are in `folders`."""
    until = time.monotonic() + patience
    while any(is_held(folder) for folder in folders):
        if time.monotonic() >= until:
            raise OutputError(
                f"another process works on `{plan.names.out}` (it holds a lock in `{plan.folder}`); expected one at a time: "
                "wait until it ends, or end it"
            )
        time.sleep(WAIT_SECONDS)


def _units(count: int) -> str:
    return f"{count} finished unit{'' if count == 1 else 's'}"


def _unfinished(remains: str) -> str:
    return f"{remains}; expected none: continue it with `resume=True`, or start again with `overwrite=True`"


def _count_units(folder: Path) -> int:
    checkpoint = read_record(folder / CHECKPOINT)
    try:
        return 0 if checkpoint is None else int(checkpoint["totals"]["units"])
    except (KeyError, TypeError, ValueError):
        return 0


def begun_fields(plan: JobPlan, parts: int) -> dict[str, Any]:
    """Return the manifest of an unfinished job."""
    options = plan.options
    told = {"command": options.command, "texts": {str(number): text for number, text in options.texts.items()}}
    begun = begun_manifest(plan.job, parts) | {"units": len(plan.units), "overwrite": options.overwrite}
    return begun | told | plan.begun_fields


def claim_job(plan: JobPlan, parts: int) -> dict[str, Any]:
    """Write the manifest of the unfinished job, unless another part has, and return it.

    That of a job that is not divided is flushed to disk with its first checkpoint.
    """
    fields = begun_fields(plan, parts)
    try:
        if not claim_record(plan.folder / MANIFEST, fields, synced=parts > 1):
            difference = find_begun_difference(read_record(plan.folder / MANIFEST), plan.job, plan.options.texts)
            if difference is not None:
                raise OutputError(
                    f"`{plan.folder}` belongs to another job: {difference}; expected the same one: remove the folder"
                )
    except OSError as cause:
        if isinstance(cause, OutputError):
            raise
        raise write_error(str(plan.folder), cause) from cause
    return fields
