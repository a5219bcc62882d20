"""The engine job that counts pre-tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bpejit.corpus.blocks import Skipped
from bpejit.corpus.chunk_reader import AnyChunk
from bpejit.corpus.chunks import ChunkReader
from bpejit.corpus.registry import TEXT
from bpejit.corpus.sources import Source
from bpejit.counts.header import CountSettings
from bpejit.counts.spilling import Run, SpillingCounter, SpillSettings
from bpejit.engines import make_engine
from bpejit.engines.base import Engine
from bpejit.model import special_bytes
from bpejit.splitting import Pattern, Splitter, compile_pattern
from bpejit.splitting.presets import pattern_source
from bpejit.training.counting import PretokenCounter


@dataclass(frozen=True)
class CountJob:
    """Job that counts pre-tokens. The result of a worker is a `PretokenCounter`, or a list of `Run`.

    A counter from another process arrives as a `PretokenTable` (see `bpejit.training.counting.add_up`).

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
    expected_bytes : int, optional
        Approximate size of the text for each worker, if known.
    """

    pattern: Pattern
    special_tokens: tuple[bytes, ...]
    normalize_newlines: bool = False
    unicode: str | None = None
    spill: SpillSettings | None = None
    weight: int = 1
    expected_bytes: int | None = None

    @classmethod
    def of_settings(cls, settings: CountSettings) -> CountJob:
        """Return the job that counts with the given settings."""
        return cls(
            pattern_source(settings.pattern),
            tuple(special_bytes(text) for text in settings.special_tokens),
            settings.normalize_newlines,
            settings.unicode,
        )

    def engine(
        self, name: str, workers: int | None, input_bytes: int | None, sources: Sequence[Source], spills: bool
    ) -> Engine:
        """Return an engine for the job (see `make_engine`), which prefers threads if all sources are plain text.

        A pattern without an automaton holds the GIL, and reading records holds it for a part of the time. A table that is not
        spilled to disk would be copied between processes.
        """
        compiled = compile_pattern(self.pattern, unicode=self.unicode).kind != "regex"
        copied = not spills and all(source.input_format == TEXT for source in sources)
        return make_engine(name, workers, input_bytes=input_bytes, releases_gil=compiled, returns_arrays=copied)

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
        self._counter = PretokenCounter(expected_bytes=job.expected_bytes) if job.spill is None else SpillingCounter(job.spill)
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

    def finish(self) -> PretokenCounter | list[Run]:
        """Return the counter of all chunks, or the runs that it was written to."""
        if isinstance(self._counter, SpillingCounter):
            self._counter.spill()
            return self._counter.runs
        return self._counter
