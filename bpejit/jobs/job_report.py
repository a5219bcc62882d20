"""Run a job of any kind where it is to run, or plan or join it, and tell what was done."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.engines import RAY
from bpejit.errors import OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.folder_store import find_store
from bpejit.jobs.job_plan import JobPlan, JobResult
from bpejit.jobs.job_records import FOLDER_VERSION
from bpejit.jobs.job_totals import Seconds, Totals, run_sample
from bpejit.jobs.output_files import JobOutputs, NamesOf
from bpejit.jobs.running import run_job
from bpejit.jobs.store import Store
from bpejit.process_memory import peak_memory
from bpejit.progress_bar import Progress
from bpejit.storage.files import naming_output
from bpejit.storage.outputs import MANIFEST

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """What reports about all kinds of jobs tell.

    Parameters
    ----------
    paths : tuple of Path or str
        All files, or their URLs. Empty for a stream or a device, after a dry run, and while parts of the job are missing.
    manifest : Path or str, optional
        The manifest, which describes the job and its outputs.
    bytes : int
        Bytes of text; those of the part, if other parts of the job are missing. After a dry run, bytes of input.
    skipped : Skipped
        Records without text, or incomplete samples: their number (`count`), and the first few (`first`).
    seconds : float
        Wall time, reading and writing included; after a dry run, the expected time.
    units, kept_units : int
        Units of the job, or of the part, and those that an earlier run had finished.
    missing_parts : int
        Parts of the job that are not complete.
    stages : dict of str to float
        Where the time went, in seconds: `plan`, `encode` (waiting for results), `write` and `finish`.
    peak_memory, worker_memory : int
        Peak resident memory of this process, and of the largest worker, in bytes; 0 if unknown.
    parts : int
        Parts of the job.
    cluster : str
        The Ray cluster that the job ran on, in words.
    new_bytes : int
        Bytes of text that this run has encoded: fewer than `bytes` if an earlier run had finished units, or other runs parts.
    part : str
        The part of the job that this run worked on, such as 0/2; empty for the whole job.
    """

    paths: tuple[Path | str, ...] = ()
    manifest: Path | str | None = None
    bytes: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    seconds: float = 0.0
    units: int = 0
    kept_units: int = 0
    missing_parts: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    worker_memory: int = 0
    parts: int = 1
    cluster: str = ""
    new_bytes: int = 0
    part: str = ""

    @classmethod
    def of(cls, result: JobResult, seconds: float, part: tuple[int, int] | None = None, **own: Any) -> Self:
        """Return the report of what a run did; `own` are the fields of the kind of job."""
        finished = result.finished
        memory, worker_memory = peak_memory()
        return cls(
            paths=() if finished is None else finished.paths,
            manifest=None if finished is None else finished.manifest,
            bytes=result.totals.bytes,
            skipped=result.totals.skipped,
            seconds=seconds,
            units=result.units,
            kept_units=result.kept,
            missing_parts=result.missing,
            stages=dict(vars(result.seconds)),
            peak_memory=memory,
            worker_memory=result.worker_memory if result.cluster else worker_memory,
            parts=result.parts,
            cluster=result.cluster,
            new_bytes=result.new_bytes,
            part="/".join(map(str, part or ())),
            **own,
        )


def run_anywhere(plan: JobPlan, work: Mapping[str, Any]) -> JobResult:
    """Run a job on this machine or a cluster; see `bpejit.jobs.running.run_job`."""
    if work["engine"] != RAY:
        return run_job(plan, work)
    from bpejit.jobs.cluster_jobs import run_on_cluster  # not at the top: most jobs run on one machine

    return run_on_cluster(plan, work)


def plan_anywhere(plan: JobPlan, work: Mapping[str, Any], *, estimated: bool = True) -> tuple[JobResult, float]:
    """Return what is expected of a run, and its seconds, from the first chunks of a few units unless `estimated` is false."""
    parts, cluster = 1, ""
    if work["engine"] == RAY:
        from bpejit.jobs.cluster_jobs import plan_on_cluster

        slots, parts, cluster = plan_on_cluster(plan, work)
    else:
        slots = plan.make_engine(work).workers
    expected, seconds = Totals(bytes=plan.size or 0), 0.0
    if estimated:
        job, chunker = plan.chunk_job()
        sample = run_sample(job.start(), plan.mine, chunker)
        share, seconds = sample.expect(expected.bytes, slots)
        expected.tokens = round(sum(found.n_tokens for found in sample.results) * share)
        expected.documents = round(sum(found.n_documents for found in sample.results) * share)
    kept = _count_kept(plan) if plan.options.resume else 0
    memory = peak_memory()[0] if cluster else 0
    return JobResult(expected, None, len(plan.mine), kept, 0, worker_memory=memory, parts=parts, cluster=cluster), seconds


def _count_kept(plan: JobPlan) -> int:
    """Return the number of units that an earlier run has finished."""
    if plan.options.part is not None:
        return plan.store.kept_part(*plan.options.part).units
    kept = plan.store.kept()
    return 0 if kept is None else kept.units


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
        names, parts = _read_begun(begun, store, names_of)
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
    return JobResult(finished.totals, finished, units, units, 0, Seconds(finish=working_time() - began))


def _read_begun(begun: Mapping[str, Any], store: Store, names_of: NamesOf) -> tuple[JobOutputs, int]:
    """Return the outputs and the number of parts of an unfinished job, from its manifest."""
    if begun and begun.get("folder_version") != FOLDER_VERSION:
        raise OutputError(
            f"`{store.folder}` was written by another version of bpejit; expected parts of this version: join them with that "
            "version, or remove the folder, and run the job again"
        )
    try:
        return names_of(store.out, begun["job"]), int(begun["parts"])
    except (KeyError, TypeError, ValueError) as cause:
        raise OutputError(
            f"`{store.folder}/{MANIFEST}` is broken; expected the manifest of a job: remove the folder, and run the job again"
        ) from cause
