"""The options of an encoding job, the part of it that this process works on, and what is reported of a run of any job."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from bpejit import arguments
from bpejit.engines import peak_memory
from bpejit.errors import OptionError, SpecialTokenError, shorten
from bpejit.options import Option

if TYPE_CHECKING:
    from typing_extensions import Self

    from bpejit.corpus.blocks import Skipped
    from bpejit.jobs.job_folder import Totals

_SHARD = re.compile(r"(\d{1,6})/(\d{1,6})")

ENVIRONMENTS = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"),
    ("RANK", "WORLD_SIZE", ""),
)
"""The variables that `auto` reads: index, number, and the index of the first part if it may not be 0."""


class OutputOptions(TypedDict, total=False):
    """What becomes of the ids of documents, and how they are divided among files."""

    append_token: Annotated[
        str | None,
        Option(None, "", "Special token to add at the end of each document that does not end with it.", metavar="TOKEN"),
    ]
    prepend_token: Annotated[
        str | None,
        Option(
            None,
            """A special token to add at the end, or at the start, of each document that does not already end, or begin, with
            it.""",
            "Special token to add at the start of each document that does not begin with it.",
            metavar="TOKEN",
            section="Output",
        ),
    ]
    document_index: Annotated[
        bool,
        Option(
            False,
            "Whether to store the borders of documents beside the ids. Formats that always store them ignore it.",
            "Store the borders of documents, in FILE.docs.npy if the format has none.",
            section="Output",
        ),
    ]
    keep_columns: Annotated[
        Sequence[str],
        Option(
            (),
            """Columns of Parquet and Arrow inputs, or fields of JSON lines, to write beside the ids in Parquet and Arrow
            output, a value for each document. Columns keep their types. Fields become strings, integers, floating-point numbers
            or booleans if all their values are, and JSON text otherwise; records that lack them have null.""",
            "Column of Parquet and Arrow inputs, or field of JSON lines, to write beside the ids in Parquet and Arrow output; "
            "may be repeated.",
            flag="--keep-column",
            kind="sequence of str",
            section="Output",
        ),
    ]
    pack: Annotated[
        int | None,
        Option(
            None,
            """Divide the ids into rows of this length, for Parquet and Arrow, as `convert_tokens` does. Ids that do not fill a
            row at the end of a file are left out of it.""",
            "Divide the ids into rows of N, with the lengths of the documents in each row; for parquet and arrow.",
            section="Output",
        ),
    ]
    shard_tokens: Annotated[
        int | None,
        Option(
            None,
            """Divide the output into numbered files (`tokens-00000.bin`, ...). A file ends at the first end of a document at
            which it has at least this many ids.""",
            "Write numbered files, each of which ends with the document that reaches N ids.",
            section="Output",
        ),
    ]
    shard_exact: Annotated[
        bool,
        Option(
            False,
            "Whether files end after exactly `shard_tokens` ids, also in the middle of a document.",
            "End these files after exactly N ids.",
            section="Output",
        ),
    ]
    val_fraction: Annotated[
        float,
        Option(
            0.0,
            "Share of the documents to set aside in a second output, `<name>-val<suffix>`, drawn at random.",
            "Share of the documents to set aside in FILE-val, such as 0.005 or 0.5%.",
            metavar="SHARE",
            section="Output",
        ),
    ]
    seed: Annotated[int, Option(0, "Selects these documents.", "Selects these documents.", least=0, section="Output")]


Part = tuple[int, int]
"""The index of a part, and the number of parts."""


@dataclass(frozen=True)
class JobOptions:
    """The options of a job; see `Tokenizer.encode_files`.

    Parameters
    ----------
    files : dict
        Those that change the bytes of the outputs, as in the manifest: of `OutputOptions`, with the ids `append` and `prepend`
        for tokens. For data sets, the seed alone.
    per_input : bool
        Whether each input has its own output, in a folder.
    part : tuple of int, optional
        Index and number of parts, if the job is divided.
    resume, overwrite : bool
    unit_bytes : int
    texts : dict of str to str
        The texts of `append` and `prepend` by their ids, for messages.
    command : str
        The command that continues the job; empty for a call in Python.
    """

    files: Mapping[str, Any]
    per_input: bool
    part: Part | None
    resume: bool
    overwrite: bool
    unit_bytes: int
    texts: Mapping[str, str]
    command: str


def parse_shard(shard: Any, environment: Mapping[str, str] = os.environ) -> Part | None:
    """Return index and number of parts for I/N or `auto`; None for None.

    Parameters
    ----------
    shard : str or tuple of int, optional
        I/N with I from 0 to N - 1, or `auto` for the variables of Slurm's job arrays or of torchrun.
    environment : mapping
        Where `auto` looks.

    Raises
    ------
    OptionError
    """
    if shard is None:
        return None
    if isinstance(shard, tuple) and len(shard) == 2:
        shard = "/".join(map(str, shard))
    shard = arguments.string("shard", shard)
    if shard == "auto":
        return _part_of_environment(environment)
    found = _SHARD.fullmatch(shard)
    if found is None or int(found[1]) >= int(found[2]):
        raise OptionError(f"shard is {shorten(shard)}; expected I/N with I from 0 to N - 1, such as 0/16, or auto: correct it")
    return int(found[1]), int(found[2])


def _part_of_environment(environment: Mapping[str, str]) -> Part:
    for index_name, count_name, first_name in ENVIRONMENTS:
        if index_name not in environment or count_name not in environment:
            continue
        names = [index_name, count_name, *([first_name] if first_name in environment else [])]
        values = [environment[name] for name in names]
        if all(value.strip().isdecimal() for value in values):
            index, count, first = (*map(int, values), 0)[:3]
            if 0 <= index - first < count:
                return index - first, count
        shown = ", ".join(f"{name}={shorten(value)}" for name, value in zip(names, values, strict=True))
        raise OptionError(
            f"shard is 'auto', and the environment has {shown}; expected an index below the number of parts: submit the array "
            "without gaps, or give I/N"
        )
    raise OptionError(
        "shard is 'auto', and the environment has neither SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT nor RANK and "
        "WORLD_SIZE; expected one of the two: give I/N"
    )


def check_token(name: str, token: Any, special_tokens: Mapping[str, int]) -> int | None:
    """Return the id of a special token to add to documents; None for None.

    Raises
    ------
    ArgumentTypeError
    SpecialTokenError
        If the tokenizer has no such token.
    """
    token = arguments.optional_string(name, token)
    if token is None:
        return None
    if token not in special_tokens:
        some = ", ".join(map(repr, list(special_tokens)[:5])) or "none"
        raise SpecialTokenError(
            f"{name} is {shorten(token)}; expected a special token of the tokenizer ({some}): choose one of them, or add "
            "the token with the method `with_special_tokens` of Python"
        )
    return special_tokens[token]


def _fraction(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise arguments.wrong_type(name, value, "a number from 0 up to, but not including, 1", "give one such as 0.005")
    if not 0 <= value < 1:
        raise OptionError(f"{name} is {value}; expected a number from 0 up to, but not including, 1: give one such as 0.005")
    return float(value)


_FILE_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "document_index": arguments.flag,
    "pack": partial(arguments.optional_whole_number, least=1, most=2**31 - 1),
    "shard_tokens": partial(arguments.optional_whole_number, least=1),
    "shard_exact": arguments.flag,
    "val_fraction": _fraction,
    "seed": partial(arguments.whole_number, least=0, most=2**63 - 1),
}
"""What returns the value of an option that changes files, checked, from the name and the value that was given."""


def check_job_options(given: Mapping[str, Any], *, per_input: bool = False, **tokens: Any) -> JobOptions:
    """Return the options of a job, checked.

    Parameters
    ----------
    given : dict
        The arguments of a public function, which may have others, and not all of those that change files.
    per_input : bool
    **tokens
        The ids of `append` and `prepend` (see `check_token`).

    Raises
    ------
    ArgumentTypeError, OptionError
    """
    part = parse_shard(given["shard"])
    files = {**tokens, **{name: check(name, given[name]) for name, check in _FILE_CHECKS.items() if name in given}}
    options = JobOptions(
        files=files,
        per_input=per_input,
        part=part,
        resume=arguments.flag("resume", given["resume"]),
        overwrite=arguments.flag("overwrite", given["overwrite"]),
        unit_bytes=arguments.whole_number("unit_bytes", given["unit_bytes"], least=1),
        texts={str(number): given[f"{name}_token"] for name, number in tokens.items() if number is not None},
        command=getattr(given["progress"], "command", ""),
    )
    if files.get("shard_exact") and files["shard_tokens"] is None:
        raise OptionError(
            "shard_exact is True, but there is no number of ids of a shard: give `shard_tokens=`, or leave `shard_exact=` out"
        )
    return options


def no_seconds() -> dict[str, float]:
    """Return the stages where the time of a job goes, each with 0 seconds of the main thread (see `JobReport`)."""
    return dict.fromkeys(("plan", "encode", "write", "finish"), 0.0)


class Finished(NamedTuple):
    """The outputs of a complete job.

    Parameters
    ----------
    paths : tuple of Path or str
        The files: paths, or URLs.
    manifest : Path or str
    totals : Totals
    dtype : str
        Of ids in token files.
    left_out : int
        Ids that do not fill a row, which `totals` does not count.
    """

    paths: tuple[Path | str, ...]
    manifest: Path | str
    totals: "Totals"
    dtype: str = ""
    left_out: int = 0


@dataclass
class JobResult:
    """What a run of a job did.

    Parameters
    ----------
    totals : Totals
        Of the part, or of the job once it is complete.
    finished : Finished, optional
        The outputs; None if other parts are missing.
    seconds : dict of str to float
        Of each stage.
    units, kept_units, missing_parts, worker_memory, parts, new_bytes, cluster
        See `JobReport`.
    """

    totals: "Totals"
    finished: Finished | None
    units: int
    kept_units: int
    missing_parts: int
    seconds: dict[str, float] = field(default_factory=no_seconds)
    worker_memory: int = 0
    parts: int = 1
    new_bytes: int = 0
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """What reports about all kinds of jobs tell.

    Parameters
    ----------
    paths : tuple of Path or str
        All files, or their URLs. Empty for a stream or a device, after a dry run, and while parts of the job are missing.
    manifest : Path or str, optional
        The manifest, which describes the job and its outputs.
    bytes : int
        Bytes of text; those of the part, if other parts of the job are missing. After a dry run, bytes of input.
    skipped : Skipped
        Records without text, or incomplete samples: their number (`count`), and the first few (`first`).
    seconds : float
        Wall time, reading and writing included; after a dry run, the expected time.
    units, kept_units : int
        Units of the job, or of the part, and those that an earlier run had finished.
    missing_parts : int
        Parts of the job that are not complete.
    stages : dict of str to float
        Where the time went, in seconds: `plan`, `encode` (waiting for results), `write` and `finish`.
    peak_memory, worker_memory : int
        Peak resident memory of this process, and of the largest worker, in bytes; 0 if unknown, as after a run on a cluster.
    parts : int
        Parts of the job.
    cluster : str
        The Ray cluster that the job ran on, in words.
    new_bytes : int
        Bytes of text that this run has encoded: fewer than `bytes` if an earlier run had finished units, or other runs parts.
    part : str
        The part of the job that this run worked on, such as 0/2; empty for the whole job.
    """

    paths: tuple[Path | str, ...] = ()
    manifest: Path | str | None = None
    bytes: int = 0
    skipped: "Skipped"
    seconds: float = 0.0
    units: int = 0
    kept_units: int = 0
    missing_parts: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    worker_memory: int = 0
    parts: int = 1
    cluster: str = ""
    new_bytes: int = 0
    part: str = ""

    @classmethod
    def of(cls, result: JobResult, seconds: float, part: Part | None = None, **own: Any) -> "Self":
        """Return the report of what a run did; `own` are the fields of the kind of job."""
        finished = result.finished
        memory, worker_memory = peak_memory()
        shared = {name: value for name, value in vars(result).items() if name not in ("totals", "finished", "seconds")}
        return cls(
            paths=() if finished is None else finished.paths,
            manifest=None if finished is None else finished.manifest,
            bytes=result.totals.bytes,
            skipped=result.totals.skipped,
            seconds=seconds,
            stages=result.seconds,
            peak_memory=memory,
            part="/".join(map(str, part or ())),
            **shared | ({} if result.cluster else {"worker_memory": worker_memory}),
            **own,
        )
