"""Encode inputs into token files as a job that can be resumed, and divided among machines."""

from __future__ import annotations

import glob
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit.corpus.blocks import no_texts
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.columns import plan_columns
from bpejit.corpus.fingerprints import identify_inputs, times_sha256
from bpejit.corpus.input_streams import STANDARD_INPUT
from bpejit.corpus.sources import Source
from bpejit.corpus.units import Unit, plan_units
from bpejit.encoding.encoder import Encoder
from bpejit.engines import make_engine
from bpejit.engines.base import Progress
from bpejit.errors import OptionError
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import identify_part, read_checkpoint
from bpejit.jobs.column_spools import SCHEMA
from bpejit.jobs.encode_job import ChecksumJob, EncodeJob, find_separator
from bpejit.jobs.final_files import FinalFiles, adopts
from bpejit.jobs.finishing import Finished, JobResult, finish_job, read_finished, wants_ends
from bpejit.jobs.job_folder import (
    MANIFEST,
    found_parts,
    held,
    is_held,
    job_folder,
    part_folder,
    remove_folder,
)
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_run import LENGTHS, PartRun
from bpejit.jobs.joining import missing_parts
from bpejit.jobs.output_files import OutputNames, check_job_outputs, recover_outputs, remove_links
from bpejit.jobs.sampled_runs import run_sample
from bpejit.jobs.spool_sink import SinkOptions, count_lengths
from bpejit.jobs.unfinished import (
    claim_job,
    compare_text,
    describe_resumed,
    naming_output,
    prepare_folder,
    without_empty_folder,
)
from bpejit.jobs.unit_loop import Seconds, Totals, size_of_units
from bpejit.storage.outputs import InputFiles
from bpejit.storage.remote import is_remote
from bpejit.storage.temporary import hidden
from bpejit.tokenfiles.base import TokenFileFormat

if TYPE_CHECKING:
    from bpejit.jobs.remote_output import RemoteOutput

_logger = logging.getLogger("bpejit")


@dataclass(frozen=True)
class JobPlan:
    """A job before it runs.

    Parameters
    ----------
    sources : list of Source
    units : list of Unit
        All units.
    mine : list of Unit
        Those of the part that this process works on.
    names : OutputNames
    folder : Path
        The folder of the unfinished job.
    job : dict
        What was asked for, as in the manifest.
    dtype : np.dtype
    options : JobOptions
    chunker : Chunker
    read : InputFiles
        The inputs, for comparison with the outputs.
    columns : bytes, optional
        The types of the columns to keep, as far as they are known.
    remote : RemoteOutput, optional
        The output if it is at a URL. Then the paths in `names` and `folder` are placeholders.
    """

    sources: list[Source]
    units: list[Unit]
    mine: list[Unit]
    names: OutputNames
    folder: Path
    job: dict[str, Any]
    dtype: np.dtype[Any]
    options: JobOptions
    chunker: Chunker
    read: InputFiles
    columns: bytes | None = None
    remote: RemoteOutput | None = None

    @property
    def size(self) -> int | None:
        """Bytes of input of the part; None if one of its inputs is a pipe."""
        return size_of_units(self.mine)

    @property
    def paths(self) -> list[str]:
        """The inputs of the part."""
        return list(dict.fromkeys(source.path for unit in self.mine for source in unit.sources))

    def identity(self) -> dict[str, Any]:
        """Return what the checkpoints of the part tell of it."""
        return identify_part(self.job, *(self.options.part or (0, 1)), self.mine)


