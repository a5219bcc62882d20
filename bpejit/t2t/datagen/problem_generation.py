"""Generate the data set of a problem: plan it, find its vocabularies, run the job, and report."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bpejit import arguments
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.fingerprints import identify_input
from bpejit.corpus.sources import Source
from bpejit.engines import AUTO, RAY, make_engine
from bpejit.engines.base import Progress, no_progress
from bpejit.errors import OptionError, OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.job_folder import CHECKPOINT, find_kept, part_folder, read_record
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_plan import JobResult, slice_units
from bpejit.jobs.remote_output import RemoteOutput, check_remote, combine_remote
from bpejit.jobs.running import combine_parts, run_job
from bpejit.jobs.sampled_runs import run_sample
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.process_memory import peak_memory
from bpejit.storage.files import StrPath, creating_folder
from bpejit.storage.remote import is_remote, local_path
from bpejit.storage.scratch import scratch_folder
from bpejit.t2t.datagen.dataset_job import DatasetPlan
from bpejit.t2t.datagen.dataset_outputs import SHUFFLE_MEMORY, DatasetOutputs
from bpejit.t2t.datagen.generation_job import FeatureVocabulary, GenerationSettings
from bpejit.t2t.datagen.problem_declaration import Problem, generated_chunks, labels_of
from bpejit.t2t.datagen.sample_reading import CHUNK_BYTES, Layout
from bpejit.t2t.datagen.sample_sources import SampleChunker, SampleUnit, plan_inputs
from bpejit.t2t.datagen.vocabularies import fetch_vocabularies, find_vocabularies, store_vocabularies, vocabulary_names
from bpejit.t2t.record_formats.base import RecordFormat
from bpejit.t2t.record_formats.registry import DEFAULT_RECORD_FORMAT, load_record_format


@dataclass(frozen=True)
class GenerationReport:
    """Result of `generate_data`.

    Parameters
    ----------
    paths : tuple of Path or str
        The shards; empty while parts of the job are missing, and after a dry run. URLs if `data_dir` is one.
    manifest : Path or str, optional
    vocabularies : tuple of Path or str
        The vocabulary files; empty after `bpejit.combine`.
    examples, ids, bytes : int
        Examples written, ids in them before packing, and bytes of text; those of the part, if other parts are missing. After
        a dry run they are expected from a sample, and 0 if a vocabulary does not exist or samples are made by a Python class.
    skipped : Skipped
        Samples that were skipped: their number (`count`), and the first few (`first`).
    seconds : float
        Wall time; after a dry run, the expected time until shards are shuffled.
    units, kept_units : int
        Units of the job, or of the part, and those that an earlier run had finished.
    missing_parts : int
        Parts of the job that are not complete.
    stages : dict of str to float
        Where the time went, in seconds: `vocabulary`, `plan`, `encode` (waiting for records), `write`, and `finish`
        (shuffling).
    peak_memory, worker_memory : int
        Peak resident memory of this process, and of the largest worker process that has ended, in bytes; 0 if unknown.
    new_vocabularies : tuple of Path or str
        After a dry run, the vocabularies that do not exist.
    cluster : str
        With `engine="ray"`, the address and size of the cluster.
    parts : int
        After a dry run with `engine="ray"`, the number of tasks that generate examples, before those that shuffle shards.
    new_bytes : int
        Bytes of text that this run has encoded.
    part : str
        The part of the job that this run worked on, such as 0/2; empty for the whole job.
    """

    paths: tuple[Path | str, ...]
    manifest: Path | str | None
    vocabularies: tuple[Path | str, ...]
    examples: int
    ids: int
    bytes: int
    skipped: Skipped = NOTHING_SKIPPED
    seconds: float = 0.0
    units: int = 0
    kept_units: int = 0
    missing_parts: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    worker_memory: int = 0
    new_vocabularies: tuple[Path | str, ...] = ()
    cluster: str = ""
    parts: int = 0
    new_bytes: int = 0
    part: str = ""


@dataclass(frozen=True)
class GenerationOptions:
    """How a data set is generated; see `bpejit.generate_data`.

    Parameters
    ----------
    job : JobOptions
        Of it, the seed, the part, and what is resumed or replaced.
    tmp_dir : path, optional
        A folder that is passed to `generate_samples`; by default a temporary one.
    format : str
        The name of a record format.
    strict : bool
        Whether a malformed or empty sample is an error.
    max_memory : int
        Bytes of memory for shuffling.
    dry_run : bool
        Whether to plan the job only.
    workers, engine, ray_address
        How the work is distributed.
    report : callable
        Progress. If it has a method `message`, that is called with remarks for the user.
    """

    job: JobOptions
    tmp_dir: StrPath | None = None
    format: str = DEFAULT_RECORD_FORMAT
    strict: bool = False
    max_memory: int = SHUFFLE_MEMORY
    dry_run: bool = False
    workers: int | None = None
    engine: str = AUTO
    ray_address: str | None = None
    report: Progress = no_progress


def generate(problem: Problem, data_dir: StrPath, options: GenerationOptions) -> GenerationReport:
    """Generate the data set of a problem; see `bpejit.generate_data`.

    Parameters
    ----------
    problem : Problem
    data_dir : path
        The folder for the vocabularies and the shards, or a URL.
    options : GenerationOptions

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError, TokenizerFormatError, TrainingError
    """
    begun = working_time()
    form = load_record_format(options.format)
    given = local_path(arguments.path("data_dir", data_dir, error=OutputError))
    remote = RemoteOutput(f"{given.rstrip('/')}/{problem.dataset_filename()}", False) if is_remote(given) else None
    wanted = vocabulary_names(problem)
    with ExitStack() as stack:
        # The next run removes what a process that was killed leaves.
        temporary = stack.enter_context(scratch_folder(Path(tempfile.gettempdir()), "datagen"))
        scratch = Path(temporary if options.tmp_dir is None else arguments.path("tmp_dir", options.tmp_dir))
        folder = Path(given) if remote is None else Path(temporary) / "data"
        samples = plan_samples(problem, folder, scratch, options.job, form, strict=options.strict)
        planned = working_time()
        if not options.dry_run:
            if not options.job.resume:  # otherwise a data set that exists may be the same one
                check: Any = samples.names.check if remote is None else partial(check_remote, remote, samples.names)
                check(samples.paths, overwrite=options.job.overwrite)
            stack.enter_context(creating_folder(folder))
        if remote is not None:
            fetch_vocabularies(remote.base, wanted, folder)
        missing = [name for name in wanted if not (folder / name).exists()]
        vocabularies = find_vocabularies(problem, folder, scratch, options.report, build=not options.dry_run)
        if remote is not None and not options.dry_run:
            store_vocabularies(remote.base, wanted, folder)
        stages = {"plan": planned - begun, "vocabulary": working_time() - planned}
        plan = plan_dataset(problem, samples, vocabularies or {}, options, remote)
        paths = _report_paths([folder / name for name in wanted], remote)
        if options.dry_run:
            found = _plan_report(plan, problem, options, estimated=vocabularies is not None)
            new = _report_paths([folder / name for name in missing], remote)
            return replace(found, vocabularies=paths, new_vocabularies=new)
        if options.engine == RAY:
            from bpejit.jobs.cluster_jobs import run_on_cluster

            _check_described(plan, problem)
            result = run_on_cluster(plan, options.ray_address, options.workers, options.report)
        else:
            result = run_job(plan, workers=options.workers, engine=options.engine, report=options.report)
    result.seconds.plan += stages.pop("plan")
    return _report(result, paths, working_time() - begun, stages, options.job.part)


def _plan_report(plan: DatasetPlan, problem: Problem, options: GenerationOptions, *, estimated: bool) -> GenerationReport:
    """Return the report of a dry run; `estimated` is False if there are no vocabularies to encode a sample with."""
    parts, cluster = 0, ""
    if options.engine == RAY:
        from bpejit.jobs.cluster_jobs import plan_on_cluster

        _check_described(plan, problem)
        slots, parts, cluster = plan_on_cluster(plan, options.ray_address, options.workers)
    else:
        slots = make_engine(options.engine, options.workers, input_bytes=plan.size, returns_arrays=True).workers
    examples, ids, seconds = _estimate_generation(plan, slots) if estimated else (0, 0, 0.0)
    return GenerationReport(
        paths=(),
        manifest=None,
        vocabularies=(),
        examples=examples,
        ids=ids,
        bytes=plan.size or 0,
        seconds=seconds,
        units=len(plan.mine),
        kept_units=_find_kept_units(plan) if plan.options.resume else 0,
        cluster=cluster,
        parts=parts,
        worker_memory=peak_memory()[0] if cluster else 0,
    )


def _find_kept_units(plan: DatasetPlan) -> int:
    if plan.options.part is not None and plan.remote is None:
        checkpoint = read_record(part_folder(plan.folder, *plan.options.part) / CHECKPOINT)
        return 0 if checkpoint is None else Totals.from_json(checkpoint["totals"]).units
    kept = find_kept(plan.names.out, per_input=False) if plan.remote is None else plan.remote.kept()
    return 0 if kept is None else kept.units


def _report_paths(paths: Sequence[Path], remote: RemoteOutput | None) -> tuple[Path | str, ...]:
    """Return paths in the folder of the data, or their URLs."""
    return tuple(paths) if remote is None else tuple(f"{remote.base}/{path.name}" for path in paths)


def _report(
    result: JobResult,
    vocabularies: tuple[Path | str, ...],
    seconds: float,
    stages: Mapping[str, float] = MappingProxyType({}),
    part: tuple[int, int] | None = None,
) -> GenerationReport:
    memory, worker_memory = peak_memory()
    return GenerationReport(
        paths=() if result.finished is None else result.finished.paths,
        manifest=None if result.finished is None else result.finished.manifest,
        vocabularies=vocabularies,
        examples=result.totals.documents,
        ids=result.totals.tokens,
        bytes=result.totals.bytes,
        skipped=result.totals.skipped,
        seconds=seconds,
        units=result.units,
        kept_units=result.kept,
        missing_parts=result.missing,
        stages={**stages, **vars(result.seconds)},
        peak_memory=memory,
        worker_memory=worker_memory,
        new_bytes=result.new_bytes,
        part="/".join(map(str, part or ())),
    )


def join_dataset(out: str, *, overwrite: bool, report: Progress) -> GenerationReport:
    """Join the parts of a data set; see `bpejit.combine`. `out` is the folder of the data, or its URL, and the name."""
    begun = working_time()
    options: dict[str, Any] = {"overwrite": overwrite, "report": report}
    if is_remote(out):
        finished = combine_remote(RemoteOutput(out.rstrip("/"), False), DatasetOutputs.of_job, **options)
    else:
        finished = combine_parts(Path(out), DatasetOutputs.of_job, **options)
    seconds = working_time() - begun
    totals = finished.totals
    return _report(JobResult(totals, finished, totals.units, totals.units, 0, Seconds(finish=seconds)), (), seconds)


def _estimate_generation(plan: DatasetPlan, workers: int) -> tuple[int, int, float]:
    """Return the expected numbers of examples and ids, and the seconds until they are shuffled; zeros if unknown."""
    sample = run_sample(plan.worker_job().start(), plan.mine, SampleChunker())
    share, seconds = sample.expect(plan.size or 0, workers)
    examples = sum(int(chunk.counts.sum()) for chunk in sample.results)
    return round(examples * share), round(sum(chunk.ids for chunk in sample.results) * share), seconds


def _check_described(plan: DatasetPlan, problem: Problem) -> None:
    if problem.inputs_of(plan.names.splits[0][0]) is None:
        raise OptionError(
            f"the problem {problem.name} is a Python class, which other machines may not have; expected a problem that a file "
            "describes: write its samples to files first, or use another engine"
        )


@dataclass(frozen=True)
class SamplePlan:
    """The samples of a data set before they are encoded.

    Parameters
    ----------
    names : DatasetOutputs
    units : list of SampleUnit
    sources : list of Source
        The inputs of a problem that a file describes.
    per_split : bool
        Whether each split has samples of its own.
    """

    names: DatasetOutputs
    units: list[SampleUnit]
    sources: list[Source]
    per_split: bool

    @property
    def paths(self) -> list[str]:
        """The paths of the inputs."""
        return [source.path for source in self.sources]


def plan_samples(
    problem: Problem, folder: Path, scratch: Path, options: JobOptions, form: RecordFormat, *, strict: bool
) -> SamplePlan:
    """Divide the samples of a data set into units; `folder` is that of the data, and `scratch` that of temporary files.

    Raises
    ------
    CorpusError
        If an input cannot be read, or files that are paired line by line have different numbers of lines.
    OptionError
        If an input is a pipe.
    """
    splits = tuple((str(one["split"]), int(one.get("shards", 1))) for one in problem.dataset_splits)
    per_split = bool(problem.is_generate_per_split)
    names = DatasetOutputs(folder / problem.dataset_filename(), splits, form.suffix)
    chunk_bytes = min(CHUNK_BYTES, options.unit_bytes)
    units: list[SampleUnit] = []
    read: list[Source] = []
    for index, (split, _) in enumerate(splits if per_split else splits[:1]):
        inputs = problem.inputs_of(split)
        if inputs is None:
            layout = Layout(problem.text_features, strict=strict, chunk_bytes=chunk_bytes)
            chunks = partial(generated_chunks, layout, problem, split, str(folder), str(scratch))
            units.append(SampleUnit(len(units), index, chunks, None))
            continue
        sources = inputs.sources()
        read += [source for some in sources for source in some]
        pipes = [source.path for source in read if source.size is None]
        if pipes:
            raise OptionError(
                f"the input `{pipes[0]}` is a pipe; expected a file, since samples may be read twice: write the text to a "
                "file first"
            )
        layout = replace(inputs.layout, strict=strict, chunk_bytes=chunk_bytes)
        units += plan_inputs(sources, layout, index, len(units), options.unit_bytes)
    return SamplePlan(names, units, read, per_split)


def plan_dataset(
    problem: Problem,
    samples: SamplePlan,
    vocabularies: Mapping[str, FeatureVocabulary],
    options: GenerationOptions,
    remote: RemoteOutput | None,
) -> DatasetPlan:
    """Return the plan of a data set."""
    names = samples.names
    n_shards = [shards for _, shards in names.splits]
    firsts = [sum(n_shards[:index]) for index in range(len(n_shards))]
    slots = tuple(zip(firsts, n_shards, strict=True)) if samples.per_split else ((0, sum(n_shards)),)
    prefixes = {"inputs": problem.inputs_prefix, "targets": problem.targets_prefix}
    settings = GenerationSettings(
        slots, options.job.seed, prefixes, problem.packed_length, problem.packed_spacing, not problem.already_shuffled
    )
    labels = labels_of(problem)
    job = {
        "data_set": problem.dataset_filename(),
        "format": options.format,
        "splits": [list(split) for split in names.splits],
        "divides_samples": not samples.per_split and len(names.splits) > 1,
        "vocab_type": problem.vocab_type,
        "vocabularies": {
            name: {"sha256": vocabulary.sha256, "vocab_size": vocabulary.vocab_size}
            for name, vocabulary in vocabularies.items()
        },
        "labels": None if labels is None else list(labels),
        "prefixes": prefixes,
        "packed_length": settings.packed_length,
        "packed_spacing": settings.packed_spacing,
        "shuffled": settings.reorders,
        "seed": options.job.seed,
        "unit_bytes": options.job.unit_bytes,
        "inputs": [{"path": source.path, "size": source.size, **identify_input(source)} for source in samples.sources],
    }
    units = samples.units
    mine = slice_units(units, options.job.part)
    return DatasetPlan(names, job, options.job, units, mine, remote, vocabularies, settings, options.max_memory)
