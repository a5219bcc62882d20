"""Count pre-tokens on a Ray cluster, in bounded memory of each node.

Each task counts a part of the input, and writes its table to sorted runs on storage that all nodes see, a folder or a URL
(`bpejit.counting.spilling`). Further tasks merge eight runs at a time, until at most eight are left; the counts file is their
merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bpejit.corpus.blocks import AnyChunk
from bpejit.corpus.chunks import FilesChunk
from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import check_times, modified_times
from bpejit.corpus.sources import (
    Source,
    absolute_path,
    absolute_sources,
    check_shared_sources,
    given_names,
    rename_records,
)
from bpejit.corpus.units import plan_units, sample_chunks
from bpejit.counting.count_job import CountJob, Tally
from bpejit.counting.counts import Counts
from bpejit.counting.counts_file import write_counts
from bpejit.counting.header import CountsHeader
from bpejit.counting.pretoken_counter import warm_counting
from bpejit.counting.spilling import (
    Run,
    SpilledRuns,
    SpillSettings,
    read_run,
    remove_runs,
    spill_settings,
    write_run,
)
from bpejit.counting.table_streams import merge_streams
from bpejit.engines import remarks
from bpejit.engines.ray_cluster import ClusterTask, RayCluster, connected
from bpejit.progress_bar import Progress
from bpejit.storage.files import is_remote

FAN_IN = 8
"""Runs that a task merges. Each level of the tree reads and writes all runs once."""

PARTS_PER_SLOT = 4

PART_BYTES = 4 << 30, 1 << 20
"""Most and least text of a part, in bytes. A larger one repeats more work if its node dies."""

UNBOUNDED = 1 << 62

STAGE = "bpejit count"


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
    chunk_bytes : int
    """

    job: CountJob
    folder: str
    chunk_bytes: int


def count_on_cluster(
    job: CountJob,
    sources: Sequence[Source],
    contents: Contents,
    folder: str,
    work: Mapping[str, Any],
    *,
    total: int | None,
    max_memory: int | None,
    header_of: Callable[[Tally, int], CountsHeader],
    out: str | None,
) -> Counts:
    """Count the pre-tokens of sources on a Ray cluster, which is left before merges are learned.

    Parameters
    ----------
    job : CountJob
    sources : sequence of Source
    contents : Contents
    folder : str
        Where runs are written: a path or a URL that all nodes see.
    work : dict
        What `checked_work` returns.
    total : int, optional
        Bytes to read.
    max_memory : int, optional
        Bounds the memory of all workers together.
    header_of : callable
        Returns the header of what has been counted, and of the number of pre-tokens.
    out : str, optional
        A counts file that a task writes.

    Raises
    ------
    CorpusError, OptionError, OutputError, EngineError
    """
    report = work["report"]
    with connected(work["ray_address"], workers=work["workers"]) as cluster:
        remarks(report)(f"counting on {cluster.describe()}")
        check_shared_sources(sources)
        home = absolute_path(folder)
        spill = SpillSettings(home, UNBOUNDED) if max_memory is None else spill_settings(home, max_memory, cluster.slots)
        shared = SharedCounting(replace(job, spill=spill), home, work["chunk_bytes"])
        parts = plan_count_parts(job, sources, contents, shared.chunk_bytes, total=total, slots=cluster.slots)
        seen = [home, *(absolute_path(source.path) for source in (*sources[:1], *sources[-1:]))]
        cluster.prepare_nodes(STAGE, (warm_counting,), [path for path in seen if not is_remote(path)])
        tasks = [
            ClusterTask(f"{STAGE} part {index + 1}/{len(parts)}", f"{__name__}:count_part", (part,))
            for index, part in enumerate(parts)
        ]
        report("count", 0, total, "bytes")
        counted: dict[int, tuple[list[Run], Tally]] = {}
        for index, found in cluster.run(tasks, shared):
            counted[index] = found
            report("count", sum(one.done for _, one in counted.values()), total, "bytes")
        tally = Tally(contents.sample is not None)
        names = given_names(sources)
        for _, (_, one) in sorted(counted.items()):
            tally.n_bytes += one.n_bytes
            for path, records in one.skipped.items():
                tally.skip(names.get(path, path), rename_records(records, names))
        merged = SpilledRuns(
            folder, _merge_runs([run for runs, _ in counted.values() for run in runs], shared, cluster, report)
        )
        header = header_of(tally, merged.n_pretokens)
        if out is not None:
            task = ClusterTask(f"{STAGE} write", f"{__name__}:write_merged", (absolute_path(out), header, merged))
            report("write", 0, header.n_pretokens, "pre-tokens")
            for _ in cluster.run([task]):
                report("write", header.n_pretokens, header.n_pretokens, "pre-tokens")
    return Counts(header, merged)


