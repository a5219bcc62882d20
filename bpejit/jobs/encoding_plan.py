"""Encoding as a kind of job: what is asked for, the units, what a part does with its units, and what it writes."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bpejit.corpus.chunks import Chunker, ChunkReader
from bpejit.corpus.columns import plan_columns
from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import identify_inputs, times_sha256
from bpejit.corpus.input_streams import STANDARD_INPUT
from bpejit.corpus.kept_columns import final_schema, merge_schemas, pack_rows, read_schema, unpack_rows
from bpejit.corpus.sources import Source, check_shared_sources
from bpejit.corpus.units import Unit, plan_units
from bpejit.encoding.codec import CarriageReturns, warm_encoding
from bpejit.encoding.encoder import Encoder
from bpejit.engines import FunctionJob, Job
from bpejit.errors import CorpusError, OptionError
from bpejit.jobs.any_job import open_store
from bpejit.jobs.encode_job import DocumentChoice, DocumentTokens, EncodedChunk, checksum_chunk, encode_job, find_separator
from bpejit.jobs.encoding_outputs import LENGTHS, SHARED, EncodingOutputs, wants_ends
from bpejit.jobs.final_files import SCHEMA, columns_path
from bpejit.jobs.job_folder import GrowingFile
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_plan import JobPlan, PartSink, slice_units
from bpejit.jobs.job_totals import AnyChunker
from bpejit.jobs.spools import SinkOptions, SpoolSink, count_lengths
from bpejit.storage.files import StrPath, file_sha256
from bpejit.storage.remote import is_remote
from bpejit.storage.temporary import hidden
from bpejit.tokenfiles import load_format
from bpejit.tokenfiles.base import choose_dtype
from bpejit.tokenfiles.templates import MappedFormat


@dataclass(frozen=True)
class EncodingPlan(JobPlan):
    """The encoding of inputs into token files.

    Parameters
    ----------
    names, job, options, units, mine, store
        See `JobPlan`.
    encoder : Encoder
    sources : list of Source
    dtype : np.dtype
        Of the ids.
    chunk_bytes : int
    columns : bytes, optional
        The types of the columns to keep, as far as they are known.
    """

    names: EncodingOutputs
    encoder: Encoder
    sources: Sequence[Source]
    dtype: np.dtype[Any]
    chunk_bytes: int
    columns: bytes | None = None

    kernels: ClassVar[tuple[Callable[[], object], ...]] = (warm_encoding,)
    stage: ClassVar[str] = "bpejit encode"
    what: ClassVar[str] = "this job"
    doing: ClassVar[str] = "encoding"
    done: ClassVar[str] = "encoded"

    @property
    def paths(self) -> list[str]:
        """The inputs of the part."""
        return list(dict.fromkeys(source.path for unit in self.mine for source in unit.sources))

    @cached_property
    def modified(self) -> str | None:
        """See `JobPlan`; None for a job that begins, and is too small for a checkpoint."""
        known = self.options.resume or self.options.part is not None or len(self.mine) > 1
        return times_sha256(self.paths) if known else None

    @property
    def releases_gil(self) -> bool:
        """See `JobPlan`."""
        return self.encoder.splitter.automaton is not None

    def checksum_job(self, checkpoint: Mapping[str, Any]) -> tuple[Job, AnyChunker]:
        """Return what computes checksums of the chunks that the run of a checkpoint has encoded."""
        chunker = Chunker(self.encoder.splitter, chunk_bytes=int(checkpoint["text"]["chunk_bytes"]))
        return FunctionJob(checksum_chunk, ChunkReader), chunker

    @property
    def reading(self) -> dict[str, Any]:
        """The size of chunks, which checksums depend on."""
        return {"chunk_bytes": self.chunk_bytes}

    def chunk_job(self) -> tuple[Job, AnyChunker]:
        """Return the job that encodes chunks in workers, and the chunker."""
        return encode_job(self.encoder, self.dtype.name), Chunker(self.encoder.splitter, chunk_bytes=self.chunk_bytes)

    def open_sink(self, folder: Path, checkpoint: Mapping[str, Any] | None) -> EncodingSink:
        """Return what writes ids into spools (see `JobPlan`)."""
        return EncodingSink(self, folder, checkpoint)

    def sink_options(self, parts: int) -> SinkOptions:
        """Return how the ids of one of `parts` are divided among spools, and write what joining them needs."""
        options = self.options
        form = self.names.format
        model = self.encoder.model
        by_token = options.shard_tokens is not None or bool(options.val_fraction)
        lengths = count_lengths(model.tokens, model.special_tokens, model.vocab_size) if by_token else None
        if self.columns is not None:
            columns = self.columns
            self._write_shared(SCHEMA, lambda path: path.write_bytes(columns))
        if lengths is not None and parts > 1:
            self._write_shared(LENGTHS, lambda path: np.save(path, lengths))
        return SinkOptions(
            dtype=self.dtype,
            has_ends=wants_ends(form, options.document_index, parts),
            sides=options.sides,
            shard_tokens=options.shard_tokens if parts == 1 else None,
            shard_exact=options.shard_exact,
            token_lengths=lengths,
            ids_position=form.ids_position if isinstance(form, MappedFormat) and parts == 1 else 0,
        )

    def _write_shared(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file that all parts write, equally, into the folder of the job."""
        written = hidden(self.folder / name, f"tmp{Path(name).suffix}")
        write(written)
        written.replace(self.folder / name)

    def check_shared(self) -> None:
        """Raise OptionError if the job is a part, or an input is a pipe."""
        super().check_shared()
        check_shared_sources(self.sources)

    def shared(self) -> EncodingPlan:
        """Return what the plans of all tasks on a cluster have in common, without inputs."""
        return replace(super().shared(), sources=())


