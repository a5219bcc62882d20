"""Run, estimate or join a job of any kind, on this machine or on a cluster."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bpejit.engines import RAY
from bpejit.errors import OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.folder_store import FolderStore
from bpejit.jobs.job_folder import Fields
from bpejit.jobs.job_plan import JobPlan
from bpejit.jobs.job_records import FOLDER_VERSION
from bpejit.jobs.job_totals import JobResult, Seconds, Totals, run_sample
from bpejit.jobs.running import run_job
from bpejit.jobs.store import JobOutputs, Kept, NamesOf, Store
from bpejit.jobs.url_store import UrlStore
from bpejit.process_memory import peak_memory
from bpejit.progress_bar import Progress
from bpejit.storage.files import naming_output
from bpejit.storage.outputs import MANIFEST
from bpejit.storage.remote import is_remote, local_path


def run_anywhere(plan: JobPlan, work: Fields) -> JobResult:
    """Run a job on this machine or a cluster; see `bpejit.jobs.running.run_job`."""
    if work["engine"] != RAY:
        return run_job(plan, work)
    from bpejit.jobs.cluster_jobs import run_on_cluster  # not at the top: most jobs run on one machine

    return run_on_cluster(plan, work)


def estimate_job(plan: JobPlan, work: Fields, *, estimated: bool = True) -> tuple[JobResult, float]:
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
    found: Totals | Kept | None = None
    if plan.options.resume:
        found = plan.store.kept() if plan.options.part is None else plan.store.kept_part(*plan.options.part)
    kept = 0 if found is None else found.units
    memory = peak_memory()[0] if cluster else 0
    return JobResult(expected, None, len(plan.mine), kept, 0, worker_memory=memory, parts=parts, cluster=cluster), seconds


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


def _read_begun(begun: Fields, store: Store, names_of: NamesOf) -> tuple[JobOutputs, int]:
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


def open_store(out: str, *, per_input: bool) -> Store:
    """Return the store of a job with an output, a path or a URL."""
    out = local_path(out)
    return UrlStore(out.rstrip("/"), per_input) if is_remote(out) else FolderStore(Path(out), per_input)


def find_store(out: str) -> Store:
    """Return the store of an output: a folder of outputs if a job or a manifest is in it, and otherwise a single one."""
    single, folder = open_store(out, per_input=False), open_store(out, per_input=True)
    if single.begun() is None and (folder.begun() is not None or folder.described() is not None):
        return folder
    return single
