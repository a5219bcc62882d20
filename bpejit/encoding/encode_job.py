"""The job that engines run to encode text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.chunks import Chunk, ChunkReader
from bpejit.encoding.cache_budget import get_encoding_cache_budget, set_encoding_cache_budget
from bpejit.encoding.encoder import Encoder
from bpejit.model import Model


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
