"""The generation of a data set as a kind of job: what a part does with its units, and what runs on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bpejit.arrays import Array
from bpejit.corpus.blocks import ChunkReader
from bpejit.encoding.codec import warm_encoding
from bpejit.engines import Engine, FunctionJob, Job
from bpejit.errors import OptionError
from bpejit.jobs.job_folder import GrowingFile
from bpejit.jobs.job_plan import JobPlan, PartSink
from bpejit.jobs.job_totals import AnyChunker
from bpejit.storage.remote import is_remote
from bpejit.t2t.datagen.dataset_outputs import DatasetOutputs
from bpejit.t2t.datagen.generation_job import (
    FeatureVocabulary,
    GeneratedChunk,
    GenerationSettings,
    generate_records,
    sample_checksum,
    warm_data_sets,
)
from bpejit.t2t.datagen.sample_sources import SampleChunker, SampleUnit

if TYPE_CHECKING:
    from bpejit.engines.ray_cluster import RayCluster
    from bpejit.engines.ray_worker import TaskReport

MOST_OPEN = 256
"""Number of unshuffled shards that are open at a time."""


@dataclass(frozen=True)
class DatasetPlan(JobPlan):
    """The generation of a data set before it runs.

    Parameters
    ----------
    names, job, options, units, mine, remote
        See `JobPlan`. Of the totals of the job, `documents` is the number of examples.
    vocabularies : dict of str to FeatureVocabulary
    settings : GenerationSettings
    max_memory : int
        For shuffling.
    """

    names: DatasetOutputs
    vocabularies: Mapping[str, FeatureVocabulary]
    settings: GenerationSettings
    max_memory: int

    kernels: ClassVar[tuple[Callable[[], object], ...]] = (warm_encoding, warm_data_sets)
    stage: ClassVar[str] = "bpejit datagen"
    what: ClassVar[str] = "this data set"
    doing: ClassVar[str] = "generating"
    done: ClassVar[str] = "generated"

    @property
    def paths(self) -> list[str]:
        """The paths of all inputs, since samples may be paired from several."""
        return [entry["path"] for entry in self.job["inputs"]]

    @property
    def begun_fields(self) -> dict[str, Any]:
        """The bound of the memory for shuffling."""
        return {"max_memory": self.max_memory}

    def checksum_job(self, checkpoint: Mapping[str, Any]) -> tuple[Job, AnyChunker]:  # noqa: ARG002 - chunks never differ
        """Return what computes checksums of the samples of units."""
        return FunctionJob(sample_checksum, ChunkReader), SampleChunker()

    def chunk_job(self) -> tuple[Job, SampleChunker]:
        """Return the job that encodes samples as records in workers, and the chunker."""
        return FunctionJob(partial(generate_records, self.vocabularies, self.settings), ChunkReader), SampleChunker()

    def open_sink(self, folder: Path, checkpoint: Mapping[str, Any] | None) -> ShardSink:
        """Return what writes records into unshuffled shards (see `JobPlan`)."""
        return ShardSink(folder, self.names.unshuffled(), checkpoint)

    def check_shared(self) -> None:
        """Raise OptionError if the job is a part, or the samples are made by a Python class."""
        super().check_shared()
        if not self.paths:
            raise OptionError(
                f"the problem {self.job['data_set']} is a Python class, which other machines may not have; expected a problem "
                "that a file describes: write its samples to files first, or use another engine"
            )

    @property
    def relative_to(self) -> str:
        """The current folder if a path is relative to it; otherwise empty."""
        paths = [*([] if self.remote else [str(self.names.out)]), *self.paths]
        return "" if all(is_remote(path) or Path(path).is_absolute() for path in paths) else str(Path.cwd())

    def seen_by_nodes(self) -> list[str]:
        """Return the folder that relative paths refer to, and the first and the last local input."""
        inputs = [path for path in self.paths if not is_remote(path)]
        found = [*([self.relative_to] if self.relative_to else []), *inputs[:1], *inputs[-1:]]
        return [os.path.join(self.relative_to, path) for path in dict.fromkeys(found)]  # noqa: PTH118

    def shared(self) -> DatasetPlan:
        """Return what the plans of all tasks on a cluster have in common."""
        return replace(self, units=range(len(self.units)), mine=(), home=self.relative_to)

    def units_of_nodes(self, part: int, parts: int) -> tuple[list[SampleUnit], list[str]]:
        """Return the units of a part, and the paths of all inputs."""
        return self.slice(part, parts), self.paths

    def joining_engine(self, cluster: RayCluster, shared: JobPlan) -> Engine:
        """Return the engine that shuffles shards, each in a task."""
        return _ShardEngine(cluster, shared.home)


class ShardSink(PartSink):
    """Writes records of generated chunks into the unshuffled shards of a part, and counts those of each.

    Parameters
    ----------
    folder : Path
        The folder of the part.
    names : list of str
        Of the shards.
    checkpoint : dict, optional
        The last checkpoint of the part; None to begin.

    Raises
    ------
    OSError, OutputError
        As `GrowingFile`.
    """

    def __init__(self, folder: Path, names: list[str], checkpoint: Mapping[str, Any] | None) -> None:
        known = checkpoint or {"sizes": [0] * len(names), "hashes": [None] * len(names), "records": [0] * len(names)}
        self._files = []
        self._open: dict[int, GrowingFile] = {}
        for name, size, sha256 in zip(names, known["sizes"], known["hashes"], strict=True):
            file = GrowingFile(folder / name, size, sha256, alongside=False)
            file.close()
            self._files.append(file)
        self._records = list(known["records"])
        self._features: Sequence[str] = known.get("features", ())
        self._changed = set(range(len(names)))

    def write(self, result: GeneratedChunk) -> tuple[int, int]:
        """Append the records of a chunk; return the numbers of ids and of examples."""
        bounds = result.bounds.tolist()
        for index, count in enumerate(result.counts.tolist()):
            if count:
                self._append(result.first + index, result.data[bounds[index] : bounds[index + 1]])
                self._records[result.first + index] += count
        self._features = self._features or result.features
        return result.n_tokens, result.n_documents

    def _append(self, shard: int, data: Array) -> None:
        self._open.pop(shard, None)
        if len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        self._open[shard] = self._files[shard]  # the last one is closed last
        self._changed.add(shard)
        self._files[shard].write(data.data)

    def state(self) -> dict[str, Any]:
        """Return sizes, hashes and numbers of records of the shards, and the names of the features."""
        sizes, hashes = [file.size for file in self._files], [file.sha256 for file in self._files]
        return {"sizes": sizes, "hashes": hashes, "records": list(self._records), "features": self._features}

    def changed(self) -> list[Path]:
        """Return the shards that have changed since the last call."""
        shards, self._changed = self._changed, set()
        return [self._files[shard].path for shard in sorted(shards)]

    def finish(self) -> dict[str, Any]:
        """Return the state."""
        return self.state()

    def close(self) -> None:
        """Close the shards."""
        for file in self._open.values():
            file.close()


class _ShardEngine:
    """Runs the job that shuffles shards, each shard as a task."""

    def __init__(self, cluster: RayCluster, home: str) -> None:
        self.workers = cluster.slots
        self._cluster = cluster
        self._home = home

    def map_chunks(self, job: Job, chunks: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of each shard, which names the shard, when it ends."""
        from bpejit.engines.ray_cluster import ClusterTask

        shards = list(chunks)
        tasks = [
            ClusterTask(
                f"{DatasetPlan.stage} shuffle {number + 1}/{len(shards)}",
                "bpejit.t2t.datagen.dataset_job:shuffle_on_node",
                (job, shard),
            )
            for number, shard in enumerate(shards)
        ]
        for _, result in self._cluster.run(tasks, self._home):
            yield result

    def fold_chunks(self, job: Job, chunks: Iterable[Any], done: Callable[[Any], None]) -> list[Any]:
        """Not used: shuffling has no combined result."""
        raise NotImplementedError


def shuffle_on_node(home: str, job: Any, shard: Any, *, report: TaskReport) -> Any:  # noqa: ARG001
    """Shuffle a shard: a task. Return its index, and its size in bytes."""
    from bpejit.engines.ray_worker import warm_up

    warm_up(warm_data_sets)
    if home:
        os.chdir(home)
    return job.start().run(shard)
