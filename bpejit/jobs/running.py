"""Run jobs on this machine: parts one after the other, and joining of parts that are complete."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.engines.base import Engine, Progress, remarks, report_details
from bpejit.errors import OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.beginning import (
    begin_job,
    begun_fields,
    claim_job,
    find_settled,
    naming_output,
    without_empty_folder,
    without_unused_lock,
)
from bpejit.jobs.checkpoints import complete_checkpoints, read_checkpoint
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    MANIFEST,
    LockHeldError,
    held,
    kept_of_part,
    part_folder,
    read_record,
    remove_folder,
    write_record,
)
from bpejit.jobs.job_manifest import FOLDER_VERSION
from bpejit.jobs.job_plan import CompletePart, JobPlan, JobResult
from bpejit.jobs.job_run import compare_text, describe_resumed, keeping_brief, run_units
from bpejit.jobs.job_totals import Seconds, Totals
from bpejit.jobs.output_files import Finished, JobOutputs, NamesOf, exchange, remove_links
from bpejit.storage.files import creating_folder
from bpejit.storage.scratch import scratch_folder

if TYPE_CHECKING:
    from bpejit.jobs.remote_output import RemoteOutput

COMBINED = "combined"
"""The folder with the joined parts, below that of the job; its lock is held while they are joined."""

_MOST_PARTS = 8
"""Number of missing parts that a message lists."""


def run_job(plan: JobPlan, *, workers: int | None, engine: str, report: Progress) -> JobResult:
    """Run a job, or the part of it that this process works on.

    Parameters
    ----------
    plan : JobPlan
    workers, engine
        How the work is distributed.
    report : callable
        Progress. If it has a method `message`, that is called with remarks for the user.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    say = remarks(report)
    wanted = 1 if plan.remote is None else plan.remote.default_parts(plan.units)
    parts = begin_job(plan, (plan.options.part or (0, wanted))[1], say)
    if isinstance(parts, Finished):
        return JobResult(parts.totals, parts, len(plan.units), len(plan.units), 0)
    planning = working_time() - begun
    if plan.options.part is not None or parts == 1:
        result = run_part(plan, workers=workers, engine=engine, report=report)
    else:
        if plan.remote is None:
            say(f"the unfinished job has {parts} parts, which this run works on one after the other")
        result = _run_parts(plan, parts, workers=workers, engine=engine, report=report)
    result.seconds.plan += planning
    return result


