"""The engine job that counts pre-tokens."""

from __future__ import annotations

from dataclasses import dataclass

from bpejit.arrays import PretokenTable
from bpejit.corpus.chunks import Chunk, ChunkReader
from bpejit.splitting import Pattern, Splitter
from bpejit.training.counting import PretokenCounter


@dataclass(frozen=True)
class CountJob:
    """Job that counts pre-tokens. The result of a worker is a `PretokenTable`, in no order.

    Parameters
    ----------
    pattern : str or tuple of str
        Name of a preset, a regular expression, or a sequence of these.
    special_tokens : tuple of bytes
        Texts that are not counted, and that separate pre-tokens.
    normalize_newlines : bool
        Convert CR LF and CR to LF before splitting.
    unicode : str, optional
        The version of Unicode (see `bpejit.splitting.compile_pattern`).
    """

    pattern: Pattern
    special_tokens: tuple[bytes, ...]
    normalize_newlines: bool = False
    unicode: str | None = None

    def splitter(self) -> Splitter:
        """Return a splitter with the settings of the job."""
        return Splitter(self.pattern, self.special_tokens, unicode=self.unicode)

    def start(self) -> CountWorker:
        """Return a worker."""
        return CountWorker(self)


class CountWorker:
    """Worker that counts chunks into one table."""

    def __init__(self, job: CountJob) -> None:
        self._splitter = job.splitter()
        self._reader = ChunkReader(normalize_newlines=job.normalize_newlines)
        self._counter = PretokenCounter()

    def run(self, chunk: Chunk) -> int:
        """Count one chunk. Return its size in bytes."""
        content = self._reader.read(chunk)
        self._counter.add_text(self._splitter, content.text, content.cut, content.stop, content.final)
        return chunk.cut - chunk.start

    def finish(self) -> PretokenTable:
        """Return the table of all chunks, in no order, and free the other memory."""
        table = self._counter.table(in_order=False)
        del self._counter, self._reader
        return table
