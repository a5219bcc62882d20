"""Encode text files into token files: `Tokenizer.encode_files`; and count the tokens of documents: `bpejit count-tokens`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import no_texts
from bpejit.corpus.chunks import Chunker, ChunkReader
from bpejit.corpus.columns import plan_columns
from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import identify_inputs
from bpejit.corpus.input_paths import Inputs, names_below
from bpejit.corpus.input_streams import STANDARD_INPUT
from bpejit.corpus.kept_columns import final_schema, read_schema
from bpejit.corpus.sources import Source, check_shared_sources, find_sources, total_bytes
from bpejit.corpus.units import plan_units
from bpejit.encoding.codec import Codec, warm_encoding
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.kernel_runner import CarriageReturns
from bpejit.engines import RAY, Engine, FunctionJob, Job, make_engine, report_details
from bpejit.errors import BpejitError, OptionError
from bpejit.jit.listening import working_time
from bpejit.jobs.encode_job import DocumentTokens, EncodedChunk, EncodingSink, checksum_chunk, encode_job, find_separator
from bpejit.jobs.final_files import FinalFiles
from bpejit.jobs.job_folder import Fields, Totals
from bpejit.jobs.job_options import Finished, JobOptions, JobReport, JobResult
from bpejit.jobs.job_plan import JobPlan, open_store, slice_units
from bpejit.jobs.job_records import FORMAT, FORMAT_VERSION, CompleteParts, FilePairs, JobOutputs, listed_outputs
from bpejit.jobs.running import estimate_job, join_parts, run_job
from bpejit.jobs.spools import SpoolRecord
from bpejit.process_memory import collector_paused
from bpejit.progress_bar import Progress
from bpejit.storage.files import StrPath, is_remote, local_path
from bpejit.storage.outputs import is_device, is_standard_output
from bpejit.tokenfiles import check_rows, check_suffix, check_token_outputs, load_format
from bpejit.tokenfiles.base import TokenFileFormat

ASIDE = "-val"
"""What the names of files with the documents that are set aside end in, before the number of a shard and the suffix."""


@dataclass(frozen=True, kw_only=True)
class EncodeReport(JobReport):
    """Result of `Tokenizer.encode_files`, with the fields of `JobReport`.

    Parameters
    ----------
    path : Path or str, optional
        The token file, or its URL; None for a stream or a device, and if there are several files.
    tokens, documents : int
        Ids written, and documents; those of the part, if other parts of the job are missing. After a dry run they are expected
        from a sample.
    dtype : str
        Such as `uint16`.
    byte_order_marks : tuple of str
        The inputs that begin with a UTF-8 byte-order mark, whether or not it was left out.
    left_out : int
        Ids that do not fill a row at the end of a file, with `pack`; `tokens` does not count them.
    """

    path: Path | str | None
    tokens: int
    dtype: str
    byte_order_marks: tuple[str, ...] = ()
    documents: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class EncodingPlan(JobPlan):
    """The encoding of inputs into token files.

    Parameters
    ----------
    names, job, options, units, mine, store
        See `JobPlan`.
    encoder : Encoder
    chunk_bytes : int
    columns : bytes, optional
        The types of the columns to keep, as far as they are known.
    """

    encoder: Encoder
    chunk_bytes: int
    columns: bytes | None = None

    kernels = (warm_encoding,)
    command = "bpejit encode"

    @property
    def paths(self) -> list[str]:
        """The inputs of the part."""
        return list(dict.fromkeys(source.path for unit in self.mine for source in unit.sources))

    @property
    def times(self) -> dict[str, int]:
        """The modification times of local inputs when they were examined."""
        sources = chain.from_iterable(unit.sources for unit in self.mine)
        return {source.path: source.modified for source in sources if source.modified is not None}

    @property
    def releases_gil(self) -> bool:
        """See `JobPlan`."""
        return self.encoder.splitter.automaton is not None

    def checksum_job(self, checkpoint: Fields) -> tuple[Job, Chunker]:
        """Return what computes checksums of the chunks that the run of a checkpoint has encoded."""
        chunker = Chunker(self.encoder.splitter, chunk_bytes=int(checkpoint["text"]["chunk_bytes"]))
        return FunctionJob(checksum_chunk, ChunkReader), chunker

    @property
    def reading(self) -> Fields:
        """The size of chunks, which checksums depend on."""
        return {"chunk_bytes": self.chunk_bytes}

    def chunk_job(self) -> tuple[Job, Chunker]:
        """Return the job that encodes chunks in workers, and the chunker."""
        return encode_job(self.encoder, self.job["dtype"]), Chunker(self.encoder.splitter, chunk_bytes=self.chunk_bytes)

    def open_sink(self, folder: Path, checkpoint: Fields | None) -> EncodingSink:
        """Return what writes ids into spools (see `JobPlan`)."""
        return EncodingSink(self, self.encoder.model, self.columns, folder, checkpoint)

    def check_shared(self) -> None:
        """Raise OptionError if the job is a part, or an input is a pipe."""
        super().check_shared()
        check_shared_sources([source for unit in self.units for source in unit.sources])


@dataclass(frozen=True)
class EncodingOutputs(JobOutputs):
    """The outputs of an encoding job, and their names.

    Parameters
    ----------
    out : Path
        A file, or a folder of outputs.
    inputs : list of Path, optional
        The name of the output of each input in the folder, without suffix; None for a single output.
    divided : bool
        Whether the output is divided into shards.
    format : TokenFileFormat
    """

    inputs: list[Path] | None
    divided: bool
    format: TokenFileFormat

    @classmethod
    def of_job(cls, out: Path, job: Fields) -> EncodingOutputs:
        """Return the outputs of what was asked for, as in a manifest."""
        inputs = None if job["per_input"] is None else [Path(name) for name in job["per_input"]]
        return cls(out, inputs, job["shard_tokens"] is not None, load_format(job["format"]))

    @property
    def per_input(self) -> bool:
        """Whether `out` is a folder with an output for each input."""
        return self.inputs is not None

    @property
    def has_many_files(self) -> bool:
        """Whether the output is divided into shards."""
        return self.divided

    def first_files(self) -> list[Path]:
        """Return the files of the first output."""
        return [Path(file) for file in self.format.files(self.path(SpoolRecord(0, 0, False, 0)))]

    def path(self, record: SpoolRecord) -> Path:
        """Return the token file that a spool becomes."""
        if self.inputs is None:
            base = self.out
        else:
            name = self.inputs[record.output]
            base = self.out / name.with_name(f"{name.name}{self.format.suffix}")
        suffix = "".join(base.suffixes[-1:])
        stem = base.name[: len(base.name) - len(suffix)]
        number = f"-{record.shard:05d}" if self.divided else ""
        return base.with_name(f"{stem}{ASIDE if record.aside else ''}{number}{suffix}")

    def existing(self) -> list[Path]:
        """Return the files of an earlier job with these outputs, without its manifest."""
        found: list[Path] = []
        for output in range(len(self.inputs or [0])):
            if not self.divided:  # without a second set, a file that has the name of one may be anything
                found.append(self.path(SpoolRecord(0, output, False, 0)))
                continue
            for aside in (False, True):
                first = self.path(SpoolRecord(0, output, aside, 0))
                pattern = re.compile(re.escape(first.name).replace(r"\-00000", r"-\d{5,}"))
                with suppress(OSError):
                    found += sorted(path for path in first.parent.iterdir() if pattern.fullmatch(path.name))
        home = self.manifest.parent
        for name in listed_outputs(self.manifest):
            if Path(os.path.realpath((home / name).parent)).is_relative_to(os.path.realpath(home)):  # no link leads elsewhere
                found.append(home / name)
        files = dict.fromkeys(Path(file) for path in found for file in self.format.files(path))
        return [file for file in files if os.path.lexists(file)]

    def read_complete(self, fields: Fields) -> Finished | None:
        """Return the outputs that a manifest describes; None if one is missing, or the manifest is broken."""
        if fields.get("format") != FORMAT or fields.get("format_version") != FORMAT_VERSION:
            return None
        paths = [self.manifest.parent / name for name in listed_outputs(self.manifest)]
        totals = Totals.of_manifest(fields)
        try:
            form, dtype = load_format(fields["job"]["format"]), str(fields["job"]["dtype"])
        except (KeyError, TypeError, ValueError, BpejitError):
            return None
        if totals is None or not paths or not all(any(map(os.path.exists, form.files(path))) for path in paths):
            return None
        return Finished(tuple(paths), self.manifest, totals, dtype, int(fields.get("left_out", 0)))

    def check_totals(self, job: Fields, totals: Totals) -> None:  # noqa: ARG002
        """Raise CorpusError if all records were skipped."""
        if totals.skipped and not totals.documents:
            raise no_texts(totals.skipped)

    def write_final(
        self,
        parts: CompleteParts,
        report: Progress,
        engine: Engine | None,  # noqa: ARG002 - one process writes all files
    ) -> tuple[FilePairs, Finished]:
        """Join the spools of the parts, and write them as token files (see `JobOutputs`)."""
        return FinalFiles(self, parts).write_all(report)


def encode_files(
    encoder: Encoder,
    inputs: Inputs,
    out: StrPath | BinaryIO,
    options: JobOptions,
    *,
    dtype: str,
    format: str,  # noqa: A002
    contents: Contents,
    dry_run: bool,
    work: Fields,
) -> EncodeReport:
    """Encode files into token files; the parameters are the same as for `Tokenizer.encode_files`, those of `work` checked."""
    begun = working_time()
    columns = contents.options.keep_columns
    pack = options.files["pack"]
    check_rows(format, pack, columns)
    if columns and pack is not None:
        raise OptionError(
            f"keep_columns is {list(columns)}, and pack is {pack}; expected one of them, since a row of packed ids "
            "has parts of several documents: leave one out"
        )
    contents.hashed = True
    sources = find_sources(inputs, contents)
    if isinstance(out, (str, os.PathLike)):
        out = local_path(os.fspath(out))
    if not isinstance(out, str) or is_standard_output(out) or is_device(out):
        done = _encode_to_stream(encoder, sources, out, options, dtype, format, contents, work)
        return replace(done, seconds=working_time() - begun)
    if not options.per_input:
        if is_remote(out):
            check_suffix(out, format)
        else:
            check_token_outputs(out, inputs=[source.path for source in sources], overwrite=True, format=format)
    with collector_paused():  # there may be 10,000 inputs
        plan = _plan_job(encoder, inputs, sources, out, options, dtype, format, work["chunk_bytes"], contents)
    known: dict[str, Any] = {"dtype": plan.job["dtype"], "byte_order_marks": tuple(contents.marked), "part": options.part}
    if dry_run:
        return replace(_report(*estimate_job(plan, work), **known), stages={})
    result = run_job(plan, work)
    return _report(result, working_time() - begun, **known)


def _plan_job(
    encoder: Encoder,
    inputs: Inputs,
    sources: list[Source],
    out: str,
    options: JobOptions,
    dtype: str,
    format: str,  # noqa: A002
    chunk_bytes: int,
    contents: Contents,
) -> EncodingPlan:
    """Return the plan of a job with an output that is a file, a folder or a URL."""
    model = encoder.model
    pipes = [source.path for source in sources if source.size is None]
    if pipes and (options.resume or options.part or options.per_input):
        name = "standard input" if pipes[0] == STANDARD_INPUT else f"`{pipes[0]}`, a pipe,"
        raise OptionError(
            f"{name} can be read only once; expected files, since a job that is resumed, divided, or has an output for each "
            "input reads ranges of them: write the text to a file first"
        )
    form = load_format(format)
    store = open_store(out, per_input=options.per_input)
    input_options = contents.options.that_change_ids()
    columns = plan_columns(sources) if input_options.get("keep_columns") else None
    if columns is not None:
        form.check_columns(final_schema(read_schema(columns)))
    separator = find_separator(model)
    token = next((text.encode() for text, number in model.special_tokens.items() if number == separator), None)
    chunker = Chunker(encoder.splitter, chunk_bytes=chunk_bytes)
    units = plan_units(sources, options.unit_bytes, chunker, token, grouped=not options.per_input)
    below = names_below(inputs, [source.path for source in sources]) if options.per_input else []
    job = {
        "tokenizer_sha256": model.sha256,
        "vocab_size": model.vocab_size,
        "format": form.name,
        "dtype": form.choose_dtype(dtype, model.vocab_size).name,
        **input_options,
        **options.files,
        "seed": options.files["seed"] if options.files["val_fraction"] else None,
        "per_input": list(map(str, below)) if options.per_input else None,
        "unit_bytes": options.unit_bytes,
        "inputs": identify_inputs(sources),
    }
    names, mine = EncodingOutputs.of_job(store.out, job), slice_units(units, options.part)
    return EncodingPlan(names, job, options, units, mine, store, encoder, chunk_bytes, columns)


def _report(result: JobResult, seconds: float, **known: Any) -> EncodeReport:
    """Return the report of what a run did; `known` are further fields."""
    finished, totals = result.finished, result.totals
    path = finished.paths[0] if finished is not None and len(finished.paths) == 1 else None
    left_out = 0 if finished is None else finished.left_out
    return EncodeReport.of(
        result, seconds, path=path, tokens=totals.tokens, documents=totals.documents, left_out=left_out, **known
    )


def join_token_files(out: str, *, overwrite: bool, report: Progress) -> EncodeReport:
    """Join the parts of an encoding job with the output `out`, a path or a URL; see `bpejit.combine`."""
    result = join_parts(out, EncodingOutputs.of_job, overwrite=overwrite, report=report)
    assert result.finished is not None
    return _report(result, result.seconds["finish"], dtype=result.finished.dtype)


def _encode_to_stream(
    encoder: Encoder,
    sources: list[Source],
    out: str | BinaryIO,
    options: JobOptions,
    dtype: str,
    format: str,  # noqa: A002
    contents: Contents,
    work: Fields,
) -> EncodeReport:
    """Write ids directly: a stream can be neither resumed nor divided, and has no files beside it."""
    files = [value for name, value in options.files.items() if name not in ("append", "prepend", "seed")]
    files += [options.per_input, options.part, options.resume, contents.options.keep_columns, work["engine"] == RAY]
    if any(files):
        raise OptionError(
            f"{f'`{out}`' if isinstance(out, str) else 'the output'} is a stream; expected the path of a file for shards, "
            "validation sets, an index of documents, rows, columns, parts, and jobs that are resumed: name a file"
        )
    model = encoder.model
    check_token_outputs(out, inputs=[source.path for source in sources], overwrite=options.overwrite, format=format)
    tokens = DocumentTokens(options.files["prepend"], options.files["append"])
    totals = Totals()
    watch = CarriageReturns.of(model)
    form = load_format(format)
    with form.writer(
        out, dtype=dtype, vocab_size=model.vocab_size, tokenizer_sha256=model.sha256, overwrite=options.overwrite
    ) as writer:
        for chunk in _encoded_chunks("encode", encoder, sources, totals, writer.dtype.name, work):
            if watch is not None:
                watch.check(chunk.ids)
            ids, ends = tokens.add(chunk.ids, chunk.ends)
            writer.write(ids, n_bytes=chunk.n_bytes, ends=ends)
            totals.tokens = writer.n_tokens
    result = JobResult(replace(totals, tokens=writer.n_tokens), None, 0, 0, 0, new_bytes=totals.bytes)
    done = _report(result, 0.0, dtype=writer.dtype.name, byte_order_marks=tuple(contents.marked))
    return replace(done, path=writer.path, stages={})


def _encoded_chunks(
    stage: str, encoder: Encoder, sources: Sequence[Source], totals: Totals, dtype: str, work: Fields
) -> Iterator[EncodedChunk]:
    """Yield the ids of chunks in order, and add their amounts to `totals`, except for the ids.

    Raises
    ------
    CorpusError
        If all records are skipped.
    """
    report = work["report"]
    total = total_bytes(list(sources))
    splitter = encoder.splitter
    spread = make_engine(work["engine"], work["workers"], input_bytes=total, releases_gil=splitter.automaton is not None)
    chunks = Chunker(splitter, chunk_bytes=work["chunk_bytes"]).chunks(sources)
    report(stage, 0, total, "bytes")
    is_open = False  # whether a document continues in the next chunk
    for found in spread.map_chunks(encode_job(encoder, dtype), chunks):
        chunk = found.following(is_open)
        is_open = bool(chunk.n_tokens > chunk.ends[-1]) if chunk.n_documents else is_open or chunk.n_tokens > 0
        totals.add(chunk, 0, chunk.n_documents)
        yield chunk
        report_details(report, tokens=totals.tokens, documents=totals.documents)
        report(stage, totals.read, total, "bytes")
    if totals.skipped and not totals.documents:
        raise no_texts(totals.skipped)


def count_documents(codec: Codec, sources: Sequence[Source], totals: Totals, work: Fields) -> Iterator[Array]:
    """Yield the number of tokens of each document, as int64 [documents of a chunk], and add the amounts to `totals`.

    Documents are those of `Tokenizer.encode_files`. The options of `work` are those of `bpejit.engines`, checked.

    Raises
    ------
    CorpusError
        If all records are skipped.
    """
    begun = 0  # tokens of the document that continues in the next chunk
    for chunk in _encoded_chunks("count", codec.encoder, sources, totals, "uint32", work):
        counts = np.diff(chunk.ends, prepend=-begun)
        begun += chunk.n_tokens - int(counts.sum())
        totals.tokens += chunk.n_tokens
        yield counts
