"""Run a part of an encoding job: units in order, spools, and a checkpoint at the end of each unit."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped, SkippedRecord
from bpejit.corpus.chunk_reader import AnyChunk
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.kept_columns import KeptColumns
from bpejit.corpus.units import Unit
from bpejit.encoding.encode_job import EncodedChunk, EncodeJob
from bpejit.engines.base import Engine, Progress
from bpejit.errors import CorpusError
from bpejit.jobs.checkpoints import Checkpoints, checkpoint_fields
from bpejit.jobs.column_spools import ColumnSpools
from bpejit.jobs.document_choice import DocumentChoice
from bpejit.jobs.document_tokens import DocumentTokens
from bpejit.jobs.early_files import EarlyFiles
from bpejit.jobs.final_files import FinalFiles
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, sync_record, write_record
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.spool_sink import SinkOptions, SpoolSink, read_closed
from bpejit.storage.temporary import sync_file


@dataclass
class Totals:
    """Sums over the units of a part.

    Parameters
    ----------
    units : int
    tokens, documents, bytes, read : int
        Ids, documents, bytes of text, and bytes of input.
    skipped : Skipped
    """

    units: int = 0
    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    read: int = 0
    skipped: Skipped = NOTHING_SKIPPED

    def as_json(self) -> dict[str, Any]:
        """Return the fields for a checkpoint."""
        first = [[record.path, record.place, record.reason] for record in self.skipped.first]
        return {**self.__dict__, "skipped": [self.skipped.count, first]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Totals:
        """Return the totals of a checkpoint."""
        count, first = fields["skipped"]
        return cls(**{**fields, "skipped": Skipped(count, tuple(SkippedRecord(*record) for record in first))})

    def __add__(self, other: Totals) -> Totals:
        sums = {name: getattr(self, name) + getattr(other, name) for name in self.__dict__}
        return Totals(**sums)


@dataclass
class Seconds:
    """Where the time of a job went, in seconds of the main thread.

    Parameters
    ----------
    plan : float
        Planning, and reading what an earlier run left.
    encode : float
        Waiting for ids.
    write : float
        Adding tokens, dividing, hashing and writing.
    finish : float
        Flushing to disk, and writing the final files.
    """

    plan: float = 0.0
    encode: float = 0.0
    write: float = 0.0
    finish: float = 0.0


@dataclass
class PartRun:
    """One part of a job, at work.

    Parameters
    ----------
    folder : Path
        The folder of the part, locked by this process.
    units : list of Unit
        Its units, in order.
    options : JobOptions
    sink_options : SinkOptions
    seconds : Seconds
        Is added to.
    keeps_columns : bool
        Whether columns pass through.
    schema : bytes, optional
        Their types, as far as they are planned.
    files : FinalFiles, optional
        How the spools become token files, if these are written while the job encodes.

    Attributes
    ----------
    brief : bool
        True after a run of an undivided job that is so small that no checkpoint was written. If it is killed, it begins again,
        so its spools are not flushed to disk unless they become files of the output.
    """

    folder: Path
    units: Sequence[Unit]
    options: JobOptions
    sink_options: SinkOptions
    seconds: Seconds = field(default_factory=Seconds)
    keeps_columns: bool = False
    schema: bytes | None = None
    files: FinalFiles | None = None
    brief: bool = field(default=False, init=False)

    def run(
        self, job: EncodeJob, engine: Engine, chunker: Chunker, checkpoint: Mapping[str, Any] | None, report: Progress
    ) -> Totals:
        """Encode the units that are missing, and complete the spools.

        Parameters
        ----------
        job : EncodeJob
        engine : Engine
        chunker : Chunker
        checkpoint : dict, optional
            The last checkpoint of the part, whose spools are continued; None to begin.
        report : callable
            Progress.

        Raises
        ------
        OSError
            If a spool cannot be written. The last checkpoint stays.
        """
        totals = Totals() if checkpoint is None else Totals.from_json(checkpoint["totals"])
        tokens = DocumentTokens(self.options.prepend, self.options.append)
        choice = DocumentChoice(self.options.val_fraction, self.options.seed)
        if checkpoint is not None:
            tokens.last = checkpoint["last"]
            choice.open = checkpoint["aside"]
        rest = self.units[totals.units :]
        missing = [unit.size for unit in rest]
        total = None if None in missing else sum(size for size in missing if size is not None)
        sink_state = None if checkpoint is None else checkpoint["sink"]
        early = None
        if self.files is not None:
            closed = () if sink_state is None else read_closed(self.folder, sink_state["closed_bytes"])
            early = EarlyFiles(self.files, self.folder, closed)
        sink = SpoolSink(self.folder, self.sink_options, sink_state, None if early is None else early.note)
        columns = None
        if self.keeps_columns:
            state = None if checkpoint is None else checkpoint.get("columns")
            columns = ColumnSpools(self.folder, self.sink_options.sides, self.schema, state)
        checkpoints = Checkpoints(self.folder)
        unsaved = read_now = 0
        stack = ExitStack()
        try:
            if not self.options.per_input:
                self._begin_output(0, sink, columns)
            report("encode", 0, total, "bytes")
            details = getattr(report, "details", None)
            before = time.perf_counter()
            results = stack.enter_context(closing(map_units(rest, job, engine, chunker)))
            for unit, encoded in results:
                now = time.perf_counter()
                self.seconds.encode += now - before
                if self.options.per_input:
                    self._begin_output(unit.first_source, sink, columns)
                if encoded is None:
                    totals.units += 1
                    state, flush = sink.snapshot()
                    fields = {"totals": totals.as_json(), "last": tokens.last, "aside": choice.open, "sink": state}
                    if columns is not None:
                        fields["columns"], flush_rows = columns.snapshot()
                        flush += flush_rows
                    # Not after each of thousands of small units, since a checkpoint takes a few milliseconds, and not after the
                    # last one, which the record of the complete part follows.
                    written = unsaved >= self.options.unit_bytes // 2 and unit is not rest[-1]
                    checkpoints.note(fields, flush, write=written)
                    unsaved = 0 if written else unsaved
                else:
                    if choice.unit != unit.number:
                        choice.begin_unit(unit.number)
                    totals.tokens += self._write(sink, columns, tokens, choice, encoded)
                    totals.documents += encoded.n_documents
                    totals.bytes += encoded.n_bytes
                    totals.read += encoded.n_read
                    totals.skipped += encoded.skipped
                    unsaved += encoded.n_read
                    read_now += encoded.n_read
                    if details is not None:
                        details(tokens=totals.tokens, documents=totals.documents)
                    report("encode", read_now, total, "bytes")
                before = time.perf_counter()
                self.seconds.write += before - now
            self.brief = checkpoint is None and not checkpoints.begun and self.options.part is None
            sink.finish(brief=self.brief)
            if columns is not None:
                columns.finish()
            if early is not None:
                early.finish()
            self.seconds.finish += time.perf_counter() - before
            checkpoints.wait()
            if not self.brief:
                self._write_complete(totals)
            return totals
        except BaseException:
            stack.close()  # ends the workers
            checkpoints.save_last()
            raise
        finally:
            stack.close()
            checkpoints.close()
            if early is not None:
                early.close()
            sink.close()
            if columns is not None:
                columns.close()

    def _write_complete(self, totals: Totals) -> None:
        write_record(self.folder / CHECKPOINT, checkpoint_fields({"totals": totals.as_json(), "complete": True}))

    @contextmanager
    def keeping_brief(self, totals: Totals) -> Iterator[None]:
        """Flush the spools of a small job to disk after an error in its last steps, so that it can be resumed."""
        try:
            yield
        except BaseException:
            if self.brief:
                with suppress(OSError):
                    sync_record(self.folder.parent / MANIFEST)
                    for path in self.folder.iterdir():
                        with path.open("rb") as file:
                            sync_file(file.fileno())
                    self._write_complete(totals)
            raise

    @staticmethod
    def _begin_output(output: int, sink: SpoolSink, columns: ColumnSpools | None) -> None:
        sink.begin_output(output)
        if columns is not None:
            columns.begin_output(output)

    def _write(
        self,
        sink: SpoolSink,
        columns: ColumnSpools | None,
        tokens: DocumentTokens,
        choice: DocumentChoice,
        encoded: EncodedChunk,
    ) -> int:
        ids, ends = tokens.add(encoded.ids, encoded.ends)
        if not self.options.val_fraction:
            sink.write(False, ids, ends, encoded.n_bytes)
            if columns is not None:
                columns.write(False, rows_of(encoded))
            return int(ids.size)
        for aside, (some, some_ends) in zip((False, True), choice.divide(ids, ends), strict=True):
            if some.size or some_ends.size:
                sink.write(aside, some, some_ends, 0)
        if columns is not None:
            for aside in (False, True):
                columns.write(aside, rows_of(encoded).filtered(choice.ended == aside))
        return int(ids.size)


def rows_of(encoded: EncodedChunk) -> KeptColumns:
    """Return the rows of the columns to keep of a chunk.

    Raises
    ------
    CorpusError
        If there is not one for each document.
    """
    rows = encoded.columns or KeptColumns(0, b"", b"")
    if rows.n_rows != encoded.n_documents:
        raise CorpusError(
            f"an input has {rows.n_rows} rows of columns to keep, and {encoded.n_documents} documents; expected one for each: "
            "its format (see `bpejit.corpus.registry`) has to return them"
        )
    return rows


def map_units(
    units: Sequence[Unit], job: EncodeJob, engine: Engine, chunker: Chunker
) -> Generator[tuple[Unit, EncodedChunk | None], None, None]:
    """Yield each encoded chunk with its unit, and None after the last chunk of a unit."""
    marks: deque[tuple[Unit, bool]] = deque()

    def chunks() -> Iterator[AnyChunk]:
        for unit in units:
            for chunk in chunker.chunks(unit.sources):
                marks.append((unit, True))
                yield chunk
            marks.append((unit, False))

    # The engine takes chunks ahead of the results.
    results: Any = engine.map_chunks(job, chunks())
    with closing(results):
        for encoded in results:
            while not marks[0][1]:
                yield marks.popleft()[0], None
            yield marks.popleft()[0], encoded
            while marks and not marks[0][1]:
                yield marks.popleft()[0], None
    while marks:
        yield marks.popleft()[0], None
