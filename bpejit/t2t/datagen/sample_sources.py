"""Divide the inputs of samples into units and chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Protocol

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.chunk_reader import ChunkReader
from bpejit.corpus.json_lines import find_line
from bpejit.corpus.registry import TEXT, load_format
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError
from bpejit.t2t.datagen.sample_reading import (
    LINES,
    RECORDS,
    TABBED,
    Layout,
    LineRange,
    RangesChunk,
    RecordsChunk,
    SampleChunk,
    TextsChunk,
    unpaired,
)
from bpejit.t2t.datagen.texts_of_features import FeatureTexts, count_line_ends, line_ends, texts_from_documents

JSON_LINES = "jsonl"

_SCAN_BYTES = 1 << 22
"""Bytes that are read at a time to count lines."""

_PIECE_BYTES = 1 << 16
"""Bytes in which lines are counted before one of them is looked for."""


class SampleSource(Protocol):
    """Inputs of adjacent samples."""

    def chunks(self, layout: Layout) -> Iterator[SampleChunk]:
        """Yield the chunks, in order."""


@dataclass(frozen=True)
class SampleUnit:
    """Samples that a job finishes together.

    Parameters
    ----------
    number : int
        The index of the unit.
    split : int
        The index of the split.
    inputs : tuple of SampleSource
    layout : Layout
    size : int, optional
        Bytes of input; None if unknown.
    starts_document : bool
        True: a part of a job may begin here.
    """

    number: int
    split: int
    inputs: tuple[SampleSource, ...]
    layout: Layout
    size: int | None
    starts_document: bool = True

    @property
    def sources(self) -> tuple[SampleUnit, ...]:
        """The unit itself, for `SampleChunker`."""
        return (self,)


@dataclass(frozen=True)
class UnitChunk:
    """A chunk of a unit.

    Parameters
    ----------
    unit : int
    split : int
    index : int
        The index of the chunk in the unit.
    layout : Layout
    chunk : SampleChunk
    """

    unit: int
    split: int
    index: int
    layout: Layout
    chunk: SampleChunk

    @property
    def data(self) -> object:
        """What the chunk carries."""
        return self.chunk.data


class SampleChunker:
    """Yields the chunks of units, as `Chunker` does for units of text."""

    def chunks(self, units: Sequence[SampleUnit]) -> Iterator[UnitChunk]:
        """Yield the chunks of units, in order."""
        for unit in units:
            index = 0
            for source in unit.inputs:
                for chunk in source.chunks(unit.layout):
                    yield UnitChunk(unit.number, unit.split, index, unit.layout, chunk)
                    index += 1


@dataclass(frozen=True)
class RangesSource:
    """Ranges of plain text or JSON lines in files.

    Parameters
    ----------
    paths : tuple of str
    cuts : int64 [chunks + 1, paths]
        The positions in each file where the chunks begin and end.
    lines : int64 [chunks], optional
        The number of the first line of each chunk, from 1.
    """

    paths: tuple[str, ...]
    cuts: Array = field(compare=False)
    lines: Array | None = field(default=None, compare=False)

    def chunks(self, layout: Layout) -> Iterator[RangesChunk]:  # noqa: ARG002
        """Yield the chunks."""
        for index in range(len(self.cuts) - 1):
            starts, stops = self.cuts[index].tolist(), self.cuts[index + 1].tolist()
            first = None if self.lines is None else int(self.lines[index])
            ranges = tuple(
                LineRange(path, start, stop, first) for path, start, stop in zip(self.paths, starts, stops, strict=True)
            )
            yield RangesChunk(ranges, sum(stops) - sum(starts))


@dataclass(frozen=True)
class StreamSource:
    """Lines of an input that is read from its start to its end."""

    source: Source

    def chunks(self, layout: Layout) -> Iterator[RangesChunk]:
        """Yield the chunks, with the lines."""
        line = 1
        for data, n_read in _stream_blocks(self.source, layout.chunk_bytes):
            yield RangesChunk((LineRange(self.source.path, 0, 0, line, data),), n_read)
            line += data.count(b"\n")


@dataclass(frozen=True)
class RecordsSource:
    """Rows of Parquet or Arrow with a single text."""

    source: Source

    def chunks(self, layout: Layout) -> Iterator[RecordsChunk]:
        """Yield the chunks."""
        for chunk in _record_chunks(self.source, layout.chunk_bytes):
            yield RecordsChunk(chunk, self.source.path)


@dataclass(frozen=True)
class JoinedSource:
    """Samples whose features are in several inputs of any kind, which are read in step.

    Parameters
    ----------
    sources : tuple of Source
        One for each feature.
    """

    sources: tuple[Source, ...]

    def chunks(self, layout: Layout) -> Iterator[TextsChunk]:
        """Yield the chunks, with the texts.

        Raises
        ------
        CorpusError
            If an input has fewer texts than another one, or a record without a text.
        """
        streams = [_texts(source, layout) for source in self.sources]
        waiting: list[FeatureTexts] = [FeatureTexts(b"") for _ in streams]
        first = 1
        n_read = 0
        while True:
            for at, stream in enumerate(streams):
                while not len(waiting[at]):
                    found = next(stream, None)
                    if found is None:
                        break
                    waiting[at] = found[0]
                    n_read += found[1]
            count = min(map(len, waiting))
            if not count:
                break
            texts = {}
            for at, name in enumerate(layout.names):
                texts[name], waiting[at] = waiting[at].divide(count)
            yield TextsChunk(texts, self.sources[0].path, first, _unit_name(self.sources[0]), n_read=n_read)
            first += count
            n_read = 0
        for at, source in enumerate(self.sources):
            if len(waiting[at]):
                short = next(other for index, other in enumerate(self.sources) if not len(waiting[index]))
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
    return "line" if source.input_format in (TEXT, JSON_LINES) else "row"


def _stream_blocks(source: Source, chunk_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of an input that is read from its start to its end, in blocks, and the bytes read for each."""
    with source.open_stream() as stream:
        rest = b""
        n_raw = 0
        while data := stream.read_fully(max(chunk_bytes, len(rest))):
            data = rest + data
            cut = data.rfind(b"\n") + 1
            rest = data[cut:]
            if cut:
                yield data[:cut], stream.n_raw - n_raw
                n_raw = stream.n_raw
        if rest:
            yield rest, stream.n_raw - n_raw


