"""Problems as programs describe them, under the published names of Tensor2Tensor, and the generation of their data sets.

A program describes a problem by a subclass of `Text2TextProblem`, `Text2SelfProblem` or `Text2ClassProblem`, with attributes
and methods of the published names. Problems whose samples are in files are described by a TOML file
(`bpejit.t2t.datagen.problem_files`). `generate_data` plans the data set of a problem, finds its vocabularies, runs the job, and
reports.
"""

from __future__ import annotations

import importlib
import runpy
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit import arguments
from bpejit.corpus.fingerprints import identify_inputs
from bpejit.corpus.reading_options import UNIT_BYTES
from bpejit.corpus.sources import Source
from bpejit.engines import AnyEngine, ProgressOption, Workers, checked_work
from bpejit.errors import BpejitError, OptionError, OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.folder_store import FolderStore
from bpejit.jobs.job_options import JobOptions, JobReport, JobResult, check_job_options
from bpejit.jobs.job_plan import slice_units
from bpejit.jobs.running import estimate_job, join_parts, run_job
from bpejit.jobs.url_store import UrlStore
from bpejit.options import takes
from bpejit.progress_bar import Progress
from bpejit.storage.files import StrPath, is_remote, local_path, scratch_folder
from bpejit.storage.outputs import InputFiles, creating_folder
from bpejit.t2t.datagen.generation_job import SHUFFLE_MEMORY, DatasetOutputs, DatasetPlan
from bpejit.t2t.datagen.problem_declaration import (
    DatasetSplit as DatasetSplit,
    Problem,
    VocabType as VocabType,
    generated_chunks,
)
from bpejit.t2t.datagen.problem_files import FileProblem, read_settings
from bpejit.t2t.datagen.sample_reading import CHUNK_BYTES, Layout
from bpejit.t2t.datagen.sample_sources import SampleUnit, find_inputs, plan_inputs
from bpejit.t2t.datagen.vocabularies import fetch_vocabularies, find_vocabularies, store_vocabularies, vocabulary_names
from bpejit.t2t.record_formats.registry import DEFAULT_RECORD_FORMAT, load_record_format

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, kw_only=True)
class GenerationReport(JobReport):
    """Result of `generate_data`, with the fields of `JobReport`.

    Parameters
    ----------
    vocabularies : tuple of Path or str
        The vocabulary files; empty after `bpejit.combine`.
    examples, ids : int
        Examples written, and ids in them before packing; those of the part, if other parts are missing. After a dry run they
        are expected from a sample, and 0 if a vocabulary does not exist or samples are made by a Python class.
    new_vocabularies : tuple of Path or str
        After a dry run, the vocabularies that do not exist.
    stages : dict of str to float
        Those of `JobReport`, and `vocabulary`; shards are shuffled in `finish`, which is not part of the expected time.
    """

    vocabularies: tuple[Path | str, ...] = ()
    examples: int
    ids: int
    new_vocabularies: tuple[Path | str, ...] = ()


class Text2TextProblem(Problem):
    """A data set of pairs of texts. Override `generate_samples` and `is_generate_per_split`, and other properties as needed.

    Examples
    --------
    >>> class Capitals(Text2TextProblem):
    ...     is_generate_per_split = False
    ...     approx_vocab_size = 100
    ...
    ...     def generate_samples(self, data_dir, tmp_dir, dataset_split):
    ...         for word in ("low", "lower"):
    ...             yield {"inputs": word, "targets": word.upper()}
    >>> Capitals().vocab_filename
    'vocab.capitals.100.subwords'
    """

    def generate_data(self, data_dir: StrPath, tmp_dir: StrPath | None = None, task_id: int = -1) -> None:
        """Generate the data set (see `bpejit.generate_data`).

        Parameters
        ----------
        data_dir : path
        tmp_dir : path, optional
        task_id : int
            Must be -1: use `bpejit.generate_data` to divide the work.
        """
        if task_id != -1:
            raise OptionError(f"task_id is {task_id}; expected -1: divide the work with `bpejit.generate_data(..., shard=...)`")
        generate_data(self, data_dir, tmp_dir=tmp_dir)


class Text2SelfProblem(Text2TextProblem):
    """A data set of single texts, the `targets`."""

    has_inputs = False


class Text2ClassProblem(Text2TextProblem):
    """A data set of texts with a class label each: samples are `{"inputs": text, "label": index}`."""

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        raise OptionError(
            f"the problem {self.name} does not say how many classes it has; expected a number: define `num_classes`, or "
            "`class_labels`"
        )

    def class_labels(self, data_dir: StrPath) -> list[str]:  # noqa: ARG002
        """Return the names of the classes."""
        return [f"ID_{index}" for index in range(self.num_classes)]

    text_features = ("inputs",)


