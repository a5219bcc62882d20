"""Finish a data set: shuffle the shards of all parts, and give the files their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpejit.corpus.blocks import Skipped
from bpejit.engines import AUTO, make_engine
from bpejit.engines.base import Engine, Progress
from bpejit.errors import CorpusError, OutputError
from bpejit.jobs.checkpoints import complete_checkpoints, read_checkpoint
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    MANIFEST,
    damaged,
    file_sha256,
    found_parts,
    held,
    is_held,
    job_folder,
    part_folder,
    read_record,
    remove_folder,
    write_record,
)
from bpejit.jobs.job_manifest import find_difference, finished_manifest, manifest_path
from bpejit.jobs.joining import check_all_parts, check_version, joined_by_another, joining_parts, missing_parts, no_parts
from bpejit.jobs.output_files import FINAL, exchange, remove_links
from bpejit.jobs.unfinished import claim_job, describe_resumed, naming_output, prepare_folder, without_empty_folder
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.storage.exchange import recover
from bpejit.storage.files import replacing
from bpejit.storage.temporary import sync_file
from bpejit.t2t.datagen.dataset_files import DatasetNames, check_dataset_outputs, names_of_job
from bpejit.t2t.datagen.dataset_job import DatasetPlan, compare_samples, run_generation_part
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
    data: None = None


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


def no_samples(inputs: Sequence[str], totals: Totals) -> CorpusError:
    """Return the error for a data set without examples."""
    if not totals.skipped:
        shown = ", ".join(f"`{path}`" for path in inputs[:3]) + (", ..." if len(inputs) > 3 else "") or "the problem"
        return CorpusError(f"there are no samples in {shown}; expected one or more: check the inputs")
    return all_skipped(totals.skipped)


@dataclass(frozen=True)
class Joining:
    """What all parts of a data set have in common, and what they consist of.

    Parameters
    ----------
    names : DatasetNames
    job : dict
        What was asked for, as in the manifest.
    checkpoints : list of dict
        The complete checkpoint of each part.
    """

    names: DatasetNames
    job: Mapping[str, Any]
    checkpoints: Sequence[Mapping[str, Any]]

    @property
    def totals(self) -> Totals:
        """The totals of the data set."""
        return sum((Totals.from_json(one["totals"]) for one in self.checkpoints), Totals())

    @property
    def inputs(self) -> list[str]:
        """The paths of the inputs."""
        return [entry["path"] for entry in self.job["inputs"]]

    def shuffling(self, features: Sequence[str], max_memory: int, engine: Engine) -> ShuffleJob:
        """Return the job that shuffles shards, with `max_memory` for all workers of an engine."""
        memory = max(max_memory // engine.workers, 1)
        return ShuffleJob(self.job["seed"], memory, self.job["shuffled"], self.job["format"], tuple(features))

    def run(self, job: Any, tasks: Sequence[Any], engine: Engine, report: Progress) -> Iterator[tuple[int, int]]:
        """Run a job that shuffles a shard for each task; yield the index of the shard, and its size in bytes."""
        amounts = [sum(one["sizes"][task.shard] for one in self.checkpoints) for task in tasks]
        done = 0
        report("shuffle", 0, sum(amounts), "bytes")
        results: Any = engine.map_chunks(job, iter(tasks))
        with closing(results):
            for task, amount, size in zip(tasks, amounts, results, strict=True):
                yield task.shard, size
                done += amount
                report("shuffle", done, sum(amounts), "bytes")

    def manifest(self, sizes: Mapping[int, int]) -> bytes:
        """Return the manifest of the complete data set, from the size of each shard in bytes."""
        totals = self.totals
        sums = {
            "examples": totals.documents,
            "ids": totals.tokens,
            "bytes_read": totals.bytes,
            "skipped": totals.skipped.count,
        }
        outputs = []
        for shard, (path, slot) in enumerate(zip(self.names.paths(), self.names.slots, strict=True)):
            examples = sum(one["records"][shard] for one in self.checkpoints)
            outputs.append({"path": path.name, "split": slot[0], "examples": examples, "bytes": sizes[shard]})
        return finished_manifest(self.job, sums, outputs)


class FolderParts:
    """The parts of a data set in a folder.

    Parameters
    ----------
    names : DatasetNames
    """

    def __init__(self, names: DatasetNames) -> None:
        self.names = names
        self._written: list[Mapping[str, Any]] | None = None

    def default_parts(self, units: Sequence[Any]) -> int:  # noqa: ARG002
        """Return the number of parts of a job that is not divided among machines."""
        return 1

    def begin(self, plan: DatasetPlan, parts: int, say: Callable[[str], None], *, patience: float = 0.0) -> Totals | int:
        """Check the outputs of a job, and what an earlier run left.

        Parameters
        ----------
        plan : DatasetPlan
        parts : int
            The number of parts, unless the job is begun already, or the plan is that of a part.
        say : callable
            Called with remarks for the user.
        patience : float
            Seconds to wait for processes that work on the job, and end.

        Returns
        -------
        Totals or int
            The totals if the job is resumed and nothing is left to do; otherwise the number of parts, which is that of the
            unfinished job if that is resumed.

        Raises
        ------
        OutputError
        """
        done = find_complete_dataset(self.names, plan.job) if plan.options.resume else None
        if done is not None:
            say(f"nothing is left to do: `{self.names.manifest}` describes the complete data set")
            return done
        check_dataset_outputs(self.names, inputs=plan.paths, overwrite=plan.options.overwrite)
        return prepare_folder(plan, say, parts=parts, patience=patience)

    @contextmanager
    def working(self, plan: DatasetPlan, parts: int, patience: float = 0.0) -> Iterator[None]:
        """Be the only process that works on a part; after an error, remove its folder unless it keeps finished units."""
        part = (plan.options.part or (0, 1))[0]
        folder = part_folder(self.names.folder, part, parts)
        what = "this data set" if parts == 1 else f"part {part} of this data set"
        with held(folder, f"works on {what}", patience=patience), without_empty_folder(plan, folder):
            claim_job(plan, parts, max_memory=plan.max_memory)
            yield

    def generate(
        self,
        plan: DatasetPlan,
        parts: int,
        engine: Engine,
        report: Progress,
        seconds: Seconds,
        say: Callable[[str], None],
    ) -> tuple[Totals, Totals]:
        """Generate the part of a plan. Return its totals at the last checkpoint of an earlier run, and now."""
        folder = part_folder(self.names.folder, (plan.options.part or (0, 1))[0], parts)
        checkpoint = read_checkpoint(folder, plan.identity()) if plan.options.resume else None
        before = Totals() if checkpoint is None else Totals.from_json(checkpoint["totals"])
        if plan.options.resume:
            say(describe_resumed(plan, before.units, checkpoint))
        compare_samples(plan, checkpoint, engine, report)
        if checkpoint is not None and checkpoint.get("complete"):
            return before, before
        with naming_output(self.names.out):
            complete = run_generation_part(plan, folder, engine, checkpoint, report, seconds)
        self._written = [complete] if checkpoint is None and parts == 1 else None
        return before, Totals.from_json(complete["totals"])

    def kept(self, parts: int) -> list[Totals]:
        """Return the totals of each part at its last checkpoint."""
        folders = [part_folder(self.names.folder, part, parts) for part in range(parts)]
        found = [(read_record(folder / CHECKPOINT) or {}).get("totals") for folder in folders]
        return [Totals.from_json(fields) if isinstance(fields, dict) else Totals() for fields in found]

    def missing(self, parts: int) -> list[int]:
        """Return the parts that are not complete; none if another process has just joined them."""
        found = missing_parts(self.names.folder, parts) if parts > 1 else []
        return found if (self.names.folder / MANIFEST).exists() else []

    def complete(self, job: Mapping[str, Any] | None = None) -> Totals | None:
        """Return the totals of the complete data set (see `find_complete_dataset`)."""
        return find_complete_dataset(self.names, job)

    def finish(self, engine: Engine | None, report: Progress, *, max_memory: int, overwrite: bool = False) -> Totals | None:
        """Shuffle the shards of all parts, and give them their final names.

        The shards are compared with their checkpoints, unless this process has written all of them in one run.

        Parameters
        ----------
        engine : Engine, optional
            By default chosen by the size.
        report : callable
        max_memory : int
            Bytes of memory for shuffling.
        overwrite : bool
            Whether to replace existing files, also if the job was begun without.

        Returns
        -------
        Totals, optional
            None if another process does it, or has done it.

        Raises
        ------
        CorpusError
            If there are no samples.
        OSError, OutputError
            If a file cannot be written. The parts stay.
        """
        folder = self.names.folder
        begun = read_record(folder / MANIFEST)
        if begun is None:
            return None
        parts = int(begun["parts"])
        with naming_output(self.names.out), joining_parts(folder, parts) as is_mine:
            if not is_mine:
                return None
            remove_links(folder)
            written = self._written
            joining = Joining(self.names, begun["job"], written or complete_checkpoints(folder, begun))
            totals = joining.totals
            if not totals.documents:
                remove_folder(folder)
                raise no_samples(joining.inputs, totals)
            if engine is None:
                size = sum(sum(one["sizes"]) for one in joining.checkpoints)
                engine = make_engine(AUTO, None, input_bytes=size, returns_arrays=True)
            pairs, sizes = _shuffle(joining, parts, engine, report, max_memory, hashed=written is None)
            overwrite = overwrite or bool(begun.get("overwrite"))
            check_dataset_outputs(self.names, inputs=joining.inputs, overwrite=overwrite)
            manifest = folder / FINAL / self.names.manifest.name
            with replacing(manifest) as file:
                file.write(joining.manifest(sizes))
            exchange(folder, [*pairs, (manifest, self.names.manifest)], self.names.existing())
        return totals


def _shuffle(
    joining: Joining, parts: int, engine: Engine, report: Progress, max_memory: int, *, hashed: bool
) -> tuple[list[tuple[Path, Path]], dict[int, int]]:
    """Write the shuffled shards. Return pairs of these files and their final paths, and the size of each."""
    folder = joining.names.folder
    final = folder / FINAL
    final.mkdir(exist_ok=True)
    places = [part_folder(folder, index, parts) for index in range(parts)]
    paths = joining.names.paths()
    tasks = []
    for number, (name, path) in enumerate(zip(joining.names.unshuffled(), paths, strict=True)):
        hashes = tuple(one["hashes"][number] for one in joining.checkpoints) if hashed else ()
        tasks.append(ShardTask(number, tuple(place / name for place in places), final / path.name, hashes))
    features = feature_names(source for task in tasks for source in task.sources)
    sizes = {}
    with ThreadPoolExecutor(_FLUSHED) as pool:
        completed = []
        for number, size in joining.run(joining.shuffling(features, max_memory, engine), tasks, engine, report):
            completed.append(pool.submit(_complete_shard, tasks[number].target))  # while others are shuffled
            sizes[number] = size
        for one in completed:
            one.result()
    return [(task.target, path) for task, path in zip(tasks, paths, strict=True)], sizes


def find_complete_dataset(names: DatasetNames, job: Mapping[str, Any] | None = None) -> Totals | None:
    """Return the totals of a data set whose manifest and shards exist; with `job`, only if that was asked for."""
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
    """Join the parts of a data set, whose shards have names that begin with `out`; see `bpejit.combine`.

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
        names = names_of_job(out, found["job"])
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
    if overwrite:
        complete_checkpoints(folder, begun)
        write_record(folder / MANIFEST, {**begun, "overwrite": True})
    totals = FolderParts(names).finish(None, report, max_memory=max_memory)
    if totals is None:
        raise joined_by_another(out)
    return names, totals
