"""Generate a data set on a Ray cluster: its parts as tasks, and each shard that is shuffled as another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpejit.datagen.dataset_finishing import finish_dataset
from bpejit.datagen.dataset_job import (
    DatasetPlan,
    DatasetResult,
    begin_dataset,
    run_generation_part,
)
from bpejit.engines.base import Job, Progress
from bpejit.engines.ray_cluster import ClusterTask, RayCluster, TaskProgress
from bpejit.engines.ray_worker import TaskReport, warm_up
from bpejit.engines.serial import SerialEngine
from bpejit.errors import OutputError
from bpejit.jobs.cluster_encoding import DRIVER, DRIVER_PATIENCE, PART_BYTES, PARTS_PER_SLOT, PATIENCE, ShiftedTaskReport
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, find_kept, held, part_folder, read_record, remove_folder
from bpejit.jobs.job_run import Seconds, Totals
from bpejit.jobs.joining import missing_parts
from bpejit.jobs.unfinished import claim_job, naming_output, without_empty_folder

STAGE = "bpejit datagen"

KERNELS = ("encoding", "others")


@dataclass(frozen=True)
class SharedGeneration:
    """What all tasks have in common.

    Parameters
    ----------
    plan : DatasetPlan
        Of the data set.
    parts : int
    home : str
        The folder of the driver, to which relative paths of inputs refer.
    """

    plan: DatasetPlan
    parts: int
    home: str


def choose_dataset_parts(plan: DatasetPlan, slots: int) -> int:
    """Return the number of parts for a cluster that runs `slots` tasks at the same time."""
    by_size = -(-(plan.size or 0) // PART_BYTES)
    return max(min(len(plan.units), max(PARTS_PER_SLOT * slots, by_size)), 1)


def generate_on_cluster(plan: DatasetPlan, cluster: RayCluster, *, report: Progress) -> DatasetResult:
    """Generate a data set; its files are those of `run_generation`.

    Parameters
    ----------
    plan : DatasetPlan
    cluster : RayCluster
    report : callable
        Progress.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = time.perf_counter()
    seconds = Seconds()
    say: Callable[[str], None] = getattr(report, "message", None) or (lambda _: None)
    parts = begin_dataset(plan, choose_dataset_parts(plan, cluster.slots), say, patience=DRIVER_PATIENCE)
    if isinstance(parts, DatasetResult):
        return parts
    with (
        _without_empty_job(plan),
        held(plan.folder / DRIVER, "directs this job", patience=DRIVER_PATIENCE),
        naming_output(plan),
    ):
        claim_job(plan, parts, max_memory=plan.max_memory)
        shared = SharedGeneration(plan, parts, str(Path.cwd()))
        paths = [shared.home, str(plan.folder / MANIFEST), *(path for path in plan.inputs if "://" not in path)]
        cluster.prepare_nodes(STAGE, KERNELS, [os.path.join(shared.home, path) for path in paths[:3]])  # noqa: PTH118
        seconds.plan = time.perf_counter() - begun
        kept = _generate_parts(shared, cluster, report)
        seconds.encode = time.perf_counter() - begun - seconds.plan
    with naming_output(plan):
        engine = _ShardEngine(cluster, shared)
        totals = finish_dataset(plan.names, plan.job, parts, engine, report, max_memory=plan.max_memory)
    seconds.finish = time.perf_counter() - begun - seconds.plan - seconds.encode
    return DatasetResult(totals or Totals(), totals is not None, len(plan.units), kept, 0, seconds)


@contextmanager
def _without_empty_job(plan: DatasetPlan) -> Iterator[None]:
    """Remove the folder of the job after an error, unless it keeps finished units."""
    try:
        yield
    except BaseException:
        if find_kept(plan.names.out, per_input=False) is None:
            with suppress(OutputError):
                remove_folder(plan.folder)
        raise


def _generate_parts(shared: SharedGeneration, cluster: RayCluster, report: Progress) -> int:
    """Run the parts that are not complete; return the number of units of earlier runs."""
    plan = shared.plan
    found = [_part_totals(shared, part) for part in range(shared.parts)]
    kept = sum(totals.read for totals in found)
    missing = missing_parts(plan.folder, shared.parts)
    total = None if plan.size is None else max(plan.size - kept, 0)
    done = {part: totals.read for part, totals in enumerate(found)}
    ended: set[int] = set()

    def advance(progress: TaskProgress) -> None:
        done.update({missing[index]: amount for index, amount in progress.done.items() if index not in ended})
        report("encode", sum(done.values()) - kept, total, "bytes")

    report("encode", 0, total, "bytes")
    function = "bpejit.datagen.cluster_generation:generate_part"
    tasks = [ClusterTask(f"{STAGE} part {part + 1}/{shared.parts}", function, (part,)) for part in missing]
    for index, read in cluster.run(tasks, shared, advance):
        ended.add(index)
        done[missing[index]] = read
        report("encode", sum(done.values()) - kept, total, "bytes")
    return sum(totals.units for totals in found)


def generate_part(shared: SharedGeneration, part: int, *, report: TaskReport) -> int:
    """Generate a part: a task, which goes on from the part's last checkpoint. Return the bytes of input."""
    for kernels in KERNELS:
        warm_up(kernels)
    os.chdir(shared.home)
    options = replace(shared.plan.options, part=(part, shared.parts), resume=True)
    plan = replace(shared.plan, options=options)
    folder = part_folder(plan.folder, part, shared.parts)
    with (
        held(folder, f"works on part {part} of this data set", patience=PATIENCE),
        without_empty_folder(plan, folder),
        naming_output(plan),
    ):
        checkpoint = read_record(folder / CHECKPOINT)
        before = _part_totals(shared, part)
        if checkpoint is not None and checkpoint.get("complete"):
            return before.read
        shifted = ShiftedTaskReport(report, before.read)
        complete = run_generation_part(plan, folder, SerialEngine(), checkpoint, shifted, Seconds())
        return Totals.from_json(complete["totals"]).read


def _part_totals(shared: SharedGeneration, part: int) -> Totals:
    fields = (read_record(part_folder(shared.plan.folder, part, shared.parts) / CHECKPOINT) or {}).get("totals")
    return Totals.from_json(fields) if isinstance(fields, dict) else Totals()


class _ShardEngine:
    """Runs the job that shuffles shards, each shard as a task."""

    def __init__(self, cluster: RayCluster, shared: SharedGeneration) -> None:
        self.workers = cluster.slots
        self._cluster = cluster
        self._shared = shared

    def map_chunks(self, job: Job, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of each shard, in order."""
        function = "bpejit.datagen.cluster_generation:shuffle_on_node"
        shards = list(chunks)
        tasks = [
            ClusterTask(f"{STAGE} shuffle {number + 1}/{len(shards)}", function, (job, shard))
            for number, shard in enumerate(shards)
        ]
        found: dict[int, Any] = {}
        following = 0
        for index, result in self._cluster.run(tasks, self._shared.home):
            found[index] = result
            while following in found:
                yield found.pop(following)
                following += 1

    def fold_chunks(self, job: Job, chunks: Iterable[Any], done: Callable[[Any], None]) -> list[Any]:
        """Not used: shuffling has no combined result."""
        raise NotImplementedError


def shuffle_on_node(home: str, job: Any, shard: Any, *, report: TaskReport) -> int:  # noqa: ARG001
    """Shuffle a shard: a task. Return its size in bytes."""
    warm_up("others")
    os.chdir(home)
    size: int = job.start().run(shard)
    return size