class _FileProblem(FileProblem, Text2TextProblem):
    """A problem whose samples are in files."""


def load_problem(name: StrPath | Text2TextProblem) -> Text2TextProblem:
    """Return a problem.

    Parameters
    ----------
    name : path, str or Text2TextProblem
        A TOML file, or `MODULE:CLASS` or `FILE.py:CLASS`.

    Raises
    ------
    ArgumentTypeError, OptionError
        If there is no such problem.
    """
    if isinstance(name, Text2TextProblem):
        return name
    text = arguments.path("problem", name)
    module, found, attribute = text.rpartition(":")
    if found and attribute.isidentifier() and not Path(text).exists():
        return _load_class(module, attribute)
    return _FileProblem(read_settings(Path(text)), Path(text).parent, text)


def _load_class(module: str, attribute: str) -> Text2TextProblem:
    try:
        if module.endswith(".py"):
            names = runpy.run_path(module, run_name=Path(module).stem)
        else:
            names = vars(importlib.import_module(module))
        problem = names[attribute]()
    except BpejitError:
        raise
    except Exception as cause:
        raise OptionError(
            f"cannot create the problem `{module}:{attribute}`: {type(cause).__name__}: {cause}; expected a class that is "
            "created without arguments: check the module"
        ) from cause
    if not isinstance(problem, Text2TextProblem):
        raise OptionError(
            f"`{module}:{attribute}` is a {type(problem).__name__}; expected a subclass of Text2TextProblem: derive it from "
            "this class of `bpejit.t2t.datagen.problems`"
        )
    return problem


class GenerationWork(Workers, AnyEngine, ProgressOption, total=False):
    """How the generation of data is distributed and reported."""


@takes(GenerationWork)
def generate_data(
    problem: Text2TextProblem | StrPath,
    data_dir: StrPath,
    *,
    tmp_dir: StrPath | None = None,
    format: str = DEFAULT_RECORD_FORMAT,  # noqa: A002 - as for encoding
    seed: int = 0,
    strict: bool = False,
    max_memory: int = SHUFFLE_MEMORY,
    unit_bytes: int = UNIT_BYTES,
    shard: str | tuple[int, int] | None = None,
    resume: bool = False,
    dry_run: bool = False,
    overwrite: bool = False,
    **work: Unpack[GenerationWork],
) -> GenerationReport:
    """Generate the data set of a problem: build its vocabulary if it is missing, encode its samples, and write shuffled shards.

    Parameters
    ----------
    problem : Text2TextProblem, path or str
        A problem, a TOML file that describes one, or `MODULE:CLASS`.
    data_dir : path
        The folder for the vocabularies and the shards, or a URL such as `s3://bucket/data`.
    tmp_dir : path, optional
        A folder that is passed to `generate_samples`; by default a temporary one.
    format : str
        `tfrecord`; `jsonl`, an object in each line, `parquet`, a row with lists, both in files with such suffixes.
    seed : int
        Selects the order of the examples.
    strict : bool
        Whether a malformed or empty sample is an error. By default it is skipped and counted.
    max_memory : int
        Bytes of memory for shuffling. The result does not depend on it.
    unit_bytes : int
        Bytes of input after which the job can be resumed, and the granularity of its division into parts.
    shard : str, optional
        I/N, with I from 0 to N - 1: generate only this part, and join the parts when the last one is complete. `auto` reads I
        and N from the variables of Slurm's job arrays, or `RANK` and `WORLD_SIZE`.
    resume : bool
        Whether to continue an earlier run of the same job. If the data set is complete, nothing is done.
    dry_run : bool
        Whether to plan the job only, and estimate its time from a sample.
    overwrite : bool
        Whether to replace an existing data set. Existing vocabularies are always used.
    {options}

    Returns
    -------
    GenerationReport

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError, TokenizerFormatError, TrainingError
    """
    given = locals() | work
    begun = working_time()
    options = check_job_options(given)
    problem = load_problem(problem)
    chosen = checked_work(work)
    report = chosen["report"]
    strict = arguments.flag("strict", strict)
    max_memory = arguments.whole_number("max_memory", max_memory, least=1 << 20)
    dry_run = arguments.flag("dry_run", dry_run)
    place = local_path(arguments.path("data_dir", data_dir, error=OutputError))
    remote = UrlStore(f"{place.rstrip('/')}/{problem.dataset_filename()}", False) if is_remote(place) else None
    wanted = vocabulary_names(problem)
    with ExitStack() as stack:
        # The next run removes what a process that was killed leaves.
        temporary = stack.enter_context(scratch_folder(None, "datagen"))
        scratch = Path(temporary if tmp_dir is None else arguments.path("tmp_dir", tmp_dir))
        folder = Path(place) if remote is None else Path(temporary) / "data"
        plan = replace(_plan(problem, folder, scratch, options, format, remote, strict), max_memory=max_memory)
        planned = working_time()
        if not dry_run:
            if not options.resume:  # otherwise a data set that exists may be the same one
                plan.store.check(plan.names, InputFiles(plan.paths), overwrite=options.overwrite)
            stack.enter_context(creating_folder(folder))
        if remote is not None:
            fetch_vocabularies(remote, wanted, folder)
        missing = [name for name in wanted if not (folder / name).exists()] if dry_run else []
        if not missing:
            plan = plan.with_vocabularies(find_vocabularies(problem, folder, scratch, report))
        if remote is not None and not dry_run:
            store_vocabularies(remote, wanted, folder)
        stages = {"plan": planned - begun, "vocabulary": working_time() - planned}
        paths = _report_paths([folder / name for name in wanted], remote)
        if dry_run:
            result, seconds = estimate_job(plan, chosen, estimated=not missing)
            new = _report_paths([folder / name for name in missing], remote)
            found = _report(result, seconds, options.part, vocabularies=paths, new_vocabularies=new)
            return replace(found, stages={})
        result = run_job(plan, chosen)
    result.seconds["plan"] += stages.pop("plan")
    found = _report(result, working_time() - begun, options.part, vocabularies=paths)
    return replace(found, stages={**stages, **found.stages})


