"""Run an encoding job on a Ray cluster: its parts as tasks, and joining them as another."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.corpus.blocks import no_texts
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.fingerprints import check_times, modified_times
from bpejit.corpus.sources import absolute_path, absolute_sources, given_names, rename_records
from bpejit.corpus.units import Unit
from bpejit.encoding.cache_budget import get_encoding_cache_budget, set_encoding_cache_budget
from bpejit.encoding.codec import warm_encoding
from bpejit.encoding.encoder import Encoder
from bpejit.engines.base import Progress
from bpejit.engines.ray_cluster import ClusterTask, RayCluster, TaskProgress
from bpejit.engines.ray_worker import TaskReport, warm_up
from bpejit.errors import BpejitWarning, OutputError, warn_user
from bpejit.jit.listening import working_time
from bpejit.jobs.encode_to_files import JobPlan, begin_job, run_part, slice_units
from bpejit.jobs.finishing import Finished, JobResult, finish_job, read_finished
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    MANIFEST,
    WAIT_SECONDS,
    find_kept,
    held,
    is_held,
    part_folder,
    read_record,
    remove_folder,
)
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.joining import missing_parts
from bpejit.jobs.output_files import OutputNames
from bpejit.jobs.remote_output import RemoteOutput, join_remote, read_finished_remote, released_claim
from bpejit.jobs.unfinished import claim_job
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.model import Model
from bpejit.process_memory import peak_memory
from bpejit.storage.outputs import InputFiles
from bpejit.storage.remote import is_remote
from bpejit.tokenfiles.registry import load_format

PARTS_PER_SLOT = 4
"""Parts for each processor, so that the last ones to end leave few processors idle."""

PART_BYTES = 4 << 30
"""Larger parts would lose more of an index of documents, and take longer to hand over, when a node dies."""

PATIENCE = 120.0
"""Seconds that a task waits for another one that works on its part: a node that seems lost may end its tasks late."""

DRIVER_PATIENCE = 15.0

DRIVER = "driver"
"""The folder whose lock the driver of a job holds."""

STAGE = "bpejit encode"


@dataclass
class SharedJob:
    """What all tasks of a job have in common.

    Parameters
    ----------
    model : Model
    out : str
        Absolute.
    inputs : list of Path, optional
        See `OutputNames`.
    divided : bool
    format : str
    folder : str
        The folder of the unfinished job, absolute.
    job : dict
        What was asked for, as in the manifest.
    dtype : str
    options : JobOptions
    chunk_bytes : int
    cache_bytes : int
        The cache budget of the driver.
    columns, remote
        See `JobPlan`.
    """

    model: Model
    out: str
    inputs: list[Path] | None
    divided: bool
    format: str
    folder: str
    job: Mapping[str, Any]
    dtype: str
    options: JobOptions
    chunk_bytes: int
    cache_bytes: int
    columns: bytes | None
    remote: RemoteOutput | None = None

    @functools.cached_property
    def encoder(self) -> Encoder:
        """An encoder, made once in each worker."""
        set_encoding_cache_budget(self.cache_bytes)
        return Encoder(self.model)

    @property
    def names(self) -> OutputNames:
        """The names of the outputs."""
        return OutputNames(Path(self.out), self.inputs, self.divided, load_format(self.format))

    def plan(self, part: int, parts: int, units: list[Unit]) -> JobPlan:
        """Return the plan of a part."""
        options = replace(self.options, part=(part, parts), resume=True)
        chunker = Chunker(self.encoder.splitter, chunk_bytes=self.chunk_bytes)
        folder, dtype = Path(self.folder), np.dtype(self.dtype)
        known = (dict(self.job), dtype, options, chunker, InputFiles(()), self.columns, self.remote)
        return JobPlan([], units, units, self.names, folder, *known)


def choose_parts(plan: JobPlan, slots: int) -> int:
    """Return the number of parts for a cluster that runs `slots` tasks at the same time."""
    begins = sum(unit.starts_document for unit in plan.units)
    by_size = -(-(plan.size or 0) // PART_BYTES)
    return max(min(begins, max(PARTS_PER_SLOT * slots, by_size)), 1)


def encode_on_cluster(plan: JobPlan, encoder: Encoder, cluster: RayCluster, *, report: Progress) -> JobResult:
    """Run a job on a cluster; the outputs are those of `run_job`.

    Parameters
    ----------
    plan : JobPlan
        Of the whole job.
    encoder : Encoder
    cluster : RayCluster
    report : callable
        Progress.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    seconds = Seconds()
    say = getattr(report, "message", None) or (lambda _: None)
    parts = begin_job(plan, choose_parts(plan, cluster.slots), say, patience=DRIVER_PATIENCE)
    if isinstance(parts, Finished):
        return JobResult(parts.totals, parts, len(plan.units), len(plan.units), 0)
    with _directed(plan):
        if plan.remote is None:
            claim_job(plan, parts)
        inputs = [source.path for source in (*plan.sources[:1], *plan.sources[-1:]) if not is_remote(source.path)]
        seen = [*([] if plan.remote else [str(plan.folder / MANIFEST)]), *inputs]
        cluster.prepare_nodes(STAGE, (warm_encoding,), list(map(absolute_path, seen)))
        shared = SharedJob(
            encoder.model,
            absolute_path(plan.names.out),
            plan.names.inputs,
            plan.names.divided,
            plan.names.format.name,
            absolute_path(plan.folder),
            plan.job,
            plan.dtype.name,
            plan.options,
            plan.chunker.chunk_bytes,
            get_encoding_cache_budget(),
            plan.columns,
            plan.remote,
        )
        seconds.plan = working_time() - begun
        totals, kept, new_bytes, memory = _encode_parts(plan, parts, shared, cluster, report)
        seconds.encode = working_time() - begun - seconds.plan
        if totals.skipped and not totals.documents:
            raise no_texts(totals.skipped)
    _join(shared, totals.tokens, cluster, report)
    if plan.remote is None:
        finished = read_finished(plan.names, plan.job)
    else:
        finished = read_finished_remote(plan.remote, plan.names, plan.job)
    if finished is None:
        raise OutputError(
            f"the outputs of `{plan.remote.url if plan.remote else plan.names.out}` were removed, or replaced by another "
            "process; expected those of this job: encode again"
        )
    seconds.finish = working_time() - begun - seconds.plan - seconds.encode
    return JobResult(totals, finished._replace(totals=totals), len(plan.units), kept, 0, seconds, memory, parts, new_bytes)


