"""Finish a data set: shuffle the shards of all parts, and give the files their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpejit.corpus.blocks import Skipped
from bpejit.engines import AUTO, make_engine
from bpejit.engines.base import Engine, Progress
from bpejit.errors import CorpusError, OutputError
from bpejit.jobs.checkpoints import complete_checkpoints
from bpejit.jobs.job_folder import (
    MANIFEST,
    damaged,
    file_sha256,
    found_parts,
    is_held,
    job_folder,
    part_folder,
    read_record,
    remove_folder,
    write_record,
)
from bpejit.jobs.job_manifest import find_difference, finished_manifest, manifest_path
from bpejit.jobs.joining import check_all_parts, check_version, joined_by_another, joining_parts, no_parts
from bpejit.jobs.output_files import FINAL, exchange, remove_links
from bpejit.jobs.unfinished import naming_output
from bpejit.jobs.unit_loop import Totals
from bpejit.storage.exchange import recover
from bpejit.storage.files import replacing
from bpejit.storage.temporary import sync_file
from bpejit.t2t.datagen.dataset_files import DatasetNames, check_dataset_outputs, names_of_job
from bpejit.t2t.datagen.sample_reading import all_skipped
from bpejit.t2t.example_arrays import read_record_blocks
from bpejit.t2t.record_formats.registry import load_record_format
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.tfrecords import parse_example, read_records

SHUFFLE_MEMORY = 1 << 30
"""Memory for shuffling, of all workers together."""

_FLUSHED = 4
"""Number of shards that are flushed to disk at a time."""


@dataclass(frozen=True)
class ShardTask:
    """A shard to shuffle.

    Parameters
    ----------
    shard : int
        Its index among the shards of all splits.
    sources : tuple of Path
        TFRecord files, which together contain its records.
    target : Path
        The file to write, as `written_shard` until it is complete.
    hashes : tuple of str
        Those of the sources, if other runs have written them.
    """

    shard: int
    sources: tuple[Path, ...]
    target: Path
    hashes: tuple[str, ...] = ()

    @property
    def data(self) -> None:
        """None: a task carries no data."""
        return


def written_shard(target: Path) -> Path:
    """Return the name of a file in the folder of a job until it is complete and on disk."""
    return target.with_name(f"{target.name}.tmp")


def _complete_shard(target: Path) -> None:
    """Flush a shard to disk, and give it its name.

    Unlike `replacing`, without flushing the folder each time: after a power failure, a missing file is written again.
    """
    if written_shard(target).exists():
        with written_shard(target).open("rb+") as file:
            sync_file(file.fileno())
        write_record(_hash_of(target), {"sha256": file_sha256(written_shard(target))}, synced=False)
        written_shard(target).replace(target)


def _hash_of(target: Path) -> Path:
    """Return the file with the hash of a complete shard."""
    return target.with_name(f"{target.name}.sha256")


def _is_intact(target: Path) -> bool:
    """Return True if a shard is complete, and has the bytes that were written."""
    found = read_record(_hash_of(target)) or {}
    return target.exists() and file_sha256(target) == found.get("sha256")


@dataclass(frozen=True)
class ShuffleJob:
    """Shuffles shards; the results of a worker are sizes in bytes.

    Parameters
    ----------
    seed : int
    max_memory : int
        Bytes of memory for each worker.
    shuffles : bool
        Whether the examples are put into a random order.
    format : str
        A record format (see `bpejit.t2t.record_formats`).
    names : tuple of str
        The features of the examples.
    """

    seed: int
    max_memory: int
    shuffles: bool
    format: str
    names: tuple[str, ...]

    def start(self) -> ShuffleJob:
        """Return itself."""
        return self

    def run(self, task: ShardTask) -> int:
        """Write a shard, unless it is complete. Return its size in bytes."""
        if _is_intact(task.target):  # an earlier run has written it
            return task.target.stat().st_size
        for source, expected in zip(task.sources, task.hashes, strict=False):
            if file_sha256(source) != expected:
                raise damaged(source, folder=source.parent)
        with written_shard(task.target).open("wb") as file:
            writer = load_record_format(self.format).writer(file, self.names)
            try:
                if self.shuffles:
                    shuffle_records(task.sources, writer.write, seed=self.seed, shard=task.shard, max_memory=self.max_memory)
                else:
                    for source in task.sources:
                        for data, starts in read_record_blocks(source):
                            writer.write(data, starts)
                writer.finish()
            except BaseException:
                writer.abandon()
                raise
        return written_shard(task.target).stat().st_size

    def finish(self) -> None:
        """Return None: there is no combined result."""


def feature_names(sources: Iterable[Path]) -> tuple[str, ...]:
    """Return the features of the first example in some files."""
    for source in sources:
        for data in read_records(source):
            return tuple(parse_example(data))
    return ()


def finish_dataset(
    names: DatasetNames,
    job: Mapping[str, Any],
    parts: int,
    engine: Engine,
    report: Progress,
    *,
    max_memory: int,
    checkpoints: Sequence[Mapping[str, Any]] | None = None,
) -> Totals | None:
    """Shuffle the shards of all parts, and give them their final names. Return the totals; None if another process does it.

    Parameters
    ----------
    names : DatasetNames
    job : dict
        What was asked for, as in the manifest.
    parts : int
    engine : Engine
    report : callable
    max_memory : int
        Bytes of memory for shuffling.
    checkpoints : list of dict, optional
        The complete checkpoint of each part, if this process has written all of them; by default they are read, and the
        shards are compared with them.

    Raises
    ------
    CorpusError
        If there are no samples.
    OSError, OutputError
        If a file cannot be written. The parts stay.
    """
    folder = names.folder
    inputs = [entry["path"] for entry in job["inputs"]]
    totals = None
    with joining_parts(folder, parts) as is_mine:
        if is_mine:
            remove_links(folder)
            begun = read_record(folder / MANIFEST) or {}
            places = [part_folder(folder, index, parts) for index in range(parts)]
            hashed = checkpoints is None
            if checkpoints is None:
                checkpoints = complete_checkpoints(folder, begun)
            totals = sum((Totals.from_json(one["totals"]) for one in checkpoints), Totals())
            if not totals.documents:
                remove_folder(folder)
                raise no_samples(inputs, totals)
            pairs, outputs = _shuffle(names, job, places, checkpoints, engine, report, max_memory, hashed=hashed)
            sums = {
                "examples": totals.documents,
                "ids": totals.tokens,
                "bytes_read": totals.bytes,
                "skipped": totals.skipped.count,
            }
            check_dataset_outputs(names, inputs=inputs, overwrite=bool(begun.get("overwrite")))
            written = folder / FINAL / names.manifest.name
            with replacing(written) as file:
                file.write(finished_manifest(job, sums, outputs))
            pairs.append((written, names.manifest))
            exchange(folder, pairs, names.existing())
    return totals


def no_samples(inputs: Sequence[str], totals: Totals) -> CorpusError:
    """Return the error for a data set without examples."""
    if not totals.skipped:
        shown = ", ".join(f"`{path}`" for path in inputs[:3]) + (", ..." if len(inputs) > 3 else "") or "the problem"
        return CorpusError(f"there are no samples in {shown}; expected one or more: check the inputs")
    return all_skipped(totals.skipped)


def _shuffle(
    names: DatasetNames,
    job: Mapping[str, Any],
    places: Sequence[Path],
    checkpoints: Sequence[Mapping[str, Any]],
    engine: Engine,
    report: Progress,
    max_memory: int,
    *,
    hashed: bool,
) -> tuple[list[tuple[Path, Path]], list[dict[str, Any]]]:
    """Write the shuffled shards. Return pairs of these files and their final paths, and the entries of the manifest."""
    final = names.folder / FINAL
    final.mkdir(exist_ok=True)
    paths = names.paths()
    tasks = [
        ShardTask(
            number,
            tuple(place / name for place in places),
            final / path.name,
            tuple(one["hashes"][number] for one in checkpoints) if hashed else (),
        )
        for number, (name, path) in enumerate(zip(names.unshuffled(), paths, strict=True))
    ]
    features = feature_names(source for task in tasks for source in task.sources)
    shuffling = ShuffleJob(job["seed"], max(max_memory // engine.workers, 1), job["shuffled"], job["format"], features)
    total = sum(sum(one["sizes"]) for one in checkpoints)
    done = 0
    report("shuffle", 0, total, "bytes")
    outputs = []
    results: Any = engine.map_chunks(shuffling, iter(tasks))  # type: ignore[arg-type]
    with ThreadPoolExecutor(_FLUSHED) as pool, closing(results):
        completed = []
        for number, size in enumerate(results):
            completed.append(pool.submit(_complete_shard, tasks[number].target))  # while others are shuffled
            done += sum(one["sizes"][number] for one in checkpoints)
            report("shuffle", done, total, "bytes")
            records = sum(one["records"][number] for one in checkpoints)
            split = names.slots[number][0]
            outputs.append({"path": paths[number].name, "split": split, "examples": records, "bytes": size})
        for one in completed:
            one.result()
    return [(task.target, path) for task, path in zip(tasks, paths, strict=True)], outputs


def find_complete_dataset(names: DatasetNames, job: Mapping[str, Any] | None = None) -> Totals | None:
    """Return the totals of a data set whose manifest and shards exist.

    Parameters
    ----------
    names : DatasetNames
    job : dict, optional
        What must have been asked for; by default anything.
    """
    recover([*names.paths(), names.manifest])
    fields = read_record(names.manifest)
    if fields is None or (job is not None and find_difference(fields.get("job"), job) is not None):
        return None
    if not all(path.exists() for path in names.paths()):
        return None
    if names.folder.exists() and not any(is_held(path) for _, _, path in found_parts(names.folder)):
        remove_links(names.folder)
        remove_folder(names.folder)
    return Totals(
        tokens=fields["ids"], documents=fields["examples"], bytes=fields["bytes_read"], skipped=Skipped(fields["skipped"])
    )


def combine_dataset(out: Path, *, overwrite: bool, report: Progress) -> tuple[DatasetNames, Totals]:
    """Join the parts of a data set; see `bpejit.combine`.

    Parameters
    ----------
    out : Path
        The folder of the data, and the name with which the names of the shards begin.
    overwrite : bool
    report : callable

    Raises
    ------
    CorpusError
        If there are no samples.
    OutputError
        If some parts are missing, or another process joins them.
    """
    folder = job_folder(out)
    begun = read_record(folder / MANIFEST)
    found = begun or read_record(manifest_path(out, per_input=False)) or {}
    try:
        job = found["job"]
        names = names_of_job(out, job)
        parts = int(found.get("parts", 1))
        max_memory = int(found.get("max_memory", SHUFFLE_MEMORY))
    except (KeyError, TypeError, ValueError) as cause:
        raise OutputError(
            f"`{folder / MANIFEST}` is broken; expected the manifest of a data set: remove the folder, and generate again"
        ) from cause
    if begun is None:
        totals = find_complete_dataset(names)
        if totals is None:
            raise no_parts(out)
        return names, totals
    check_version(begun, str(folder))
    check_all_parts(out, folder, parts)
    checkpoints = complete_checkpoints(folder, begun)
    n_bytes = sum(sum(one["sizes"]) for one in checkpoints)
    if overwrite:
        begun["overwrite"] = True
        write_record(folder / MANIFEST, begun)
    engine = make_engine(AUTO, None, input_bytes=n_bytes, returns_arrays=True)
    with naming_output(out):
        totals = finish_dataset(names, job, parts, engine, report, max_memory=max_memory)
    if totals is None:
        raise joined_by_another(out)
    return names, totals
