"""Run jobs on this machine: parts one after the other, and in each its units in order; estimate jobs, and join parts.

The results of units go into files that only grow, and a checkpoint is written at the end of a unit.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from bpejit.arguments import no_progress
from bpejit.corpus.fingerprints import chain_checksum, check_times
from bpejit.corpus.units import run_sample, size_of_units
from bpejit.engines import RAY, Engine, peak_memory, remarks, report_details
from bpejit.errors import BpejitWarning, OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.folder_store import FolderStore
from bpejit.jobs.job_folder import Fields, Totals, held
from bpejit.jobs.job_options import Finished, JobResult, no_seconds
from bpejit.jobs.job_plan import JobPlan, begin_job, begun_fields, claim_job, find_store, last_checkpoint, slice_units
from bpejit.jobs.job_records import FOLDER_VERSION, Checkpoints, CompleteParts, NamesOf
from bpejit.jobs.url_store import UrlStore
from bpejit.progress_bar import Progress
from bpejit.storage.files import naming_output, scratch_folder
from bpejit.storage.outputs import MANIFEST

DRIVER = "driver"
"""The folder whose lock a process holds that works on all parts of a divided job, or has a cluster do so."""


DRIVER_PATIENCE = 15.0

PATIENCE = 120.0
"""Seconds that a task waits for another one that works on its part: a node that seems lost may end its tasks late."""


def run_job(plan: JobPlan, work: Fields) -> JobResult:
    """Run a job, or the part of it that this process works on, on this machine or on a cluster.

    Parameters
    ----------
    plan : JobPlan
    work : dict
        How the work is distributed, as `checked_work` returns it. If the callable `report` has a method `message`, that is
        called with remarks for the user.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    if work["engine"] == RAY:
        from bpejit.engines.ray_cluster import connected  # not at the top: most jobs run on one machine
        from bpejit.jobs.cluster_jobs import choose_parts, run_tasks

        plan.check_shared()
        with connected(work["ray_address"], workers=work["workers"]) as cluster:
            remarks(work["report"])(f"running on {cluster.describe()}")
            plan, parts = plan.for_tasks(cluster.slots), choose_parts(plan.units, cluster.slots)
            result = begin_and_run(plan, parts, work, partial(run_tasks, plan, cluster), patience=DRIVER_PATIENCE)
            return replace(result, cluster=cluster.describe())
    _, parts = plan.options.part or (0, 1 if isinstance(plan.store, FolderStore) else plan.store.default_parts(plan.units))
    return begin_and_run(plan, parts, work)


RunParts = Callable[[Sequence[JobPlan], Progress], Iterator[tuple[int, Totals]]]
"""Runs parts of a job, and yields the index and the totals of each when it is complete; the progress is that of a part."""


def begin_and_run(
    plan: JobPlan, parts: int, work: Fields, run_parts: RunParts | None = None, *, patience: float = 0.0
) -> JobResult:
    """Run a job, or the part of it that this process works on, and join the parts; the errors are those of `run_job`.

    Parameters
    ----------
    plan : JobPlan
    parts : int
        As for `begin_job`.
    work : dict
        As for `run_job`.
    run_parts : callable, optional
        Runs several parts; by default this process does, one after the other.
    patience : float
        Seconds to wait for other processes.
    """
    begun = working_time()
    found = begin_job(plan, parts, remarks(work["report"]), patience=patience)
    if isinstance(found, Finished):
        return JobResult(found.totals, found, len(plan.units), len(plan.units), 0)
    planning = working_time() - begun
    if run_parts is None and (plan.options.part is not None or found == 1):
        result = run_part(plan, work)
    else:
        result = _run_whole(plan, found, work, run_parts or partial(_run_here, work), patience)
    result.seconds["plan"] += planning
    return result


