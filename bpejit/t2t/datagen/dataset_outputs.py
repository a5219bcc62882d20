"""Data sets as outputs of a job: each shard is shuffled by itself, from the unshuffled shards of all parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bpejit.engines import AUTO, Engine, FunctionJob, make_engine
from bpejit.errors import CorpusError
from bpejit.jobs.job_folder import FINAL, Fields, damaged, part_folder
from bpejit.jobs.job_records import CompleteParts, FilePairs, JobOutputs, finished_manifest, listed_outputs
from bpejit.jobs.job_totals import Finished, Totals
from bpejit.progress_bar import Progress
from bpejit.storage.files import file_sha256, replacing
from bpejit.t2t.datagen.problem_declaration import shard_name
from bpejit.t2t.datagen.sample_reading import all_skipped
from bpejit.t2t.record_formats.registry import load_record_format
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.tfrecords import read_record_blocks

SHUFFLE_MEMORY = 1 << 30
"""Memory for shuffling, of all workers together."""


@dataclass(frozen=True)
class ShardTask:
    """A shard to shuffle.

    Parameters
    ----------
    shard : int
        Its index among the shards of all splits.
    sources : tuple of (Path, str)
        TFRecord files, which together contain its records, with their hashes; these are empty if this run has written them.
    size : int
        Bytes of its records.
    target : Path
        The file to write, which is complete if it exists.
    """

    shard: int
    sources: tuple[tuple[Path, str], ...]
    size: int
    target: Path


def shuffle_shard(job: Fields, features: Sequence[str], max_memory: int, task: ShardTask) -> tuple[int, int]:
    """Write a shard, unless an earlier run has written it. Return its index, and its size in bytes.

    Parameters
    ----------
    job : dict
        What was asked for, as in a manifest.
    features : sequence of str
        The names of the features of the examples.
    max_memory : int
        Bytes.
    task : ShardTask
    """
    if task.target.exists():
        return task.shard, task.target.stat().st_size
    for path, sha256 in task.sources:
        if sha256 and not (path.exists() and file_sha256(path) == sha256):
            raise damaged(path, folder=path.parent)
    paths = [path for path, _ in task.sources]
    with replacing(task.target) as file:
        writer = load_record_format(job["format"]).writer(file, features)
        try:
            if job["shuffled"]:
                shuffle_records(paths, writer.write, seed=job["seed"], shard=task.shard, max_memory=max_memory)
            else:
                for path in paths:
                    for data, starts in read_record_blocks(path):
                        writer.write(data, starts)
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
    return task.shard, task.target.stat().st_size


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
    def of_job(cls, out: Path, job: Fields) -> DatasetOutputs:
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

    def existing(self) -> list[Path]:
        """Return the files of an earlier data set with this name, without its manifest."""
        listed = [self.manifest.parent / name for name in listed_outputs(self.manifest)]
        return [path for path in dict.fromkeys((*self.first_files(), *listed)) if os.path.lexists(path)]

    def read_complete(self, fields: Fields) -> Finished | None:
        """Return the shards that a manifest describes; None if one is missing, or the manifest is broken."""
        paths = self.first_files()
        totals = Totals.of_manifest(fields, tokens="ids", documents="examples")
        if totals is None or not all(path.exists() for path in paths):
            return None
        return Finished(tuple(paths), self.manifest, totals)

    def check_totals(self, job: Fields, totals: Totals) -> None:
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
        job, checkpoints = parts.job, parts.checkpoints
        final = self.folder / FINAL
        final.mkdir(exist_ok=True)
        paths = self.first_files()
        folders = [part_folder(self.folder, index, len(checkpoints)) for index in range(len(checkpoints))]
        tasks: list[Any] = []
        for shard, name in enumerate(self.unshuffled()):
            hashes = ["" if parts.fresh else one["hashes"][shard] for one in checkpoints]
            sources = tuple((folder / name, sha256) for folder, sha256 in zip(folders, hashes, strict=True))
            tasks.append(ShardTask(shard, sources, sum(one["sizes"][shard] for one in checkpoints), final / paths[shard].name))
        done, total = 0, sum(task.size for task in tasks)
        engine = engine or make_engine(AUTO, None, input_bytes=total, returns_arrays=True)
        features = next((one["features"] for one in checkpoints if one["features"]), ())
        max_memory = max(int(parts.begun.get("max_memory", SHUFFLE_MEMORY)) // engine.workers, 1)
        shuffling = FunctionJob(partial(shuffle_shard, job, features, max_memory))
        sizes: dict[int, int] = {}
        report("shuffle", 0, total, "bytes")
        results: Any = engine.map_chunks(shuffling, iter(tasks))
        with closing(results):
            for shard, size in results:
                sizes[shard] = size
                done += tasks[shard].size
                report("shuffle", done, total, "bytes")
        written = final / self.manifest.name
        with replacing(written) as file:
            file.write(self.describe(parts, sizes))
        pairs = [*zip([task.target for task in tasks], paths, strict=True), (written, self.manifest)]
        return pairs, Finished(tuple(paths), self.manifest, parts.totals)

    def describe(self, parts: CompleteParts, sizes: Mapping[int, int]) -> bytes:
        """Return the content of the manifest, from all parts and the size of each shard."""
        totals = parts.totals
        sums = {"examples": totals.documents, "ids": totals.tokens, "bytes_read": totals.bytes, "skipped": totals.skipped.count}
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
