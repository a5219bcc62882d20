"""Divide sources into units, which contain complete documents, and take an even sample of a corpus.

A job can be resumed, or divided among machines, where a unit ends. Units and samples depend on the sources, the sizes, the
tokenizer and a seed only, never on the number of workers or on timing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import padded_text
from bpejit.corpus.base import find_line
from bpejit.corpus.blocks import AnyChunk, Block, ChunkReader
from bpejit.corpus.chunks import Chunk, Chunker
from bpejit.corpus.registry import load_format
from bpejit.corpus.sources import Source
from bpejit.errors import OptionError
from bpejit.jit.listening import working_time

SAMPLES = 16
"""Least number of chunks, if there are as many, that are processed to estimate the time of a job."""

_UNITS_OF_GROUP = 64
"""Most units of a group of small compressed files, the text of which may be much larger."""


class Unit(NamedTuple):
    """A range of one source, or several small sources.

    Parameters
    ----------
    number : int
        What is drawn for documents depends on it: the index of the unit, without those that share the number of the one before.
    first_source : int
        The index of its first source.
    sources : tuple of Source
        With `start` and `stop`.
    size : int, optional
        Bytes of input; None for a pipe.
    starts_document : bool
        False if the unit begins in the middle of a document, because the one before it has no border within its size, or if it
        shares the number of the one before it. A part of a job does not begin there.
    """

    number: int
    first_source: int
    sources: tuple[Source, ...]
    size: int | None
    starts_document: bool = True


def size_of_units(units: Sequence[Any]) -> int | None:
    """Return the bytes of input of units, or None if that of one is unknown."""
    sizes = [unit.size for unit in units]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def plan_units(
    sources: Sequence[Source], unit_bytes: int, chunker: Chunker, separator: bytes | None, *, grouped: bool = True
) -> list[Unit]:
    """Return the units of sources, in order.

    Parameters
    ----------
    sources : list of Source
    unit_bytes : int
        Target size of a unit.
    chunker : Chunker
        Finds positions where a text may be cut.
    separator : bytes, optional
        The special token that ends documents; None if only the end of a source does.
    grouped : bool
        Whether small sources may share a number, and a unit unless they are compressed.

    Raises
    ------
    CorpusError
        If a source cannot be read.
    """
    units: list[Unit] = []
    group: list[Source] = []
    size = number = 0
    first = 0

    def add(first: int, sources: tuple[Source, ...], size: int | None, starts_document: bool = True) -> None:
        nonlocal number
        units.append(Unit(number, first, sources, size, starts_document))
        number += 1

    def end_group() -> None:
        nonlocal size, number
        begin = 0
        for stop, n_bytes in _borders(group, unit_bytes // _UNITS_OF_GROUP):
            number -= begin > 0
            add(first + begin, tuple(group[begin:stop]), n_bytes, begin == 0)
            begin = stop
        group.clear()
        size = 0

    for index, source in enumerate(sources):
        length = source.length
        if length is not None and length < unit_bytes and grouped:
            if size + length > unit_bytes:
                end_group()
            if not group:
                first = index
            group.append(source)
            size += length
            continue
        end_group()
        if length is None or source.is_stream:
            add(index, (source,), length)
            continue
        if source.has_records:
            ranges = list(load_format(source.input_format).ranges(source, unit_bytes))
            for begin, stop, n_bytes in ranges or [(source.start, source.start, 0)]:
                part = replace(source, start=begin, stop=stop, range_bytes=n_bytes)
                add(index, (part,), n_bytes)
            continue
        if source.options.documents == "file":
            separator = None
        starts_document = True
        for begin, stop, ends_document in _ranges(source, unit_bytes, chunker, separator):
            part = replace(source, start=begin, stop=stop)
            add(index, (part,), stop - begin, starts_document)
            starts_document = ends_document
    end_group()
    return units


def _borders(group: Sequence[Source], least: int) -> Iterator[tuple[int, int]]:
    """Yield where each unit of a group of small sources ends, after compressed files of `least` bytes, and its bytes."""
    size = 0
    is_text = {name: load_format(name).is_text for name in {source.input_format for source in group}}
    for stop, source in enumerate(group, start=1):
        size += source.length or 0
        is_compressed = source.compression is not None or not is_text[source.input_format]
        if stop == len(group) or (is_compressed and size >= least):
            yield stop, size
            size = 0


def _ranges(source: Source, unit_bytes: int, chunker: Chunker, separator: bytes | None) -> Iterable[tuple[int, int, bool]]:
    """Yield begin and end of each range of a file, and whether a document ends with it."""
    size = source.size or 0
    begin = source.start
    if begin >= size:
        yield begin, size, True
    with source.open() as file:
        while begin < size:
            position = begin + unit_bytes
            limit = min(size, position + unit_bytes)
            stop = -1
            if separator is not None:
                find = partial(_after_separator, chunker=chunker, separator=separator)
                stop = chunker.search(file, begin, position, limit, find)
            ends_document = stop >= 0
            if stop < 0 and (separator is None or limit < size):
                stop = chunker.search(file, begin, position, limit, chunker.find_cut)
            if stop < 0:
                stop, ends_document = size, True
            yield begin, stop, ends_document
            begin = stop


def _after_separator(data: bytes, low: int, high: int, chunker: Chunker, separator: bytes) -> int:
    """Return the first position in `low:high` after a separator where the text may be cut, or -1."""
    text, stop = padded_text(data)
    found = data.find(separator, max(low - len(separator), 0))
    while found >= 0 and found + len(separator) < high:
        cut = found + len(separator)
        if cut >= low and chunker.splitter.ends_special(text, cut, stop):
            return cut
        found = data.find(separator, found + 1)
    return -1


PIECES = 1000
"""Number of pieces of a sample, as long as they are not too small or too large."""

LEAST_PIECE = 1 << 14

LARGEST_PIECE = 1 << 20

Ranges = list[tuple[float, float]]
"""Parts of a source, as fractions of its size, in order."""


def run_sample(worker: Any, units: Sequence[Any], chunker: Any) -> tuple[list[Any], float]:
    """Process the first chunks of a few units in this thread, to estimate the time of a job.

    Parameters
    ----------
    worker : Worker
        Of a job for an engine.
    units : sequence of Unit or SampleUnit
    chunker : Chunker or SampleChunker
        Divides their sources.

    Returns
    -------
    results : list
        Those of the chunks; none if the size of a unit is unknown, since a pipe can be read only once.
    seconds : float
        Time of one worker, without compiling.

    Raises
    ------
    CorpusError
    """
    results: list[Any] = []
    seconds = 0.0
    if any(unit.size is None for unit in units):
        return results, seconds
    each = -(-SAMPLES // max(len(units), 1))  # one chunk would not fill the caches of an encoder
    for unit in units[:: max(len(units) // SAMPLES, 1)][:SAMPLES]:
        for chunk in islice(chunker.chunks(unit.sources), each):
            before = working_time()
            results.append(worker.run(chunk))
            seconds += working_time() - before
    return results, seconds


def sample_chunks(chunker: Chunker, sources: Sequence[Source], max_bytes: int, seed: int, weight: int) -> Iterator[AnyChunk]:
    """Yield the chunks of an even sample of sources, in order; all chunks if the sources are not larger.

    The sources are divided into equal strata, one after the other, and a piece is taken at a random position of each. The
    sample does not depend on workers or engines. Its size is close to `max_bytes`, since pieces end where text may be cut.

    Parameters
    ----------
    chunker : Chunker
    sources : list of Source
    max_bytes : int
        Size of the sample, in bytes of text.
    seed : int
    weight : int
        The sample is taken from all sources, and the chunks of those with this weight are yielded.

    Raises
    ------
    OptionError
        If the size of a source is unknown, because it is a pipe or an iterator.
    """
    for source in sources:
        if source.length is None:
            raise OptionError(
                f"max_bytes cannot sample `{source.path}`, whose size is unknown; expected files: write it to a file, or "
                "sample it before"
            )
    sizes = [_text_size(source) for source in sources]
    total = sum(sizes)
    if total <= max_bytes:
        yield from chunker.chunks(source for source in sources if source.weight == weight)
        return
    piece = min(max(max_bytes // PIECES, min(LEAST_PIECE, max_bytes)), LARGEST_PIECE)
    stratum = total / (max_bytes // piece)
    chosen = random.Random(seed)
    starts = [number * stratum + chosen.random() * (stratum - piece) for number in range(max_bytes // piece)]
    yield from _sampled(chunker, sources, sizes, starts, piece, weight)


def _sampled(
    chunker: Chunker, sources: Sequence[Source], sizes: list[int], starts: list[float], piece: int, weight: int
) -> Iterator[AnyChunk]:
    small = Chunker(
        chunker.splitter, chunk_bytes=piece, normalize_newlines=chunker.normalize_newlines, group_files=chunker.group_files
    )
    begin = 0
    first = 0
    for source, size in zip(sources, sizes, strict=True):
        end = begin + size
        while first < len(starts) and starts[first] + piece <= begin:
            first += 1
        ranges: Ranges = []
        number = first
        while size and number < len(starts) and starts[number] < end:
            low = starts[number] - begin
            ranges.append((max(low, 0) / size, min(low + piece, size) / size))
            number += 1
        begin = end
        if not ranges or source.weight != weight:
            continue
        is_text = load_format(source.input_format).is_text
        if source.is_stream or not is_text:
            # What has been read of a compressed file is not known precisely enough.
            of_text = source.compression is not None and is_text
            total = size if of_text else source.size or 0
            yield from _sampled_chunks(small.chunks([source]), total, ranges, of_text=of_text)
        else:
            yield from small.chunks(_sampled_ranges(chunker, source, ranges))


def _text_size(source: Source) -> int:
    """Return the size of the text of a source, estimated from its start if it is compressed."""
    size = source.length or 0
    if source.compression is not None:
        with source.open_stream() as stream:
            n_bytes = sum(len(stream.read_fully(1 << 18)) for _ in range(8))
            if stream.n_raw >= size:
                return n_bytes
            return int(size * n_bytes / max(stream.n_raw, 1))
    return int(load_format(source.input_format).text_size(source))


def _sampled_ranges(chunker: Chunker, source: Source, ranges: Ranges) -> Iterator[Source]:
    """Yield the parts of a file as sources, between positions where it may be cut."""
    size = source.size or 0
    length = source.length or 0
    lines = source.has_records
    with source.open() as file:

        def cut(fraction: float) -> int:
            position = source.start + int(length * fraction)
            if position <= source.start or position >= size:
                return min(max(position, source.start), size)
            return find_line(file, position, size) if lines else chunker.next_cut(file, source.start, position, size)

        done = source.start
        owed = 0.0
        for low, high in ranges:
            start = max(cut(low), done)
            stop = cut(high)
            if lines and high < 1:
                # Records may be as long as the ranges: what one has too many or too few bytes, the next one makes up for.
                owed += length * (high - low)
                stop = find_line(file, min(int(start + owed), size), size) if owed > 0 else start
                owed -= stop - start
            if start < stop:
                # A file that is taken completely is read together with others if it is small.
                yield source if (start, stop) == (source.start, size) else replace(source, start=start, stop=stop, kept=None)
                done = stop


def _sampled_chunks(chunks: Iterator[Any], size: int, ranges: Ranges, *, of_text: bool) -> Iterator[AnyChunk]:
    """Yield the chunks, or the parts of them, that are in some of the ranges.

    Parameters
    ----------
    chunks : iterator of AnyChunk
    size : int
        Of the text, or of the file.
    ranges : list of (float, float)
    of_text : bool
        Whether the size is that of the text.
    """
    read = 0
    for chunk in chunks:
        low = read / max(size, 1)
        if isinstance(chunk, Chunk):
            read += chunk.cut - chunk.start
        else:
            read += len(chunk.data) if of_text else chunk.n_read
        high = read / max(size, 1)
        while ranges and ranges[0][1] <= low:
            ranges = ranges[1:]
        if not ranges:
            return
        if isinstance(chunk, Chunk):
            # Its documents are not known before it is encoded.
            if any(start <= (low + high) / 2 < stop for start, stop in ranges):
                yield chunk
            continue
        span = max(high - low, 1e-300)
        inside = [
            (max(start - low, 0) / span, min(stop - low, span) / span) for start, stop in ranges if start < high and stop > low
        ]
        if inside:
            yield SampledChunk(chunk, tuple(inside))


@dataclass(frozen=True)
class SampledChunk:
    """Some documents of a chunk.

    Parameters
    ----------
    chunk : AnyChunk
    ranges : tuple of (float, float)
        The documents that start in these parts of its text, as fractions of its size.
    """

    chunk: AnyChunk
    ranges: tuple[tuple[float, float], ...]

    @property
    def data(self) -> object:
        """What the chunk carries."""
        return getattr(self.chunk, "data", None)

    def read(self, reader: ChunkReader) -> Block:
        """Return the documents in the buffer of a reader."""
        block = self.chunk.read(reader)
        ends = block.ends
        if ends is None or not ends.size:
            return block
        lengths = np.diff(ends, prepend=0)
        starts = ends - lengths
        kept = np.zeros(ends.size, np.bool_)
        for low, high in self.ranges:
            first, stop = np.searchsorted(starts, np.ceil([low * block.cut, high * block.cut]))
            kept[first:stop] = True
        taken = block.text[: block.cut][np.repeat(kept, lengths)]
        size = taken.size
        block.text[:size] = taken
        stops = np.cumsum(lengths[kept])
        return block._replace(cut=size, stop=size, ends=stops, n_bytes=size)
