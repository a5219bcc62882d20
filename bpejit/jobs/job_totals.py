"""What jobs count and time, what they need of units, chunks and results, and the time that is expected from a sample."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped, SkippedRecord
from bpejit.jit.listening import working_time

if TYPE_CHECKING:
    from typing_extensions import Self


SAMPLES = 16
"""Least number of chunks, if there are as many, that are processed to estimate the time of a job."""


class _Amounts:
    """Amounts that are added field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass
class Totals(_Amounts):
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

    @classmethod
    def of_manifest(cls, fields: Mapping[str, Any], *, tokens: str = "tokens", documents: str = "documents") -> Totals | None:
        """Return the totals in the manifest of a complete job; None if it is broken. The keywords are the names of fields."""
        try:
            return cls(
                tokens=int(fields[tokens]),
                documents=int(fields[documents]),
                bytes=int(fields["bytes_read"]),
                skipped=Skipped(int(fields["skipped"])),
            )
        except (KeyError, TypeError, ValueError):
            return None


@dataclass
class Seconds(_Amounts):
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


def chain_checksum(sha256: str, checksum: bytes) -> str:
    """Return the hash of what was read from that of earlier chunks and the checksum of the next one."""
    return hashlib.sha256(sha256.encode() + checksum).hexdigest()


def size_of_units(units: Sequence[AnyUnit]) -> int | None:
    """Return the bytes of input of units, or None if that of one is unknown."""
    sizes = [unit.size for unit in units]
    return None if None in sizes else sum(size for size in sizes if size is not None)


class SampledRun(NamedTuple):
    """What a worker did with a sample.

    Parameters
    ----------
    results : list
        Those of the chunks.
    n_read : int
        Bytes of input.
    seconds : float
        Time of one worker, without compiling.
    """

    results: list[Any]
    n_read: int
    seconds: float

    def expect(self, size: int, workers: int) -> tuple[float, float]:
        """Return the size of an input relative to the sample, and the expected seconds for it.

        Parameters
        ----------
        size : int
            Bytes of input.
        workers : int
            Number of chunks that are processed at the same time.
        """
        share = size / self.n_read if self.n_read else 0.0
        return share, self.seconds * share / workers


def run_sample(worker: Any, units: Sequence[Any], chunker: Any) -> SampledRun:
    """Process the first chunks of a few units in this thread.

    Parameters
    ----------
    worker : Worker
        Of a job for an engine. Its results have the attribute `n_read`.
    units : sequence of Unit or SampleUnit
    chunker : Chunker or SampleChunker
        Divides their sources.

    Returns
    -------
    SampledRun
        Without results if the size of a unit is unknown, since a pipe can be read only once.

    Raises
    ------
    CorpusError
    """
    results: list[Any] = []
    if any(unit.size is None for unit in units):
        return SampledRun(results, 0, 0.0)
    seconds = 0.0
    each = -(-SAMPLES // max(len(units), 1))  # one chunk would not fill the caches of an encoder
    for unit in units[:: max(len(units) // SAMPLES, 1)][:SAMPLES]:
        for chunk in islice(chunker.chunks(unit.sources), each):
            before = working_time()
            results.append(worker.run(chunk))
            seconds += working_time() - before
    return SampledRun(results, sum(result.n_read for result in results), seconds)