def plan_job(
    encoder: Encoder,
    inputs: Any,
    sources: list[Source],
    out: Path,
    options: JobOptions,
    *,
    remote: RemoteOutput | None = None,
    form: TokenFileFormat,
    dtype: np.dtype[Any],
    chunk_bytes: int,
    input_options: dict[str, Any],
    read: InputFiles | None = None,
) -> JobPlan:
    """Return the plan of a job.

    Parameters
    ----------
    encoder : Encoder
    inputs : paths
        As the user gave them.
    sources : list of Source
    out : Path
        A file, or a folder for one output per input.
    options : JobOptions
    remote : RemoteOutput, optional
        The output if it is at a URL, the name of which is `out`.
    form : TokenFileFormat
    dtype : np.dtype
        Of the ids.
    chunk_bytes : int
    input_options : dict
        Options of reading that affect the ids, for the manifest.
    read : InputFiles, optional
        The inputs, if outputs have been compared with them.

    Raises
    ------
    OptionError
    """
    model = encoder.model
    pipes = [source.path for source in sources if source.size is None]
    if pipes and (options.resume or options.part or options.per_input):
        name = "standard input" if pipes[0] == STANDARD_INPUT else f"`{pipes[0]}`, a pipe,"
        raise OptionError(
            f"{name} can be read only once; expected files, since a job that is resumed, divided, or has an output for each "
            "input reads ranges of them: write the text to a file first"
        )
    columns = plan_columns(sources) if input_options.get("keep_columns") else None
    chunker = Chunker(encoder.splitter, chunk_bytes=chunk_bytes)
    separator = find_separator(model)
    token = None
    if separator is not None:
        token = next((text.encode() for text, number in model.special_tokens.items() if number == separator), None)
    units = plan_units(sources, options.unit_bytes, chunker, token, grouped=not options.per_input)
    names = OutputNames(
        out, _output_names(inputs, sources) if options.per_input else None, options.shard_tokens is not None, form
    )
    job = {
        "tokenizer_sha256": model.sha256,
        "vocab_size": model.vocab_size,
        "format": form.name,
        "dtype": dtype.name,
        **input_options,
        "append": options.append,
        "prepend": options.prepend,
        "document_index": options.document_index,
        "pack": options.pack,
        "shard_tokens": options.shard_tokens,
        "shard_exact": options.shard_exact,
        "val_fraction": options.val_fraction,
        "seed": options.seed if options.val_fraction else None,
        "per_input": None if names.inputs is None else [str(name) for name in names.inputs],
        "unit_bytes": options.unit_bytes,
        "inputs": identify_inputs(sources),
    }
    read = read or InputFiles([source.path for source in sources])
    folder = out / ".bpejit-job" if options.per_input else job_folder(out)
    mine = units if options.part is None else slice_units(units, *options.part)
    return JobPlan(sources, units, mine, names, folder, job, dtype, options, chunker, read, columns, remote)


def slice_units(units: Sequence[Unit], part: int, parts: int) -> list[Unit]:
    """Return the units of a part: a range of all of them, such that all parts have about the same number of bytes.

    A part begins where a document begins.
    """
    starts = np.cumsum([0, *(unit.size or 0 for unit in units)])
    begins = [index for index, unit in enumerate(units) if unit.starts_document]
    borders = []
    for index in (part, part + 1):
        wanted = int(starts[-1]) * index // parts
        borders.append(
            next((begin for begin in begins if starts[begin] >= wanted), len(units)) if index < parts else len(units)
        )
    return list(units[borders[0] : borders[1]])


