"""Encoding as a kind of job: what a part does with its units, and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.corpus.chunks import Chunker, ChunkReader
from bpejit.corpus.kept_columns import merge_schemas, pack_rows, read_schema, unpack_rows
from bpejit.corpus.sources import Source, check_shared_sources
from bpejit.corpus.units import Unit
from bpejit.encoding.codec import CarriageReturns, warm_encoding
from bpejit.encoding.encoder import Encoder
from bpejit.engines import FunctionJob, Job
from bpejit.errors import CorpusError
from bpejit.jobs.encode_job import DocumentChoice, DocumentTokens, EncodedChunk, checksum_chunk, encode_job
from bpejit.jobs.encoding_outputs import LENGTHS, SHARED, EncodingOutputs, sink_options
from bpejit.jobs.final_files import SCHEMA, columns_path
from bpejit.jobs.job_folder import Fields, GrowingFile
from bpejit.jobs.job_plan import JobPlan, PartSink
from bpejit.jobs.spools import SinkOptions, SpoolSink, count_lengths
from bpejit.storage.files import file_sha256
from bpejit.storage.temporary import hidden


@dataclass(frozen=True)
class EncodingPlan(JobPlan):
    """The encoding of inputs into token files.

    Parameters
    ----------
    names, job, options, units, mine, store
        See `JobPlan`.
    encoder : Encoder
    sources : list of Source
    chunk_bytes : int
    columns : bytes, optional
        The types of the columns to keep, as far as they are known.
    """

    names: EncodingOutputs
    encoder: Encoder
    sources: Sequence[Source]
    chunk_bytes: int
    columns: bytes | None = None

    kernels = (warm_encoding,)
    stage = "bpejit encode"
    what = "this job"
    doing = "encoding"
    done = "encoded"

    @property
    def paths(self) -> list[str]:
        """The inputs of the part."""
        return list(dict.fromkeys(source.path for unit in self.mine for source in unit.sources))

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
        return EncodingSink(self, folder, checkpoint)

    def sink_options(self, parts: int) -> SinkOptions:
        """Return how the ids of one of `parts` are divided among spools, and write what joining them needs."""
        options = self.options
        model = self.encoder.model
        by_token = options.shard_tokens is not None or bool(options.val_fraction)
        lengths = count_lengths(model.tokens, model.special_tokens, model.vocab_size) if by_token else None
        if self.columns is not None:
            columns = self.columns
            self._write_shared(SCHEMA, lambda path: path.write_bytes(columns))
        if lengths is not None and parts > 1:
            self._write_shared(LENGTHS, lambda path: np.save(path, lengths))
        return sink_options(self.job, self.names.format, parts, lengths, is_whole=parts == 1)

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

    def __init__(self, plan: EncodingPlan, folder: Path, checkpoint: Fields | None) -> None:
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
        _, parts = options.part or (0, 1)
        spools = plan.sink_options(parts)
        self._columns = []
        self._schema = None if plan.columns is None else read_schema(plan.columns)
        if plan.job.get("keep_columns"):
            found = known.get("columns", [(0, None)] * len(options.sides))
            self._columns += [
                GrowingFile(columns_path(folder, side), *one) for side, one in zip(options.sides, found, strict=True)
            ]
        self._spools = SpoolSink(folder, spools, known.get("sink"))
        if not options.per_input:
            self._spools.begin_output(0)

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
        sides = self._options.sides
        divided = self._choice.divide(ids, ends) if len(sides) > 1 else [(ids, ends)]
        for aside, documents in zip(sides, divided, strict=True):
            self._spools.write(aside, *documents, result.n_bytes)
        rows: Any = _rows_of(result) if self._columns else None
        for aside, file in zip(sides, self._columns, strict=False):
            chosen = rows.filter(self._choice.ended == aside) if len(sides) > 1 else rows
            if chosen.num_rows:
                self._schema = merge_schemas(self._schema, chosen.schema)
                file.write(self._output.to_bytes(8, "little") + pack_rows(chosen))
        return int(ids.size), result.n_documents

    def state(self) -> Fields:
        """Return the states of all stages."""
        choice = self._choice
        drawn = [choice.open, choice.unit, choice.begun]
        return {"last": self._tokens.last, "drawn": drawn, "sink": self._spools.state(), **self._column_state()}

    def _column_state(self) -> Fields:
        """Return the size and the hash of each file of columns."""
        return {"columns": [(file.size, file.sha256) for file in self._columns]} if self._columns else {}

    def changed(self) -> list[Path]:
        """Return the files that may have changed since the last call."""
        return [*self._spools.changed(), *(file.path for file in self._columns)]

    def finish(self) -> Fields:
        """Complete the spools; return their hashes, and those of the files that all parts write."""
        self._spools.finish()
        shared = {name: file_sha256(path) for name in SHARED if (path := self._folder.parent / name).exists()}
        return {"shared": shared, "closed_sha256": self._spools.closed_sha256, **self._column_state()}

    def close(self) -> None:
        """Close all files."""
        self._spools.close()
        for file in self._columns:
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