class EncodingSink(PartSink):
    """Passes encoded chunks through the stages of a job, to spools of ids and of columns.

    Parameters
    ----------
    plan : EncodingPlan
        Of the part.
    folder : Path
        The folder of the part.
    checkpoint : dict, optional
        The last checkpoint of the part; None to begin.

    Raises
    ------
    OSError, OutputError
    """

    def __init__(self, plan: EncodingPlan, folder: Path, checkpoint: Mapping[str, Any] | None) -> None:
        options = plan.options
        self._folder = folder
        self._options = options
        self._watch = CarriageReturns.of(plan.encoder.model)
        self._tokens = DocumentTokens(options.prepend, options.append)
        self._choice = DocumentChoice(options.val_fraction, options.seed)
        self._output = 0
        known = checkpoint or {}
        if checkpoint is not None:
            self._tokens.last = checkpoint["last"]
            self._choice.open, self._choice.unit, self._choice.begun = checkpoint["drawn"]
        parts = (options.part or (0, 1))[1]
        spools = plan.sink_options(parts)
        with ExitStack() as stack:
            self._columns: ColumnSpools | None = None
            if plan.job.get("keep_columns"):
                self._columns = ColumnSpools(folder, options.sides, plan.columns, known.get("columns"))
                stack.callback(self._columns.close)
            self._spools = SpoolSink(folder, spools, known.get("sink"))
            stack.callback(self._spools.close)
            if not options.per_input:
                self._spools.begin_output(0)
            self._stack = stack.pop_all()

    def begin_unit(self, unit: Unit) -> None:
        """Set the output and the documents of the next chunks."""
        if self._options.per_input:
            self._output = unit.first_source
            self._spools.begin_output(self._output)
        if self._choice.unit != unit.number:
            self._choice.begin_unit(unit.number)

    def write(self, result: EncodedChunk) -> tuple[int, int]:
        """Append an encoded chunk; return the numbers of ids, with those that were added, and of documents."""
        if self._watch is not None:
            self._watch.check(result.ids)
        ids, ends = self._tokens.add(result.ids, result.ends)
        divides = self._options.val_fraction > 0
        for aside, (some, some_ends) in enumerate(self._choice.divide(ids, ends) if divides else [(ids, ends)]):
            self._spools.write(bool(aside), some, some_ends, result.n_bytes)
        if self._columns is not None:
            rows = _rows_of(result)
            for aside in self._options.sides:
                chosen = rows.filter(self._choice.ended == aside) if divides else rows
                self._columns.write(self._output, aside, chosen)
        return int(ids.size), result.n_documents

    def state(self) -> dict[str, Any]:
        """Return the states of all stages."""
        choice = self._choice
        columns = {} if self._columns is None else {"columns": self._columns.state()}
        drawn = [choice.open, choice.unit, choice.begun]
        return {"last": self._tokens.last, "drawn": drawn, "sink": self._spools.state(), **columns}

    def changed(self) -> list[Path]:
        """Return the files that may have changed since the last call."""
        return [*self._spools.changed(), *([] if self._columns is None else self._columns.paths)]

    def finish(self) -> dict[str, Any]:
        """Complete the spools; return their hashes, and those of the files that all parts write."""
        self._spools.finish()
        shared = {name: file_sha256(path) for name in SHARED if (path := self._folder.parent / name).exists()}
        columns = {} if self._columns is None else {"columns": self._columns.state()}
        return {"shared": shared, "closed_sha256": self._spools.closed_sha256, **columns}

    def close(self) -> None:
        """Close all files."""
        self._stack.close()


