"""The engine job that counts pre-tokens."""

from __future__ import annotations

from dataclasses import dataclass

from bpejit.arrays import PretokenTable
from bpejit.corpus.blocks import Skipped
from bpejit.corpus.chunk_reader import AnyChunk
from bpejit.corpus.chunks import ChunkReader
from bpejit.counts.spilling import Run, SpillingCounter, SpillSettings
from bpejit.splitting import Pattern, Splitter
from bpejit.training.counting import PretokenCounter


@dataclass(frozen=True)
class CountJob:
    """Job that counts pre-tokens. The result of a worker is a `PretokenTable`, in no order, or a list of `Run`.

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
    spill : SpillSettings, optional
        Bounds the memory of a worker, which then writes its table to sorted runs on disk.
    weight : int
        The counts are multiplied by it.
    """

    pattern: Pattern
    special_tokens: tuple[bytes, ...]
    normalize_newlines: bool = False
    unicode: str | None = None
    spill: SpillSettings | None = None
    weight: int = 1

    def splitter(self) -> Splitter:
        """Return a splitter with the settings of the job."""
        return Splitter(self.pattern, self.special_tokens, unicode=self.unicode)

    def start(self) -> CountWorker:
        """Return a worker."""
        return CountWorker(self)


@dataclass(frozen=True)
class CountedChunk:
    """What a worker reports of a chunk that it has counted.

    Parameters
    ----------
    n_bytes : int
        Bytes of text.
    n_read : int
        Bytes of the input (see `Block`).
    skipped : Skipped
        Records without text.
    """

    n_bytes: int
    n_read: int
    skipped: Skipped


class CountWorker:
    """Worker that counts chunks into one table."""

    def __init__(self, job: CountJob) -> None:
        self._splitter = job.splitter()
        self._plain_splitter = self._splitter
        if job.special_tokens:
            self._plain_splitter = Splitter(self._splitter.pattern)
        self._reader = ChunkReader(normalize_newlines=job.normalize_newlines)
        self._counter = PretokenCounter() if job.spill is None else SpillingCounter(job.spill)
        self._counter.weight = job.weight

    def run(self, chunk: AnyChunk) -> CountedChunk:
        """Count one chunk."""
        block = self._reader.read(chunk)
        splitter = self._splitter if block.specials else self._plain_splitter
        if block.ends is None:
            self._counter.add_text(splitter, block.text, block.cut, block.stop, block.final)
        else:
            self._counter.add_documents(splitter, block.text, block.ends)
        return CountedChunk(block.n_bytes, block.n_read, block.skipped)

    def finish(self) -> PretokenTable | list[Run]:
        """Return the table of all chunks, in no order, or the runs that it was written to, and free the other memory."""
        if isinstance(self._counter, SpillingCounter):
            self._counter.spill()
            return self._counter.runs
        table = self._counter.table(in_order=False)
        del self._counter, self._reader
        return table