def _record_chunks(source: Source, chunk_bytes: int) -> Iterator[Any]:
    with _naming_keys():
        if source.is_stream:
            with source.open_stream() as stream:
                yield from load_format(stream.input_format).stream_chunks(stream, source, chunk_bytes)
        else:
            yield from load_format(source.input_format).chunks(source, chunk_bytes)


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


def _texts(source: Source, layout: Layout) -> Iterator[tuple[FeatureTexts, int]]:
    """Yield the texts of one feature, and the bytes read for each block."""
    reader = ChunkReader()
    paired = replace(layout, names=("text",), paired=True)
    if source.input_format == TEXT:
        blocks = _blocks_of(source, layout)
        for data, n_read in blocks:
            # Not `read_samples`: empty lines count as well.
            found = RangesChunk((LineRange(source.path, 0, 0, 1, data),), n_read)
            yield found.read_lines(reader), n_read
    elif source.input_format == JSON_LINES:
        paired = replace(paired, form=RECORDS, fields=(source.options.text_field,))
        line = 1
        for data, n_read in _blocks_of(source, layout):
            chunk = RangesChunk((LineRange(source.path, 0, 0, line, data),), n_read)
            yield chunk.read_samples(reader, paired).texts["text"], n_read
            line += data.count(b"\n")
    else:
        for chunk in _record_chunks(source, layout.chunk_bytes):
            block = chunk.read(reader)
            if block.skipped:
                raise unpaired(block.skipped.first[0])
            if block.ends is not None:
                yield texts_from_documents(block.text[: block.cut].tobytes(), block.ends), block.n_read


