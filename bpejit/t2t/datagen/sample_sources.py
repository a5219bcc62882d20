"""Divide the inputs of samples into units and chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_streams import read_bytes, read_range
from bpejit.corpus.registry import TEXT, load_format
from bpejit.corpus.sources import Source, find_sources
from bpejit.errors import CorpusError
from bpejit.t2t.datagen.sample_reading import (
    LINES,
    RECORDS,
    TABBED,
    Layout,
    SampleChunk,
    lines_of,
    read_line_ranges,
    read_lines_in_memory,
)

LINE_BREAK = 0x0A

_SCAN_BYTES = 1 << 22
"""Bytes that are read at a time to count lines."""


_EXPECTED = {
    LINES: (TEXT, "lines of text", "the key of a feature", "`records`"),
    TABBED: (TEXT, "lines with tabs", "`tabbed`", "`records`"),
    RECORDS: ("jsonl", "JSON lines", "`records`", "`tabbed` or the key of a feature"),
}
"""The format of inputs, what that is, the key of a problem that has them, and the keys of others."""

Chunks = Callable[[], Iterator[SampleChunk]]
"""Yields the chunks of a unit, in order: one of the functions below with its arguments, which can be pickled."""


def find_inputs(layout: Layout) -> list[tuple[Source, ...]]:
    """Return the sources of adjacent samples: one for each feature, or one that contains all features.

    Raises
    ------
    CorpusError
        If an input cannot be read or has another format, or the features have different numbers of inputs.
    """
    found = [find_sources(paths, Contents(strip_bom=True)) for paths in layout.paths]
    if len({len(some) for some in found}) > 1:
        counts = ", ".join(f"{len(some)} of `{name}`" for name, some in zip(layout.names, found, strict=True))
        raise CorpusError(
            f"the numbers of inputs differ: {counts}; expected as many of each, since they are paired in order: list the "
            "missing ones"
        )
    wanted, expected, key, other = _EXPECTED[layout.form]
    wrong = next((source for some in found for source in some if source.input_format != wanted), None)
    if wrong is not None:
        raise CorpusError(
            f"the input `{wrong.path}` has the format {wrong.input_format}; expected {expected} for {key}: name it in {other} "
            "instead, or convert it"
        )
    return list(zip(*found, strict=True))


@dataclass(frozen=True)
class SampleUnit:
    """Samples that a job finishes together.

    Parameters
    ----------
    number : int
        The index of the unit.
    split : int
        The index of the split.
    chunks : callable
        Yields its chunks, in order.
    size : int, optional
        Bytes of input; None if unknown.
    starts_document : bool
        True: a part of a job may begin here.
    """

    number: int
    split: int
    chunks: Chunks
    size: int | None
    starts_document: bool = True

    @property
    def sources(self) -> tuple[SampleUnit, ...]:
        """The unit itself, for `SampleChunker`."""
        return (self,)


class SampleChunker:
    """Yields the chunks of units, as `Chunker` does for units of text."""

    def chunks(self, units: Sequence[SampleUnit]) -> Iterator[SampleChunk]:
        """Yield the chunks of units, in order."""
        for unit in units:
            for index, chunk in enumerate(unit.chunks()):
                yield replace(chunk, unit=unit.number, split=unit.split, index=index)


def range_chunks(layout: Layout, paths: tuple[str, ...], cuts: list[tuple[int, ...]]) -> Iterator[SampleChunk]:
    """Yield ranges of plain text or JSON lines in files; `cuts` has the positions in each where the chunks begin and end."""
    for starts, stops in pairwise(cuts):
        yield SampleChunk(partial(read_line_ranges, layout, paths, starts, stops), sum(stops) - sum(starts))


def stream_chunks(layout: Layout, sources: tuple[Source, ...]) -> Iterator[SampleChunk]:
    """Yield the lines of one or several inputs that are read from their start to their end, of several in step.

    Raises
    ------
    CorpusError
        If an input has fewer lines than another one.
    """
    streams = [_stream_lines(source, layout.chunk_bytes) for source in sources]
    waiting: list[list[bytes]] = [[] for _ in streams]
    first, n_read = 1, 0
    while True:
        for at, stream in enumerate(streams):
            if not waiting[at]:
                waiting[at], n_bytes = next(stream, ([], 0))
                n_read += n_bytes
        count = min(map(len, waiting))
        if not count:
            break
        blocks = [b"\n".join(lines[:count]) + b"\n" for lines in waiting]
        yield SampleChunk(partial(read_lines_in_memory, layout, blocks, sources[0].path, first), n_read, blocks)
        waiting = [lines[count:] for lines in waiting]
        first, n_read = first + count, 0
    for source, stream, lines in zip(sources, streams, waiting, strict=True):
        if lines:
            short = sources[waiting.index([])]
            total = first - 1 + len(lines) + sum(len(some) for some, _ in stream)
            raise ends_early(short.path, source.path, first - 1, total)


def _stream_lines(source: Source, chunk_bytes: int) -> Iterator[tuple[list[bytes], int]]:
    """Yield the lines of an input in blocks, each with the number of bytes read for it."""
    with source.open_stream() as stream:
        chunks: Iterator[Any] = load_format(TEXT).stream_chunks(stream, source, chunk_bytes)
        for chunk in chunks:
            yield lines_of(chunk.data), chunk.n_read


def ends_early(short: str, longer: str, found: int, total: int) -> CorpusError:
    """Return the error for a side of pairs that ends before the other one."""
    last = f"ends after line {found:,}" if found else "is empty"
    return CorpusError(
        f"`{short}` {last}, and `{longer}` has {total:,} of them; expected as many in both, since line n of one belongs to "
        "line n of the other: compare the files, and complete the shorter one"
    )


def plan_inputs(
    inputs: Sequence[Sequence[Source]], layout: Layout, split: int, first: int, unit_bytes: int
) -> list[SampleUnit]:
    """Return the units of the inputs of a split.

    Parameters
    ----------
    inputs : list of lists of Source
        The inputs of adjacent samples: one for each feature, or one that contains all of them.
    layout : Layout
    split : int
        The index of the split.
    first : int
        The index of the first unit.
    unit_bytes : int

    Raises
    ------
    CorpusError
        If files that are paired line by line have different numbers of lines.
    """
    planned = (one for sources in inputs for one in _plan_sources(tuple(sources), layout, unit_bytes))
    return [SampleUnit(number, split, chunks, size) for number, (chunks, size) in enumerate(planned, first)]


def _plan_sources(sources: tuple[Source, ...], layout: Layout, unit_bytes: int) -> Iterator[tuple[Chunks, int]]:
    """Yield the chunks and the size of each unit of some samples, whose features are in one source or in one each."""
    if any(source.is_stream for source in sources):
        yield partial(stream_chunks, layout, sources), sum(source.length or 0 for source in sources)
        return
    paths = tuple(source.path for source in sources)
    cuts = pair_lines(sources, layout.chunk_bytes)
    first = 0
    for index in range(1, len(cuts)):
        size = sum(cuts[index]) - sum(cuts[first])
        if size >= unit_bytes or index == len(cuts) - 1:
            yield partial(range_chunks, layout, paths, cuts[first : index + 1]), size
            first = index


def pair_lines(sources: Sequence[Source], chunk_bytes: int) -> list[tuple[int, ...]]:
    """Return where the chunks of each of several files begin and end, at the same lines.

    Parameters
    ----------
    sources : list of Source
        Plain text. The first one determines where the chunks end.
    chunk_bytes : int
        Size of its chunks.

    Raises
    ------
    CorpusError
        If the files have different numbers of lines.
    """
    first = sources[0]
    ranges = load_format(TEXT).ranges(first, chunk_bytes)
    columns = [[first.start, *(stop for _, stop, _ in ranges)]]
    if len(sources) == 1:
        return [(cut,) for cut in columns[0]]
    counts = [0]
    for start, stop in pairwise(columns[0]):
        data = read_range(first.path, start, stop - start)
        counts.append(_line_ends(data).size + (data[-1:] != b"\n"))
    numbers = np.cumsum(counts)  # of lines before each cut
    for other in sources[1:]:
        found, n_lines, position, last = [other.start], 0, other.start, b"\n"
        with other.open() as file:
            while data := read_bytes(file, other.path, min(_SCAN_BYTES, (other.size or 0) - position), partly=True):
                ends = position + _line_ends(data) + 1
                stop = np.searchsorted(numbers, n_lines + ends.size, side="right")
                found += ends[numbers[len(found) : stop] - n_lines - 1].tolist()
                n_lines, position, last = n_lines + ends.size, position + len(data), data[-1:]
        wanted = int(numbers[-1])
        n_lines += last != b"\n"
        if n_lines < wanted:
            raise ends_early(other.path, first.path, n_lines, wanted)
        if n_lines > wanted:
            raise ends_early(first.path, other.path, wanted, n_lines)
        columns.append([*found[: numbers.size - 1], position])
    return list(zip(*columns, strict=True))


def _line_ends(data: bytes) -> Array:
    """Return the positions of line breaks, as int64."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == LINE_BREAK)