def _encode_parts(
    plan: JobPlan, parts: int, shared: SharedJob, cluster: RayCluster, report: Progress
) -> tuple[Totals, int, int, int]:
    """Run the parts that are not complete.

    Returns
    -------
    totals : Totals
    kept : int
        Units of earlier runs.
    new_bytes : int
        Bytes of text that this run has encoded.
    memory : int
        The peak memory of a worker.
    """
    found, missing = _find_parts(plan, parts)
    kept, kept_bytes = sum(totals.units for totals in found), sum(totals.read for totals in found)
    kept_text = sum(totals.bytes for totals in found)
    names = given_names(plan.sources)
    tasks = []
    for part in missing:
        units = [unit._replace(sources=absolute_sources(unit.sources)) for unit in slice_units(plan.units, part, parts)]
        times = modified_times(source.path for unit in units for source in unit.sources)
        name = f"{STAGE} part {part + 1}/{parts}"
        tasks.append(ClusterTask(name, "bpejit.jobs.cluster_encoding:encode_part", (part, parts, units, times)))
    done = {part: found[part].read for part in range(parts)}
    counted = {part: {"tokens": found[part].tokens, "documents": found[part].documents} for part in range(parts)}
    total = None if plan.size is None else max(plan.size - kept_bytes, 0)
    details = getattr(report, "details", None)
    memory = 0

    def show() -> None:
        if details is not None:
            details(**{name: sum(counts.get(name, 0) for counts in counted.values()) for name in ("tokens", "documents")})
        report("encode", sum(done.values()) - kept_bytes, total, "bytes")

    def advance(progress: TaskProgress) -> None:
        for index, amount in progress.done.items():
            if found[missing[index]].units < 0:  # it has ended since
                continue
            done[missing[index]] = amount
            counted[missing[index]] = progress.counted[index] or counted[missing[index]]
        show()

    report("encode", 0, total, "bytes")
    complete = dict(enumerate(found))
    warned: set[str] = set()
    for index, (fields, peak, messages) in cluster.run(tasks, shared, advance):
        for message in sorted(messages - warned):
            warn_user(message)
        warned |= messages
        part = missing[index]
        totals = Totals.from_json(fields)
        totals.skipped = rename_records(totals.skipped, names)
        complete[part] = totals
        found[part] = Totals(units=-1)
        done[part] = totals.read
        counted[part] = {"tokens": totals.tokens, "documents": totals.documents}
        memory = max(memory, peak)
        show()
    totals = sum((complete[part] for part in range(parts)), Totals())
    return totals, kept, totals.bytes - kept_text, memory


