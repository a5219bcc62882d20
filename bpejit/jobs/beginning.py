"""Begin jobs: check the outputs and what an earlier run left, and claim the job; `bpejit.jobs.job_plan` has the states."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bpejit.errors import BpejitError, OutputError
from bpejit.jobs.checkpoints import CHECKPOINT_FORMAT
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    LOCK,
    MANIFEST,
    WAIT_SECONDS,
    claim_record,
    find_kept,
    found_parts,
    is_held,
    kept_of_part,
    part_folder,
    read_record,
    remove_folder,
)
from bpejit.jobs.job_manifest import begun_manifest, find_begun_difference
from bpejit.jobs.job_plan import JobPlan
from bpejit.jobs.output_files import Finished, JobOutputs, remove_links
from bpejit.storage.files import check_writable, write_error

if TYPE_CHECKING:
    from bpejit.jobs.remote_output import RemoteOutput


def begin_job(plan: JobPlan, parts: int, say: Callable[[str], None], *, patience: float = 0.0) -> Finished | int:
    """Check the outputs of a job, and what an earlier run left.

    Parameters
    ----------
    plan : JobPlan
    parts : int
        The number of parts of a job that is not begun yet. An unfinished job with another number is resumed, unless the plan is
        that of a part.
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
    options, remote = plan.options, plan.remote
    done = find_settled(plan.names, plan.job, remote) if options.resume else None
    if done is not None:
        say(f"nothing is left to do: `{done.manifest}` describes the complete output of this job")
        if remote is not None:
            remote.remove_folder()
        return done
    if remote is None:
        plan.names.check(plan.inputs, overwrite=options.overwrite)
    else:
        remote.check(plan.names, [entry["path"] for entry in plan.job["inputs"]], overwrite=options.overwrite)
    left = _find_left(plan)
    if left is not None:
        parts = _prepare_folder(plan, left, parts, say, patience)
    elif remote is None:
        _check_place(plan)
    if remote is not None:
        claim_job(plan, parts)
    return parts


def find_settled(names: JobOutputs, job: Mapping[str, Any] | None, remote: RemoteOutput | None = None) -> Finished | None:
    """Return the complete outputs of a job, and remove the rest of the folder of the unfinished one if it is a path."""
    if remote is not None:
        return remote.find_complete(names, job)
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


@contextmanager
def without_unused_lock(plan: JobPlan, folder: Path) -> Iterator[None]:
    """Remove the folder of a part if the process is interrupted while it takes the lock, before there is more in the folder."""
    try:
        yield
    except BaseException as cause:
        with suppress(OSError):
            is_unused = {path.name for path in folder.iterdir()} <= {LOCK} and not is_held(folder)
            if is_unused and not isinstance(cause, Exception):
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


def _check_place(plan: JobPlan) -> None:
    """Create the folder of outputs, or check that a single one can be written."""
    if plan.names.per_input:
        with suppress(FileExistsError):
            plan.folder.parent.mkdir(parents=True)
    elif not plan.names.has_many_files:
        check_writable(plan.names.out)


class _Left(NamedTuple):
    """What an earlier run left of a job.

    Parameters
    ----------
    folder : Path or str
        A path, or a URL.
    begun : dict, optional
        Its manifest; None if that is missing or broken.
    kept : int
        The number of finished units, or, at a URL, of parts.
    finished : str
        This number in words.
    """

    folder: Path | str
    begun: Mapping[str, Any] | None
    kept: int
    finished: str


def _find_left(plan: JobPlan) -> _Left | None:
    """Return what an earlier run left; None if there is no folder, or, at a URL, no manifest."""
    if plan.remote is not None:
        begun = plan.remote.begun()
        if begun is None:
            return None
        kept = len(plan.remote.parts())
        return _Left(plan.remote.folder, begun, kept, f"{kept} finished parts")
    if not plan.folder.exists():
        return None
    kept = sum(kept_of_part(path).units for _, _, path in found_parts(plan.folder))
    return _Left(plan.folder, read_record(plan.folder / MANIFEST), kept, _units(kept))


