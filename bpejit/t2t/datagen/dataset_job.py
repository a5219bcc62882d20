"""The generation of a data set as a job: its plan, what a run did, and the records of a part."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bpejit.corpus.fingerprints import times_sha256
from bpejit.engines.base import Engine, Progress
from bpejit.jobs.checkpoints import Checkpoints, checkpoint_fields, identify_part
from bpejit.jobs.encode_to_files import slice_units
from bpejit.jobs.job_folder import CHECKPOINT, write_record
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.remote_output import RemoteOutput
from bpejit.jobs.unfinished import compare_text
from bpejit.jobs.unit_loop import Seconds, Totals, UnitLoop, size_of_units
from bpejit.t2t.datagen.dataset_files import DatasetNames, UnshuffledShards
from bpejit.t2t.datagen.generation_job import (
    FeatureVocabulary,
    GeneratedChunk,
    GenerationSettings,
    SampleJob,
    generate_records,
    sample_checksum,
)
from bpejit.t2t.datagen.sample_sources import SampleChunker, SampleUnit


@dataclass(frozen=True)
class DatasetPlan:
    """The generation of a data set before it runs.

    Parameters
    ----------
    names : DatasetNames
    units, mine : list of SampleUnit
        All units, and those of the part that this process works on.
    vocabularies : dict of str to FeatureVocabulary
    settings : GenerationSettings
    job : dict
        What was asked for, as in the manifest.
    options : JobOptions
    max_memory : int
        For shuffling.
    remote : RemoteOutput, optional
        The data set if it is at a URL. `names` are then in a scratch folder.
    """

    names: DatasetNames
    units: list[SampleUnit]
    vocabularies: Mapping[str, FeatureVocabulary]
    settings: GenerationSettings
    job: dict[str, Any]
    options: JobOptions
    max_memory: int
    remote: RemoteOutput | None = None

    def worker_job(self) -> SampleJob:
        """Return the job that encodes samples as records in workers."""
        return SampleJob(partial(generate_records, self.vocabularies, self.settings))

    @property
    def folder(self) -> Path:
        """The folder of the unfinished job."""
        return self.names.folder

    def identity(self) -> dict[str, Any]:
        """Return what the checkpoints of the part tell of it."""
        return identify_part(self.job, *(self.options.part or (0, 1)), self.mine)

    @property
    def paths(self) -> list[str]:
        """The paths of the inputs."""
        return [entry["path"] for entry in self.job["inputs"]]

    @property
    def mine(self) -> list[SampleUnit]:
        """The units of the part."""
        return self.units if self.options.part is None else slice_units(self.units, *self.options.part)  # type: ignore[arg-type,return-value]

    @property
    def size(self) -> int | None:
        """Bytes of input of the part; None if unknown."""
        return size_of_units(self.mine)


@dataclass
class DatasetResult:
    """What a run did.

    Parameters
    ----------
    totals : Totals
        Of the part, or of the data set once it is complete. `documents` is the number of examples.
    complete : bool
    units, kept : int
        Units of the part, and those that an earlier run had finished.
    missing : int
        Parts that are not complete yet.
    seconds : Seconds
    new_bytes : int
        Bytes of text that this run has encoded.
    """

    totals: Totals
    complete: bool
    units: int
    kept: int
    missing: int
    seconds: Seconds = field(default_factory=Seconds)
    new_bytes: int = 0


def compare_samples(plan: DatasetPlan, checkpoint: Mapping[str, Any] | None, engine: Engine, report: Progress) -> None:
    """Compare the samples of finished units with those of a checkpoint if an input was modified since (see `compare_text`)."""
    if checkpoint is not None and checkpoint["text"]["modified"] != times_sha256(plan.paths):
        units = plan.mine[: checkpoint["totals"]["units"]]
        chunker: Any = SampleChunker()
        compare_text(plan, units, engine, SampleJob(sample_checksum), chunker, checkpoint["text"]["sha256"], report)  # type: ignore[arg-type]


def run_generation_part(
    plan: DatasetPlan,
    folder: Path,
    engine: Engine,
    checkpoint: Mapping[str, Any] | None,
    report: Progress,
    seconds: Seconds,
) -> dict[str, Any]:
    """Generate the records of the units of a part, and complete its unshuffled shards. Return the fields of its checkpoint.

    A job that is not divided, and is too small for a checkpoint, has none in its folder either.

    Parameters
    ----------
    plan : DatasetPlan
    folder : Path
        The folder of the part, locked by this process.
    engine : Engine
    checkpoint : dict, optional
        The last checkpoint of the part, whose files are continued; None to begin.
    report : callable
    seconds : Seconds
        Is added to.

    Raises
    ------
    CorpusError
    OSError
        If a file cannot be written. The last checkpoint stays.
    """
    loop = UnitLoop(plan.mine, checkpoint, plan.options.unit_bytes, seconds, report)
    known = () if checkpoint is None else (checkpoint["sizes"], checkpoint["hashes"])
    shards = UnshuffledShards(folder, plan.names.unshuffled(), *known)
    modified = times_sha256(plan.paths)
    records = [0] * len(shards.sizes) if checkpoint is None else list(checkpoint["records"])
    results = loop.results(plan.worker_job(), engine, SampleChunker())  # type: ignore[arg-type]
    with closing(shards), Checkpoints(folder, plan.identity) as checkpoints, closing(results):
        for _, found in results:
            if found is None:
                due = loop.end_unit()
                sizes, flush = shards.snapshot()
                checkpoints.note(_fields(loop, modified, sizes, shards.hashes, list(records)), flush, write=due)
            else:
                _append(shards, records, found)
                loop.add(found, tokens=found.ids, documents=int(found.counts.sum()))
        checkpoints.wait()
        fields = {**_fields(loop, modified, shards.sizes, shards.hashes, records), "complete": True}
        # A job without a checkpoint is repeated after a fault, which takes less time than flushing its files to disk.
        is_brief = checkpoint is None and not checkpoints.begun and plan.options.part is None
        shards.finish(synced=not is_brief)
        if not is_brief:
            write_record(folder / CHECKPOINT, checkpoint_fields(fields, plan.identity()))
        return fields


def _fields(
    loop: UnitLoop,
    modified: str,
    sizes: list[int],
    hashes: list[str],
    records: list[int],
) -> dict[str, Any]:
    """Return the fields of a checkpoint."""
    text = {"sha256": loop.text_sha256, "modified": modified}
    return {"totals": loop.totals.as_json(), "text": text, "sizes": sizes, "hashes": hashes, "records": records}


def _append(shards: UnshuffledShards, records: list[int], found: GeneratedChunk) -> None:
    bounds = found.bounds.tolist()
    for index, count in enumerate(found.counts.tolist()):
        if count:
            shards.append(found.first + index, found.data[bounds[index] : bounds[index + 1]])
            records[found.first + index] += count
