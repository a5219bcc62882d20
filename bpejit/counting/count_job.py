"""The engine job that counts pre-tokens, and the parts into which counting is divided among machines."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.corpus.blocks import MOST_SHOWN, NOTHING_SKIPPED, AnyChunk, Skipped
from bpejit.corpus.chunks import CHUNK_BYTES, SMALL_FILE, Chunker, ChunkReader
from bpejit.corpus.reading_options import UNIT_BYTES
from bpejit.corpus.registry import TEXT
from bpejit.corpus.sources import Source
from bpejit.corpus.units import plan_units
from bpejit.counting.header import CountSettings
from bpejit.counting.pretoken_counter import PretokenCounter
from bpejit.counting.spilling import Run, SpillingCounter, SpillSettings
from bpejit.engines import Engine, make_engine
from bpejit.errors import OptionError, shorten
from bpejit.kernels.constants import POSITION_MASK
from bpejit.model import special_bytes
from bpejit.splitting import Splitter, compile_pattern
from bpejit.splitting.presets import Pattern, pattern_source

CHECKED_BYTES = 1 << 16
"""Size of the text of which each worker checks that sequences of words consist of words."""

_UNITS_OF_PART = 16
"""Units of each part, at least, if the inputs are large enough, so that parts have about the same size."""

_LEAST_UNIT = SMALL_FILE + 1
"""Small files are not divided."""


def part_of_sources(
    sources: Sequence[Source], described: Sequence[Mapping[str, Any]], settings: CountSettings, part: tuple[int, int]
) -> tuple[list[Source], dict[str, Any]]:
    """Return the sources that a part consists of, and the record of the part for the header of its counts.

    Files are divided where any text may be cut, so the counts of all parts together are those of the whole. What identifies
    each source is `described` (see `describe_inputs`); a part is its number, from 0, and the number of parts.

    Raises
    ------
    OptionError
        If an input can be read only once.
    """
    for source in sources:
        if source.size is None:
            raise OptionError(
                f"shard is {part[0]}/{part[1]}, and the input `{source.path}` can be read only once; expected files, which "
                "every part divides in the same way: write it to a file first"
            )
    from bpejit.jobs.job_plan import slice_units

    total = sum(source.length or 0 for source in sources)
    unit_bytes = min(UNIT_BYTES, max(_LEAST_UNIT, total // (part[1] * _UNITS_OF_PART)))
    chunker = CountJob.of_settings(settings).chunker()
    # A document may continue in another part: pre-tokens do not cross the positions where a file is divided.
    units = [unit._replace(starts_document=True) for unit in plan_units(sources, unit_bytes, chunker, None)]
    found: list[Source] = []
    for unit in slice_units(units, part):
        for source in unit.sources:
            last = found[-1] if found else None
            if last is not None and (last.path, last.weight) == (source.path, source.weight) and last.stop == source.start:
                size = None if last.range_bytes is None else last.range_bytes + (source.range_bytes or 0)
                found[-1] = replace(last, stop=source.stop, range_bytes=size)
            else:
                found.append(source)
    plan = {"inputs": list(described), "unit_bytes": unit_bytes, "settings": settings.difference_key()}
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    return found, {"plan": digest[:32], "part": part[0], "parts": part[1]}


@dataclass(frozen=True)
class CountJob:
    """Job that counts pre-tokens. The result of a worker is a `PretokenCounter`, or a list of `Run`.

    A counter from another process arrives as a `PretokenTable` (see `bpejit.counting.pretoken_counter.add_up`).

    Parameters
    ----------
    settings : CountSettings
        With the regular expression of a preset, since another process may not know its name.
    spill : SpillSettings, optional
        Bounds the memory of a worker, which then writes its table to sorted runs on disk.
    weight : int
        The counts are multiplied by it.
    """

    settings: CountSettings
    spill: SpillSettings | None = None
    weight: int = 1

    @classmethod
    def of_settings(cls, settings: CountSettings) -> CountJob:
        """Return the job that counts with the given settings."""
        return cls(replace(settings, pattern=pattern_source(settings.pattern)))

    def engine(
        self, name: str, workers: int | None, input_bytes: int | None, sources: Sequence[Source], spills: bool
    ) -> Engine:
        """Return an engine for the job (see `make_engine`), which prefers threads if all sources are plain text.

        A pattern without an automaton holds the GIL, and reading records holds it for a part of the time. A table that is not
        spilled to disk would be copied between processes.
        """
        compiled = compile_pattern(self.settings.pattern, unicode=self.settings.unicode).kind != "regex"
        copied = not spills and all(source.input_format == TEXT for source in sources)
        return make_engine(name, workers, input_bytes=input_bytes, releases_gil=compiled, returns_arrays=copied)

    def splitter(self) -> Splitter:
        """Return a splitter with the settings of the job."""
        special_tokens = tuple(map(special_bytes, self.settings.special_tokens))
        return Splitter(self.settings.pattern, special_tokens, unicode=self.settings.unicode)

    def chunker(self, chunk_bytes: int = CHUNK_BYTES) -> Chunker:
        """Return what divides sources for the job."""
        return Chunker(self.splitter(), chunk_bytes=chunk_bytes, normalize_newlines=self.settings.normalize_newlines)

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


@dataclass
class Tally:
    """What has been counted so far.

    Parameters
    ----------
    sampled : bool
        Whether `done` is in bytes of text, since a sample is taken, and not in bytes of the input.
    n_bytes : int
        Bytes of text.
    done : int
        Bytes, for reports of progress.
    skipped : dict of str to Skipped
        Records without text, by their input.
    """

    sampled: bool
    n_bytes: int = 0
    done: int = 0
    skipped: dict[str, Skipped] = field(default_factory=dict)

    def add(self, chunk: CountedChunk) -> None:
        """Add a chunk."""
        self.n_bytes += chunk.n_bytes
        self.done += chunk.n_bytes if self.sampled else chunk.n_read
        if chunk.skipped:
            self.skip({chunk.skipped.first[0].path: chunk.skipped})

    def skip(self, others: Mapping[str, Skipped]) -> None:
        """Add skipped records by their input, of which the first in the input are kept: chunks arrive in any order."""
        for path, records in others.items():
            known = self.skipped.get(path, NOTHING_SKIPPED)
            first = sorted(
                known.first + records.first, key=lambda one: [int(number) for number in re.findall(r"\d+", one.place)]
            )
            self.skipped[path] = Skipped(known.count + records.count, tuple(first[:MOST_SHOWN]))


def describe_skipped(inputs: Sequence[Mapping[str, Any]], skipped: Mapping[str, Skipped]) -> list[dict[str, Any]]:
    """Return the descriptions of inputs with their skipped records."""
    described = [dict(entry) for entry in inputs]
    for entry in described:
        lost = skipped.get(entry["path"])
        if lost:
            entry |= {"skipped": lost.count, "first_skipped": [str(record) for record in lost.first]}
    return described


def check_runs(splitter: Splitter, words: Pattern, text: Array) -> None:
    """Check that a splitter divides no word with a letter of a text.

    Raises
    ------
    OptionError
    """
    text, n_bytes = padded_text(text)
    inner = Splitter(words, splitter.special_tokens, unicode=splitter.pattern.unicode)
    ends, borders = (np.append(0, one.split(text, n_bytes) & POSITION_MASK) for one in (inner, splitter))
    for after in np.searchsorted(ends, np.setdiff1d(borders, ends)):
        word = text[ends[after - 1] : ends[after]].tobytes()
        if any(map(str.isalpha, word.decode(errors="ignore"))):
            raise OptionError(
                f"the pattern {shorten(splitter.pattern.source)} of sequences of words divides the word {shorten(word)} of "
                "`pattern`; expected borders between words: give another `superword_pattern=`"
            )


class CountWorker:
    """Worker that counts chunks into one table."""

    def __init__(self, job: CountJob) -> None:
        self._splitter = job.splitter()
        self._plain_splitter = self._splitter
        if job.settings.special_tokens:
            self._plain_splitter = Splitter(self._splitter.pattern)
        self._unchecked = job.settings.words
        self._reader = ChunkReader(normalize_newlines=job.settings.normalize_newlines)
        self._counter = PretokenCounter() if job.spill is None else SpillingCounter(job.spill)
        self._counter.weight = job.weight

    def run(self, chunk: AnyChunk) -> CountedChunk:
        """Count one chunk."""
        block = chunk.read(self._reader)
        splitter = self._splitter if block.specials else self._plain_splitter
        if self._unchecked is not None and block.stops.size:
            check_runs(splitter, self._unchecked, block.text[: min(int(block.stops[-1]), CHECKED_BYTES)])
            self._unchecked = None
        self._counter.add_text(splitter, block.text, block.stops, block.cut, block.final)
        return CountedChunk(block.n_bytes, block.n_read, block.skipped)

    def finish(self) -> PretokenCounter | list[Run]:
        """Return the counter of all chunks, or the runs that it was written to."""
        if isinstance(self._counter, SpillingCounter):
            self._counter.spill()
            return self._counter.runs
        return self._counter
