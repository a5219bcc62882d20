"""Data sets as outputs of a job: each shard is shuffled by itself, from the unshuffled shards of all parts, and gets its name.

At a URL, the unshuffled shards of a part are the members of the stored part in order, and its checkpoint tells their sizes, so
that they are read by ranges. Each shard is stored as one object. Beside the parts in the folder of the job, there is one more
kind of file:

    .<name>.bpejit-job/shard-<k>.json         the size of a shard that is stored

Two runs of the same job store equal objects.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bpejit.engines import AUTO, Engine, FunctionJob, make_engine
from bpejit.errors import CorpusError
from bpejit.jobs.job_folder import damaged, part_folder
from bpejit.jobs.job_records import finished_manifest
from bpejit.jobs.job_totals import Totals
from bpejit.jobs.output_files import FINAL, CompleteParts, FilePairs, Finished, JobOutputs, listed_outputs
from bpejit.jobs.url_store import UrlStore, broken_part
from bpejit.progress_bar import Progress
from bpejit.storage.files import file_sha256, replacing, scratch_folder
from bpejit.t2t.datagen.problem_declaration import shard_name
from bpejit.t2t.datagen.sample_reading import all_skipped
from bpejit.t2t.record_formats.registry import load_record_format
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.tfrecords import read_record_blocks

SHUFFLE_MEMORY = 1 << 30
"""Memory for shuffling, of all workers together."""

_BLOCK = tarfile.BLOCKSIZE

_RANGE_BYTES = 64 << 20
"""Most bytes of a request for a range."""


@dataclass(frozen=True)
class ShardSource:
    """The records of a shard in one part.

    Parameters
    ----------
    place : Path or str
        A TFRecord file, or the URL of a stored part.
    size : int
        Bytes of the records.
    sha256 : str
        Their hash; empty if this run has written them.
    begin : int
        Where they begin.
    """

    place: Path | str
    size: int
    sha256: str = ""
    begin: int = 0


@dataclass(frozen=True)
class ShardTask:
    """A shard to shuffle.

    Parameters
    ----------
    shard : int
        Its index among the shards of all splits.
    sources : tuple of ShardSource
        Together they contain its records.
    target : Path or str
        The file to write, which is complete if it exists, or its URL.
    """

    shard: int
    sources: tuple[ShardSource, ...]
    target: Path | str

    data: ClassVar[None] = None
    """A task carries no data."""

    @property
    def size(self) -> int:
        """Bytes of its records."""
        return sum(source.size for source in self.sources)


def stored_shard(number: int) -> str:
    """Return the name of a shard in a stored part."""
    return f"shard-{number:05d}"


def local_sources(folder: Path, names: Sequence[str], checkpoint: Mapping[str, Any], *, fresh: bool) -> list[ShardSource]:
    """Return the unshuffled shards of a part in a folder; `fresh` is True if this run has written them."""
    hashes = [""] * len(names) if fresh else checkpoint["hashes"]
    return [ShardSource(folder / name, *found) for name, *found in zip(names, checkpoint["sizes"], hashes, strict=True)]


def stored_sources(url: str, checkpoint: Mapping[str, Any], checkpoint_bytes: int) -> list[ShardSource]:
    """Return the unshuffled shards of a stored part, which follow its checkpoint."""
    sources = []
    begin = _BLOCK + _padded(checkpoint_bytes)
    for size, sha256 in zip(checkpoint["sizes"], checkpoint["hashes"], strict=True):
        sources.append(ShardSource(url, int(size), sha256, begin + _BLOCK))
        begin += _BLOCK + _padded(int(size))
    return sources


def _padded(size: int) -> int:
    """Return the bytes that the content of a member takes."""
    return -(-size // _BLOCK) * _BLOCK


def stored_sizes(remote: UrlStore, shards: Sequence[str]) -> dict[int, int]:
    """Return the sizes of the shards that an earlier run of this job has stored."""
    there = set(remote.outputs())
    notes = set(remote.list_files(remote.folder))
    stored = [number for number, name in enumerate(shards) if name in there and f"{stored_shard(number)}.json" in notes]
    found = {number: remote.read_json(_note(remote, number)) for number in stored}
    return {number: int(fields["bytes"]) for number, fields in found.items() if fields is not None}


def _note(remote: UrlStore, shard: int) -> str:
    """Return the URL of the file with the size of a stored shard."""
    return f"{remote.folder}/{stored_shard(shard)}.json"


@dataclass(frozen=True)
class Shuffling:
    """How shards are shuffled.

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
    remote : UrlStore, optional
        Where the parts and the shards are, if not in files.
    """

    seed: int
    max_memory: int
    shuffles: bool
    format: str
    names: tuple[str, ...]
    remote: UrlStore | None

    def run(self, task: ShardTask) -> tuple[int, int]:
        """Write a shard, unless it exists, or store it. Return its index, and its size in bytes."""
        if self.remote is None:
            target = Path(task.target)
            if not target.exists():  # otherwise an earlier run has written it
                self._write(task.shard, task.sources, target)
            return task.shard, target.stat().st_size
        with scratch_folder(None, "shuffling") as scratch:
            places = [scratch / f"part-{number}" for number in range(len(task.sources))]
            for source, place in zip(task.sources, places, strict=True):
                _fetch_records(self.remote, source, place)
            self._write(task.shard, [ShardSource(place, 0) for place in places], scratch / "shard")
            size = (scratch / "shard").stat().st_size
            self.remote.put_file(scratch / "shard", str(task.target))
        self.remote.put_bytes(_note(self.remote, task.shard), json.dumps({"bytes": size}).encode("ascii"))
        return task.shard, size

    def _write(self, shard: int, sources: Sequence[ShardSource], target: Path) -> None:
        for source in sources:
            if source.sha256 and file_sha256(Path(source.place)) != source.sha256:
                raise damaged(source.place, folder=Path(source.place).parent)
        paths = [Path(source.place) for source in sources]
        with replacing(target) as file:
            writer = load_record_format(self.format).writer(file, self.names)
            try:
                if self.shuffles:
                    shuffle_records(paths, writer.write, seed=self.seed, shard=shard, max_memory=self.max_memory)
                else:
                    for path in paths:
                        for data, starts in read_record_blocks(path):
                            writer.write(data, starts)
                writer.finish()
            except BaseException:
                writer.abandon()
                raise


def _fetch_records(remote: UrlStore, source: ShardSource, target: Path) -> None:
    """Copy a member of a stored part to a file."""
    position, stop = source.begin, source.begin + source.size
    with target.open("wb") as file, remote.access(str(source.place), "read") as (file_system, name):
        while position < stop:
            data = file_system.cat_file(name, start=position, end=min(position + _RANGE_BYTES, stop))
            if not data:
                break
            file.write(data)
            position += len(data)
    if file_sha256(target) != source.sha256:
        raise broken_part(str(source.place))


@dataclass(frozen=True)
class DatasetOutputs(JobOutputs):
    """The shards of a data set.

    Parameters
    ----------
    out : Path
        The folder, and the name with which the names of files begin.
    splits : tuple of (str, int)
        The name and the number of shards of each split.
    suffix : str
        End of the names of the shuffled shards.
    """

    splits: tuple[tuple[str, int], ...]
    suffix: str = ""

    @classmethod
    def of_job(cls, out: Path, job: Mapping[str, Any]) -> DatasetOutputs:
        """Return the shards of what was asked for, as in a manifest."""
        splits = tuple((str(split), int(shards)) for split, shards in job["splits"])
        return cls(out, splits, load_record_format(job["format"]).suffix)

    @property
    def slots(self) -> list[tuple[str, int, int]]:
        """The split, the index and the number of shards of each shard, in order."""
        return [(split, shard, shards) for split, shards in self.splits for shard in range(shards)]

    def first_files(self) -> list[Path]:
        """Return the paths of the shuffled shards."""
        return [self.out.with_name(shard_name(self.out.name, *slot, suffix=self.suffix)) for slot in self.slots]

    def unshuffled(self) -> list[str]:
        """Return the names of the shards while they are generated."""
        return [shard_name(self.out.name, *slot, shuffled=False) for slot in self.slots]

    def stored_name(self, name: str) -> str:
        """Return the name of an unshuffled shard in a stored part: a short one, which takes one block of a tar file."""
        return stored_shard(self.unshuffled().index(name))

    def existing(self) -> list[Path]:
        """Return the files of an earlier data set with this name, without its manifest."""
        listed = [self.manifest.parent / name for name in listed_outputs(self.manifest)]
        return [path for path in dict.fromkeys((*self.first_files(), *listed)) if os.path.lexists(path)]

    def read_complete(self, fields: Mapping[str, Any]) -> Finished | None:
        """Return the shards that a manifest describes; None if one is missing, or the manifest is broken."""
        paths = self.first_files()
        totals = Totals.of_manifest(fields, tokens="ids", documents="examples")
        if totals is None or not all(path.exists() for path in paths):
            return None
        return Finished(tuple(paths), self.manifest, totals)

    def check_totals(self, job: Mapping[str, Any], totals: Totals) -> None:
        """Raise CorpusError if there are no examples."""
        if totals.documents:
            return
        if totals.skipped:
            raise all_skipped(totals.skipped)
        inputs = [entry["path"] for entry in job["inputs"]]
        shown = ", ".join(f"`{path}`" for path in inputs[:3]) + (", ..." if len(inputs) > 3 else "") or "the problem"
        raise CorpusError(f"there are no samples in {shown}; expected one or more: check the inputs")

    def write_final(self, parts: CompleteParts, report: Progress, engine: Engine | None) -> tuple[FilePairs, Finished]:
        """Shuffle the shards of the parts (see `JobOutputs`)."""
        checkpoints = parts.checkpoints
        final = self.folder / FINAL
        final.mkdir(exist_ok=True)
        sources = [
            local_sources(part_folder(self.folder, index, len(checkpoints)), self.unshuffled(), one, fresh=parts.fresh)
            for index, one in enumerate(checkpoints)
        ]
        paths = self.first_files()
        targets = [final / path.name for path in paths]
        with closing(_shuffled(parts, _tasks(sources, targets), report, engine)) as results:
            sizes = dict(results)
        written = final / self.manifest.name
        with replacing(written) as file:
            file.write(self.describe(parts, sizes))
        pairs = [*zip(targets, paths, strict=True), (written, self.manifest)]
        return pairs, Finished(tuple(paths), self.manifest, parts.totals)

    def describe(self, parts: CompleteParts, sizes: Mapping[int, int]) -> bytes:
        """Return the content of the manifest, from all parts and the size of each shard."""
        totals = parts.totals
        sums = {
            "examples": totals.documents,
            "ids": totals.tokens,
            "bytes_read": totals.bytes,
            "skipped": totals.skipped.count,
        }
        outputs = [
            {
                "path": path.name,
                "split": slot[0],
                "examples": sum(one["records"][shard] for one in parts.checkpoints),
                "bytes": sizes[shard],
            }
            for shard, (path, slot) in enumerate(zip(self.first_files(), self.slots, strict=True))
        ]
        return finished_manifest(parts.job, sums, outputs)

    def join_remote(self, remote: Any, begun: Mapping[str, Any], report: Progress, engine: Engine | None) -> Finished | None:
        """Shuffle and store each shard by itself (see `JobOutputs`)."""
        job, n_parts = begun["job"], int(begun["parts"])
        heads = [remote.check_part(job, part, n_parts) for part in range(n_parts)]
        parts = CompleteParts(begun, [fields for fields, _ in heads])
        try:
            self.check_totals(job, parts.totals)
        except CorpusError:
            remote.remove_folder()
            raise
        shards = [path.name for path in self.first_files()]
        urls = [f"{remote.base}/{name}" for name in shards]
        with remote.storing(self, shards, job, overwrite=bool(begun.get("overwrite"))):
            sizes = stored_sizes(remote, shards)
            sources = [stored_sources(remote.part_url(part, n_parts), *head) for part, head in enumerate(heads)]
            tasks = [task for task in _tasks(sources, urls) if task.shard not in sizes]
            with closing(_shuffled(parts, tasks, report, engine, remote)) as results:
                sizes |= dict(results)
        remote.put_bytes(remote.manifest_url, self.describe(parts, sizes))
        return Finished(tuple(urls), remote.manifest_url, parts.totals)


def _tasks(sources: Sequence[Sequence[ShardSource]], targets: Sequence[Path | str]) -> list[ShardTask]:
    """Return the shards to shuffle, from the sources in each part."""
    return [ShardTask(shard, some, targets[shard]) for shard, some in enumerate(zip(*sources, strict=True))]


def _shuffled(
    parts: CompleteParts,
    tasks: Sequence[Any],
    report: Progress,
    engine: Engine | None,
    remote: UrlStore | None = None,
) -> Generator[tuple[int, int], None, None]:
    """Shuffle shards; yield the index and the size of each."""
    amounts = {task.shard: task.size for task in tasks}
    done, total = 0, sum(amounts.values())
    engine = engine or make_engine(AUTO, None, input_bytes=total, returns_arrays=True)
    job = parts.job
    features = next((one["features"] for one in parts.checkpoints if one["features"]), ())
    max_memory = max(int(parts.begun.get("max_memory", SHUFFLE_MEMORY)) // engine.workers, 1)
    shuffling = Shuffling(job["seed"], max_memory, job["shuffled"], job["format"], tuple(features), remote)
    report("shuffle", 0, total, "bytes")
    results: Any = engine.map_chunks(FunctionJob(shuffling.run), iter(tasks))
    with closing(results):
        for shard, size in results:
            yield shard, size
            done += amounts[shard]
            report("shuffle", done, total, "bytes")
