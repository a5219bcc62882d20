"""Divide sources into units: ranges that contain complete documents, where a job can be resumed or divided among machines.

The units depend on the sources, the size of a unit and the tokenizer only, never on the number of workers or on timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from bpejit.arrays import padded_text
from bpejit.corpus.chunks import CUT_WINDOW, Chunker
from bpejit.corpus.json_lines import line_ranges
from bpejit.corpus.registry import TEXT, load_format
from bpejit.corpus.sources import Source

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
        for stop in _borders(group, unit_bytes // _UNITS_OF_GROUP):
            some = tuple(group[begin:stop])
            number -= begin > 0
            add(first + begin, some, sum(source.length or 0 for source in some), begin == 0)
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
        if length is None:
            add(index, (source,), None)
            continue
        if source.is_stream:
            add(index, (source,), length)
            continue
        if source.input_format != TEXT or source.options.by_lines:
            ranges = line_ranges if source.input_format == TEXT else load_format(source.input_format).ranges
            for begin, stop, n_bytes in list(ranges(source, unit_bytes)) or [(source.start, source.start, 0)]:
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


def _borders(group: Sequence[Source], least: int) -> Iterator[int]:
    """Yield where the units of a group of small sources end: after compressed files of `least` bytes, and at its end."""
    size = 0
    for stop, source in enumerate(group, start=1):
        size += source.length or 0
        is_compressed = source.compression is not None or source.input_format not in (TEXT, "jsonl")
        if stop == len(group) or (is_compressed and size >= least):
            yield stop
            size = 0


def _ranges(source: Source, unit_bytes: int, chunker: Chunker, separator: bytes | None) -> Iterable[tuple[int, int, bool]]:
    """Yield begin and end of each range of a file, and whether a document ends with it."""
    size = source.size or 0
    begin = source.start
    if begin >= size:
        yield begin, size, True
    with source.open() as file:
        while begin < size:
            stop, ends_document = size, True
            position = begin + unit_bytes
            fallback = -1
            ahead = chunker.ahead
            window = CUT_WINDOW
            while position < min(size, begin + 2 * unit_bytes):
                before = min(2 * ahead, position - begin)
                file.seek(position - before)
                data = file.read(before + window + 2 * ahead)
                cut = -1 if separator is None else _after_separator(data, before, before + window, chunker, separator)
                if cut >= 0:
                    stop = position - before + cut
                    break
                if fallback < 0:
                    found = chunker.find_cut(data, before, min(before + window, len(data)))
                    fallback = position - before + found if found >= 0 else -1
                    if separator is None and found >= 0:
                        stop, ends_document = fallback, False
                        break
                position += window
                window *= 2
            else:
                if fallback >= 0 and size - begin > 2 * unit_bytes:
                    stop, ends_document = fallback, False
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
