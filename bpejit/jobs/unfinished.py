"""Unfinished jobs: check what an earlier run left for an output, begin a job, and describe where it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from bpejit.corpus.fingerprints import modified_times
from bpejit.engines.base import Engine, Job, Progress
from bpejit.errors import BpejitError, CorpusError, OutputError
from bpejit.jobs.checkpoints import CHECKPOINT_FORMAT
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    MANIFEST,
    WAIT_SECONDS,
    claim_record,
    found_parts,
    is_held,
    part_folder,
    read_record,
    remove_folder,
)
from bpejit.jobs.job_manifest import begun_manifest, find_begun_difference
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.output_files import remove_links
from bpejit.jobs.unit_loop import AnyChunker, AnyUnit, chain_checksum, size_of_units
from bpejit.storage.files import check_writable, write_error


class AnyOutputs(Protocol):
    """The outputs of a job."""

    @property
    def out(self) -> Path:
        """The output as the user gave it."""

    @property
    def divided(self) -> bool:
        """Whether it consists of several files."""


class AnyPlan(Protocol):
    """A job before it runs, such as a `JobPlan`."""

    @property
    def folder(self) -> Path:
        """The folder of the unfinished job."""

    @property
    def job(self) -> Mapping[str, Any]:
        """What was asked for, as in the manifest."""

    @property
    def options(self) -> JobOptions:
        """How the job runs."""

    @property
    def names(self) -> AnyOutputs:
        """Its outputs."""

    @property
    def units(self) -> Sequence[Any]:
        """All units."""

    @property
    def mine(self) -> Sequence[Any]:
        """Those of the part that this process works on."""

    @property
    def paths(self) -> Sequence[str]:
        """Their inputs."""


@contextmanager
def without_empty_folder(plan: AnyPlan, folder: Path) -> Iterator[None]:
    """Remove the folder of a part after an error, unless it keeps finished units."""
    try:
        yield
    except BaseException:
        if (read_record(folder / CHECKPOINT) or {}).get("format") != CHECKPOINT_FORMAT:
            with suppress(OutputError):
                remove_folder(folder if plan.options.part else plan.folder)
            if plan.options.per_input:
                with suppress(OSError):
                    plan.names.out.rmdir()  # if it is empty
        raise


@contextmanager
def naming_output(out: Path) -> Iterator[None]:
    """Turn errors of the system about spools into errors that name the output."""
    try:
        yield
    except (BpejitError, BrokenPipeError):
        raise
    except OSError as cause:
        raise write_error(str(cause.filename or out), cause) from cause


def prepare_folder(plan: AnyPlan, say: Callable[[str], None], *, parts: int | None = None, patience: float = 0.0) -> int:
    """Check what an earlier run left, and remove it unless the job goes on from there.

    Parameters
    ----------
    plan : AnyPlan
    say : callable
        Called with remarks for the user.
    parts : int, optional
        The number of parts of a job that is not begun yet. An unfinished job with another number is resumed, unless `parts` is
        None, or the plan is that of a part.
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
    options, folder = plan.options, plan.folder
    wanted_parts = (options.part or (0, parts or 1))[1]
    if not folder.exists():
        if options.per_input:
            with suppress(FileExistsError):
                folder.parent.mkdir(parents=True)
        elif not plan.names.divided:
            check_writable(plan.names.out)
        return wanted_parts
    found = found_parts(folder)
    begun = read_record(folder / MANIFEST)
    difference = find_begun_difference(begun, plan.job, options.texts)
    if begun is not None and difference is None and begun.get("parts") != wanted_parts:
        if parts is None or options.part is not None:
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
    return parts or 1


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


def _wait_for_others(plan: AnyPlan, folders: Sequence[Path], patience: float) -> None:
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


def begun_fields(plan: AnyPlan, parts: int, **others: Any) -> dict[str, Any]:
    """Return the manifest of an unfinished job, with other fields for joining its parts."""
    options = plan.options
    told = {"command": options.command, "texts": {str(number): text for number, text in options.texts.items()}}
    return begun_manifest(plan.job, parts) | {"units": len(plan.units), "overwrite": options.overwrite, **told, **others}


def claim_job(plan: AnyPlan, parts: int, **others: Any) -> dict[str, Any]:
    """Write the manifest of the unfinished job, unless another part has, and return it.

    That of a job that is not divided is flushed to disk with its first checkpoint.

    Parameters
    ----------
    plan : AnyPlan
    parts : int
    **others
        Other fields, for joining the parts, which may differ between them.
    """
    fields = begun_fields(plan, parts, **others)
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


def compare_text(
    plan: AnyPlan, units: Sequence[AnyUnit], engine: Engine, job: Job, chunker: AnyChunker, sha256: str, report: Progress
) -> None:
    """Compare the text of finished units with what was encoded, since an input has another modification time.

    Parameters
    ----------
    plan : AnyPlan
    units : list of units
    engine : Engine
    job : Job
        The results of a worker are the checksum of a chunk, and its bytes of input.
    chunker : AnyChunker
        Divides the units as the run that encoded them.
    sha256 : str
        The hash of all checksums then (see `chain_checksum`).
    report : callable
        Progress.

    Raises
    ------
    OutputError
        If the text has changed.
    """
    found, done, size = "", 0, size_of_units(units)
    report("compare", 0, size, "bytes")
    results: Any = engine.map_chunks(job, (chunk for unit in units for chunk in chunker.chunks(unit.sources)))
    with closing(results), suppress(CorpusError):  # it cannot be read as it could
        for checksum, n_read in results:
            found = chain_checksum(found, checksum)
            done += n_read
            report("compare", done, size, "bytes")
    if found == sha256:
        return
    times = {path: time for path, time in modified_times(plan.paths).items() if time is not None}
    last = max(times, key=lambda path: times[path], default="-")
    raise OutputError(
        f"the text of {_units(len(units))} in `{plan.folder}` has changed: of the inputs, `{last}` was modified last; expected "
        "the text that was encoded: restore it, or start again with `overwrite=True`"
    )


def describe_resumed(plan: AnyPlan, kept: int, checkpoint: dict[str, Any] | None) -> str:
    """Return a remark about where a resumed part goes on."""
    what = "the job" if plan.options.part is None else "part {} of {}".format(*plan.options.part)
    if not plan.mine:
        return f"{what} has no units: the input has {len(plan.units):,}, which belong to other parts"
    if checkpoint is None:
        return f"nothing of {what} is finished yet: beginning with unit 1 of {len(plan.mine)}"
    if checkpoint.get("complete"):
        return f"all {len(plan.mine)} units of {what} are encoded already"
    return f"resuming {what} after {kept} of {len(plan.mine)} units"