class ColumnSpools:
    """Writes the rows of the documents of a part.

    Parameters
    ----------
    folder : Path
        Exists.
    sides : tuple of bool
        `(False,)`, or `(False, True)` if documents are set aside.
    schema : bytes, optional
        The types that were planned.
    state : list of (int, str), optional
        The size and the hash of each file at a checkpoint (see `state`); None to begin.

    Raises
    ------
    OSError
    OutputError
        If a file is not that of the checkpoint.
    """

    def __init__(
        self, folder: Path, sides: Sequence[bool], schema: bytes | None, state: Sequence[tuple[int, str | None]] | None = None
    ) -> None:
        self._schema = None if schema is None else read_schema(schema)
        self._files: list[GrowingFile] = []
        try:
            for side, (size, sha256) in zip(sides, state or [(0, None)] * len(sides), strict=True):
                self._files.append(GrowingFile(columns_path(folder, side), size, sha256))
        except BaseException:
            self.close()
            raise

    def write(self, output: int, side: bool, rows: Any) -> None:
        """Append rows of an output, a record batch.

        Raises
        ------
        CorpusError
            If their types and those of earlier rows have none in common.
        OSError
        """
        if rows.num_rows:
            self._schema = merge_schemas(self._schema, rows.schema)
            self._files[side].write(output.to_bytes(8, "little") + pack_rows(rows))

    def state(self) -> list[tuple[int, str]]:
        """Return the size and the hash of each file."""
        return [(file.size, file.sha256) for file in self._files]

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [file.path for file in self._files]

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()


def _rows_of(encoded: EncodedChunk) -> Any:
    """Return the rows of the columns to keep of a chunk, as a record batch.

    Raises
    ------
    CorpusError
        If there is not one for each document.
    """
    rows = unpack_rows(encoded.columns)
    if rows.num_rows != encoded.n_documents:
        raise CorpusError(
            f"an input has {rows.num_rows} rows of columns to keep, and {encoded.n_documents} documents; expected one for "
            "each: its format (see `bpejit.corpus.registry`) has to return them"
        )
    return rows


def plan_job(
    encoder: Encoder,
    inputs: Any,
    sources: list[Source],
    out: StrPath,
    options: JobOptions,
    dtype: str,
    format: str,  # noqa: A002 - as for `Tokenizer.encode_files`
    chunk_bytes: int,
    contents: Contents,
) -> EncodingPlan:
    """Return the plan of a job.

    Parameters
    ----------
    encoder : Encoder
    inputs : paths
        As the user gave them.
    sources : list of Source
    out : path
        A file, or a folder for one output per input; may be a URL.
    options : JobOptions
    dtype : str
        Of the ids.
    format : str
    chunk_bytes : int
    contents : Contents
        Has the options of reading.

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
    form = load_format(format)
    ids_dtype = choose_dtype(form.dtypes, dtype, model.vocab_size)
    store = open_store(os.fspath(out), per_input=options.per_input)
    input_options = contents.options.that_change_ids()
    columns = plan_columns(sources) if input_options.get("keep_columns") else None
    if columns is not None:
        form.check_columns(final_schema(read_schema(columns)))
    chunker = Chunker(encoder.splitter, chunk_bytes=chunk_bytes)
    separator = find_separator(model)
    token = None
    if separator is not None:
        token = next((text.encode() for text, number in model.special_tokens.items() if number == separator), None)
    units = plan_units(sources, options.unit_bytes, chunker, token, grouped=not options.per_input)
    names = EncodingOutputs(
        store.out,
        _output_names(inputs, sources) if options.per_input else None,
        options.shard_tokens is not None,
        form,
    )
    job = {
        "tokenizer_sha256": model.sha256,
        "vocab_size": model.vocab_size,
        "format": form.name,
        "dtype": ids_dtype.name,
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
    mine = slice_units(units, options.part)
    return EncodingPlan(names, job, options, units, mine, store, encoder, sources, ids_dtype, chunk_bytes, columns)


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
