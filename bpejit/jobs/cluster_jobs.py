"""Run a job on a Ray cluster: its parts as tasks, which go on from their last checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bpejit.corpus.fingerprints import modified_times
from bpejit.corpus.sources import absolute_path
from bpejit.corpus.units import size_of_units
from bpejit.engines.ray_cluster import ClusterTask, RayCluster
from bpejit.errors import warn_user
from bpejit.jobs.folder_store import FolderStore
from bpejit.jobs.job_folder import Totals
from bpejit.jobs.job_plan import JobPlan
from bpejit.jobs.url_store import Store
from bpejit.progress_bar import Progress
from bpejit.storage.files import is_remote
from bpejit.storage.outputs import MANIFEST

PARTS_PER_SLOT = 4
"""Parts for each processor, so that the last ones to end leave few processors idle."""

PART_BYTES = 4 << 30
"""Larger parts would lose more of an index of documents, and take longer to hand over, when a node dies."""


def choose_parts(units: Sequence[Any], slots: int) -> int:
    """Return the number of parts of a job for a cluster that runs `slots` tasks at the same time."""
    begins = sum(bool(unit.starts_document) for unit in units)
    by_size = -(-(size_of_units(units) or 0) // PART_BYTES)
    return max(min(begins, max(PARTS_PER_SLOT * slots, by_size)), 1)


def run_tasks(plan: JobPlan, cluster: RayCluster, plans: Sequence[JobPlan], _: Progress) -> Iterator[tuple[int, Totals]]:
    """Run the parts of a job that are not complete, as tasks."""
    seen = [absolute_path(path) for path in plan.paths if not is_remote(path)]
    seen = [*seen[:1], *seen[-1:]]
    if isinstance(plan.store, FolderStore):
        seen.append(absolute_path(plan.names.folder / MANIFEST))
    cluster.prepare_nodes(plan.command, plan.kernels, sorted(set(seen)))
    parts = len(plans)
    missing = plan.store.missing_parts(parts)
    tasks = []
    for part in missing:
        arguments = (str(Path.cwd()), part, parts, plans[part].mine, modified_times(plans[part].paths))
        name, function = f"{plan.command} part {part + 1}/{parts}", "bpejit.jobs.running:run_part_task"
        tasks.append(ClusterTask(name, function, arguments, progress=partial(_units_kept, plan.store, part, parts)))
    warned: set[str] = set()
    for index, (totals, messages) in cluster.run(tasks, plan.shared()):
        for message in sorted(messages - warned):
            warn_user(message)
        warned |= messages
        yield missing[index], totals


def _units_kept(store: Store, part: int, parts: int) -> int:
    return store.kept_parts(parts)[part].units
