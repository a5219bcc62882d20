"""Data sets as the outputs of a job: the shards of all parts are shuffled, and get their names."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpejit.corpus.blocks import Skipped
from bpejit.engines import AUTO, make_engine
from bpejit.engines.base import Engine, Progress
from bpejit.errors import CorpusError
from bpejit.jobs.job_folder import part_folder, remove_folder
from bpejit.jobs.job_manifest import finished_manifest
from bpejit.jobs.job_plan import FilePairs, Finished, JobOutputs
from bpejit.jobs.output_files import FINAL, listed_outputs
from bpejit.jobs.unit_loop import Totals
from bpejit.storage.files import replacing
from bpejit.t2t.datagen.dataset_files import shard_name
from bpejit.t2t.datagen.sample_reading import all_skipped
from bpejit.t2t.datagen.shard_shuffling import ShardTask, ShuffleJob, complete_shard, stored_shard
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
        if not all(path.exists() for path in paths):
            return None
        try:
            totals = Totals(
                tokens=int(fields["ids"]),
                documents=int(fields["examples"]),
                bytes=int(fields["bytes_read"]),
                skipped=Skipped(int(fields["skipped"])),
            )
        except (KeyError, TypeError, ValueError):
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
        job = begun["job"]
        totals = sum((Totals.from_json(one["totals"]) for one in checkpoints), Totals())
        if not totals.documents:
            remove_folder(self.folder)
            raise no_samples(job, totals)
        final = self.folder / FINAL
        final.mkdir(exist_ok=True)
        places = [part_folder(self.folder, index, len(checkpoints)) for index in range(len(checkpoints))]
        paths = self.first_files()
        tasks = [
            ShardTask(
                number,
                tuple(place / name for place in places),
                final / path.name,
                () if fresh else tuple(one["hashes"][number] for one in checkpoints),
            )
            for number, (name, path) in enumerate(zip(self.unshuffled(), paths, strict=True))
        ]
        amounts = [sum(one["sizes"][number] for one in checkpoints) for number in range(len(tasks))]
        engine = engine or make_engine(AUTO, None, input_bytes=sum(amounts), returns_arrays=True)
        sizes = []
        results = _map_shards(engine, shuffle_job(begun, checkpoints, engine), tasks, amounts, report)
        with ThreadPoolExecutor(_FLUSHED) as pool, closing(results):
            completed = []
            for task, size in results:
                completed.append(pool.submit(complete_shard, task.target))  # while others are shuffled
                sizes.append(size)
            for one in completed:
                one.result()
        written = final / self.manifest.name
        with replacing(written) as file:
            file.write(self.describe(job, checkpoints, sizes))
        pairs = [*((task.target, path) for task, path in zip(tasks, paths, strict=True)), (written, self.manifest)]
        return pairs, Finished(tuple(paths), self.manifest, totals)

    def describe(self, job: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> bytes:
        """Return the content of the manifest, from the checkpoints of all parts and the sizes of the shards."""
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
        # Not at the top: most data sets are local.
        from bpejit.jobs.remote_output import manifest_url, storing
        from bpejit.t2t.datagen.remote_shards import RemoteShuffleJob, plan_shards, stored_sizes

        job, parts = begun["job"], int(begun["parts"])
        heads = [remote.check_part(job, part, parts) for part in range(parts)]
        checkpoints = [fields for fields, _ in heads]
        totals = sum((Totals.from_json(one["totals"]) for one in checkpoints), Totals())
        if not totals.documents:
            remote.remove_folder()
            raise no_samples(job, totals)
        shards = [path.name for path in self.first_files()]
        with storing(remote, self, shards, job, overwrite=bool(begun.get("overwrite"))):
            sizes = stored_sizes(remote, shards)
            tasks = [task for task in plan_shards(remote, self, heads) if task.shard not in sizes]
            amounts = [sum(place.size for place in task.ranges) for task in tasks]
            engine = engine or make_engine(AUTO, None, input_bytes=sum(amounts), returns_arrays=True)
            shuffling = RemoteShuffleJob(remote, shuffle_job(begun, checkpoints, engine))
            with closing(_map_shards(engine, shuffling, tasks, amounts, report)) as results:
                sizes |= {task.shard: size for task, size in results}
        remote.put_bytes(manifest_url(remote), self.describe(job, checkpoints, [sizes[shard] for shard in range(len(shards))]))
        return Finished(tuple(f"{remote.base}/{name}" for name in shards), manifest_url(remote), totals)


def _map_shards(
    engine: Engine, job: Any, tasks: Sequence[Any], amounts: Sequence[int], report: Progress
) -> Generator[tuple[Any, int], None, None]:
    """Shuffle shards, which have these amounts of bytes; yield each task, and the size of its shard."""
    done, total = 0, sum(amounts)
    report("shuffle", 0, total, "bytes")
    results: Any = engine.map_chunks(job, iter(tasks))
    with closing(results):
        for task, amount, size in zip(tasks, amounts, results, strict=True):
            yield task, size
            done += amount
            report("shuffle", done, total, "bytes")


def shuffle_job(begun: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]], engine: Engine) -> ShuffleJob:
    """Return the job that shuffles the shards of an unfinished job with a manifest, from the checkpoints of all parts."""
    job = begun["job"]
    features = next((one["features"] for one in checkpoints if one["features"]), ())
    max_memory = int(begun.get("max_memory", SHUFFLE_MEMORY))
    return ShuffleJob(job["seed"], max(max_memory // engine.workers, 1), job["shuffled"], job["format"], tuple(features))


def no_samples(job: Mapping[str, Any], totals: Totals) -> CorpusError:
    """Return the error for a data set without examples."""
    if not totals.skipped:
        inputs = [entry["path"] for entry in job["inputs"]]
        shown = ", ".join(f"`{path}`" for path in inputs[:3]) + (", ..." if len(inputs) > 3 else "") or "the problem"
        return CorpusError(f"there are no samples in {shown}; expected one or more: check the inputs")
    return all_skipped(totals.skipped)
