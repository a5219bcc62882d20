"""Run the generation of a data set as a job that can be resumed, and divided among machines."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bpejit.datagen.dataset_files import DatasetNames, UnshuffledShards, check_dataset_outputs
from bpejit.datagen.feature_encoders import FeatureVocabulary
from bpejit.datagen.generation_job import GeneratedChunk, GenerateJob, GenerationSettings
from bpejit.datagen.sample_sources import SampleChunker, SampleUnit
from bpejit.engines import make_engine
from bpejit.engines.base import Engine, Progress
from bpejit.errors import CorpusError
from bpejit.jobs.checkpoints import Checkpoints, checkpoint_fields
from bpejit.jobs.encode_to_files import slice_units
from bpejit.jobs.finishing import COMBINED, missing_parts
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    MANIFEST,
    found_parts,
    held,
    is_held,
    job_folder,
    part_folder,
    read_record,
    remove_folder,
    write_record,
)
from bpejit.jobs.job_manifest import find_difference, finished_manifest
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_run import Seconds, Totals, map_units
from bpejit.jobs.output_files import FINAL, exchange, remove_links
from bpejit.jobs.unfinished import claim_job, describe_resumed, naming_output, prepare_folder, without_empty_folder
from bpejit.storage.exchange import recover
from bpejit.storage.files import replacing
from bpejit.storage.temporary import sync_file
from bpejit.t2t.example_arrays import read_record_blocks
from bpejit.t2t.record_formats.registry import DEFAULT_RECORD_FORMAT, load_record_format
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.tfrecords import parse_example, read_records

_logger = logging.getLogger("bpejit")

_FLUSHED = 4
"""Number of shards that are flushed to disk at a time."""


@dataclass(frozen=True)
class DatasetPlan:
    """The generation of a data set before it runs.

    Parameters
    ----------
    names : DatasetNames
    units, mine : list of SampleUnit
        All units, and those of the part that this process works on.
    inputs : list of str
    vocabularies : dict of str to FeatureVocabulary
    settings : GenerationSettings
    job : dict
        What was asked for, as in the manifest.
    options : JobOptions
    shuffles : bool
        Whether the examples of a shard are put into a random order.
    max_memory : int
        For shuffling.
    format : str
        A record format (see `bpejit.t2t.record_formats`).
    """

    names: DatasetNames
    units: list[SampleUnit]
    inputs: list[str]
    vocabularies: Mapping[str, FeatureVocabulary]
    settings: GenerationSettings
    job: dict[str, Any]
    options: JobOptions
    shuffles: bool
    max_memory: int
    format: str = DEFAULT_RECORD_FORMAT

    @property
    def folder(self) -> Path:
        """The folder of the unfinished job."""
        return job_folder(self.names.out)

    @property
    def mine(self) -> list[SampleUnit]:
        """The units of the part."""
        return self.units if self.options.part is None else slice_units(self.units, *self.options.part)  # type: ignore[arg-type,return-value]

    @property
    def size(self) -> int | None:
        """Bytes of input of the part; None if unknown."""
        sizes = [unit.size for unit in self.mine]
        return None if None in sizes else sum(size for size in sizes if size is not None)


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
    """

    totals: Totals
    complete: bool
    units: int
    kept: int
    missing: int
    seconds: Seconds = field(default_factory=Seconds)


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
    begun = time.perf_counter()
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
        claim_job(plan, parts)
        checkpoint = read_record(folder / CHECKPOINT) if plan.options.resume else None
        kept = 0 if checkpoint is None else Totals.from_json(checkpoint["totals"]).units
        if plan.options.resume:
            say(describe_resumed(plan, kept, checkpoint))
        seconds.plan = time.perf_counter() - begun
        spread = make_engine(engine, workers, input_bytes=plan.size, returns_arrays=True)
        if checkpoint is not None and checkpoint.get("complete"):
            complete: dict[str, Any] = checkpoint
        else:
            with naming_output(plan):
                complete = run_generation_part(plan, folder, spread, checkpoint, report, seconds)
        totals = Totals.from_json(complete["totals"])
        before = time.perf_counter()
        missing = len(missing_parts(plan.folder, parts)) if parts > 1 else 0
        finished = None
        if not missing:
            with naming_output(plan):
                finished = finish_dataset(plan, parts, spread, report, [complete] if parts == 1 else None)
                if finished is None:
                    say("all parts are complete, and another process joins them")
        seconds.finish += time.perf_counter() - before
    result = totals if finished is None else finished
    return DatasetResult(result, finished is not None, len(plan.mine), kept, missing, seconds)


def begin_dataset(plan: DatasetPlan, parts: int, say: Callable[[str], None], *, patience: float = 0.0) -> DatasetResult | int:
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
    done = _find_complete_dataset(plan)
    if done is not None:
        say(f"nothing is left to do: `{plan.names.manifest}` describes the complete data set")
        return DatasetResult(done, True, len(plan.units), len(plan.units), 0)
    check_dataset_outputs(plan.names, inputs=plan.inputs, overwrite=plan.options.overwrite)
    return prepare_folder(plan, say, parts=parts, patience=patience)


