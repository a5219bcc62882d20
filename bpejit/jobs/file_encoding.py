"""Encode text files into token files: `Tokenizer.encode_files`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped, no_texts
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_paths import Inputs
from bpejit.corpus.sources import Source, find_sources, total_bytes
from bpejit.encoding.codec import CarriageReturns
from bpejit.encoding.encoder import Encoder
from bpejit.engines import RAY, count_cpus, make_engine
from bpejit.engines.base import Progress, report_details
from bpejit.errors import OptionError
from bpejit.jit.listening import working_time
from bpejit.jobs.document_tokens import DocumentTokens
from bpejit.jobs.encode_job import EncodeJob
from bpejit.jobs.encoding_outputs import EncodingOutputs
from bpejit.jobs.encoding_plan import EncodingPlan, estimate_job, plan_job
from bpejit.jobs.job_folder import Kept, find_kept
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_plan import JobResult
from bpejit.jobs.running import combine_parts, run_job
from bpejit.jobs.unit_loop import Seconds
from bpejit.process_memory import peak_memory
from bpejit.storage.outputs import InputFiles, is_device, is_standard_output
from bpejit.storage.remote import is_remote, local_path
from bpejit.tokenfiles.opening import check_columns, check_token_outputs, token_writer
from bpejit.tokenfiles.output_format import check_suffix


@dataclass(frozen=True)
class EncodeReport:
    """Result of `Tokenizer.encode_files`.

    Parameters
    ----------
    path : Path or str, optional
        The token file, or its URL; None for a stream or a device, and if there are several files.
    tokens, bytes : int
        Ids written and bytes of text read; those of the part, if other parts of the job are missing.
    dtype : str
        Such as `uint16`.
    seconds : float
        Wall time, reading and writing included.
    byte_order_marks : tuple of str
        The inputs that begin with a UTF-8 byte-order mark, whether or not it was left out.
    paths : tuple of Path or str
        All token files. Empty for a stream or a device, and while parts of the job are missing.
    manifest : Path or str, optional
        The manifest, which describes the job and its outputs.
    documents : int
    left_out : int
        Ids that do not fill a row at the end of a file, with `pack`; `tokens` does not count them.
    skipped : Skipped
        Records without text: their number (`count`), and the first few (`first`).
    units, kept_units : int
        Units of the job, or of the part, and those that an earlier run had finished.
    missing_parts : int
        Parts of the job that are not complete.
    stages : dict of str to float
        Where the time went, in seconds: `plan`, `encode` (waiting for ids), `write` and `finish`.
    peak_memory, worker_memory : int
        Peak resident memory of this process, and of the largest worker process that has ended, in bytes; 0 if unknown.
    parts : int
        Parts of the job.
    cluster : str
        The Ray cluster that the job ran on, in words.
    new_bytes : int
        Bytes of text that this run has encoded: fewer than `bytes` if an earlier run had finished units, or other runs parts.
    part : str
        The part of the job that this run worked on, such as 0/2; empty for the whole job.
    """

    path: Path | str | None
    tokens: int
    bytes: int
    dtype: str
    seconds: float
    byte_order_marks: tuple[str, ...] = ()
    paths: tuple[Path | str, ...] = ()
    manifest: Path | str | None = None
    documents: int = 0
    left_out: int = 0
    skipped: Skipped = NOTHING_SKIPPED
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


def encode_files(
    encoder: Encoder,
    inputs: Inputs,
    out: str | os.PathLike[str] | BinaryIO,
    options: JobOptions,
    *,
    dtype: str,
    format: str,  # noqa: A002
    workers: int | None,
    engine: str,
    ray_address: str | None = None,
    chunk_bytes: int,
    contents: Contents,
    dry_run: bool,
    report: Progress,
) -> EncodeReport:
    """Encode files into token files; the parameters are the same as for `Tokenizer.encode_files`."""
    begun = working_time()
    columns = contents.options.keep_columns
    check_columns(format, columns)
    if columns and options.pack is not None:
        raise OptionError(
            f"keep_columns is {list(columns)}, and pack is {options.pack}; expected one of them, since a row of packed ids "
            "has parts of several documents: leave one out"
        )
    contents.hashed = True
    sources = find_sources(inputs, contents)
    if isinstance(out, (str, os.PathLike)):
        out = local_path(os.fspath(out))
    if not isinstance(out, (str, os.PathLike)) or is_standard_output(out) or is_device(out):
        _check_stream(out, options, columns, engine)
        done = _encode_to_stream(
            *(encoder, sources, out, options, dtype, format, workers, engine, chunk_bytes), contents=contents, report=report
        )
        return replace(done, seconds=working_time() - begun)
    read = InputFiles([source.path for source in sources])
    if not options.per_input:
        if is_remote(out):
            check_suffix(out, format)
        else:
            check_token_outputs(out, inputs=read, overwrite=True, format=format)
    plan = plan_job(
        *(encoder, inputs, sources, out, options),
        dtype=dtype,
        format=format,
        chunk_bytes=chunk_bytes,
        contents=contents,
        read=read,
    )
    if dry_run:
        return _plan_report(plan, out, engine, workers, ray_address, contents)
    if engine == RAY:
        from bpejit.jobs.cluster_jobs import run_on_cluster

        result = run_on_cluster(plan, ray_address, workers, report)
    else:
        result = run_job(plan, workers=workers, engine=engine, report=report)
    return _report(result, plan.dtype.name, begun, tuple(contents.marked), options.part)


def _report(
    result: JobResult, dtype: str, begun: float, marked: tuple[str, ...] = (), part: tuple[int, int] | None = None
) -> EncodeReport:
    """Return the report of a run that began at a time (see `working_time`)."""
    finished = result.finished
    memory, worker_memory = peak_memory()
    paths = () if finished is None else finished.paths
    return EncodeReport(
        path=paths[0] if len(paths) == 1 else None,
        tokens=result.totals.tokens,
        bytes=result.totals.bytes,
        dtype=dtype,
        seconds=working_time() - begun,
        byte_order_marks=marked,
        paths=paths,
        manifest=None if finished is None else finished.manifest,
        documents=result.totals.documents,
        left_out=0 if finished is None else finished.left_out,
        skipped=result.totals.skipped,
        units=result.units,
        kept_units=result.kept,
        missing_parts=result.missing,
        stages=dict(vars(result.seconds)),
        peak_memory=memory,
        worker_memory=result.worker_memory if result.cluster else worker_memory,
        parts=result.parts,
        cluster=result.cluster,
        new_bytes=result.new_bytes,
        part="/".join(map(str, part or ())),
    )


def _plan_report(
    plan: EncodingPlan,
    out: str | os.PathLike[str],
    engine: str,
    workers: int | None,
    ray_address: str | None,
    contents: Contents,
) -> EncodeReport:
    """Return the report of a dry run."""
    slots, parts, cluster = workers or count_cpus(), 1, ""
    if engine == RAY:
        from bpejit.jobs.cluster_jobs import plan_on_cluster

        slots, parts, cluster = plan_on_cluster(plan, ray_address, workers)
    kept = kept_of_job(out, per_input=plan.options.per_input) if plan.options.resume else None
    tokens, seconds = estimate_job(plan, slots)
    return EncodeReport(
        *(None, tokens, plan.size or 0, plan.dtype.name, seconds, tuple(contents.marked)),
        units=len(plan.mine),
        kept_units=kept.units if kept else 0,
        worker_memory=peak_memory()[0] if cluster else 0,
        parts=parts,
        cluster=cluster,
    )


def join_token_files(out: str, *, overwrite: bool, report: Progress) -> EncodeReport:
    """Join the parts of an encoding job; see `bpejit.combine`.

    Parameters
    ----------
    out : str
        A path, or a URL.
    overwrite : bool
    report : callable

    Raises
    ------
    OutputError
    """
    begun = working_time()
    if is_remote(out):
        from bpejit.jobs.remote_output import combine_remote, find_remote_output

        finished = combine_remote(find_remote_output(out), EncodingOutputs.of_job, overwrite=overwrite, report=report)
    else:
        finished = combine_parts(Path(out), EncodingOutputs.of_job, overwrite=overwrite, report=report)
    totals = finished.totals
    seconds = Seconds(finish=working_time() - begun)
    return _report(JobResult(totals, finished, totals.units, totals.units, 0, seconds), finished.dtype, begun)


def kept_of_job(out: str | os.PathLike[str], *, per_input: bool) -> Kept | None:
    """Return what an unfinished job with the output `out`, a path or a URL, keeps; None if it keeps nothing."""
    out = local_path(os.fspath(out))
    if is_remote(out):
        from bpejit.jobs.remote_output import RemoteOutput

        return RemoteOutput(out.rstrip("/"), per_input).kept()
    return find_kept(Path(out), per_input=per_input)


def _check_stream(out: str | os.PathLike[str] | BinaryIO, options: JobOptions, columns: tuple[str, ...], engine: str) -> None:
    """Raise an exception if the options need files that a stream does not have."""
    if options.needs_folder or options.document_index or options.pack or columns or engine == RAY:
        name = f"`{os.fspath(out)}`" if isinstance(out, (str, os.PathLike)) else "the output"
        raise OptionError(
            f"{name} is a stream; expected the path of a file for shards, validation sets, an index of documents, rows, "
            "columns, parts, and jobs that are resumed: name a file"
        )


def _encode_to_stream(
    encoder: Encoder,
    sources: list[Source],
    out: str | os.PathLike[str] | BinaryIO,
    options: JobOptions,
    dtype: str,
    format: str,  # noqa: A002
    workers: int | None,
    engine: str,
    chunk_bytes: int,
    *,
    contents: Contents,
    report: Progress,
) -> EncodeReport:
    """Write ids directly: a stream can be neither resumed nor divided."""
    model = encoder.model
    check_token_outputs(out, inputs=[source.path for source in sources], overwrite=options.overwrite, format=format)
    total = total_bytes(sources)
    splitter = encoder.splitter
    spread = make_engine(engine, workers, input_bytes=total, releases_gil=splitter.automaton is not None, returns_arrays=True)
    tokens = DocumentTokens(options.prepend, options.append)
    written = read = documents = 0
    skipped = NOTHING_SKIPPED
    with token_writer(
        out, dtype=dtype, vocab_size=model.vocab_size, tokenizer_sha256=model.sha256, overwrite=options.overwrite, format=format
    ) as writer:
        job = EncodeJob(encoder, writer.dtype.name)
        chunks = Chunker(splitter, chunk_bytes=chunk_bytes).chunks(sources)
        report("encode", 0, total, "bytes")
        watch = CarriageReturns.of(model)
        for chunk in spread.map_chunks(job, chunks):
            if watch is not None:
                watch.check(chunk.ids)
            ids, ends = tokens.add(chunk.ids, chunk.ends)
            writer.write(ids, n_bytes=chunk.n_bytes, ends=ends)
            written += chunk.n_bytes
            read += chunk.n_read
            documents += chunk.n_documents
            skipped += chunk.skipped
            report_details(report, tokens=writer.n_tokens, documents=documents)
            report("encode", read, total, "bytes")
    if skipped and not documents:
        raise no_texts(skipped)
    return EncodeReport(
        *(writer.path, writer.n_tokens, written, writer.dtype.name, 0.0, tuple(contents.marked)),
        documents=documents,
        skipped=skipped,
        peak_memory=peak_memory()[0],
        worker_memory=peak_memory()[1],
        new_bytes=written,
    )
