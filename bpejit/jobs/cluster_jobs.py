"""Run a job on a Ray cluster: its parts as tasks, which go on from their last checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

from bpejit.corpus.fingerprints import modified_times
from bpejit.corpus.sources import absolute_path
from bpejit.engines import remarks, report_details
from bpejit.engines.ray_cluster import ClusterTask, RayCluster, connected, describe_cluster
from bpejit.errors import OutputError, warn_user
from bpejit.jit.listening import working_time
from bpejit.jobs.folder_store import FolderStore
from bpejit.jobs.job_folder import Fields, held
from bpejit.jobs.job_plan import JobPlan, begin_job, claim_job, slice_units
from bpejit.jobs.job_totals import Finished, JobResult, Totals, no_seconds
from bpejit.progress_bar import Progress
from bpejit.storage.files import naming_output
from bpejit.storage.outputs import MANIFEST
from bpejit.storage.remote import is_remote

PARTS_PER_SLOT = 4
"""Parts for each processor, so that the last ones to end leave few processors idle."""

PART_BYTES = 4 << 30
"""Larger parts would lose more of an index of documents, and take longer to hand over, when a node dies."""

DRIVER_PATIENCE = 15.0

DRIVER = "driver"
"""The folder whose lock the driver of a job holds."""


def choose_parts(plan: JobPlan, slots: int) -> int:
    """Return the number of parts for a cluster that runs `slots` tasks at the same time."""
    begins = sum(bool(unit.starts_document) for unit in plan.units)
    by_size = -(-(plan.size or 0) // PART_BYTES)
    return max(min(begins, max(PARTS_PER_SLOT * slots, by_size)), 1)


def plan_on_cluster(plan: JobPlan, work: Fields) -> tuple[int, int, str]:
    """Return how many tasks run at the same time, the number of parts, and what the cluster is. A local one is not started."""
    plan.check_shared()
    slots, name = describe_cluster(work["ray_address"], work["workers"])
    parts = choose_parts(plan, slots)
    return min(slots, parts), parts, name


def run_on_cluster(plan: JobPlan, work: Fields) -> JobResult:
    """Run a whole job on a Ray cluster; the parameters, the outputs and the errors are those of `run_job`."""
    plan.check_shared()
    with connected(work["ray_address"], workers=work["workers"]) as cluster:
        remarks(work["report"])(f"running on {cluster.describe()}")
        return replace(_run_whole(plan, cluster, work["report"]), cluster=cluster.describe())


def _run_whole(plan: JobPlan, cluster: RayCluster, report: Progress) -> JobResult:
    """Run all parts of a job that are missing, and join them."""
    begun = working_time()
    seconds = no_seconds()
    parts = begin_job(plan, choose_parts(plan, cluster.slots), remarks(report), patience=DRIVER_PATIENCE)
    if isinstance(parts, Finished):
        return JobResult(parts.totals, parts, len(plan.units), len(plan.units), 0)
    is_local = isinstance(plan.store, FolderStore)
    lock = held(plan.names.folder / DRIVER, "directs this job", patience=DRIVER_PATIENCE) if is_local else nullcontext()
    seen = [absolute_path(path) for path in plan.paths if not is_remote(path)]
    seen = [*seen[:1], *seen[-1:], *([absolute_path(plan.names.folder / MANIFEST)] if is_local else [])]
    with plan.store.giving_up(), lock:
        claim_job(plan, parts)
        shared = plan.shared()
        cluster.prepare_nodes(plan.stage, plan.kernels, sorted(set(seen)))
        seconds["plan"] = working_time() - begun
        found = plan.store.kept_parts(parts)
        before = sum(found, Totals())
        totals, memory = _run_parts(plan, parts, found, cluster, shared, report)
        seconds["encode"] = working_time() - begun - seconds["plan"]
        plan.names.check_totals(plan.job, totals)
    with naming_output(plan.names.out):
        finished = plan.store.join(plan.names, report)
    if finished is None:
        raise OutputError(
            f"the outputs of `{plan.store.name}` were removed, or replaced by another process; expected those of this job: run "
            "it again"
        )
    seconds["finish"] = working_time() - begun - seconds["plan"] - seconds["encode"]
    return JobResult(
        totals,
        finished._replace(totals=totals),
        len(plan.units),
        before.units,
        0,
        seconds,
        memory,
        parts,
        totals.bytes - before.bytes,
    )


def _run_parts(
    plan: JobPlan, parts: int, found: list[Totals], cluster: RayCluster, shared: JobPlan, report: Progress
) -> tuple[Totals, int]:
    """Run the parts of a job that are not complete, as tasks; return the totals of all parts, and the peak memory of a worker.

    What an earlier run has finished of each part is `found`.
    """
    kept = sum(found, Totals())
    size = None if plan.size is None else max(plan.size - kept.read, 0)

    def advance(done: int, counted: Mapping[str, int]) -> None:
        more = {name: getattr(kept, name) + counted.get(name, 0) for name in ("tokens", "documents")}
        report_details(report, **more)
        report("encode", done, size, "bytes")

    missing = plan.store.missing_parts(parts)
    tasks = []
    for part in missing:
        mine = plan.part(part, parts, slice_units(plan.units, (part, parts)), Totals())
        arguments = (part, parts, mine.mine, modified_times(mine.paths), found[part])
        tasks.append(ClusterTask(f"{plan.stage} part {part + 1}/{parts}", "bpejit.jobs.running:run_part_task", arguments))
    memory = 0
    warned: set[str] = set()
    advance(0, {})
    for index, (totals, peak, messages) in cluster.run(tasks, shared, advance):
        for message in sorted(messages - warned):
            warn_user(message)
        warned |= messages
        found[missing[index]] = totals
        memory = max(memory, peak)
    return sum(found, Totals()), memory