def _report_paths(paths: Sequence[Path], remote: UrlStore | None) -> tuple[Path | str, ...]:
    """Return paths in the folder of the data, or their URLs."""
    return tuple(paths) if remote is None else tuple(f"{remote.base}/{path.name}" for path in paths)


def _report(result: JobResult, seconds: float, part: tuple[int, int] | None = None, **own: Any) -> GenerationReport:
    return GenerationReport.of(result, seconds, part, examples=result.totals.documents, ids=result.totals.tokens, **own)


def join_dataset(out: str, *, overwrite: bool, report: Progress) -> GenerationReport:
    """Join the parts of a data set; see `bpejit.combine`. `out` is the folder of the data, or its URL, and the name."""
    result = join_parts(out, DatasetOutputs.of_job, overwrite=overwrite, report=report)
    return _report(result, result.seconds["finish"])


def _plan(
    problem: Problem, folder: Path, scratch: Path, options: JobOptions, form: str, remote: UrlStore | None, strict: bool
) -> DatasetPlan:
    """Return the plan of a data set without its vocabularies: how its samples are divided into units, and what they become.

    `folder` is that of the data, or of what is stored at the URL `remote`, and `scratch` that of temporary files.
    """
    splits = tuple((str(one["split"]), int(one.get("shards", 1))) for one in problem.dataset_splits)
    names = DatasetOutputs(folder / problem.dataset_filename(), splits, load_record_format(form).suffix)
    chunk_bytes = min(CHUNK_BYTES, options.unit_bytes)
    units: list[SampleUnit] = []
    read: list[Source] = []
    for index, (split, _) in enumerate(splits if problem.is_generate_per_split else splits[:1]):
        inputs = problem.inputs_of(split)
        if inputs is None:
            layout = Layout(problem.text_features, strict=strict, chunk_bytes=chunk_bytes)
            chunks = partial(generated_chunks, layout, problem, split, str(folder), str(scratch))
            units.append(SampleUnit(len(units), index, chunks, None))
            continue
        sources = find_inputs(inputs)
        read += [source for some in sources for source in some]
        pipes = [source.path for source in read if source.size is None]
        if pipes:
            raise OptionError(
                f"the input `{pipes[0]}` is a pipe; expected a file, since samples may be read twice: write the text to a "
                "file first"
            )
        layout = replace(inputs, paths=(), strict=strict, chunk_bytes=chunk_bytes)
        units += plan_inputs(sources, layout, index, len(units), options.unit_bytes)
    labels = problem.class_labels("")
    job = {
        "data_set": problem.dataset_filename(),
        "format": form,
        "splits": [list(split) for split in splits],
        "divides_samples": not problem.is_generate_per_split and len(splits) > 1,
        "vocab_type": problem.vocab_type,
        "vocabularies": {},
        "labels": None if labels is None else list(labels),
        "prefixes": {"inputs": problem.inputs_prefix, "targets": problem.targets_prefix},
        "packed_length": problem.packed_length,
        "packed_spacing": problem.packed_spacing,
        "shuffled": not problem.already_shuffled,
        **options.files,
        "unit_bytes": options.unit_bytes,
        "inputs": identify_inputs(read),
    }
    store = remote or FolderStore(names.out, per_input=False)
    return DatasetPlan(names, job, options, units, slice_units(units, options.part), store, {})