def _run_whole(plan: JobPlan, parts: int, work: Fields, run_parts: RunParts, patience: float) -> JobResult:
    """Run the parts of a begun job, and join them."""
    begun = working_time()
    store, report = plan.store, work["report"]
    is_local = isinstance(store, FolderStore)
    lock = held(plan.names.folder / DRIVER, "directs this job", patience=patience) if is_local else nullcontext()
    with lock, store.giving_up():
        claim_job(plan, parts)
        found = store.kept_parts(parts)
        kept = sum(found, Totals())
        done = replace(kept, read=0)
        size = None if plan.size is None else max(plan.size - kept.read, 0)

        def advance(stage: str, n_read: int, total: int | None, unit: str) -> None:
            if stage == plan.stage:
                n_read, total = done.read + n_read, size
                report_details(report, tokens=done.tokens, documents=done.documents)
            report(stage, n_read, total, unit)

        advance(plan.stage, 0, size, "bytes")
        plans = [plan.part(part, parts, slice_units(plan.units, (part, parts))) for part in range(parts)]
        for part, totals in run_parts(plans, advance):
            before = found[part]
            done.read += totals.read - before.read
            done.tokens += totals.tokens - before.tokens
            done.documents += totals.documents - before.documents
            found[part] = totals
            advance(plan.stage, 0, size, "bytes")
    totals = sum(found, Totals())
    seconds = no_seconds() | {"encode": working_time() - begun}
    new_bytes = totals.bytes - kept.bytes
    result = JobResult(totals, None, len(plan.units), kept.units, 0, seconds, parts=parts, new_bytes=new_bytes)
    _join(plan, parts, work, result)
    return result


def _run_here(work: Fields, plans: Sequence[JobPlan], advance: Progress) -> Iterator[tuple[int, Totals]]:
    for part, plan in enumerate(plans):
        yield part, run_part(plan, {**work, "report": advance}, joins=False).totals


