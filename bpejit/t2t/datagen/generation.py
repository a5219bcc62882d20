"""Generate data sets: `bpejit.generate_data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpejit.corpus.reading_options import UNIT_BYTES
from bpejit.engines.work_options import AnyEngine, ProgressOption, Workers
from bpejit.jobs.job_options import check_job_options, describe_call
from bpejit.options import takes
from bpejit.storage.files import StrPath
from bpejit.t2t.datagen.dataset_outputs import SHUFFLE_MEMORY
from bpejit.t2t.datagen.problem_files import load_problem
from bpejit.t2t.datagen.problems import (
    GenerationReport as GenerationReport,
    Text2TextProblem,
    generate,
    join_dataset as join_dataset,
)
from bpejit.t2t.record_formats.registry import DEFAULT_RECORD_FORMAT

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    command = getattr(work["progress"], "command", "") or describe_call("bpejit.generate_data", generate_data, given)
    options = check_job_options(given, command)
    return generate(
        load_problem(problem),
        data_dir,
        options,
        tmp_dir=tmp_dir,
        format=format,
        strict=strict,
        max_memory=max_memory,
        dry_run=dry_run,
        **work,
    )
