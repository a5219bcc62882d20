"""Run a part of an encoding job: units in order, spools, and a checkpoint at the end of each unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.kept_columns import unpack_rows
from bpejit.corpus.units import Unit
from bpejit.encoding.codec import CarriageReturns
from bpejit.engines.base import Engine, Progress
from bpejit.errors import CorpusError
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import Checkpoints, checkpoint_fields
from bpejit.jobs.column_spools import ColumnSpools
from bpejit.jobs.document_tokens import DocumentTokens
from bpejit.jobs.early_files import EarlyFiles
from bpejit.jobs.encode_job import EncodedChunk, EncodeJob
from bpejit.jobs.encoding_outputs import SHARED
from bpejit.jobs.final_files import FinalFiles
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, file_sha256, sync_record, write_record
from bpejit.jobs.job_options import JobOptions
from bpejit.jobs.job_plan import CompletePart
from bpejit.jobs.spool_sink import SinkOptions, SpoolSink, read_closed
from bpejit.jobs.unit_loop import Seconds, UnitLoop
from bpejit.storage.temporary import sync_file

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
_FIRST_SHIFT, _SECOND_SHIFT, _THIRD_SHIFT = np.uint64(30), np.uint64(27), np.uint64(31)


def draw_documents(seed: int, unit: int, first: int, count: int) -> Array:
    """Return a number from 0 to 1 for each of some consecutive documents of a unit.

    The number depends on the arguments alone: it is a hash of the seed, the unit and the document (SplitMix64).

    Parameters
    ----------
    seed, unit : int
        Not negative.
    first, count : int
        The index of the first document in the unit, and the number of documents.

    Returns
    -------
    float64 [count]
        At least 0, below 1.
    """
    state = np.array([seed % 2**64], dtype=np.uint64)
    for numbers in (np.array([unit], dtype=np.uint64), np.arange(first, first + count, dtype=np.uint64)):
        state = _mix(state + (numbers + np.uint64(1)) * _STEP)
    drawn: Array = (state >> np.uint64(11)).astype(np.float64) / 2.0**53
    return drawn


def _mix(state: Array) -> Array:
    state = (state ^ (state >> _FIRST_SHIFT)) * _FIRST_FACTOR
    state = (state ^ (state >> _SECOND_SHIFT)) * _SECOND_FACTOR
    mixed: Array = state ^ (state >> _THIRD_SHIFT)
    return mixed


class DocumentChoice:
    """Divides a stream of documents into two, which contain complete documents.

    Parameters
    ----------
    fraction : float
        The share of the documents that are set aside, on average.
    seed : int

    Attributes
    ----------
    unit : int
        The unit of the next documents that begin.
    begun : int
        The number of documents that have begun in the unit.
    ended : bool [documents]
        For each document that ended in the last block, whether it is set aside.
    open : bool, optional
        Whether the document that continues in the next block is set aside. None if no document does.
    """

    def __init__(self, fraction: float, seed: int) -> None:
        self.fraction = fraction
        self.seed = seed
        self.unit = 0
        self.begun = 0
        self.ended: Array = np.zeros(0, dtype=bool)
        self.open: bool | None = None

    def begin_unit(self, unit: int) -> None:
        """Set the unit of the next blocks."""
        self.unit = unit
        self.begun = 0

    def divide(self, ids: Array, ends: Array) -> list[tuple[Array, Array]]:
        """Return ids and ends of the documents that remain, and of those that are set aside.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
            Positions in `ids` where documents end.
        """
        begins = np.concatenate(([0], ends))
        stops = np.append(ends, ids.size)
        unfinished = bool(stops[-1] > begins[-1])
        count = ends.size + unfinished
        self.ended = np.zeros(0, dtype=bool)
        if not count:
            return [(ids, ends), (ids[:0], ends[:0])]
        continued = self.open is not None
        aside = np.empty(count, dtype=bool)
        drawn = draw_documents(self.seed, self.unit, self.begun, count - continued)
        aside[int(continued) :] = drawn < self.fraction
        if continued:
            aside[0] = self.open
        self.ended = aside[: ends.size]
        self.begun += count - continued
        self.open = bool(aside[-1]) if unfinished else None
        if not aside.any():
            return [(ids, ends), (ids[:0], ends[:0])]
        lengths = (stops - begins)[:count]
        # Runs of documents of the same side, which are few: copying them takes a fifth of the time of a mask.
        borders = [0, *(np.flatnonzero(np.diff(aside)) + 1).tolist(), count]
        pieces: dict[bool, list[Array]] = {False: [ids[:0]], True: [ids[:0]]}
        for low, high in pairwise(borders):
            pieces[bool(aside[low])].append(ids[begins[low] : stops[high - 1]])
        parts = []
        for side, which in ((False, ~aside), (True, aside)):
            part_ends = np.cumsum(lengths[which])
            parts.append((np.concatenate(pieces[side]), part_ends[: int(which[: ends.size].sum())]))
        return parts


@dataclass
class PartRun:
    """One part of a job, at work.

    Parameters
    ----------
    folder : Path
        The folder of the part, locked by this process.
    identify : callable
        Returns what its checkpoints tell of it (see `identify_part`).
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
    modified : str, optional
        A hash of the modification times of the inputs, for the checkpoints.
    """

    folder: Path
    identify: Callable[[], dict[str, Any]]
    units: Sequence[Unit]
    options: JobOptions
    sink_options: SinkOptions
    seconds: Seconds = field(default_factory=Seconds)
    keeps_columns: bool = False
    schema: bytes | None = None
    files: FinalFiles | None = None
    modified: str | None = None

    def run(
        self, job: EncodeJob, engine: Engine, chunker: Chunker, checkpoint: Mapping[str, Any] | None, report: Progress
    ) -> CompletePart:
        """Encode the units that are missing, and complete the spools.

        If the part is brief (see `CompletePart`), spools are not flushed to disk unless they become files of the output.

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
        loop = UnitLoop(self.units, checkpoint, self.options.unit_bytes, self.seconds, report)
        tokens = DocumentTokens(self.options.prepend, self.options.append)
        choice = DocumentChoice(self.options.val_fraction, self.options.seed)
        if checkpoint is not None:
            tokens.last = checkpoint["last"]
            choice.open, choice.unit, choice.begun = checkpoint["drawn"]
        results = loop.results(job, engine, chunker)
        watch = CarriageReturns.of(job.model)
        with ExitStack() as spools, Checkpoints(self.folder, self.identify) as checkpoints, closing(results):
            sink, columns, early = self._open_spools(checkpoint, spools)
            if not self.options.per_input:
                self._begin_output(0, sink, columns)
            for unit, encoded in results:
                if self.options.per_input:
                    self._begin_output(unit.first_source, sink, columns)
                if encoded is None:
                    due = loop.end_unit()
                    state, flush = sink.snapshot()
                    text = self._describe_text(loop, chunker)
                    drawn = [choice.open, choice.unit, choice.begun]
                    fields = {"totals": loop.totals.as_json(), "text": text, "last": tokens.last, "drawn": drawn, "sink": state}
                    if columns is not None:
                        fields["columns"], flush_rows = columns.snapshot()
                        flush += flush_rows
                    # Not after the last unit, which the record of the complete part follows.
                    checkpoints.note(fields, flush, write=due and unit is not loop.rest[-1])
                else:
                    if choice.unit != unit.number:
                        choice.begin_unit(unit.number)
                    if watch is not None:
                        watch.check(encoded.ids)
                    n_tokens = self._write(sink, columns, tokens, choice, encoded)
                    loop.add(encoded, tokens=n_tokens, documents=encoded.n_documents)
            before = working_time()
            brief = checkpoint is None and not checkpoints.begun and self.options.part is None
            sink.finish(brief=brief)
            if columns is not None:
                columns.finish()
            if early is not None:
                early.finish()
            self.seconds.finish += working_time() - before
            checkpoints.wait()
            complete: dict[str, Any] = {
                "totals": loop.totals.as_json(),
                "complete": True,
                "shared": {name: file_sha256(path) for name in SHARED if (path := self.folder.parent / name).exists()},
                "text": self._describe_text(loop, chunker),
                "closed_sha256": sink.closed_sha256,
            }
            if columns is not None:
                complete["columns_sha256"] = columns.sha256
            if not brief:
                write_record(self.folder / CHECKPOINT, checkpoint_fields(complete, self.identify()))
            return CompletePart(complete, brief)

    def _describe_text(self, loop: UnitLoop, chunker: Chunker) -> dict[str, Any]:
        """Return what a later run compares the inputs with."""
        return {"sha256": loop.text_sha256, "chunk_bytes": chunker.chunk_bytes, "modified": self.modified}

    def _open_spools(
        self, checkpoint: Mapping[str, Any] | None, stack: ExitStack
    ) -> tuple[SpoolSink, ColumnSpools | None, EarlyFiles | None]:
        """Open the spools of ids and of columns, and the files that are written while they grow; `stack` closes them."""
        sink_state = None if checkpoint is None else checkpoint["sink"]
        columns = early = None
        if self.keeps_columns:
            state = None if checkpoint is None else checkpoint.get("columns")
            columns = ColumnSpools(self.folder, self.sink_options.sides, self.schema, state)
            stack.callback(columns.close)
        if self.files is not None:
            closed = (
                ()
                if sink_state is None
                else read_closed(self.folder, sink_state["closed_bytes"], sha256=sink_state["closed_sha256"])
            )
            early = EarlyFiles(self.files, self.folder, closed)
        sink = SpoolSink(self.folder, self.sink_options, sink_state, None if early is None else early.note)
        stack.callback(sink.close)
        if early is not None:
            stack.callback(early.close)  # before the spools that it reads
        return sink, columns, early

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
                columns.write(aside, rows_of(encoded).filter(choice.ended == aside))
        return int(ids.size)


@contextmanager
def keeping_brief(folder: Path, of: Mapping[str, Any], done: CompletePart) -> Iterator[None]:
    """Flush the spools of a brief part to disk after an error in its last steps, so that it can be resumed."""
    try:
        yield
    except BaseException:
        if done.brief:
            with suppress(OSError):
                sync_record(folder.parent / MANIFEST)
                for path in folder.iterdir():
                    with path.open("rb") as file:
                        sync_file(file.fileno())
                write_record(folder / CHECKPOINT, checkpoint_fields(done.fields, of))
        raise


def rows_of(encoded: EncodedChunk) -> Any:
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