def _run_dataset_parts(plan: DatasetPlan, parts: int, *, workers: int | None, engine: str, report: Progress) -> DatasetResult:
    """Run the parts of an unfinished job in this process, one after the other, and join them."""
    kept = 0
    for part in range(parts):
        some = replace(plan, options=replace(plan.options, part=(part, parts), resume=True))
        result = run_generation(some, workers=workers, engine=engine, report=report)
        kept += result.kept
    return replace(result, units=len(plan.units), kept=kept)


def _find_complete_dataset(plan: DatasetPlan) -> Totals | None:
    """Return the totals of the complete data set if it is the same one, and the job is to be resumed."""
    if not plan.options.resume:
        return None
    recover([*plan.names.paths(), plan.names.manifest])
    fields = read_record(plan.names.manifest)
    if fields is None or find_difference(fields.get("job"), plan.job) is not None:
        return None
    if not all(path.exists() for path in plan.names.paths()):
        return None
    if plan.folder.exists() and not any(is_held(path) for _, _, path in found_parts(plan.folder)):
        remove_links(plan.folder)
        remove_folder(plan.folder)
    return Totals(tokens=fields["ids"], documents=fields["examples"], bytes=fields["bytes_read"])


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
    totals = Totals() if checkpoint is None else Totals.from_json(checkpoint["totals"])
    rest = plan.mine[totals.units :]
    missing = [unit.size for unit in rest]
    total = None if None in missing else sum(size for size in missing if size is not None)
    shards = UnshuffledShards(folder, plan.names.unshuffled(), None if checkpoint is None else checkpoint["sizes"])
    records = [0] * len(shards.sizes) if checkpoint is None else list(checkpoint["records"])
    job = GenerateJob(plan.vocabularies, plan.settings)
    checkpoints = Checkpoints(folder)
    unsaved = read_now = 0
    stack = ExitStack()
    try:
        report("encode", 0, total, "bytes")
        details = getattr(report, "details", None)
        before = time.perf_counter()
        results: Any = map_units(rest, job, engine, SampleChunker())  # type: ignore[arg-type]
        stack.enter_context(closing(results))
        for _, found in results:
            now = time.perf_counter()
            seconds.encode += now - before
            if found is None:
                totals.units += 1
                sizes, flush = shards.snapshot()
                state = {"totals": totals.as_json(), "sizes": sizes, "records": list(records)}
                due = unsaved >= plan.options.unit_bytes // 2
                checkpoints.note(state, flush, write=due)
                unsaved = 0 if due else unsaved
            else:
                _append(shards, records, found)
                totals.tokens += found.ids
                totals.documents += int(found.counts.sum())
                totals.bytes += found.n_bytes
                totals.read += found.n_read
                totals.skipped += found.skipped
                unsaved += found.n_read
                read_now += found.n_read
                if details is not None:
                    details(tokens=totals.tokens, documents=totals.documents)
                report("encode", read_now, total, "bytes")
            before = time.perf_counter()
            seconds.write += before - now
        checkpoints.wait()
        fields: dict[str, Any] = {"totals": totals.as_json(), "sizes": shards.sizes, "records": records, "complete": True}
        # A job without a checkpoint is repeated after a fault, which takes less time than flushing its files to disk.
        is_brief = checkpoint is None and not checkpoints.begun and plan.options.part is None
        shards.finish(synced=not is_brief)
        if not is_brief:
            write_record(folder / CHECKPOINT, checkpoint_fields(fields))
        return fields
    except BaseException:
        stack.close()  # ends the workers
        checkpoints.save_last()
        raise
    finally:
        stack.close()
        checkpoints.close()
        shards.close()


def _append(shards: UnshuffledShards, records: list[int], found: GeneratedChunk) -> None:
    bounds = found.bounds.tolist()
    for index, count in enumerate(found.counts.tolist()):
        if count:
            shards.append(found.first + index, found.data[bounds[index] : bounds[index + 1]])
            records[found.first + index] += count


@dataclass(frozen=True)
class _ShardTask:
    """A shard to shuffle: its number, the files of its records, and the file to write."""

    shard: int
    sources: tuple[Path, ...]
    target: Path

    @property
    def data(self) -> None:
        return None


def _written(target: Path) -> Path:
    """Return the name of a file in the folder of a job until it is complete and on disk."""
    return target.with_name(f"{target.name}.tmp")


def _complete_shard(target: Path) -> None:
    """Flush a shard to disk, and give it its name.

    Unlike `replacing`, without flushing the folder each time: after a power failure, a missing file is written again.
    """
    if not target.exists():
        with _written(target).open("rb+") as file:
            sync_file(file.fileno())
        _written(target).replace(target)


