"""Count pre-tokens on a Ray cluster, in bounded memory of each node.

Each task counts a part of the input, and divides its table by a hash of the pre-token into `K` sorted runs on storage that all
nodes see, a folder or a URL (`bpejit.counting.spilling`). Runs of the same partition are merged, eight at a time, by further
tasks. The `K` runs that remain have no pre-token in common; the counts file is their merge.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array, PretokenTable
from bpejit.corpus.blocks import AnyChunk
from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import check_times, modified_times
from bpejit.corpus.sources import Source, absolute_path, absolute_sources, given_names, rename_records
from bpejit.corpus.units import plan_units, sample_chunks
from bpejit.counting.count_job import CountJob, Tally
from bpejit.counting.counts_file import write_counts
from bpejit.counting.header import CountsHeader
from bpejit.counting.pretoken_counter import warm_counting
from bpejit.counting.spilling import (
    MOST_RUNS,
    Run,
    SpilledRuns,
    SpillSettings,
    node_runs_folder,
    read_run,
    remove_runs,
    spill_settings,
    store_runs,
    write_run,
)
from bpejit.counting.table_streams import BLOCK_BYTES, BLOCK_WORDS, gather_rows, join_tables, merge_streams, pack_block
from bpejit.engines.base import Progress
from bpejit.engines.ray_cluster import ClusterTask, RayCluster, TaskProgress
from bpejit.engines.ray_worker import TaskReport, warm_up
from bpejit.errors import OptionError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.storage.files import write_error
from bpejit.storage.remote import is_remote

FAN_IN = 8
"""Runs that a task merges. Each level of the tree reads and writes all runs once."""

PARTS_PER_SLOT = 4

PART_BYTES = 4 << 30, 1 << 20
"""Most and least text of a part, in bytes. A larger one repeats more work if its node dies."""

UNBOUNDED = 1 << 62

STAGE = "bpejit count"

_MULTIPLIER = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class CountPart:
    """A part of the input.

    Parameters
    ----------
    weight : int
    sources : tuple of Source
    chunks : tuple of chunks
        Those of a sample, instead of sources.
    times : dict of str to int
        The modification times of the inputs on the driver: a node may have an old copy.
    """

    weight: int
    sources: tuple[Source, ...] = ()
    chunks: tuple[AnyChunk, ...] = ()
    times: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class SharedCounting:
    """What all tasks have in common.

    Parameters
    ----------
    job : CountJob
        With the bound of the memory of a worker.
    folder : str
        For runs: absolute, or a URL.
    partitions : int
    chunk_bytes : int
    """

    job: CountJob
    folder: str
    partitions: int
    chunk_bytes: int


@dataclass(frozen=True)
class CountedPart:
    """What a task reports of its part, or the result for all parts.

    Parameters
    ----------
    runs : list of Run
        One for each partition. No two have a pre-token in common.
    tally : Tally
        Its inputs are absolute paths, or in the result as the user gave them.
    """

    runs: list[Run]
    tally: Tally


def count_on_cluster(
    job: CountJob,
    sources: Sequence[Source],
    contents: Contents,
    cluster: RayCluster,
    folder: str,
    *,
    total: int | None,
    max_memory: int | None,
    chunk_bytes: int,
    report: Progress,
) -> CountedPart:
    """Count the pre-tokens of sources.

    Runs are written in `folder`, a path or a URL that all nodes see. `total` is the number of bytes to read, if known, and
    `max_memory` bounds the memory of all workers together.

    Raises
    ------
    CorpusError, OptionError, OutputError, EngineError
    """
    check_shared_sources(sources)
    home = absolute_path(folder)
    spill = SpillSettings(home, UNBOUNDED) if max_memory is None else spill_settings(Path(home), max_memory, cluster.slots)
    shared = SharedCounting(replace(job, spill=spill), home, min(cluster.slots, MOST_RUNS), chunk_bytes)
    parts = plan_count_parts(job, sources, contents, chunk_bytes, total=total, slots=cluster.slots)
    seen = [home, *(absolute_path(source.path) for source in (*sources[:1], *sources[-1:]))]
    cluster.prepare_nodes(STAGE, (warm_counting,), [path for path in seen if not is_remote(path)])
    counted = _count_parts(parts, shared, cluster, total, report)
    tally, names = Tally(contents.sample is not None), given_names(sources)
    for one in counted:
        tally.n_bytes += one.tally.n_bytes
        for path, records in one.tally.skipped.items():
            tally.skip(names.get(path, path), rename_records(records, names))
    runs = [[one.runs[number] for one in counted] for number in range(shared.partitions)]
    return CountedPart(_merge_partitions(runs, shared, cluster, report), tally)


def check_shared_sources(sources: Sequence[Source]) -> None:
    """Raise an exception if a source is a pipe, which only this process can read."""
    pipes = [source.path for source in sources if source.size is None]
    if pipes:
        name = "standard input" if pipes[0] == "-" else f"`{pipes[0]}`"
        raise OptionError(
            f"{name} can be read only once, and only here; expected files that all nodes of the cluster read: write the text "
            "to files first, or use another engine"
        )


def _part_bytes(total: int | None, slots: int) -> int:
    most, least = PART_BYTES
    return min(max(-(-(total or 0) // (PARTS_PER_SLOT * slots)), least), most)


def plan_count_parts(
    job: CountJob, sources: Sequence[Source], contents: Contents, chunk_bytes: int, *, total: int | None, slots: int
) -> list[CountPart]:
    """Return the parts of the input for a cluster that runs `slots` tasks at the same time."""
    part_bytes = _part_bytes(total, slots)
    chunker = job.chunker(chunk_bytes)
    absolute = absolute_sources(sources)
    parts = []
    for weight in sorted({source.weight for source in sources}):
        if contents.sample is not None:
            group: list[AnyChunk] = []
            for chunk in sample_chunks(chunker, absolute, *contents.sample, weight):
                group.append(chunk)
                if len(group) * chunk_bytes >= part_bytes:
                    parts.append(CountPart(weight, chunks=tuple(group)))
                    group = []
            parts += [CountPart(weight, chunks=tuple(group))] if group else []
            continue
        some: list[Source] = []
        size = 0
        for unit in plan_units([source for source in absolute if source.weight == weight], part_bytes, chunker, None):
            if some and size + (unit.size or 0) > part_bytes:
                parts.append(CountPart(weight, tuple(some)))
                some, size = [], 0
            some += unit.sources
            size += unit.size or 0
        parts += [CountPart(weight, tuple(some))] if some else []
    return [replace(part, times=modified_times(_paths_of(part))) for part in parts]


def _paths_of(part: CountPart) -> list[str]:
    """Return the inputs of a part."""
    grouped = [getattr(chunk, "paths", None) or [getattr(chunk, "path", None)] for chunk in part.chunks]
    return [*(source.path for source in part.sources), *(path for paths in grouped for path in paths if path is not None)]


def _count_parts(
    parts: list[CountPart], shared: SharedCounting, cluster: RayCluster, total: int | None, report: Progress
) -> list[CountedPart]:
    tasks = [
        ClusterTask(f"{STAGE} part {index + 1}/{len(parts)}", "bpejit.counting.cluster_counting:count_part", (part,))
        for index, part in enumerate(parts)
    ]
    done: dict[int, int] = {}
    counted: dict[int, CountedPart] = {}

    def advance(progress: TaskProgress) -> None:
        done.update({index: amount for index, amount in progress.done.items() if index not in counted})
        report("count", sum(done.values()), total, "bytes")

    report("count", 0, total, "bytes")
    for index, result in cluster.run(tasks, shared, advance):
        counted[index] = result
        done[index] = result.tally.done
        report("count", sum(done.values()), total, "bytes")
    return [counted[index] for index in range(len(parts))]


def count_part(shared: SharedCounting, part: CountPart, *, report: TaskReport) -> CountedPart:
    """Count a part, and write a run for each partition: a task."""
    warm_up(warm_counting)
    check_times(part.times)
    with node_runs_folder(shared.folder) as folder:
        return _count_part(shared, part, folder, report)


def _count_part(shared: SharedCounting, part: CountPart, folder: Path, report: TaskReport) -> CountedPart:
    assert shared.job.spill is not None
    job = replace(shared.job, weight=part.weight, spill=replace(shared.job.spill, folder=str(folder)))
    worker = job.start()
    chunker = job.chunker(shared.chunk_bytes)
    tally = Tally(sampled=bool(part.chunks))
    for chunk in part.chunks or chunker.chunks(part.sources):
        tally.add(worker.run(chunk))
        report("count", tally.done, None, "bytes")
    found = worker.finish()
    assert isinstance(found, list)
    runs = write_partitions(folder, SpilledRuns(str(folder), found).blocks(), shared.partitions)
    remove_runs(found)
    return CountedPart(store_runs(runs, shared.folder), tally)


def write_partitions(folder: Path, blocks: Iterator[PretokenTable], partitions: int) -> list[Run]:
    """Divide a sorted table by a hash of the pre-token, and write a run for each partition, in a new folder.

    The blocks have at most `BLOCK_WORDS` pre-tokens.

    Raises
    ------
    OutputError
        If a run cannot be written, for example because the disk is full.
    """
    home = folder / secrets.token_hex(8)
    try:
        home.mkdir()
        writers = [_RunWriter(home / f"{number}.run") for number in range(partitions)]
        try:
            for table in blocks:
                if partitions == 1:
                    writers[0].add(table)
                    continue
                chosen = partition_numbers(table, partitions)
                pool = np.concatenate([table.pool, np.zeros(TEXT_PADDING, np.uint8)])
                for number, writer in enumerate(writers):
                    rows = np.flatnonzero(chosen == number)
                    if rows.size:
                        writer.add(gather_rows(pool, table.starts, table.counts, rows))
            return [writer.finish() for writer in writers]
        finally:
            for writer in writers:
                writer.file.close()
    except OSError as cause:
        shutil.rmtree(home, ignore_errors=True)
        raise write_error(str(cause.filename or home), cause) from cause


def partition_numbers(table: PretokenTable, partitions: int) -> Array:
    """Return the partition of each pre-token, as int64 [n]: a hash of its bytes, which is the same on all machines."""
    starts = table.starts
    lengths = np.diff(starts)
    powers = np.full(int(lengths.max()) if lengths.size else 0, _MULTIPLIER, np.uint64)
    np.multiply.accumulate(powers, out=powers)
    positions = np.arange(int(starts[-1]), dtype=np.int64) - np.repeat(starts[:-1], lengths)
    terms = (table.pool[: int(starts[-1])].astype(np.uint64) + np.uint64(1)) * powers[positions]
    hashes = np.add.reduceat(terms, starts[:-1])
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(_MULTIPLIER)
    return ((hashes >> np.uint64(33)) % np.uint64(partitions)).astype(np.int64)


class _RunWriter:
    """Writes a run of a partition, to which few pre-tokens of each block belong."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.file = path.open("xb")
        self._pending: list[PretokenTable] = []
        self._n = self._n_bytes = 0
        self._totals = np.zeros(3, np.int64)

    def add(self, table: PretokenTable) -> None:
        if self._n + len(table) > BLOCK_WORDS or self._n_bytes >= BLOCK_BYTES:
            self._flush()
        self._pending.append(table)
        self._n += len(table)
        self._n_bytes += table.pool.size

    def _flush(self) -> None:
        if self._pending:
            block = join_tables(self._pending)
            self.file.write(pack_block(block))
            self._totals += (len(block), block.pool.size, int(block.counts.sum()))
            self._pending, self._n, self._n_bytes = [], 0, 0

    def finish(self) -> Run:
        self._flush()
        self.file.write(bytes(32))  # an empty block
        self.file.close()
        n, n_bytes, n_pretokens = self._totals.tolist()
        return Run(str(self._path), n, n_bytes, n_pretokens)