def encode_part(
    shared: SharedJob, part: int, parts: int, units: list[Unit], times: dict[str, int | None], *, report: TaskReport
) -> tuple[dict[str, Any], int, set[str]]:
    """Encode a part of a job: a task. It goes on from the part's last checkpoint.

    The inputs must have the modification times that they have on the driver: a node may have an old copy.

    Returns
    -------
    totals : dict
    memory : int
        Peak resident memory of the worker.
    messages : set of str
        Warnings, for the driver to give.
    """
    warm_up(warm_encoding)
    check_times(times)
    before = 0 if shared.remote else _kept_totals(part_folder(Path(shared.folder), part, parts)).read
    plan = shared.plan(part, parts, units)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BpejitWarning)
        result = run_part(
            plan,
            shared.encoder,
            workers=1,
            engine="serial",
            report=ShiftedTaskReport(report, before),
            joins=False,
            patience=PATIENCE,
        )
    messages = {str(warning.message) for warning in caught if issubclass(warning.category, BpejitWarning)}
    return result.totals.as_json(), peak_memory()[0], messages


class ShiftedTaskReport:
    """Progress of a part that goes on from a checkpoint."""

    def __init__(self, report: TaskReport, before: int) -> None:
        self._report = report
        self._before = before
        self.details = report.details
        self.message = report.message

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Report an amount, with what the part had done before."""
        self._report(stage, self._before + done, total, unit)


def _join(shared: SharedJob, tokens: int, cluster: RayCluster, report: Progress) -> None:
    """Join the parts in a task."""
    report("combine", 0, tokens, "tokens")

    def advance(progress: TaskProgress) -> None:
        report("combine", sum(progress.done.values()), tokens, "tokens")

    for _ in cluster.run([ClusterTask(f"{STAGE} join", "bpejit.jobs.cluster_encoding:join_parts", ())], shared, advance):
        report("combine", tokens, tokens, "tokens")


def join_parts(shared: SharedJob, *, report: TaskReport) -> None:
    """Join the parts of a job: a task. Nothing happens if another one has just done so."""
    if shared.remote is not None:
        join_remote(shared.remote, report)
        return
    folder = Path(shared.folder)
    until = time.monotonic() + PATIENCE
    while finish_job(folder, shared.names, report=report) is None:
        if not (folder / MANIFEST).exists():
            return
        if time.monotonic() > until and is_held(folder / "combined"):
            raise OutputError(
                f"another process joins the parts of `{shared.out}` for {PATIENCE:.0f} seconds; expected it to end: end it, "
                "and continue with `resume=True`"
            )
        time.sleep(WAIT_SECONDS)


def _find_parts(plan: JobPlan, parts: int) -> tuple[list[Totals], list[int]]:
    """Return the totals of what each part keeps, and the parts that are not complete."""
    if plan.remote is None:
        kept = [_kept_totals(part_folder(plan.folder, part, parts)) for part in range(parts)]
        return kept, missing_parts(plan.folder, parts)
    complete = {part for part, number in plan.remote.parts() if number == parts}
    kept = [plan.remote.read_totals(part, parts) if part in complete else Totals() for part in range(parts)]
    return kept, [part for part in range(parts) if part not in complete]


def _kept_totals(folder: Path) -> Totals:
    fields = (read_record(folder / CHECKPOINT) or {}).get("totals")
    return Totals.from_json(fields) if isinstance(fields, dict) else Totals()


@contextmanager
def _directed(plan: JobPlan) -> Iterator[None]:
    """Be the only driver of a job with local outputs; after an error, give up a job that keeps nothing."""
    if plan.remote is not None:
        with released_claim(plan.remote):
            yield
        return
    with _without_empty_job(plan), held(plan.folder / DRIVER, "directs this job", patience=DRIVER_PATIENCE):
        yield


@contextmanager
def _without_empty_job(plan: JobPlan) -> Iterator[None]:
    """Remove the folder of the job after an error, unless it keeps finished units."""
    try:
        yield
    except BaseException:
        if find_kept(plan.names.out, per_input=plan.options.per_input) is None:
            with suppress(OutputError):
                remove_folder(plan.folder)
            if plan.options.per_input:
                with suppress(OSError):
                    plan.names.out.rmdir()  # if it is empty
        raise
