"""The jobs that engines run: count the pre-tokens of chunks, encode chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array, PretokenTable
from bpejit.budget import get_encoding_cache_budget, set_encoding_cache_budget
from bpejit.corpus.chunks import Chunk, ChunkReader
from bpejit.counting import PretokenCounter
from bpejit.encoding import Encoder
from bpejit.model import Model
from bpejit.split import Pattern, Splitter


@dataclass(frozen=True)
class CountJob:
    """Count pre-tokens; what a worker gathers is a `PretokenTable`, in no order.

    Parameters
    ----------
    pattern : str or tuple of str
        Name of a preset, a regular expression, or a sequence of these.
    special_tokens : tuple of bytes
        Cut out of the text.
    normalize_newlines : bool
        Turn CR LF and CR into LF before splitting.
    unicode : str, optional
        The version of Unicode (see `bpejit.split.compile_pattern`).
    """

    pattern: Pattern
    special_tokens: tuple[bytes, ...]
    normalize_newlines: bool = False
    unicode: str | None = None

    def splitter(self) -> Splitter:
        """Make the splitter that the job's chunks are cut and split with."""
        return Splitter(self.pattern, self.special_tokens, unicode=self.unicode)

    def start(self) -> CountWorker:
        """Make a worker."""
        return CountWorker(self)


class CountWorker:
    """Counts chunk after chunk into one table."""

    def __init__(self, job: CountJob) -> None:
        self._splitter = job.splitter()
        self._reader = ChunkReader(normalize_newlines=job.normalize_newlines)
        self._counter = PretokenCounter()

    def run(self, chunk: Chunk) -> int:
        """Count one chunk; return its size in bytes."""
        piece = self._reader.read(chunk)
        self._counter.add_text(self._splitter, piece.text, piece.cut, piece.stop, piece.final)
        return chunk.cut - chunk.start

    def finish(self) -> PretokenTable:
        """Return the table of all chunks, in no order, and let go of everything else."""
        table = self._counter.table(in_order=False)
        del self._counter, self._reader
        return table


@dataclass(frozen=True)
class EncodeJob:
    """Encode chunks; a worker's results are pairs of (bytes read, ids).

    Parameters
    ----------
    model : Model
    dtype : str
        `uint16` or `uint32`: that of the ids.
    encoder : Encoder, optional
        One that was made for the model, for workers of this process and those forked from it; it is not pickled.
    cache_bytes : int, optional
        The budget for caches of the process where the job was pickled, for the process where it is unpickled.
    """

    model: Model
    dtype: str
    encoder: Encoder | None = None
    cache_bytes: int | None = None

    def __reduce__(self) -> tuple[type[EncodeJob], tuple[Model, str, None, int]]:
        return EncodeJob, (self.model, self.dtype, None, get_encoding_cache_budget())

    def start(self) -> EncodeWorker:
        """Make a worker."""
        if self.cache_bytes is not None:
            set_encoding_cache_budget(self.cache_bytes)
        return EncodeWorker(self)


class EncodeWorker:
    """Encodes chunk after chunk with one cache."""

    def __init__(self, job: EncodeJob) -> None:
        self._encoder = job.encoder or Encoder(job.model)
        self._workspace = self._encoder.new_workspace()
        self._reader = ChunkReader()
        self._dtype = np.dtype(job.dtype).newbyteorder("<")

    def run(self, chunk: Chunk) -> tuple[int, Array]:
        """Encode one chunk."""
        piece = self._reader.read(chunk)
        ids = self._encoder.encode_chunk(piece.text, piece.cut, piece.stop, piece.final, self._workspace)
        return chunk.cut - chunk.start, ids.astype(self._dtype)

    def finish(self) -> None:
        """Encoding gathers nothing."""
