"""Data sets as the outputs of a job: the shards of all parts are shuffled, and get their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bpejit.engines import AUTO, make_engine
from bpejit.engines.base import Engine, FunctionJob, Progress
from bpejit.errors import CorpusError
from bpejit.jobs.job_folder import part_folder, remove_folder
from bpejit.jobs.job_manifest import finished_manifest
from bpejit.jobs.job_totals import Totals
from bpejit.jobs.output_files import FINAL, FilePairs, Finished, JobOutputs, listed_outputs
from bpejit.jobs.url_store import UrlStore
from bpejit.storage.files import replacing
from bpejit.t2t.datagen.problem_declaration import shard_name
from bpejit.t2t.datagen.sample_reading import all_skipped
from bpejit.t2t.datagen.shard_shuffling import (
    ShardSource,
    ShardTask,
    Shuffling,
    complete_shard,
    local_sources,
    stored_shard,
    stored_sizes,
    stored_sources,
)
from bpejit.t2t.record_formats.registry import load_record_format

SHUFFLE_MEMORY = 1 << 30
"""Memory for shuffling, of all workers together."""

_FLUSHED = 4
"""Number of shards that are flushed to disk at a time."""


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

    def write_final(
        self,
        begun: Mapping[str, Any],
        checkpoints: Sequence[Mapping[str, Any]],
        report: Progress,
        *,
        fresh: bool,
        engine: Engine | None,
    ) -> tuple[FilePairs, Finished]:
        """Shuffle the shards of complete parts (see `JobOutputs`)."""
        totals = _checked_totals(begun["job"], checkpoints, partial(remove_folder, self.folder))
        final = self.folder / FINAL
        final.mkdir(exist_ok=True)
        sources = [
            local_sources(part_folder(self.folder, index, len(checkpoints)), self.unshuffled(), one, fresh=fresh)
            for index, one in enumerate(checkpoints)
        ]
        paths = self.first_files()
        targets = [final / path.name for path in paths]
        results = _shuffled(begun, checkpoints, _tasks(sources, targets), report, engine)
        sizes = {}
        with ThreadPoolExecutor(_FLUSHED) as pool, closing(results):
            completed = []
            for shard, size in results:
                completed.append(pool.submit(complete_shard, targets[shard]))  # while others are shuffled
                sizes[shard] = size
            for one in completed:
                one.result()
        written = final / self.manifest.name
        with replacing(written) as file:
            file.write(self.describe(begun["job"], checkpoints, sizes))
        pairs = [*zip(targets, paths, strict=True), (written, self.manifest)]
        return pairs, Finished(tuple(paths), self.manifest, totals)

    def describe(self, job: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]], sizes: Mapping[int, int]) -> bytes:
        """Return the content of the manifest, from the checkpoints of all parts and the size of each shard."""
        totals = sum((Totals.from_json(one["totals"]) for one in checkpoints), Totals())
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
                "examples": sum(one["records"][shard] for one in checkpoints),
                "bytes": sizes[shard],
            }
            for shard, (path, slot) in enumerate(zip(self.first_files(), self.slots, strict=True))
        ]
        return finished_manifest(job, sums, outputs)

    def join_remote(
        self,
        remote: Any,
        begun: Mapping[str, Any],
        report: Progress,
        engine: Engine | None,
    ) -> Finished | None:
        """Shuffle and store each shard by itself (see `JobOutputs`)."""
        job, parts = begun["job"], int(begun["parts"])
        heads = [remote.check_part(job, part, parts) for part in range(parts)]
        checkpoints = [fields for fields, _ in heads]
        totals = _checked_totals(job, checkpoints, remote.remove_folder)
        shards = [path.name for path in self.first_files()]
        urls = [f"{remote.base}/{name}" for name in shards]
        with remote.storing(self, shards, job, overwrite=bool(begun.get("overwrite"))):
            sizes = stored_sizes(remote, shards)
            sources = [stored_sources(remote.part_url(part, parts), *head) for part, head in enumerate(heads)]
            tasks = [task for task in _tasks(sources, urls) if task.shard not in sizes]
            with closing(_shuffled(begun, checkpoints, tasks, report, engine, remote)) as results:
                sizes |= dict(results)
        remote.put_bytes(remote.manifest_url, self.describe(job, checkpoints, sizes))
        return Finished(tuple(urls), remote.manifest_url, totals)


def _checked_totals(job: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]], give_up: Callable[[], object]) -> Totals:
    """Return the totals of all parts; if there are no examples, give up the job, and raise CorpusError."""
    totals = sum((Totals.from_json(one["totals"]) for one in checkpoints), Totals())
    if not totals.documents:
        give_up()
        raise no_samples(job, totals)
    return totals


def _tasks(sources: Sequence[Sequence[ShardSource]], targets: Sequence[Path | str]) -> list[ShardTask]:
    """Return the shards to shuffle, from the sources in each part."""
    return [ShardTask(shard, some, targets[shard]) for shard, some in enumerate(zip(*sources, strict=True))]


def _shuffled(
    begun: Mapping[str, Any],
    checkpoints: Sequence[Mapping[str, Any]],
    tasks: Sequence[Any],
    report: Progress,
    engine: Engine | None,
    remote: UrlStore | None = None,
) -> Generator[tuple[int, int], None, None]:
    """Shuffle shards of an unfinished job with a manifest; yield the index and the size of each."""
    amounts = {task.shard: task.size for task in tasks}
    done, total = 0, sum(amounts.values())
    engine = engine or make_engine(AUTO, None, input_bytes=total, returns_arrays=True)
    job = begun["job"]
    features = next((one["features"] for one in checkpoints if one["features"]), ())
    max_memory = max(int(begun.get("max_memory", SHUFFLE_MEMORY)) // engine.workers, 1)
    shuffling = Shuffling(job["seed"], max_memory, job["shuffled"], job["format"], tuple(features), remote)
    report("shuffle", 0, total, "bytes")
    results: Any = engine.map_chunks(FunctionJob(shuffling.run), iter(tasks))
    with closing(results):
        for shard, size in results:
            yield shard, size
            done += amounts[shard]
            report("shuffle", done, total, "bytes")


def no_samples(job: Mapping[str, Any], totals: Totals) -> CorpusError:
    """Return the error for a data set without examples."""
    if not totals.skipped:
        inputs = [entry["path"] for entry in job["inputs"]]
        shown = ", ".join(f"`{path}`" for path in inputs[:3]) + (", ..." if len(inputs) > 3 else "") or "the problem"
        return CorpusError(f"there are no samples in {shown}; expected one or more: check the inputs")
    return all_skipped(totals.skipped)