def run_part(
    plan: JobPlan, *, workers: int | None, engine: str, report: Progress, joins: bool = True, patience: float = 0.0
) -> JobResult:
    """Run the part of a begun job that this process works on, and join all parts if it was the last one.

    Parameters
    ----------
    plan : JobPlan
        Without a part, the job has one.
    workers, engine, report
        As for `run_job`.
    joins : bool
        False if another process writes the manifest of the unfinished job, and joins the parts.
    patience : float
        Seconds to wait for another process that works on this part, and ends.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    seconds = Seconds()
    say = remarks(report)
    if plan.remote is not None:
        return _run_remote_part(plan, plan.remote, workers=workers, engine=engine, report=report, joins=joins)
    part, parts = plan.options.part or (0, 1)
    folder = part_folder(plan.folder, part, parts)
    works = f"works on {plan.what if parts == 1 else f'part {part} of {plan.what}'}"
    with without_unused_lock(plan, folder), held(folder, works, patience=patience), without_empty_folder(plan, folder):
        claimed = claim_job(plan, parts) if joins else None
        checkpoint = read_checkpoint(folder, plan.identity()) if plan.options.resume else None
        kept = Totals() if checkpoint is None else Totals.from_json(checkpoint["totals"])
        if plan.options.resume:
            say(describe_resumed(plan, kept.units, checkpoint))
        spread = plan.make_engine(engine, workers)
        if checkpoint is not None and checkpoint["text"]["modified"] != plan.modified:
            compare_text(plan, kept.units, checkpoint, spread, report)
        seconds.plan = working_time() - begun
        if checkpoint is not None and checkpoint.get("complete"):
            done = CompletePart(checkpoint)
        else:
            with naming_output(plan.names.out):
                done = run_units(plan, folder, checkpoint, spread, report, seconds)
        totals = Totals.from_json(done.fields["totals"])
        before = working_time()
        missing = 0 if done.brief else len(missing_parts(plan.folder, parts)) if joins else parts
        finished = None
        if joins:
            plan.check_totals(totals)
        if not missing:
            with naming_output(plan.names.out), keeping_brief(plan, folder, done):
                # What this process has written itself is not compared with its hashes.
                written = [done.fields] if checkpoint is None and parts == 1 else None
                finished = finish_job(
                    plan.names, report, begun=claimed if done.brief else None, written=written, plan=plan, engine=spread
                )
        if finished is None and parts > 1 and joins and not (plan.folder / MANIFEST).exists():
            missing, finished = 0, find_settled(plan.names, plan.job)  # another process has just joined the parts
        if finished is None and not missing:
            say("all parts are complete, and another process joins them")
        seconds.finish += working_time() - before
    whole = totals if finished is None else finished.totals
    return JobResult(whole, finished, len(plan.mine), kept.units, missing, seconds, new_bytes=totals.bytes - kept.bytes)


def _run_remote_part(
    plan: JobPlan, remote: RemoteOutput, *, workers: int | None, engine: str, report: Progress, joins: bool
) -> JobResult:
    """Run a part of a begun job with an output at a URL, store it, and join all parts if it was the last one.

    A job that is not divided is not stored as a part: its final files are.
    """
    options = plan.options
    say = remarks(report)
    part, parts = options.part or (0, 1)
    fields = begun_fields(plan, parts)
    if options.part is not None and options.resume and (part, parts) in remote.parts():
        say(f"part {part} of {parts} is {plan.done} already")
        totals = Totals.from_json(remote.check_part(plan.job, part, parts)[0]["totals"])
        result = JobResult(totals, None, len(plan.mine), totals.units, 0)
    else:
        with remote.released(), scratch_folder(Path(tempfile.gettempdir()), "working") as scratch:
            local = replace(plan, names=plan.names.moved(scratch / "outputs"), remote=None)
            if options.part is not None:
                local = replace(local, options=replace(options, resume=False, overwrite=False))
                local.folder.mkdir(parents=True)
                write_record(local.folder / MANIFEST, fields, synced=False)
            result = run_part(local, workers=workers, engine=engine, report=report, joins=options.part is None)
            before = working_time()
            if options.part is not None:
                remote.store_part(local.names, part, parts)
                remote.claim(fields)  # in case that another process has given up the job
            elif result.finished is not None:
                remote.publish(local.names, result.finished, overwrite=options.overwrite, report=report)
                remote.remove_folder()
                result.finished = remote.at_urls(local.names, result.finished)
            result.seconds.finish += working_time() - before
    if options.part is None:
        return result
    result.missing = len(missing_parts(remote, parts))
    if joins and not result.missing:
        before = working_time()
        spread = plan.make_engine(engine, workers)
        result.finished = join_remote(remote, lambda _, __: plan.names, report=report, engine=spread)
        if result.finished is None:
            say("all parts are complete, and another process has joined them")
        else:
            result.totals = result.finished.totals
        result.seconds.finish += working_time() - before
    return result


class ShiftedReport:
    """Progress of parts that run one after the other, as that of one job. Remarks about single parts are left out.

    Parameters
    ----------
    report : callable
    total : int, optional
        Bytes of input of the job.
    done : int
        Bytes that were done before.
    **counted
        Tokens and documents that were counted before.
    """

    def __init__(self, report: Progress, total: int | None, done: int = 0, **counted: int) -> None:
        self._report = report
        self._total = total
        self._done = done
        self._counted = counted

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Report an amount, with what was done before."""
        if stage == "encode":
            done += self._done
            total = self._total
        self._report(stage, done, total, unit)

    def details(self, **counted: int) -> None:
        """Report further counts, such as `tokens`, with those of earlier parts."""
        report_details(self._report, **{name: self._counted.get(name, 0) + count for name, count in counted.items()})

    def message(self, text: str) -> None:
        """Ignore a remark."""


def kept_of_parts(plan: JobPlan, parts: int) -> list[Totals]:
    """Return the totals of what each part of a job keeps."""
    if plan.remote is None:
        return [kept_of_part(part_folder(plan.folder, part, parts)) for part in range(parts)]
    complete = plan.remote.complete_parts(parts)
    return [complete.get(part, Totals()) for part in range(parts)]


def _run_parts(
    plan: JobPlan,
    parts: int,
    *,
    workers: int | None,
    engine: str,
    report: Progress,
) -> JobResult:
    """Run the parts of an unfinished job in this process, one after the other, and join them."""
    found = kept_of_parts(plan, parts)
    kept = sum(found, Totals())
    total = None if plan.size is None else plan.size - kept.read
    seconds = Seconds()
    totals = Totals()
    n_read = new_bytes = 0
    for part, before in enumerate(found):
        # All parts of a remote output may be there already, so only the last one joins.
        joins = plan.remote is None or part == parts - 1
        shifted = ShiftedReport(report, total, n_read, tokens=totals.tokens, documents=totals.documents)
        mine = plan.part(part, parts, plan.slice(part, parts))
        result = run_part(mine, workers=workers, engine=engine, report=shifted, joins=joins)
        totals += result.totals
        n_read += result.totals.read - before.read
        new_bytes += result.new_bytes
        seconds += result.seconds
    return JobResult(
        result.totals, result.finished, len(plan.units), kept.units, result.missing, seconds, parts=parts, new_bytes=new_bytes
    )


def missing_parts(place: Path | RemoteOutput, parts: int) -> list[int]:
    """Return the parts that are not complete of a job with a folder, or with an output at a URL."""
    if not isinstance(place, Path):
        return sorted({*range(parts)} - {*place.stored_parts(parts)})
    records = [read_record(part_folder(place, index, parts) / CHECKPOINT) for index in range(parts)]
    return [index for index, record in enumerate(records) if not (record or {}).get("complete")]


