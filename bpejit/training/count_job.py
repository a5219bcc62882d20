"""The job that engines run to count pre-tokens."""

from __future__ import annotations

from dataclasses import dataclass

from bpejit.arrays import PretokenTable
from bpejit.corpus.chunks import Chunk, ChunkReader
from bpejit.splitting import Pattern, Splitter
from bpejit.training.counting import PretokenCounter


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
        The version of Unicode (see `bpejit.splitting.compile_pattern`).
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