def _blocks_of(source: Source, layout: Layout) -> Iterator[tuple[bytes, int]]:
    if source.is_stream:
        yield from _stream_blocks(source, layout.chunk_bytes)
        return
    reader = ChunkReader()
    for chunk in RangesSource((source.path,), _line_cuts(source, layout.chunk_bytes)).chunks(layout):
        yield chunk.ranges[0].read(reader), chunk.n_read


def _line_cuts(source: Source, chunk_bytes: int) -> Array:
    """Return positions in a file at the ends of lines, about `chunk_bytes` apart, as int64 [chunks + 1, 1]."""
    size = source.size or 0
    cuts = [source.start]
    with source.open() as file:
        while cuts[-1] < size:
            cuts.append(find_line(file, min(cuts[-1] + chunk_bytes, size), size))
    return np.array(cuts, dtype=np.int64)[:, None]


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
    units: list[SampleUnit] = []

    def add(sources: tuple[SampleSource, ...], size: int | None) -> None:
        units.append(SampleUnit(first + len(units), split, sources, layout, size))

    for sources in inputs:
        plan_sources(sources, layout, unit_bytes, add)
    return units


def plan_sources(
    sources: Sequence[Source], layout: Layout, unit_bytes: int, add: Callable[[tuple[SampleSource, ...], int | None], None]
) -> None:
    """Divide the inputs of some samples into units.

    Parameters
    ----------
    sources : list of Source
        One for each feature, or one that contains all of them.
    layout : Layout
    unit_bytes : int
    add : callable
        Called as `add(sources, size)` for each unit.

    Raises
    ------
    CorpusError
        If files that are paired line by line have different numbers of lines.
    """
    first = sources[0]
    plain = TEXT if layout.form != RECORDS else JSON_LINES
    sizes = [source.length for source in sources]
    size = None if None in sizes else sum(one for one in sizes if one is not None)
    if len(sources) > 1:
        if all(source.input_format == TEXT and not source.is_stream for source in sources):
            cuts, lines = pair_lines(sources, layout.chunk_bytes)
            _add_ranges(tuple(source.path for source in sources), cuts, lines, unit_bytes, add)
        else:
            add((JoinedSource(tuple(sources)),), size)
    elif layout.form == TABBED and first.input_format != TEXT:
        raise CorpusError(
            f"the input `{first.path}` has the format {first.input_format}; expected lines with tabs for `tabbed`: name it in "
            "`records` instead"
        )
    elif first.input_format not in (TEXT, JSON_LINES):
        with _naming_keys():
            _add_records(first, layout, unit_bytes, add)
    elif first.is_stream:
        add((StreamSource(first),), size)
    elif first.input_format == plain or layout.form == LINES:
        _add_ranges((first.path,), _line_cuts(first, layout.chunk_bytes), None, unit_bytes, add)
    else:
        raise CorpusError(
            f"the input `{first.path}` contains plain text; expected JSON lines, Parquet or Arrow for `records`: name it in "
            "`tabbed`, or in the key of its feature"
        )


def _add_records(source: Source, layout: Layout, unit_bytes: int, add: Callable[..., None]) -> None:
    if len(layout.names) > 1:
        both = [replace(source, options=replace(source.options, text_column=name)) for name in layout.fields]
        for one in both if not source.is_stream else ():
            list(load_format(one.input_format).ranges(one, 1 << 62))  # checks the column before anything is written
        add((JoinedSource(tuple(both)),), source.length)
    elif source.is_stream:
        add((RecordsSource(source),), source.length)
    else:
        for begin, stop, n_bytes in load_format(source.input_format).ranges(source, unit_bytes):
            add((RecordsSource(replace(source, start=begin, stop=stop, range_bytes=n_bytes)),), n_bytes)