def _prepare_folder(plan: JobPlan, left: _Left, parts: int, say: Callable[[str], None], patience: float) -> int:
    """Remove what an earlier run left unless the job goes on from there; return the number of parts."""
    options, remote, begun = plan.options, plan.remote, left.begun
    difference = find_begun_difference(begun, plan.job, options.texts)
    wanted_parts = parts
    if begun is not None and difference is None and begun.get("parts") != parts:
        if options.part is None and (options.resume or remote is None):
            wanted_parts = int(begun["parts"])
        else:
            difference = f"it is divided into {begun.get('parts')} parts, and this one into {parts}"
    remains = f"`{left.folder}` keeps {left.finished} of an unfinished job"
    if options.part is not None:
        if begun is not None and difference is not None:
            raise OutputError(
                f"{remains}, but {difference}; expected the same job in all parts: {continuing(begun)}, or remove the folder"
            )
        if begun is not None:
            _prepare_part(plan, *options.part)
        return parts
    expected = "expected the same job to resume it:"
    compared = options.resume and left.kept > 0
    if remote is None:
        _wait_for_others(plan, patience)
        remove_links(plan.folder)
    else:
        expected = "expected the same job: wait if it is at work; otherwise"
        compared = True  # it may be at work: an object store has no locks
    if difference is None and (options.resume or (remote is not None and not left.kept)):
        return wanted_parts
    if difference is None and left.kept and not options.overwrite:
        raise OutputError(_unfinished(remains))
    if difference is not None and compared and not options.overwrite:
        raise OutputError(f"{remains}, but {difference}; {expected} {continuing(begun)}, or start again with `overwrite=True`")
    if remote is not None:
        remote.remove_folder()
    removed = f"{remove_folder(plan.folder):,} bytes" if remote is None else left.finished
    say(f"removed {removed} in `{left.folder}`, which an unfinished run left")
    return parts


def continuing(begun: Mapping[str, Any] | None) -> str:
    """Return an advice to continue an unfinished job with the command that began it, if that is known."""
    command = (begun or {}).get("command")
    return f"continue it with `{command}`" if command else "give the same inputs and options"


def _prepare_part(plan: JobPlan, part: int, parts: int) -> None:
    """Remove what an earlier run left of a part, unless it is resumed, or another process works on it."""
    options, remote = plan.options, plan.remote
    folder = part_folder(plan.folder, part, parts)
    if options.resume:
        return
    if remote is not None:
        url = remote.part_url(part, parts)
        if (part, parts) in remote.parts():
            if not options.overwrite:
                raise OutputError(_unfinished(f"`{url}` is a finished part"))
            remote.remove([url])
    elif folder.exists() and not is_held(folder):
        kept = kept_of_part(folder).units
        if kept and not options.overwrite:
            raise OutputError(_unfinished(f"`{folder}` keeps {_units(kept)} of this part"))
        remove_folder(folder)


def _wait_for_others(plan: JobPlan, patience: float) -> None:
    """Wait until no other process works on a job."""
    folders = [path for _, _, path in found_parts(plan.folder)]
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


def begun_fields(plan: JobPlan, parts: int) -> dict[str, Any]:
    """Return the manifest of an unfinished job."""
    options = plan.options
    return begun_manifest(plan.job, parts) | {
        "units": len(plan.units),
        "overwrite": options.overwrite,
        "command": options.command,
        "texts": options.texts,
        **plan.begun_fields,
    }


def claim_job(plan: JobPlan, parts: int) -> dict[str, Any]:
    """Write the manifest of the unfinished job, unless another part has, and return it.

    That of a job that is not divided is flushed to disk with its first checkpoint.
    """
    fields = begun_fields(plan, parts)
    remote = plan.remote
    try:
        if remote is not None:
            is_new = remote.claim(fields)
        else:
            is_new = claim_record(plan.folder / MANIFEST, fields, synced=parts > 1)
    except OSError as cause:
        if isinstance(cause, OutputError):
            raise
        raise write_error(str(plan.folder), cause) from cause
    if not is_new:
        begun = read_record(plan.folder / MANIFEST) if remote is None else remote.begun()
        difference = find_begun_difference(begun, plan.job, plan.options.texts)
        if difference is not None:
            folder, advice = (plan.folder, "") if remote is None else (remote.folder, "wait until that job ends, or ")
            raise OutputError(
                f"`{folder}` belongs to another job: {difference}; expected the same one: {advice}remove the folder"
            )
    return fields
