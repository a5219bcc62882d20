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
from bpejit.jobs.cluster_encoding import DRIVER, DRIVER_PATIENCE, PART_BYTES, PARTS_PER_SLOT, PATIENCE, ShiftedTaskReport
from bpejit.jobs.job_folder import MANIFEST, find_kept, held, remove_folder
from bpejit.jobs.remote_output import released_claim
from bpejit.jobs.unfinished import claim_job, naming_output
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.storage.remote import is_remote
from bpejit.t2t.datagen.dataset_job import DatasetPlan, DatasetResult
from bpejit.t2t.datagen.generation_job import warm_data_sets
from bpejit.t2t.datagen.generation_run import parts_of

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
    begun = working_time()
    seconds = Seconds()
    say: Callable[[str], None] = getattr(report, "message", None) or (lambda _: None)
    place = parts_of(plan)
    parts = place.begin(plan, choose_dataset_parts(plan, cluster.slots), say, patience=DRIVER_PATIENCE)
    if not isinstance(parts, int):
        return DatasetResult(parts, True, len(plan.units), len(plan.units), 0)
    outputs = [] if plan.remote else [str(plan.names.out)]
    with _directing(plan, parts) if plan.remote is None else released_claim(plan.remote):
        shared = SharedGeneration(plan, parts, _home([*outputs, *plan.paths]), modified_times(plan.paths))
        manifest = [] if plan.remote else [str(plan.folder / MANIFEST)]
        cluster.prepare_nodes(STAGE, KERNELS, _seen(shared, manifest))
        seconds.plan = working_time() - begun
        kept = _generate_parts(shared, cluster, report)
        seconds.encode = working_time() - begun - seconds.plan
    totals = place.finish(_ShardEngine(cluster, shared), report, max_memory=plan.max_memory) or place.complete(plan.job)
    if totals is None:
        raise OutputError(
            f"the unfinished job `{plan.remote.folder if plan.remote else plan.folder}` was removed, or is joined by another "
            "process; expected one at a time: run this again with `resume=True`"
        )
    seconds.finish = working_time() - begun - seconds.plan - seconds.encode
    return DatasetResult(totals, True, len(plan.units), kept.units, 0, seconds, max(totals.bytes - kept.bytes, 0))


@contextmanager
def _directing(plan: DatasetPlan, parts: int) -> Iterator[None]:
    """Be the only driver of a job in a folder; after an error, remove the folder unless it keeps finished units."""
    try:
        with (
            held(plan.folder / DRIVER, "directs this job", patience=DRIVER_PATIENCE),
            naming_output(plan.names.out),
        ):
            claim_job(plan, parts, max_memory=plan.max_memory)
            yield
    except BaseException:
        if find_kept(plan.names.out, per_input=False) is None:
            with suppress(OutputError):
                remove_folder(plan.folder)
        raise


def _home(paths: list[str]) -> str:
    """Return this folder if one of the paths is relative to it."""
    return "" if all(is_remote(path) or Path(path).is_absolute() for path in paths) else str(Path.cwd())


def _seen(shared: SharedGeneration, paths: list[str]) -> list[str]:
    """Return the paths that all nodes must see: some, the folder of the driver, and the first and the last input."""
    inputs = [path for path in shared.plan.paths if not is_remote(path)]
    found = [*([shared.home] if shared.home else []), *paths, *inputs[:1], *inputs[-1:]]
    return [os.path.join(shared.home, path) for path in dict.fromkeys(found)]  # noqa: PTH118


def _generate_parts(shared: SharedGeneration, cluster: RayCluster, report: Progress) -> Totals:
    """Run the parts that are not complete; return the totals of what earlier runs had finished."""
    place = parts_of(shared.plan)
    found = place.kept(shared.parts)
    missing = place.missing(shared.parts)
    kept = sum(found, Totals())
    size = shared.plan.size
    total = None if size is None else max(size - kept.read, 0)
    done = {part: totals.read for part, totals in enumerate(found)}
    ended: set[int] = set()

    def advance(progress: TaskProgress) -> None:
        done.update({missing[index]: amount for index, amount in progress.done.items() if index not in ended})
        report("encode", sum(done.values()) - kept.read, total, "bytes")

    report("encode", 0, total, "bytes")
    function = "bpejit.t2t.datagen.cluster_generation:generate_part"
    tasks = [ClusterTask(f"{STAGE} part {part + 1}/{shared.parts}", function, (part,)) for part in missing]
    for index, read in cluster.run(tasks, shared, advance):
        ended.add(index)
        done[missing[index]] = read
        report("encode", sum(done.values()) - kept.read, total, "bytes")
    return kept


def generate_part(shared: SharedGeneration, part: int, *, report: TaskReport) -> int:
    """Generate a part: a task, which goes on from the part's last checkpoint. Return the bytes of input."""
    for kernels in KERNELS:
        warm_up(kernels)
    if shared.home:
        os.chdir(shared.home)
    check_times(shared.times)
    options = replace(shared.plan.options, part=(part, shared.parts), resume=True)
    plan = replace(shared.plan, options=options)
    place = parts_of(plan)
    with place.working(plan, shared.parts, patience=PATIENCE):
        shifted = ShiftedTaskReport(report, place.kept(shared.parts)[part].read)
        _, totals = place.generate(plan, shared.parts, SerialEngine(), shifted, Seconds(), lambda _: None)
    return totals.read


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
