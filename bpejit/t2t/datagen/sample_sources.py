"""Divide the inputs of samples into units and chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import ChunkReader
from bpejit.corpus.contents import Contents
from bpejit.corpus.input_streams import read_bytes, read_range
from bpejit.corpus.json_lines import JsonLines
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
    read_documents,
    read_line_ranges,
    read_lines_in_memory,
    read_texts,
)
from bpejit.t2t.subword_files import strip_lines

LINE_BREAK = 0x0A

_SCAN_BYTES = 1 << 22
"""Bytes that are read at a time to count lines."""


Chunks = Callable[[], Iterator[SampleChunk]]
"""Yields the chunks of a unit, in order: one of the functions below with its arguments, which can be pickled."""


@dataclass(frozen=True)
class SampleInputs:
    """The inputs of a split.

    Parameters
    ----------
    layout : Layout
    paths : tuple of list of str
        The inputs of each feature, or one list of inputs that contain all features.
    file_byte_budget : int
        Size of the sample of each input for building a vocabulary; by default the published one.
    """

    layout: Layout
    paths: tuple[list[str], ...]
    file_byte_budget: int = 1_000_000

    def sources(self) -> list[tuple[Source, ...]]:
        """Return the sources of adjacent samples: one for each feature, or one that contains all features.

        Raises
        ------
        CorpusError
            If an input cannot be read, or the features have different numbers of inputs.
        """
        layout = self.layout
        names = ("text_field", "text_column") if layout.fields else ()
        field: dict[str, Any] = dict.fromkeys(names, *layout.fields[:1])
        contents = Contents(strip_bom=True, documents="line", **field)
        found = [find_sources(paths, contents) for paths in self.paths]
        if len({len(some) for some in found}) > 1:
            counts = ", ".join(f"{len(some)} of `{name}`" for name, some in zip(layout.names, found, strict=True))
            raise CorpusError(
                f"the numbers of inputs differ: {counts}; expected as many of each, since they are paired in order: list the "
                "missing ones"
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


def stream_chunks(layout: Layout, source: Source) -> Iterator[SampleChunk]:
    """Yield the lines of an input that is read from its start to its end."""
    with source.open_stream() as stream:
        chunks: Iterator[Any] = load_format(TEXT).stream_chunks(stream, source, layout.chunk_bytes)
        for chunk in chunks:
            read = partial(read_lines_in_memory, layout, chunk.data, source.path, chunk.first_line)
            yield SampleChunk(read, chunk.n_read, chunk.data)


def record_chunks(layout: Layout, source: Source) -> Iterator[SampleChunk]:
    """Yield rows of Parquet or Arrow with a single text."""
    with _naming_keys():
        for chunk in source.record_chunks(layout.chunk_bytes):
            n_read = int(getattr(chunk, "n_read", 0) or 0)
            yield SampleChunk(partial(read_documents, layout, chunk, source.path), n_read, getattr(chunk, "data", None))


def joined_chunks(layout: Layout, sources: tuple[Source, ...]) -> Iterator[SampleChunk]:
    """Yield samples whose features are in several inputs of any kind, one for each feature, which are read in step.

    Raises
    ------
    CorpusError
        If an input has fewer texts than another one, or a record without a text.
    """
    streams = [_texts(source, layout) for source in sources]
    waiting: list[list[bytes]] = [[] for _ in streams]
    unit = _unit_name(sources[0])
    first = 1
    n_read = 0
    while True:
        for at, stream in enumerate(streams):
            while not waiting[at]:
                found = next(stream, None)
                if found is None:
                    break
                waiting[at] = found[0]
                n_read += found[1]
        count = min(map(len, waiting))
        if not count:
            break
        texts = {name: some[:count] for name, some in zip(layout.names, waiting, strict=True)}
        waiting = [some[count:] for some in waiting]
        read = partial(read_texts, layout, texts, {}, sources[0].path, unit, first)
        yield SampleChunk(read, n_read, texts)
        first += count
        n_read = 0
    for at, source in enumerate(sources):
        if waiting[at]:
            short = next(other for index, other in enumerate(sources) if not waiting[index])
            raise ends_early(short.path, source.path, first - 1, _unit_name(source))


def ends_early(short: str, longer: str, found: int, unit: str = "line", total: int | None = None) -> CorpusError:
    """Return the error for a side of pairs that ends before the other one."""
    more = f"and `{longer}` has {total:,} of them" if total is not None else f"and `{longer}` goes on"
    last = f"ends after {unit} {found:,}" if found else "is empty"
    return CorpusError(
        f"`{short}` {last}, {more}; expected as many in both, since {unit} n of one belongs to {unit} n of the other: compare "
        "the files, and complete the shorter one"
    )


def _unit_name(source: Source) -> str:
    return "line" if load_format(source.input_format).is_text else "row"


@contextmanager
def _naming_keys() -> Iterator[None]:
    """In errors about columns, name the keys of problems instead of arguments."""
    try:
        yield
    except CorpusError as cause:
        if "`text_column=`" not in str(cause):
            raise
        keys = "`records` and `inputs_field`, `targets_field` or `label_field`"
        raise CorpusError(str(cause).replace("`text_column=`", keys)) from cause


def _texts(source: Source, layout: Layout) -> Iterator[tuple[list[bytes], int]]:
    """Yield the texts of one feature, empty lines included, and the bytes read for each block."""
    reader = ChunkReader()
    with _naming_keys():
        for chunk in source.record_chunks(layout.chunk_bytes):
            block = chunk.read(reader)
            if block.skipped:
                raise CorpusError(
                    f"{block.skipped.first[0]}; expected a text in each, since texts are paired by their number: add the text, "
                    "or remove the record and the text that it is paired with"
                )
            texts = block.documents()
            yield lines_of(strip_lines(b"\n".join([*texts, b""]))) if source.input_format == TEXT else texts, block.n_read


def _line_cuts(source: Source, chunk_bytes: int) -> list[int]:
    """Return positions in a file at the ends of lines, about `chunk_bytes` apart."""
    return [source.start, *(stop for _, stop, _ in load_format(TEXT).ranges(source, chunk_bytes))]


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


def _plan_sources(sources: tuple[Source, ...], layout: Layout, unit_bytes: int) -> Iterator[tuple[Chunks, int | None]]:
    """Yield the chunks and the size of each unit of some samples, whose features are in one source or in one each."""
    first = sources[0]
    is_json = isinstance(load_format(first.input_format), JsonLines)
    if len(sources) > 1:
        if all(source.input_format == TEXT and not source.is_stream for source in sources):
            paths = tuple(source.path for source in sources)
            yield from _plan_ranges(layout, paths, unit_bytes, pair_lines(sources, layout.chunk_bytes))
        else:
            yield partial(joined_chunks, layout, sources), sum(source.length or 0 for source in sources)
    elif layout.form == TABBED and first.input_format != TEXT:
        raise CorpusError(
            f"the input `{first.path}` has the format {first.input_format}; expected lines with tabs for `tabbed`: name it in "
            "`records` instead"
        )
    elif first.input_format != TEXT and not is_json:
        with _naming_keys():
            yield from _plan_records(first, layout, unit_bytes)
    elif first.is_stream:
        yield partial(stream_chunks, layout, first), first.length
    elif is_json == (layout.form == RECORDS) or layout.form == LINES:
        yield from _plan_ranges(layout, (first.path,), unit_bytes, [(cut,) for cut in _line_cuts(first, layout.chunk_bytes)])
    else:
        raise CorpusError(
            f"the input `{first.path}` contains plain text; expected JSON lines, Parquet or Arrow for `records`: name it in "
            "`tabbed`, or in the key of its feature"
        )


def _plan_records(source: Source, layout: Layout, unit_bytes: int) -> Iterator[tuple[Chunks, int | None]]:
    if len(layout.names) > 1:
        both = [replace(source, options=replace(source.options, text_column=name)) for name in layout.fields]
        for one in both if not source.is_stream else ():
            list(load_format(one.input_format).ranges(one, 1 << 62))  # checks the column before anything is written
        yield partial(joined_chunks, layout, tuple(both)), source.length
    elif source.is_stream:
        yield partial(record_chunks, layout, source), source.length
    else:
        for begin, stop, n_bytes in load_format(source.input_format).ranges(source, unit_bytes):
            some = replace(source, start=begin, stop=stop, range_bytes=n_bytes)
            yield partial(record_chunks, layout, some), n_bytes


def _plan_ranges(
    layout: Layout, paths: tuple[str, ...], unit_bytes: int, cuts: list[tuple[int, ...]]
) -> Iterator[tuple[Chunks, int]]:
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
    columns = [_line_cuts(first, chunk_bytes)]
    chunks = (read_range(first.path, start, stop - start) for start, stop in pairwise(columns[0]))
    numbers = np.cumsum([0, *(_line_ends(data).size + (data[-1:] != b"\n") for data in chunks)])  # of lines before each cut
    for other in sources[1:]:
        found, n_lines, position, last = [other.start], 0, other.start, b"\n"
        with other.open() as file:
            while data := read_bytes(file, other.path, min(_SCAN_BYTES, (other.size or 0) - position), partly=True):
                ends = position + _line_ends(data) + 1
                stop = np.searchsorted(numbers, n_lines + ends.size, side="right")
                found += ends[numbers[len(found) : stop] - n_lines - 1].tolist()
                n_lines, position, last = n_lines + ends.size, position + len(data), data[-1:]
        counts = int(numbers[-1]), n_lines + (last != b"\n")
        if counts[0] != counts[1]:
            short, longer = (other, first) if counts[1] < counts[0] else (first, other)
            raise ends_early(short.path, longer.path, min(counts), total=max(counts))
        columns.append([*found[: numbers.size - 1], position])
    return list(zip(*columns, strict=True))


def _line_ends(data: bytes) -> Array:
    """Return the positions of line breaks, as int64."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == LINE_BREAK)
