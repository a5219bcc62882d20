"""Loop over the units of a part of a job: their chunks in order, totals, times, progress, and when a checkpoint is due."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from bpejit.corpus.blocks import NOTHING_SKIPPED, ChunkReader, Skipped, SkippedRecord
from bpejit.engines.base import Engine, FunctionJob, Job, Progress, report_details
from bpejit.jit.listening import working_time


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


class AnyUnit(Protocol):
    """A range of the input that a job finishes together."""

    @property
    def sources(self) -> Any:
        """What the chunker divides."""

    @property
    def size(self) -> int | None:
        """Bytes of input; None if unknown."""

    @property
    def starts_document(self) -> bool:
        """Whether a document begins with it."""


class AnyChunker(Protocol):
    """Divides units into chunks."""

    def chunks(self, sources: Any) -> Iterator[Any]:
        """Yield the chunks of the sources of a unit."""


class ChunkResult(Protocol):
    """What a worker returns for a chunk, as far as all jobs have it."""

    @property
    def n_bytes(self) -> int:
        """Bytes of text."""

    @property
    def n_read(self) -> int:
        """Bytes of the input."""

    @property
    def skipped(self) -> Skipped:
        """Records without text."""

    @property
    def checksum(self) -> bytes:
        """What `bpejit.corpus.fingerprints.checksum` returns for what was read."""


class ReaderJob(FunctionJob):
    """A job whose workers call a function with a reader of their own and each chunk."""

    def start(self) -> FunctionJob:
        """Return a new worker."""
        return FunctionJob(partial(self.run, ChunkReader()))


class UnitLoop:
    """The units of a part that are not finished yet, in order.

    Parameters
    ----------
    units : list of units
        All units of the part.
    checkpoint : dict, optional
        The last checkpoint of the part; None to begin.
    unit_bytes : int
        The usual size of a unit.
    seconds : Seconds
        Is added to.
    report : callable
        Progress. If it has a method `details`, that is called with the numbers of tokens and documents.

    Attributes
    ----------
    rest : list of units
    totals : Totals
        Those of the checkpoint, and of what has been added since.
    text_sha256 : str
        A hash of what was read (see `chain_checksum`).
    """

    def __init__(
        self, units: Sequence[Any], checkpoint: Mapping[str, Any] | None, unit_bytes: int, seconds: Seconds, report: Progress
    ) -> None:
        self.totals = Totals() if checkpoint is None else Totals.from_json(checkpoint["totals"])
        self.text_sha256 = "" if checkpoint is None else checkpoint["text"]["sha256"]
        self.rest = units[self.totals.units :]
        self._seconds = seconds
        self._report = report
        self._checkpoint_bytes = unit_bytes // 4
        self._unsaved = self._n_read = 0
        self._size = size_of_units(self.rest)

    def results(self, job: Job, chunker: AnyChunker, engine: Engine) -> Generator[tuple[Any, Any], None, None]:
        """Yield each result of a chunk with its unit, and None after the last chunk of a unit; measure the time."""
        self._report("encode", 0, self._size, "bytes")
        before = working_time()
        with closing(_map_units(self.rest, job, engine, chunker)) as results:
            for unit, result in results:
                now = working_time()
                self._seconds.encode += now - before
                yield unit, result
                before = working_time()
                self._seconds.write += before - now

    def add(self, result: ChunkResult, *, tokens: int, documents: int) -> None:
        """Add the result of a chunk to the totals, and report progress."""
        self.totals.tokens += tokens
        self.totals.documents += documents
        self.totals.bytes += result.n_bytes
        self.totals.read += result.n_read
        self.totals.skipped += result.skipped
        self.text_sha256 = chain_checksum(self.text_sha256, result.checksum)
        self._unsaved += max(result.n_read, result.n_bytes)  # of compressed input, the text
        self._n_read += result.n_read
        report_details(self._report, tokens=self.totals.tokens, documents=self.totals.documents)
        self._report("encode", self._n_read, self._size, "bytes")

    def end_unit(self) -> bool:
        """Count a finished unit; return True if a checkpoint is due.

        It is not due after each of thousands of small units, since writing it takes a few milliseconds.
        """
        self.totals.units += 1
        due = self._unsaved >= self._checkpoint_bytes
        if due:
            self._unsaved = 0
        return due


def chain_checksum(sha256: str, checksum: bytes) -> str:
    """Return the hash of what was read from that of earlier chunks and the checksum of the next one."""
    return hashlib.sha256(sha256.encode() + checksum).hexdigest()


def size_of_units(units: Sequence[AnyUnit]) -> int | None:
    """Return the bytes of input of units, or None if that of one is unknown."""
    sizes = [unit.size for unit in units]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _map_units(units: Sequence[Any], job: Job, engine: Engine, chunker: AnyChunker) -> Generator[tuple[Any, Any], None, None]:
    """Yield each result of a chunk with its unit, and None after the last chunk of a unit."""
    marks: deque[tuple[Any, bool]] = deque()

    def chunks() -> Iterator[Any]:
        for unit in units:
            for chunk in chunker.chunks(unit.sources):
                marks.append((unit, True))
                yield chunk
            marks.append((unit, False))

    # The engine takes chunks ahead of the results.
    results: Any = engine.map_chunks(job, chunks())
    with closing(results):
        for result in results:
            while not marks[0][1]:
                yield marks.popleft()[0], None
            yield marks.popleft()[0], result
            while marks and not marks[0][1]:
                yield marks.popleft()[0], None
    while marks:
        yield marks.popleft()[0], None