@dataclass(frozen=True)
class _ShuffleJob:
    """Shuffles shards; the results of a worker are sizes in bytes."""

    seed: int
    max_memory: int
    shuffles: bool
    format: str
    names: tuple[str, ...]

    def start(self) -> _ShuffleJob:
        return self

    def run(self, task: _ShardTask) -> int:
        if task.target.exists():  # an earlier run has written it
            return task.target.stat().st_size
        with _written(task.target).open("wb") as file:
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
        return _written(task.target).stat().st_size

    def finish(self) -> None:
        return None


def _feature_names(sources: Iterable[Path]) -> tuple[str, ...]:
    """Return the features of the first example in some files."""
    for source in sources:
        for data in read_records(source):
            return tuple(parse_example(data))
    return ()


def finish_dataset(
    plan: DatasetPlan, parts: int, engine: Engine, report: Progress, checkpoints: list[dict[str, Any]] | None = None
) -> Totals | None:
    """Shuffle the shards of all parts, and give them their final names. Return the totals; None if another process does it.

    Parameters
    ----------
    plan : DatasetPlan
    parts : int
    engine : Engine
    report : callable
    checkpoints : list of dict, optional
        The complete checkpoint of each part; by default they are read.

    Raises
    ------
    OSError, OutputError
        If a file cannot be written. The parts stay.
    """
    folder = plan.folder
    with ExitStack() as stack:
        if parts > 1:
            if is_held(folder / COMBINED):
                return None
            stack.enter_context(held(folder / COMBINED, "joins the parts of this data set"))
            if not (folder / MANIFEST).exists():  # another process was faster
                remove_folder(folder)
                return None
        remove_links(folder)
        begun = read_record(folder / MANIFEST) or {}
        places = [part_folder(folder, index, parts) for index in range(parts)]
        if checkpoints is None:
            checkpoints = [read_record(place / CHECKPOINT) or {} for place in places]
        totals = sum((Totals.from_json(one["totals"]) for one in checkpoints), Totals())
        if not totals.documents:
            remove_folder(folder)
            raise _no_samples(plan, totals)
        pairs, outputs = _shuffle(plan, places, checkpoints, engine, report)
        sums = {
            "examples": totals.documents,
            "ids": totals.tokens,
            "bytes_read": totals.bytes,
            "skipped": totals.skipped.count,
        }
        check_dataset_outputs(plan.names, inputs=plan.inputs, overwrite=bool(begun.get("overwrite")))
        written = folder / FINAL / plan.names.manifest.name
        with replacing(written) as file:
            file.write(finished_manifest(plan.job, sums, outputs))
        pairs.append((written, plan.names.manifest))
        exchange(folder, pairs, plan.names.existing())
    remove_folder(folder)
    return totals


def _no_samples(plan: DatasetPlan, totals: Totals) -> CorpusError:
    if not totals.skipped:
        shown = ", ".join(plan.inputs[:3]) or "the problem"
        return CorpusError(f"there are no samples in {shown}; expected at least one: check the inputs")
    return CorpusError(
        f"all of the {totals.skipped.count} samples were skipped; the first is {totals.skipped.first[0]}; expected complete "
        "samples: check the inputs, and how the problem describes them"
    )


def _shuffle(
    plan: DatasetPlan, places: list[Path], checkpoints: list[dict[str, Any]], engine: Engine, report: Progress
) -> tuple[list[tuple[Path, Path]], list[dict[str, Any]]]:
    """Write the shuffled shards. Return pairs of these files and their final paths, and the entries of the manifest."""
    final = plan.folder / FINAL
    final.mkdir(exist_ok=True)
    paths = plan.names.paths()
    tasks = [
        _ShardTask(number, tuple(place / name for place in places), final / path.name)
        for number, (name, path) in enumerate(zip(plan.names.unshuffled(), paths, strict=True))
    ]
    names = _feature_names(source for task in tasks for source in task.sources)
    memory = max(plan.max_memory // engine.workers, 1)
    job = _ShuffleJob(plan.settings.seed, memory, plan.shuffles, plan.format, names)
    total = sum(sum(one["sizes"]) for one in checkpoints)
    done = 0
    report("shuffle", 0, total, "bytes")
    outputs = []
    results: Any = engine.map_chunks(job, iter(tasks))  # type: ignore[arg-type]
    with ThreadPoolExecutor(_FLUSHED) as pool, closing(results):
        completed = []
        for number, size in enumerate(results):
            completed.append(pool.submit(_complete_shard, tasks[number].target))  # while others are shuffled
            done += sum(one["sizes"][number] for one in checkpoints)
            report("shuffle", done, total, "bytes")
            records = sum(one["records"][number] for one in checkpoints)
            split = plan.names.slots[number][0]
            outputs.append({"path": paths[number].name, "split": split, "examples": records, "bytes": size})
        for one in completed:
            one.result()
    return [(task.target, path) for task, path in zip(tasks, paths, strict=True)], outputs