def run_part(plan: JobPlan, work: Fields, *, joins: bool = True, patience: float = 0.0) -> JobResult:
    """Run the part of a begun job that this process works on, and join all parts if it was the last one.

    Parameters
    ----------
    plan : JobPlan
        Without a part, the job has one.
    work : dict
        As for `run_job`.
    joins : bool
        False if another process writes the manifest of the unfinished job, and joins the parts.
    patience : float
        Seconds to wait for another process that works on this part, and ends.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    if isinstance(plan.store, FolderStore):
        return _run_in_folder(plan, plan.store, work, joins=joins, patience=patience)
    result = _run_in_scratch(plan, plan.store, work)
    if plan.options.part is not None and joins:
        _join(plan, plan.options.part[1], work, result)
    return result


def _join(plan: JobPlan, parts: int, work: Fields, result: JobResult) -> None:
    """Join the parts of a job if all are complete, and add this to the result of a run."""
    before = working_time()
    store, report = plan.store, work["report"]
    result.missing_parts = len(store.missing_parts(parts))
    if not result.missing_parts:
        with naming_output(store.name):
            engine = None if work["engine"] == RAY else plan.make_engine(work)
            result.finished = store.join(plan.names, report, engine=engine)
    if result.finished is None and store.begun() is None:  # another process has just joined the parts
        result.missing_parts, result.finished = 0, store.find_settled(plan.names, plan.job)
    if result.finished is not None:
        result.totals = result.finished.totals
    elif not result.missing_parts:
        remarks(report)("all parts are complete, and another process joins them")
    result.seconds["finish"] += working_time() - before


def _run_in_folder(plan: JobPlan, store: FolderStore, work: Fields, *, joins: bool, patience: float) -> JobResult:
    """Run a part of a begun job in its folder, whose lock is held until all parts are joined."""
    begun = working_time()
    report = work["report"]
    part, parts = plan.options.part or (0, 1)
    what = "this job" if parts == 1 else f"part {part} of this job"
    with store.working(plan.options.part, what, patience=patience) as folder:
        claimed = claim_job(plan, parts) if joins else {}
        spread = plan.make_engine(work)
        checkpoint = last_checkpoint(plan, folder, spread, report)
        kept = Totals.of_checkpoint(checkpoint)
        seconds = no_seconds() | {"plan": working_time() - begun}
        brief = checkpoint is None and plan.options.part is None
        with Checkpoints(folder, plan.identity, brief=brief) as checkpoints, naming_output(store.out):
            done = checkpoint
            if done is None or not done.get("complete"):
                done = _run_units(plan, checkpoint, checkpoints, spread, report, seconds)
            totals = Totals.of_checkpoint(done)
            finished = None
            if parts == 1 and joins:
                before = working_time()
                written = None if checkpoint is not None else CompleteParts(claimed, [done], fresh=True)
                finished = store.join(plan.names, report, engine=spread, written=written)
                seconds["finish"] += working_time() - before
        whole = totals if finished is None else finished.totals
        new_bytes = totals.bytes - kept.bytes
        result = JobResult(whole, finished, len(plan.mine), kept.units, 0, seconds, new_bytes=new_bytes)
        if parts > 1 and joins:
            _join(plan, parts, work, result)
    return result


def _run_in_scratch(plan: JobPlan, store: UrlStore, work: Fields) -> JobResult:
    """Run a part of a begun job in a folder of this machine, and store it.

    A job that is not divided is not stored as a part: its final files are.
    """
    options, report = plan.options, work["report"]
    part, parts = options.part or (0, 1)
    if options.part is not None and options.resume and part not in store.missing_parts(parts):
        remarks(report)(f"part {part} of {parts} is complete already")
        totals = Totals.of_checkpoint(store.check_part(plan.job, part, parts))
        return JobResult(totals, None, len(plan.mine), totals.units, 0)
    with store.giving_up(), scratch_folder(None, "working") as scratch:
        names = plan.names.moved(scratch / "outputs")
        folder = FolderStore(names.out, names.per_input)
        local = replace(plan, names=names, store=folder)
        if options.part is not None:
            local = replace(local, options=replace(options, resume=False, overwrite=False))
            folder.claim(begun_fields(plan, parts))
        result = _run_in_folder(local, folder, work, joins=options.part is None, patience=0.0)
        before = working_time()
        if options.part is not None:
            store.store_part(names, part, parts)
            store.claim(begun_fields(plan, parts))  # in case that another process has given up the job
        elif result.finished is not None:
            result.finished = store.publish(names, result.finished, overwrite=options.overwrite, report=report)
            store.remove_folder()
        result.seconds["finish"] += working_time() - before
    return result


def _run_units(
    plan: JobPlan,
    checkpoint: Fields | None,
    checkpoints: Checkpoints,
    engine: Engine,
    report: Progress,
    seconds: dict[str, float],
) -> Fields:
    """Work on the units of a part that are missing, in order; return the fields of the checkpoint of the complete part.

    Parameters
    ----------
    plan : JobPlan
        Of the part.
    checkpoint : dict, optional
        The last checkpoint, whose files are continued; None to begin.
    checkpoints : Checkpoints
        Of the folder of the part, where the results are written.
    engine : Engine
    report : callable
    seconds : dict of str to float
        The time of each stage, to which that of this run is added.

    Raises
    ------
    CorpusError
    OSError
        If a file cannot be written. The last checkpoint stays.
    """
    totals = Totals.of_checkpoint(checkpoint)
    text = {"modified": plan.modified, **plan.reading}  # from before the inputs are read
    text_sha256 = "" if checkpoint is None else checkpoint["text"]["sha256"]
    rest = plan.mine[totals.units :]
    size = size_of_units(rest)
    unsaved = n_read = 0

    def fields(state: Fields) -> Fields:
        return {"totals": totals.as_json(), "text": {"sha256": text_sha256, **text}, **state}

    def advance(ahead: int) -> None:
        report(plan.stage, n_read + ahead, size, "bytes")

    advance(0)
    with ExitStack() as stack:
        sink = stack.enter_context(closing(plan.open_sink(checkpoints.folder, checkpoint)))
        results = stack.enter_context(closing(plan.map_units(rest, engine, checkpoints.folder, advance)))
        before = working_time()
        for unit, result, finished in results:
            now = working_time()
            seconds["encode"] += now - before
            sink.begin_unit(unit)
            if result is None:
                totals.units += finished
                # Not after the last unit, which the record of the complete part follows, nor after each of thousands of small
                # units, since writing it takes a few milliseconds.
                write = unsaved >= plan.options.unit_bytes // 4 and unit is not rest[-1]
                checkpoints.note(fields(sink.state()), sink.changed(), write=write)
                unsaved = 0 if write else unsaved
            else:
                totals.add(result, *sink.write(result))
                text_sha256 = chain_checksum(text_sha256, result.checksum)
                unsaved += max(result.n_read, result.n_bytes)  # of compressed input, the text
                n_read += result.n_read
                report_details(report, tokens=totals.tokens, documents=totals.documents)
                advance(0)
            before = working_time()
            seconds["write"] += before - now
        complete = {**fields(sink.finish()), "complete": True}
        checkpoints.complete(complete, sink.changed())
        seconds["finish"] += working_time() - before
        return complete


def estimate_job(plan: JobPlan, work: Fields, *, estimated: bool = True) -> tuple[JobResult, float]:
    """Return what is expected of a run, and its seconds, from the first chunks of a few units unless `estimated` is false."""
    parts, cluster = 1, ""
    if work["engine"] == RAY:
        from bpejit.engines.ray_cluster import describe_cluster
        from bpejit.jobs.cluster_jobs import choose_parts

        plan.check_shared()
        slots, cluster = describe_cluster(work["ray_address"], work["workers"])
        parts = choose_parts(plan.units, slots)
        slots = min(slots, parts)
    else:
        slots = plan.make_engine(work).workers
    expected, seconds = Totals(bytes=plan.size or 0), 0.0
    if estimated:
        job, chunker = plan.chunk_job()
        results, seconds = run_sample(job.start(), plan.mine, chunker)
        n_read = sum(result.n_read for result in results)
        share = expected.bytes / n_read if n_read else 0.0
        seconds *= share / slots
        expected.tokens = round(sum(result.n_tokens for result in results) * share)
        expected.documents = round(sum(result.n_documents for result in results) * share)
    kept, part = Totals(), plan.options.part
    if plan.options.resume:
        kept = (plan.store.kept() or kept) if part is None else plan.store.kept_parts(part[1])[part[0]]
    memory = peak_memory()[0] if cluster else 0
    return JobResult(expected, None, len(plan.mine), kept.units, 0, worker_memory=memory, parts=parts, cluster=cluster), seconds


def join_parts(out: str, names_of: NamesOf, *, overwrite: bool, report: Progress) -> JobResult:
    """Join the parts of a divided job with the output `out`, a path or a URL; see `bpejit.combine`.

    Parameters
    ----------
    out : str
    names_of : callable
        Returns the outputs of a job that a manifest describes.
    overwrite : bool
    report : callable

    Raises
    ------
    CorpusError
        If there is nothing to write.
    OutputError
        If there are no parts, some are missing, or another process joins them.
    """
    began = working_time()
    store = find_store(out)
    begun, finished = store.begun(), None
    if begun is not None:
        if begun and begun.get("folder_version") != FOLDER_VERSION:
            raise OutputError(
                f"`{store.folder}` was written by another version of bpejit; expected parts of this version: join them with "
                "that version, or remove the folder, and run the job again"
            )
        try:
            names, parts = names_of(store.out, begun["job"]), int(begun["parts"])
        except (KeyError, TypeError, ValueError) as cause:
            raise OutputError(
                f"`{store.folder}/{MANIFEST}` is broken; expected the manifest of a job: remove the folder, and run the job "
                "again"
            ) from cause
        store.check_parts(parts)
        with naming_output(out):
            finished = store.join(names, report, overwrite=overwrite)
        if finished is None and store.begun() is not None:
            raise OutputError(f"another process joins the parts of `{out}`; expected one at a time: wait until it ends")
    if finished is None:
        with suppress(KeyError, TypeError, ValueError):
            finished = store.find_settled(names_of(store.out, (store.described() or {})["job"]), None)
    if finished is None:
        raise OutputError(
            f"there are no parts of `{store.name}`; expected the folder `{store.folder}`, which `bpejit encode --shard` and "
            "`bpejit datagen --shard` write: check the path, which for a data set is FOLDER/NAME, such as `data/translation`"
        )
    units = finished.totals.units
    return JobResult(finished.totals, finished, units, units, 0, no_seconds() | {"finish": working_time() - began})


def run_part_task(
    shared: JobPlan, home: str, part: int, parts: int, units: list[Any], times: dict[str, int | None]
) -> tuple[Totals, set[str]]:
    """Work on a part of a job: a task. It goes on from the part's last checkpoint.

    Relative paths refer to `home`. The inputs must have the modification times that they have on the driver: a node may have an
    old copy.

    Returns
    -------
    totals : Totals
    messages : set of str
        Warnings, for the driver to give.
    """
    with suppress(OSError):  # it may be missing if all paths are absolute
        os.chdir(home)
    check_times(times)
    plan = shared.part(part, parts, units)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BpejitWarning)
        work = {"workers": 1, "engine": "serial", "report": no_progress}
        result = run_part(plan, work, joins=False, patience=PATIENCE)
    return result.totals, {str(warning.message) for warning in caught if issubclass(warning.category, BpejitWarning)}