def _add_ranges(paths: tuple[str, ...], cuts: Array, lines: Array | None, unit_bytes: int, add: Callable[..., None]) -> None:
    first = 0
    for index in range(1, len(cuts)):
        size = int(cuts[index].sum() - cuts[first].sum())
        if size >= unit_bytes or index == len(cuts) - 1:
            some = None if lines is None else lines[first:index]
            add((RangesSource(paths, cuts[first : index + 1], some),), size)
            first = index


def pair_lines(sources: Sequence[Source], chunk_bytes: int) -> tuple[Array, Array]:
    """Divide files at the same lines.

    Parameters
    ----------
    sources : list of Source
        Plain text. The first one determines where the chunks end.
    chunk_bytes : int
        Size of its chunks.

    Returns
    -------
    cuts : int64 [chunks + 1, sources]
    lines : int64 [chunks]
        The number of the first line of each chunk, from 1.

    Raises
    ------
    CorpusError
        If the files have different numbers of lines.
    """
    columns = [_line_cuts(sources[0], chunk_bytes)[:, 0]]
    with sources[0].open() as file:
        numbers, n_lines = _lines_before(file, sources[0], columns[0])
    for other in sources[1:]:
        with other.open() as file:
            found, n_found = _find_lines(file, other, numbers)
        if n_found != n_lines:
            short, longer = (other, sources[0]) if n_found < n_lines else (sources[0], other)
            raise ends_early(short.path, longer.path, min(n_found, n_lines), total=max(n_found, n_lines))
        columns.append(found)
    return np.stack(columns, axis=1), numbers[:-1] + 1


def _blocks(file: BinaryIO, source: Source) -> Iterator[tuple[int, bytes]]:
    position = source.start
    reader = ChunkReader()
    while data := reader.read_bytes(file, source.path, min(_SCAN_BYTES, (source.size or 0) - position), partly=True):
        yield position, data
        position += len(data)


def _lines_before(file: BinaryIO, source: Source, cuts: Array) -> tuple[Array, int]:
    """Return the number of lines that end before each position, int64 [cuts], and the number of lines."""
    found = np.zeros(cuts.size, dtype=np.int64)
    done = n_lines = 0
    last = b"\n"
    for position, data in _blocks(file, source):
        stop = int(np.searchsorted(cuts, position + len(data), side="right"))
        begin = 0
        for number in range(done, stop):
            end = int(cuts[number]) - position
            n_lines += count_line_ends(data, begin, end)
            found[number] = n_lines
            begin = end
        n_lines += count_line_ends(data, begin, len(data))
        done = stop
        last = data[-1:]
    n_lines += last != b"\n"
    found[-1] = n_lines
    return found, n_lines


def _find_lines(file: BinaryIO, source: Source, numbers: Array) -> tuple[Array, int]:
    """Return the positions where lines begin, int64 [numbers], and the number of lines.

    Parameters
    ----------
    file : binary file
    source : Source
    numbers : int64 [n]
        The number of lines before each, ascending; the last one is the end of the file.
    """
    found = np.full(numbers.size, source.start, dtype=np.int64)
    n_lines = 0
    last = b"\n"
    done = int(np.searchsorted(numbers, 0, side="right"))
    for position, data in _blocks(file, source):
        for begin in range(0, len(data), _PIECE_BYTES):
            piece = data[begin : begin + _PIECE_BYTES]
            n_ends = count_line_ends(piece, 0, len(piece))
            stop = int(np.searchsorted(numbers, n_lines + n_ends, side="right"))
            if stop > done:  # counting takes half the time of finding
                found[done:stop] = position + begin + line_ends(piece)[numbers[done:stop] - n_lines - 1] + 1
                done = stop
            n_lines += n_ends
        last = data[-1:]
    n_lines += last != b"\n"
    found[-1] = source.size or 0
    return found, n_lines