def finish_job(
    names: JobOutputs,
    report: Progress,
    *,
    begun: Mapping[str, Any] | None = None,
    written: Sequence[Mapping[str, Any]] | None = None,
    plan: JobPlan | None = None,
    engine: Engine | None = None,
) -> Finished | None:
    """Write the outputs of a job whose parts are complete, and remove its folder.

    Parameters
    ----------
    names : JobOutputs
    report : callable
        Progress.
    begun : dict, optional
        The manifest of the unfinished job; read from its folder by default.
    written : list of dict, optional
        The checkpoints of all parts, if this process has written all that is in the folder, which then is not compared with
        its hashes; by default they are read.
    plan : JobPlan, optional
        Knows the inputs, which otherwise are those of the manifest.
    engine : Engine, optional

    Returns
    -------
    Finished, optional
        None if another process does this.

    Raises
    ------
    CorpusError
        If there is nothing to write.
    OSError, OutputError
        If a file cannot be written, or what is left of another run is damaged. The parts stay.
    """
    folder = names.folder
    begun = begun or read_record(folder / MANIFEST)
    if begun is None:
        return None
    finished = None
    with _joining_parts(folder, int(begun["parts"])) as is_mine:
        if is_mine:
            checkpoints = complete_checkpoints(folder, begun) if written is None else written
            pairs, finished = names.write_final(begun, checkpoints, report, fresh=written is not None, engine=engine)
            inputs = [entry["path"] for entry in begun["job"]["inputs"]] if plan is None else plan.inputs
            names.check(inputs, overwrite=bool(begun.get("overwrite")))
            with ExitStack() as folders:
                for target in dict.fromkeys(target.parent for _, target in pairs):
                    folders.enter_context(creating_folder(target))
                exchange(folder, pairs, names.existing())
    return finished


@contextmanager
def _joining_parts(folder: Path, parts: int) -> Iterator[bool]:
    """Be the only process that finishes a job, and remove the folder of the job at the end.

    Yields
    ------
    bool
        False if another process joins the parts, or has done so: there is nothing to do. The parts of a job often finish at
        the same time, so this is no error.
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
        remove_links(folder)  # to files of an interrupted run; the parts stay until the end
        yield True
        if parts > 1:  # before the lock is released: the next process to take it must find that nothing is left to join
            manifest.unlink(missing_ok=True)
    remove_folder(folder)


def join_remote(
    remote: RemoteOutput, names_of: NamesOf, *, report: Progress, engine: Engine | None = None, overwrite: bool = False
) -> Finished | None:
    """Write and store the final files of a job whose parts are complete at a URL.

    Parameters
    ----------
    remote : RemoteOutput
    names_of : callable
        Returns the outputs of a job that a manifest describes.
    report : callable
    engine : Engine, optional
    overwrite : bool
        Whether to replace existing files, also if the job was begun without.

    Returns
    -------
    Finished, optional
        None if another process has done this in the meantime, or there is no job.

    Raises
    ------
    CorpusError
        If there is nothing to write.
    OutputError, OSError
        If a part is missing, or a file cannot be written. The parts stay.
    """
    begun = remote.begun()
    if begun is None:
        return None
    names, parts = read_begun(begun, remote.folder, partial(names_of, Path(remote.name)))
    begun["overwrite"] = overwrite or bool(begun.get("overwrite"))
    try:
        check_all_parts(remote.url, missing_parts(remote, parts), parts)
        finished = names.join_remote(remote, begun, report, engine)
    except OutputError:
        if remote.begun() is None:  # another process was faster, and has removed the parts
            finished = None
        else:
            raise
    remote.remove_folder()
    return finished


def read_begun(
    begun: Mapping[str, Any], folder: str, names_of: Callable[[Mapping[str, Any]], JobOutputs]
) -> tuple[JobOutputs, int]:
    """Return the outputs and the number of parts of the unfinished job with a manifest, which is in `folder`.

    Raises
    ------
    OutputError
        If it was written by another version, or is broken.
    """
    if begun and begun.get("folder_version") != FOLDER_VERSION:
        raise OutputError(
            f"`{folder}` was written by another version of bpejit; expected parts of this version: join them with that "
            "version, or remove the folder, and run the job again"
        )
    try:
        return names_of(begun["job"]), int(begun["parts"])
    except (KeyError, TypeError, ValueError) as cause:
        raise OutputError(
            f"`{folder}/{MANIFEST}` is broken; expected the manifest of a job: remove the folder, and run the job again"
        ) from cause


def check_all_parts(out: str, missing: Sequence[int], parts: int) -> None:
    """Raise OutputError if parts of a job are not complete."""
    if missing:
        shown = ", ".join(map(str, missing[:_MOST_PARTS])) + (", ..." if len(missing) > _MOST_PARTS else "")
        verb = "is" if len(missing) == 1 else "are"
        raise OutputError(
            f"{len(missing)} of the {parts} parts of `{out}` {verb} not complete: {shown}; expected all of them: run each of "
            f'these with `shard="I/{parts}"` and `resume=True`'
        )