def _merge_partitions(runs: list[list[Run]], shared: SharedCounting, cluster: RayCluster, report: Progress) -> list[Run]:
    """Merge the runs of each partition to one, level by level."""
    total = sum(max(len(own) - 1, 0) for own in runs)
    done = 0
    while any(len(own) > 1 for own in runs):
        groups = [
            (number, own[begin : begin + FAN_IN]) for number, own in enumerate(runs) for begin in range(0, len(own), FAN_IN)
        ]
        several = [(number, some) for number, some in groups if len(some) > 1]
        task = "bpejit.counting.cluster_counting:merge_partition_runs"
        tasks = [ClusterTask(f"{STAGE} merge {number + 1}/{len(runs)}", task, (tuple(some),)) for number, some in several]
        report("combine", done, total, "runs")
        for index, run in cluster.run(tasks, shared):
            _, some = several[index]
            remove_runs(some)
            done += len(some) - 1
            some[:] = [run]
            report("combine", done, total, "runs")
        runs = [[run for number, some in groups if number == own for run in some] for own in range(len(runs))]
    return [run for own in runs for run in own]


def merge_partition_runs(shared: SharedCounting, runs: Sequence[Run], *, report: TaskReport) -> Run:  # noqa: ARG001
    """Merge runs to a new one: a task."""
    warm_up(warm_counting)
    with node_runs_folder(shared.folder) as folder:
        merged = write_run(str(folder), merge_streams([read_run(run.path) for run in runs]))
        return store_runs([merged], shared.folder)[0]


def write_cluster_counts(out: str, header: CountsHeader, counts: CountedPart, cluster: RayCluster, report: Progress) -> None:
    """Write a counts file in a task.

    Raises
    ------
    OutputError
    """
    arguments: tuple[Any, ...] = (absolute_path(out), header, counts.runs)
    task = ClusterTask(f"{STAGE} write", "bpejit.counting.cluster_counting:write_merged", arguments)

    def advance(progress: TaskProgress) -> None:
        report("write", sum(progress.done.values()), header.n_pretokens, "pre-tokens")

    for _ in cluster.run([task], None, advance):
        report("write", header.n_pretokens, header.n_pretokens, "pre-tokens")


def write_merged(shared: None, out: str, header: CountsHeader, runs: list[Run], *, report: TaskReport) -> None:  # noqa: ARG001
    """Write the counts file of runs without a common pre-token: a task."""
    warm_up(warm_counting)
    write_counts(out, header, SpilledRuns("", runs).blocks(), report)
