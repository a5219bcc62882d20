"""Run the generation of a data set as a job that can be resumed, and divided among machines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpejit.corpus.fingerprints import times_sha256
from bpejit.engines import make_engine
from bpejit.engines.base import Engine, Progress
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import Checkpoints, checkpoint_fields, identify_part, read_checkpoint
from bpejit.jobs.encode_to_files import slice_units
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, held, part_folder, write_record
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.joining import missing_parts
from bpejit.jobs.remote_output import RemoteOutput
from bpejit.jobs.unfinished import (
    claim_job,
    compare_text,
    describe_resumed,
    naming_output,
    prepare_folder,
    without_empty_folder,
)
from bpejit.jobs.unit_loop import Seconds, Totals, UnitLoop, size_of_units
from bpejit.t2t.datagen.dataset_files import DatasetNames, UnshuffledShards, check_dataset_outputs
from bpejit.t2t.datagen.dataset_finishing import find_complete_dataset, finish_dataset
from bpejit.t2t.datagen.feature_encoders import FeatureVocabulary
from bpejit.t2t.datagen.generation_job import (
    GeneratedChunk,
    GenerationSettings,
    SampleJob,
    generate_records,
    sample_checksum,
)
from bpejit.t2t.datagen.sample_sources import SampleChunker, SampleUnit

_logger = logging.getLogger("bpejit")


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

    @property
    def paths(self) -> list[str]:
        """The paths of the inputs."""
        return self.inputs

    def identity(self) -> dict[str, Any]:
        """Return what the checkpoints of the part tell of it."""
        return identify_part(self.job, *(self.options.part or (0, 1)), self.mine)

    @property
    def inputs(self) -> list[str]:
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


def run_generation(plan: DatasetPlan, *, workers: int | None, engine: str, report: Progress) -> DatasetResult:
    """Generate a data set, or the part of it that this process works on.

    Parameters
    ----------
    plan : DatasetPlan
    workers, engine
        How the work is distributed.
    report : callable
        Progress. If it has a method `message`, that is called with remarks for the user.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    seconds = Seconds()
    say: Callable[[str], None] = getattr(report, "message", None) or _logger.info
    found = begin_dataset(plan, 1, say)
    if isinstance(found, DatasetResult):
        return found
    if plan.options.part is None and found > 1:
        return _run_dataset_parts(plan, found, workers=workers, engine=engine, report=report)
    part, parts = plan.options.part or (0, 1)
    folder = part_folder(plan.folder, part, parts)
    with (
        held(folder, f"works on {'this data set' if parts == 1 else f'part {part} of this data set'}"),
        without_empty_folder(plan, folder),
    ):
        claim_job(plan, parts, max_memory=plan.max_memory)
        checkpoint = read_checkpoint(folder, plan.identity()) if plan.options.resume else None
        kept = 0 if checkpoint is None else Totals.from_json(checkpoint["totals"]).units
        if plan.options.resume:
            say(describe_resumed(plan, kept, checkpoint))
        seconds.plan = working_time() - begun
        spread = make_engine(engine, workers, input_bytes=plan.size, returns_arrays=True)
        compare_samples(plan, checkpoint, spread, report)
        if checkpoint is not None and checkpoint.get("complete"):
            complete: dict[str, Any] = checkpoint
        else:
            with naming_output(plan.names.out):
                complete = run_generation_part(plan, folder, spread, checkpoint, report, seconds)
        totals = Totals.from_json(complete["totals"])
        new_bytes = totals.bytes - (0 if checkpoint is None else checkpoint["totals"]["bytes"])
        before = working_time()
        missing = len(missing_parts(plan.folder, parts)) if parts > 1 else 0
        finished = None
        if not missing:
            with naming_output(plan.names.out):
                checkpoints = [complete] if checkpoint is None and parts == 1 else None
                finished = finish_dataset(
                    plan.names, plan.job, parts, spread, report, max_memory=plan.max_memory, checkpoints=checkpoints
                )
        if finished is None and parts > 1 and not (plan.folder / MANIFEST).exists():
            missing, finished = 0, find_complete_dataset(plan.names, plan.job)  # another process has just joined the parts
        if finished is None and not missing:
            say("all parts are complete, and another process joins them")
        seconds.finish += working_time() - before
    result = totals if finished is None else finished
    return DatasetResult(result, finished is not None, len(plan.mine), kept, missing, seconds, new_bytes)


def compare_samples(plan: DatasetPlan, checkpoint: Mapping[str, Any] | None, engine: Engine, report: Progress) -> None:
    """Compare the samples of finished units with those of a checkpoint if an input was modified since (see `compare_text`)."""
    if checkpoint is not None and checkpoint["text"]["modified"] != times_sha256(plan.paths):
        units = plan.mine[: checkpoint["totals"]["units"]]
        chunker: Any = SampleChunker()
        compare_text(plan, units, engine, SampleJob(sample_checksum), chunker, checkpoint["text"]["sha256"], report)  # type: ignore[arg-type]


def begin_dataset(
    plan: DatasetPlan,
    parts: int,
    say: Callable[[str], None],
    *,
    patience: float = 0.0,
) -> DatasetResult | int:
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
    DatasetResult or int
        The result if the job is resumed and nothing is left to do; otherwise the number of parts, which is that of the
        unfinished job if that is resumed.

    Raises
    ------
    OutputError
    """
    done = find_complete_dataset(plan.names, plan.job) if plan.options.resume else None
    if done is not None:
        say(f"nothing is left to do: `{plan.names.manifest}` describes the complete data set")
        return DatasetResult(done, True, len(plan.units), len(plan.units), 0)
    check_dataset_outputs(plan.names, inputs=plan.inputs, overwrite=plan.options.overwrite)
    return prepare_folder(plan, say, parts=parts, patience=patience)


def _run_dataset_parts(plan: DatasetPlan, parts: int, *, workers: int | None, engine: str, report: Progress) -> DatasetResult:
    """Run the parts of an unfinished job in this process, one after the other, and join them."""
    kept = new_bytes = 0
    for part in range(parts):
        some = replace(plan, options=replace(plan.options, part=(part, parts), resume=True))
        result = run_generation(some, workers=workers, engine=engine, report=report)
        kept += result.kept
        new_bytes += result.new_bytes
    return replace(result, units=len(plan.units), kept=kept, new_bytes=new_bytes)


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
