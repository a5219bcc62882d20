"""The job that engines run to encode text in chunks."""

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
        Type of the ids, `uint16` or `uint32`.
    encoder : Encoder, optional
        An encoder of the model, for workers in this process and in forked ones; it is not pickled.
    cache_bytes : int, optional
        Cache budget of the process that pickled the job, to be set in the process that unpickles it.
    """

    model: Model
    dtype: str
    encoder: Encoder | None = None
    cache_bytes: int | None = None

    def __reduce__(self) -> tuple[type[EncodeJob], tuple[Model, str, None, int]]:
        return EncodeJob, (self.model, self.dtype, None, get_encoding_cache_budget())

    def start(self) -> EncodeWorker:
        """Return a new worker."""
        if self.cache_bytes is not None:
            set_encoding_cache_budget(self.cache_bytes)
        return EncodeWorker(self)


class EncodeWorker:
    """Encode chunks with a single workspace."""

    def __init__(self, job: EncodeJob) -> None:
        self._encoder = job.encoder or Encoder(job.model)
        self._workspace = self._encoder.new_workspace()
        self._reader = ChunkReader()
        self._dtype = np.dtype(job.dtype).newbyteorder("<")

    def run(self, chunk: Chunk) -> tuple[int, Array]:
        """Encode one chunk; return the number of bytes read and the ids."""
        content = self._reader.read(chunk)
        ids = self._encoder.encode_chunk(content.text, content.cut, content.stop, content.final, self._workspace)
        return chunk.cut - chunk.start, ids.astype(self._dtype)

    def finish(self) -> None:
        """Return None: encoding has no combined result."""
