"""Generate a data set on a Ray cluster: its parts as tasks, and each shard that is shuffled as another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpejit.corpus.fingerprints import check_times, modified_times
from bpejit.encoding.codec import warm_encoding
from bpejit.engines.base import Job, Progress
from bpejit.engines.ray_cluster import ClusterTask, RayCluster, TaskProgress
from bpejit.engines.ray_worker import TaskReport, warm_up
from bpejit.engines.serial import SerialEngine
from bpejit.errors import OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import read_checkpoint
from bpejit.jobs.cluster_encoding import DRIVER, DRIVER_PATIENCE, PART_BYTES, PARTS_PER_SLOT, PATIENCE, ShiftedTaskReport
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, find_kept, held, part_folder, read_record, remove_folder
from bpejit.jobs.joining import missing_parts
from bpejit.jobs.remote_output import RemoteOutput, released_claim
from bpejit.jobs.unfinished import claim_job, naming_output, without_empty_folder
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.storage.remote import is_remote
from bpejit.t2t.datagen.dataset_finishing import finish_dataset
from bpejit.t2t.datagen.dataset_job import (
    DatasetPlan,
    DatasetResult,
    begin_dataset,
    compare_samples,
    run_generation_part,
)
from bpejit.t2t.datagen.generation_job import warm_data_sets
from bpejit.t2t.datagen.remote_dataset import begin_remote_dataset, finish_remote_dataset, generate_remote_part

STAGE = "bpejit datagen"

KERNELS = (warm_encoding, warm_data_sets)


@dataclass(frozen=True)
class SharedGeneration:
    """What all tasks have in common.

    Parameters
    ----------
    plan : DatasetPlan
        Of the data set.
    parts : int
    home : str
        The folder of the driver, if relative paths refer to it; otherwise empty.
    times : dict of str to int
        The modification times of the inputs there (see `modified_times`).
    """

    plan: DatasetPlan
    parts: int
    home: str
    times: dict[str, int | None]


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
    if plan.remote is not None:
        return _generate_at_url(plan, plan.remote, cluster, report)
    begun = working_time()
    seconds = Seconds()
    say: Callable[[str], None] = getattr(report, "message", None) or (lambda _: None)
    parts = begin_dataset(plan, choose_dataset_parts(plan, cluster.slots), say, patience=DRIVER_PATIENCE)
    if isinstance(parts, DatasetResult):
        return parts
    with (
        _without_empty_job(plan),
        held(plan.folder / DRIVER, "directs this job", patience=DRIVER_PATIENCE),
        naming_output(plan.names.out),
    ):
        claim_job(plan, parts, max_memory=plan.max_memory)
        shared = SharedGeneration(plan, parts, _home([str(plan.names.out), *plan.inputs]), modified_times(plan.inputs))
        cluster.prepare_nodes(STAGE, KERNELS, _seen(shared, [str(plan.folder / MANIFEST)]))
        seconds.plan = working_time() - begun
        kept, kept_bytes = _generate_parts(shared, cluster, report)
        seconds.encode = working_time() - begun - seconds.plan
    with naming_output(plan.names.out):
        engine = _ShardEngine(cluster, shared)
        totals = finish_dataset(plan.names, plan.job, parts, engine, report, max_memory=plan.max_memory)
    seconds.finish = working_time() - begun - seconds.plan - seconds.encode
    found = totals or Totals()
    return DatasetResult(found, totals is not None, len(plan.units), kept, 0, seconds, max(found.bytes - kept_bytes, 0))


def _generate_at_url(plan: DatasetPlan, remote: RemoteOutput, cluster: RayCluster, report: Progress) -> DatasetResult:
    begun = working_time()
    seconds = Seconds()
    say: Callable[[str], None] = getattr(report, "message", None) or (lambda _: None)
    parts = begin_remote_dataset(plan, choose_dataset_parts(plan, cluster.slots), say)
    if isinstance(parts, DatasetResult):
        return parts
    shared = SharedGeneration(plan, parts, _home(plan.inputs), modified_times(plan.inputs))
    with released_claim(remote):
        cluster.prepare_nodes(STAGE, KERNELS, _seen(shared, []))
        seconds.plan = working_time() - begun
        kept, kept_bytes = _generate_parts(shared, cluster, report)
        seconds.encode = working_time() - begun - seconds.plan
    totals = finish_remote_dataset(remote, _ShardEngine(cluster, shared), report, max_memory=plan.max_memory)
    if totals is None:
        raise OutputError(
            f"the unfinished job `{remote.folder}` was removed, or joined by another process; expected one at a time: run this "
            "again with `resume=True`"
        )
    seconds.finish = working_time() - begun - seconds.plan - seconds.encode
    return DatasetResult(totals, True, len(plan.units), kept, 0, seconds, totals.bytes - kept_bytes)


def _home(paths: list[str]) -> str:
    """Return this folder if one of the paths is relative to it."""
    return "" if all(is_remote(path) or Path(path).is_absolute() for path in paths) else str(Path.cwd())


def _seen(shared: SharedGeneration, paths: list[str]) -> list[str]:
    """Return the paths that all nodes must see: some, the folder of the driver, and the first and the last input."""
    inputs = [path for path in shared.plan.inputs if not is_remote(path)]
    found = [*([shared.home] if shared.home else []), *paths, *inputs[:1], *inputs[-1:]]
    return [os.path.join(shared.home, path) for path in dict.fromkeys(found)]  # noqa: PTH118


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


def _generate_parts(shared: SharedGeneration, cluster: RayCluster, report: Progress) -> tuple[int, int]:
    """Run the parts that are not complete; return the number of units of earlier runs, and their bytes of text."""
    plan = shared.plan
    stored = {part for part, parts in plan.remote.parts() if parts == shared.parts} if plan.remote else set()
    found = [_part_totals(shared, part, stored) for part in range(shared.parts)]
    kept = sum(totals.read for totals in found)
    if plan.remote is None:
        missing = missing_parts(plan.folder, shared.parts)
    else:
        missing = sorted({*range(shared.parts)} - stored)
    total = None if plan.size is None else max(plan.size - kept, 0)
    done = {part: totals.read for part, totals in enumerate(found)}
    ended: set[int] = set()

    def advance(progress: TaskProgress) -> None:
        done.update({missing[index]: amount for index, amount in progress.done.items() if index not in ended})
        report("encode", sum(done.values()) - kept, total, "bytes")

    report("encode", 0, total, "bytes")
    function = "bpejit.t2t.datagen.cluster_generation:generate_part"
    tasks = [ClusterTask(f"{STAGE} part {part + 1}/{shared.parts}", function, (part,)) for part in missing]
    for index, read in cluster.run(tasks, shared, advance):
        ended.add(index)
        done[missing[index]] = read
        report("encode", sum(done.values()) - kept, total, "bytes")
    return sum(totals.units for totals in found), sum(totals.bytes for totals in found)


def generate_part(shared: SharedGeneration, part: int, *, report: TaskReport) -> int:
    """Generate a part: a task, which goes on from the part's last checkpoint. Return the bytes of input."""
    for kernels in KERNELS:
        warm_up(kernels)
    if shared.home:
        os.chdir(shared.home)
    check_times(shared.times)
    options = replace(shared.plan.options, part=(part, shared.parts), resume=True)
    plan = replace(shared.plan, options=options)
    if plan.remote is not None:
        return generate_remote_part(plan, SerialEngine(), report, Seconds()).read
    folder = part_folder(plan.folder, part, shared.parts)
    with (
        held(folder, f"works on part {part} of this data set", patience=PATIENCE),
        without_empty_folder(plan, folder),
        naming_output(plan.names.out),
    ):
        checkpoint = read_checkpoint(folder, plan.identity())
        before = _part_totals(shared, part, set())
        compare_samples(plan, checkpoint, SerialEngine(), lambda *_: None)
        if checkpoint is not None and checkpoint.get("complete"):
            return before.read
        shifted = ShiftedTaskReport(report, before.read)
        complete = run_generation_part(plan, folder, SerialEngine(), checkpoint, shifted, Seconds())
        return Totals.from_json(complete["totals"]).read


def _part_totals(shared: SharedGeneration, part: int, stored: set[int]) -> Totals:
    if shared.plan.remote is not None:
        return shared.plan.remote.read_totals(part, shared.parts) if part in stored else Totals()
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
        function = "bpejit.t2t.datagen.cluster_generation:shuffle_on_node"
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
    warm_up(warm_data_sets)
    if home:
        os.chdir(home)
    size: int = job.start().run(shard)
    return size