def plan_count_parts(
    job: CountJob, sources: Sequence[Source], contents: Contents, chunk_bytes: int, *, total: int | None, slots: int
) -> list[CountPart]:
    """Return the parts of the input for a cluster that runs `slots` tasks at the same time."""
    most, least = PART_BYTES
    part_bytes = min(max(-(-(total or 0) // (PARTS_PER_SLOT * slots)), least), most)
    chunker = job.chunker(chunk_bytes)
    absolute = absolute_sources(sources)
    parts = []
    for weight in sorted({source.weight for source in sources}):
        if contents.sample is not None:
            chunks = sample_chunks(chunker, absolute, *contents.sample, weight)
            groups = _groups(((chunk_bytes, (chunk,)) for chunk in chunks), part_bytes)
            parts += [CountPart(weight, chunks=group) for group in groups]
        else:
            units = plan_units([source for source in absolute if source.weight == weight], part_bytes, chunker, None)
            groups = _groups(((unit.size or 0, unit.sources) for unit in units), part_bytes)
            parts += [CountPart(weight, group) for group in groups]
    return [replace(part, times=modified_times(_paths_of(part))) for part in parts]


def _groups(pieces: Iterable[tuple[int, tuple[Any, ...]]], most: int) -> Iterator[tuple[Any, ...]]:
    """Join adjacent tuples, which have sizes, to larger ones of at most a size."""
    group: tuple[Any, ...] = ()
    size = 0
    for n_bytes, items in pieces:
        if group and size + n_bytes > most:
            yield group
            group, size = (), 0
        group += items
        size += n_bytes
    if group:
        yield group


def _paths_of(part: CountPart) -> list[str]:
    """Return the inputs of a part."""
    paths = [source.path for source in part.sources]
    for chunk in part.chunks:
        if isinstance(chunk, FilesChunk):
            paths += [file[0] for file in chunk.files]
        elif hasattr(chunk, "path"):
            paths.append(chunk.path)
    return paths


def count_part(shared: SharedCounting, part: CountPart) -> tuple[list[Run], Tally]:
    """Count a part: a task. Return its runs, and what was counted, with absolute paths of inputs."""
    check_times(part.times)
    worker = replace(shared.job, weight=part.weight).start()
    tally = Tally(sampled=bool(part.chunks))
    for chunk in part.chunks or shared.job.chunker(shared.chunk_bytes).chunks(part.sources):
        tally.add(worker.run(chunk))
    runs = worker.finish()
    assert isinstance(runs, list)
    return runs, tally


def _merge_runs(runs: list[Run], shared: SharedCounting, cluster: RayCluster, report: Progress) -> list[Run]:
    """Merge runs, level by level, to at most `FAN_IN`."""
    n_runs = left = len(runs)
    while left > FAN_IN:
        left = -(-left // FAN_IN)
    while len(runs) > FAN_IN:
        groups = [runs[begin : begin + FAN_IN] for begin in range(0, len(runs), FAN_IN)]
        tasks = [
            ClusterTask(f"{STAGE} merge {number + 1}/{len(groups)}", f"{__name__}:merge_group", (group,))
            for number, group in enumerate(groups)
            if len(group) > 1
        ]
        for index, merged in cluster.run(tasks, shared):
            remove_runs(groups[index])
            groups[index] = [merged]
            report("combine", n_runs - sum(map(len, groups)), n_runs - left, "runs")
        runs = [run for group in groups for run in group]
    return runs


def merge_group(shared: SharedCounting, runs: Sequence[Run]) -> Run:
    """Merge runs to a new one: a task."""
    return write_run(shared.folder, merge_streams([read_run(run.path) for run in runs]))


def write_merged(shared: None, out: str, header: CountsHeader, runs: SpilledRuns) -> None:  # noqa: ARG001
    """Write the counts file of runs: a task."""
    write_counts(out, header, runs.blocks())