def _output_names(inputs: Any, sources: Sequence[Source]) -> list[Path]:
    """Return the path of each input below the deepest folder that contains all inputs, for the names of outputs."""
    given = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    common = os.path.commonpath([_base(os.fspath(name)) for name in given])
    names = [Path(os.path.relpath(_local(source.path), common)) for source in sources]
    repeated = [str(name) for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise OptionError(
            f"the input `{repeated[0]}` is listed twice; expected one output for each input: remove one of the two"
        )
    return names


def _local(name: str) -> str:
    """Return the path of an input, and for a URL the path on its server."""
    return f"/{name.partition('://')[2]}" if is_remote(name) else name


def _base(name: str) -> Path:
    name = _local(name)
    path = Path(os.path.abspath(name))  # noqa: PTH100
    if path.is_dir():
        return path
    if glob.has_magic(name) and not path.exists():
        return next(parent for parent in path.parents if not glob.has_magic(str(parent)))
    return path.parent


def run_job(plan: JobPlan, encoder: Encoder, *, workers: int | None, engine: str, report: Progress) -> JobResult:
    """Run a job, or the part of it that this process works on.

    Parameters
    ----------
    plan : JobPlan
    encoder : Encoder
    workers, engine
        How the work is distributed.
    report : callable
        Progress. If it has a method `message`, that is called with remarks for the user.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    say = getattr(report, "message", None) or _logger.info
    done = begin_job(plan, _count_parts(plan), say)
    if isinstance(done, Finished):
        return JobResult(done.totals, done, len(plan.units), len(plan.units), 0)
    planning = working_time() - begun
    if plan.options.part is not None or done == 1:
        result = run_part(plan, encoder, workers=workers, engine=engine, report=report)
    else:
        if plan.remote is None:
            say(f"the unfinished job has {done} parts, which this run works on one after the other")
        result = _run_parts(plan, done, encoder, workers=workers, engine=engine, report=report)
    result.seconds.plan += planning
    return result


def _count_parts(plan: JobPlan) -> int:
    if plan.options.part is not None:
        return plan.options.part[1]
    if plan.remote is None:
        return 1
    from bpejit.jobs.remote_output import default_parts

    return default_parts(plan.units)


def begin_job(plan: JobPlan, parts: int, say: Callable[[str], None], *, patience: float = 0.0) -> Finished | int:
    """Check the outputs of a job, and what an earlier run left.

    Parameters
    ----------
    plan : JobPlan
    parts : int
        The number of parts, unless the job is begun already.
    say : callable
        Called with remarks for the user.
    patience : float
        Seconds to wait for processes that work on the job, and end.

    Returns
    -------
    Finished or int
        The complete output if the job is resumed and nothing is left to do; otherwise the number of parts, which is that of the
        unfinished job if that is resumed.

    Raises
    ------
    OutputError
    """
    if plan.remote is not None:
        from bpejit.jobs.remote_output import begin_remote  # not at the top: most outputs are local

        return begin_remote(plan, parts, say)
    done = _find_complete(plan)
    if done is not None:
        say(f"nothing is left to do: `{plan.names.manifest}` describes the complete output of this job")
        return done
    check_job_outputs(plan.names, inputs=plan.read, overwrite=plan.options.overwrite)
    return prepare_folder(plan, say, parts=parts, patience=patience)


def run_part(
    plan: JobPlan,
    encoder: Encoder,
    *,
    workers: int | None,
    engine: str,
    report: Progress,
    joins: bool = True,
    patience: float = 0.0,
) -> JobResult:
    """Run the part of a begun job that this process works on, and join all parts if it was the last one.

    Parameters
    ----------
    plan : JobPlan
        Without a part, the job has one.
    encoder, workers, engine, report
        As for `run_job`.
    joins : bool
        False if another process writes the manifest of the unfinished job, and joins the parts.
    patience : float
        Seconds to wait for another process that works on this part, and ends.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    seconds = Seconds()
    options = plan.options
    say = getattr(report, "message", None) or _logger.info
    if plan.remote is not None:
        local = partial(run_part, encoder=encoder, workers=workers, engine=engine, report=report, joins=options.part is None)
        from bpejit.jobs.remote_output import run_remote_part

        return run_remote_part(plan, local, report, say, joins=joins)
    part, parts = options.part or (0, 1)
    folder = part_folder(plan.folder, part, parts)
    with (
        held(folder, f"works on {'this job' if parts == 1 else f'part {part} of this job'}", patience=patience),
        without_empty_folder(plan, folder),
    ):
        claimed = claim_job(plan, parts) if joins else None
        checkpoint = read_checkpoint(folder, plan.identity()) if options.resume else None
        kept = 0 if checkpoint is None else Totals.from_json(checkpoint["totals"]).units
        if options.resume:
            say(describe_resumed(plan, kept, checkpoint))
        modified = times_sha256(plan.paths) if options.resume or parts > 1 or len(plan.mine) > 1 else None
        if checkpoint is not None and checkpoint["text"]["modified"] != modified:
            spread = make_engine(engine, workers, input_bytes=plan.size, releases_gil=True, returns_arrays=True)
            chunker = Chunker(encoder.splitter, chunk_bytes=int(checkpoint["text"]["chunk_bytes"]))
            compare_text(plan, plan.mine[:kept], spread, ChecksumJob(), chunker, checkpoint["text"]["sha256"], report)
        sink_options = _sink_options(plan, encoder, parts)
        keeps_columns = bool(plan.job.get("keep_columns"))
        files = None
        if parts == 1 and not adopts(plan.names.format) and not keeps_columns:  # their types are known at the end
            known = {"has_ends": sink_options.has_ends, "fresh": checkpoint is None}
            files = FinalFiles.of_job(plan.folder, plan.names, plan.job, plan.dtype, **known)
        run = PartRun(
            folder, plan.identity, plan.mine, options, sink_options, seconds, keeps_columns, plan.columns, files, modified
        )
        job = EncodeJob(encoder.model, plan.dtype.name, encoder)
        seconds.plan = working_time() - begun
        if checkpoint is not None and checkpoint.get("complete"):
            totals = Totals.from_json(checkpoint["totals"])
        else:
            spread = make_engine(
                engine,
                workers,
                input_bytes=plan.size,
                releases_gil=encoder.splitter.automaton is not None,
                returns_arrays=True,
            )
            with naming_output(plan.names.out):
                totals = run.run(job, spread, plan.chunker, checkpoint, report)
        new_bytes = totals.bytes - (0 if checkpoint is None else checkpoint["totals"]["bytes"])
        before = working_time()
        missing = 0 if run.brief else len(missing_parts(plan.folder, parts)) if joins else parts
        finished = None
        if totals.skipped and not totals.documents and joins:
            raise no_texts(totals.skipped)
        if not missing:
            brief: dict[str, Any] = {"begun": claimed, "totals": totals, "read": plan.read} if run.brief else {}
            fresh = checkpoint is None and parts == 1
            with naming_output(plan.names.out), run.keeping_brief(totals):
                finished = finish_job(plan.folder, plan.names, report=report, fresh=fresh, **brief)
        if finished is None and parts > 1 and joins and not (plan.folder / MANIFEST).exists():
            missing, finished = 0, read_finished(plan.names, plan.job)  # another process has just joined the parts
        if finished is None and not missing:
            say("all parts are complete, and another process joins them")
        seconds.finish += working_time() - before
    whole = totals if finished is None else finished.totals
    return JobResult(whole, finished, len(plan.mine), kept, missing, seconds, new_bytes=new_bytes)


def plan_part(plan: JobPlan, part: int, parts: int) -> JobPlan:
    """Return the plan of a part of a job; what exists of the part is resumed."""
    options = replace(plan.options, part=(part, parts), resume=True)
    return replace(plan, options=options, mine=slice_units(plan.units, part, parts))


class _ShiftedReport:
    """Progress of parts that run one after the other, as that of one job. Remarks about single parts are left out."""

    def __init__(self, report: Progress, total: int | None) -> None:
        self._report = report
        self._total = total
        self._before = self._done = 0

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        if stage != "encode":
            self._report(stage, done, total, unit)
            return
        self._done = done
        self._report(stage, self._before + done, self._total, unit)

    def message(self, text: str) -> None:
        """Ignore a remark."""

    def end_part(self) -> None:
        """Begin the next part."""
        self._before += self._done
        self._done = 0


def _run_parts(plan: JobPlan, parts: int, encoder: Encoder, *, workers: int | None, engine: str, report: Progress) -> JobResult:
    """Run the parts of an unfinished job in this process, one after the other, and join them."""
    seconds = Seconds()
    kept = new_bytes = 0
    shifted = _ShiftedReport(report, plan.size)
    for part in range(parts):
        # All parts of a remote output may be there already, so only the last one joins.
        joins = plan.remote is None or part == parts - 1
        result = run_part(plan_part(plan, part, parts), encoder, workers=workers, engine=engine, report=shifted, joins=joins)
        shifted.end_part()
        kept += result.kept
        new_bytes += result.new_bytes
        for name, value in vars(result.seconds).items():
            setattr(seconds, name, getattr(seconds, name) + value)
    return JobResult(
        result.totals, result.finished, len(plan.units), kept, result.missing, seconds, parts=parts, new_bytes=new_bytes
    )


def _find_complete(plan: JobPlan) -> Finished | None:
    """Return the complete output of the same job if there is one, and the job is to be resumed."""
    if not plan.options.resume:
        return None
    recover_outputs(plan.names)
    done = read_finished(plan.names, plan.job)
    if done is not None and plan.folder.exists() and not any(is_held(path) for _, _, path in found_parts(plan.folder)):
        remove_links(plan.folder)
        remove_folder(plan.folder)
    return done


def _sink_options(plan: JobPlan, encoder: Encoder, parts: int) -> SinkOptions:
    options = plan.options
    model = encoder.model
    form = plan.names.format
    by_token = options.shard_tokens is not None or bool(options.val_fraction)
    lengths = count_lengths(model.tokens, model.special_tokens, model.vocab_size) if by_token else None
    if plan.columns is not None:
        schema = hidden(plan.folder / SCHEMA, "tmp")
        schema.write_bytes(plan.columns)
        schema.replace(plan.folder / SCHEMA)
    if lengths is not None and parts > 1:
        written = hidden(plan.folder / LENGTHS, "tmp.npy")
        np.save(written, lengths)
        written.replace(plan.folder / LENGTHS)
    return SinkOptions(
        dtype=plan.dtype,
        has_ends=wants_ends(form, options.document_index, parts),
        adopted=adopts(form) and parts == 1,
        sides=options.sides,
        shard_tokens=options.shard_tokens if parts == 1 else None,
        shard_exact=options.shard_exact,
        token_lengths=lengths,
        ids_position=(form.ids_position or 0) if parts == 1 else 0,
    )


def estimate_job(plan: JobPlan, encoder: Encoder, workers: int) -> tuple[int, float]:
    """Return the expected number of ids and seconds of a part, from the first chunks of a few of its units.

    Parameters
    ----------
    plan : JobPlan
    encoder : Encoder
    workers : int
        Number of chunks that are encoded at the same time.
    """
    worker = EncodeJob(encoder.model, plan.dtype.name, encoder).start()
    sample = run_sample(worker, plan.mine, plan.chunker)
    share, seconds = sample.expect(plan.size or 0, workers)
    return round(sum(int(encoded.ids.size) for encoded in sample.results) * share), seconds
