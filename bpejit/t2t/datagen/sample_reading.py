"""Read samples in workers: chunks of lines, of fields in lines, of records and of texts in memory.

The texts of one feature of many samples are lines: bytes without a Python object for each text.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

from bpejit.arrays import Array, lengths_of, ranges_of, starts_of
from bpejit.corpus.blocks import MOST_SHOWN, NOTHING_SKIPPED, AnyChunk, Block, ChunkReader, Skipped, SkippedRecord
from bpejit.corpus.input_streams import read_range
from bpejit.corpus.json_lines import describe_record, find_parser
from bpejit.corpus.kept_columns import look_up
from bpejit.errors import CorpusError
from bpejit.t2t.example_arrays import Examples, Lists
from bpejit.t2t.subword_files import strip_lines

LINE_BREAK, TAB = 0x0A, 0x09


@dataclass(frozen=True)
class FeatureTexts:
    """Texts, in order.

    Parameters
    ----------
    lines : bytes
        Each text, followed by a line break.
    ends : int64 [texts]
        The positions of these line breaks.
    """

    lines: bytes
    ends: Array

    def __len__(self) -> int:
        return int(self.ends.size)

    @property
    def are_lines(self) -> bool:
        """Whether no text contains a line break."""
        # `bytes.count` takes four to six times as long.
        return int(np.count_nonzero(np.frombuffer(self.lines, np.uint8) == LINE_BREAK)) == len(self)

    def texts(self) -> list[bytes]:
        """Return the texts as a list."""
        found = self.lines.split(b"\n")[:-1]
        if len(found) == len(self):
            return found
        ends = [-1, *self.ends.tolist()]
        return [self.lines[before + 1 : end] for before, end in pairwise(ends)]

    def adjacent(self) -> tuple[bytes, Array]:
        """Return the texts without line breaks between them, and the end of each, as int64 [texts]."""
        ends = self.ends
        data = self.lines.replace(b"\n", b"")
        if len(data) + len(self) != len(self.lines):
            data = np.delete(np.frombuffer(self.lines, np.uint8), ends).tobytes()
        return data, ends - np.arange(ends.size)

    def is_empty(self) -> Array:
        """Return which texts are empty, as bool [texts]."""
        found: Array = np.diff(self.ends, prepend=-1) == 1
        return found

    def select(self, chosen: Array) -> FeatureTexts:
        """Return some of the texts: those for which `chosen`, bool [texts], is true."""
        lengths = np.diff(self.ends, prepend=-1)
        lines = np.frombuffer(self.lines, np.uint8)[np.repeat(chosen, lengths)].tobytes()
        return FeatureTexts(lines, np.cumsum(lengths[chosen]) - 1)

    def divide(self, count: int) -> tuple[FeatureTexts, FeatureTexts]:
        """Return the first `count` texts, and the others."""
        cut = int(self.ends[count - 1]) + 1 if count else 0
        rest = FeatureTexts(self.lines[cut:], self.ends[count:] - cut)
        return FeatureTexts(self.lines[:cut], self.ends[:count]), rest

    def prefixed(self, prefix: bytes) -> FeatureTexts:
        """Return the texts with a prefix."""
        return texts_from_list([prefix + text for text in self.texts()]) if prefix else self


def texts_from_lines(lines: bytes) -> FeatureTexts:
    """Return the texts in lines, each of which has a line break."""
    return FeatureTexts(lines, line_ends(lines))


def line_ends(data: bytes) -> Array:
    """Return the positions of line breaks, as int64."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == LINE_BREAK)


def texts_from_list(texts: Sequence[bytes]) -> FeatureTexts:
    """Return texts that are given one by one."""
    return FeatureTexts(b"".join([text + b"\n" for text in texts]), np.cumsum(lengths_of(texts) + 1) - 1)


def texts_from_documents(data: bytes, ends: Array) -> FeatureTexts:
    """Return texts that are adjacent; `ends`, int64 [texts], has the end of each."""
    lines = np.insert(np.frombuffer(data, np.uint8), ends, LINE_BREAK).tobytes()
    return FeatureTexts(lines, ends + np.arange(ends.size))


def texts_of_block(block: Block) -> FeatureTexts:
    """Return the documents of a block."""
    return texts_from_documents(block.text[: block.cut].tobytes(), block.stops)


def terminated(lines: bytes) -> bytes:
    """Return lines, of which the last one may lack its line break, with one at the end of each."""
    return lines if not lines or lines.endswith(b"\n") else lines + b"\n"


CHUNK_BYTES = 1 << 20

LABEL = "label"
"""The feature with the class label of a sample, which becomes the targets."""

LINES, TABBED, RECORDS = "lines", "tabbed", "records"
"""How the features of samples are arranged: each in a file of its own, line by line; in one line, separated by a tab; as fields
of JSON lines.
"""


@dataclass(frozen=True)
class Layout:
    """How samples are arranged in inputs.

    Parameters
    ----------
    names : tuple of str
        The features, in the order of the files or of the fields of a line.
    form : str
        `LINES`, `TABBED` or `RECORDS`.
    fields : tuple of str
        The field of each feature, for `RECORDS`.
    strict : bool
        Whether a malformed or empty sample is an error. By default it is skipped and counted.
    chunk_bytes : int
        Size of the lines of a chunk. It affects which examples go to which shard.
    """

    names: tuple[str, ...]
    form: str = LINES
    fields: tuple[str, ...] = ()
    strict: bool = False
    chunk_bytes: int = CHUNK_BYTES


@dataclass
class SampleBlock:
    """Samples in memory.

    Parameters
    ----------
    texts : dict of str to FeatureTexts
    place : callable
        `place(i)` describes where sample i is, for messages.
    ready : dict of str to (Array, Array)
        Features that are numbers already: int64 [n], and their starts, int64 [samples + 1].
    skipped : Skipped
    """

    texts: dict[str, FeatureTexts]
    place: Callable[[int], str]
    ready: Examples = field(default_factory=dict)
    skipped: Skipped = NOTHING_SKIPPED


@dataclass(frozen=True)
class SampleChunk:
    """Samples that are read by one worker; it can be pickled.

    Parameters
    ----------
    read : callable
        `read(reader)` returns the samples, a `SampleBlock`: `read_line_ranges`, `read_lines_in_memory`, `read_documents` or
        `read_texts` with all but its last argument.
    n_read : int
        Bytes of the input.
    data : object
        What the chunk carries, if it cannot be read again; None otherwise.
    unit, split, index : int
        The unit, its split, and the index of the chunk in the unit.
    """

    read: Callable[[ChunkReader], SampleBlock]
    n_read: int
    data: object = None
    unit: int = 0
    split: int = 0
    index: int = 0


def read_line_ranges(
    layout: Layout,
    paths: Sequence[str],
    starts: Sequence[int],
    stops: Sequence[int],
    first_line: int | None,
    reader: ChunkReader,
) -> SampleBlock:
    """Return samples in whole lines of files: of one file for each feature if the layout is `LINES`, otherwise of one.

    Parameters
    ----------
    layout : Layout
    paths : sequence of str
    starts, stops : sequence of int
        The range of each file.
    first_line : int, optional
        The number of the first line, from 1; by default the lines before it are counted if a message needs it.
    """
    blocks = [read_range(path, start, stop - start) for path, start, stop in zip(paths, starts, stops, strict=True)]
    # As published, tags are removed if the names of all files end in "sgm".
    tagged = all(path.endswith("sgm") for path in paths)
    return _parse_lines(layout, blocks, paths[0], lambda: first_line or reader.line_number(paths[0], starts[0]), tagged)


def _segments(lines: FeatureTexts) -> FeatureTexts:
    """Return the texts within `<seg ...>` and `</seg>`, and empty texts for other lines, which have other tags."""
    found = (re.fullmatch(rb"<seg[^>]*>(.*)</seg>", line) for line in lines.texts())
    return texts_from_list([segment[1].strip() if segment else b"" for segment in found])


def read_lines_in_memory(layout: Layout, data: bytes, path: str, first_line: int, _: ChunkReader) -> SampleBlock:
    """Return samples in lines in memory; `first_line` is the number of the first one in the input, from 1."""
    return _parse_lines(layout, [data], path, lambda: first_line)


def _parse_lines(
    layout: Layout, blocks: Sequence[bytes], path: str, first_line: Callable[[], int], tagged: bool = False
) -> SampleBlock:
    blocks = list(map(terminated, blocks))
    skips = _Skips(path, lambda index: f"line {first_line() + index}", layout)
    if layout.form == TABBED:
        texts, indices = _split_tabbed(blocks[0], layout, skips)
    elif layout.form == RECORDS:
        texts, indices = _parse_records(blocks[0], layout, skips)
    else:
        texts = {name: texts_from_lines(strip_lines(block)) for name, block in zip(layout.names, blocks, strict=True)}
        indices = np.arange(len(texts[layout.names[0]]))
        if tagged:
            texts = {name: _segments(some) for name, some in texts.items()}
            chosen = ~np.logical_and.reduce([some.is_empty() for some in texts.values()])
            indices = indices[chosen]
            texts = {name: some.select(chosen) for name, some in texts.items()}
    return skips.without_empty(texts, indices)


def read_documents(layout: Layout, chunk: AnyChunk, path: str, reader: ChunkReader) -> SampleBlock:
    """Return samples with a single text, which are the documents of a chunk of Parquet or Arrow."""
    block = chunk.read(reader)
    (name,) = layout.names
    texts = texts_of_block(block)
    first = getattr(chunk, "first_row", None)
    known = first is not None and not block.skipped
    skips = _Skips(path, lambda index: f"row {(first or 0) + index + 1}" if known else "a row", layout)
    found = skips.without_empty({name: texts}, np.arange(len(texts)))
    found.skipped = block.skipped + found.skipped
    return found


def read_texts(
    layout: Layout, texts: dict[str, FeatureTexts], ready: Examples, path: str, unit: str, first: int, _: ChunkReader
) -> SampleBlock:
    """Return samples in memory.

    Parameters
    ----------
    layout : Layout
    texts : dict of str to FeatureTexts
    ready : dict of str to (Array, Array)
        Features that are numbers already.
    path : str
        What the samples were read from, for messages.
    unit : str
        What is numbered, such as `line`.
    first : int
        Number of the first sample, from 1.
    """
    skips = _Skips(path, lambda index: f"{unit} {first + index}", layout)
    sizes = [*map(len, texts.values()), *(starts.size - 1 for _, starts in ready.values())]
    return skips.without_empty(texts, np.arange(sizes[0]), ready)


def all_skipped(skipped: Skipped) -> CorpusError:
    """Return the error for inputs without a complete sample."""
    return CorpusError(
        f"all of the {skipped.count:,} samples were skipped; the first is {skipped.first[0]}; expected complete samples: "
        "correct the inputs, or how the problem describes them"
    )


class _Skips:
    """Collects the samples that are skipped.

    Parameters
    ----------
    path : str
    place : callable
        `place(i)` is the place of the sample with index i in the chunk.
    layout : Layout
    """

    def __init__(self, path: str, place: Callable[[int], str], layout: Layout) -> None:
        self._path = path
        self._place = place
        self._layout = layout
        self._count = 0
        self._first: list[tuple[int, str]] = []

    def add(self, index: int, reason: str) -> None:
        """Skip a sample, or raise CorpusError if samples are not skipped."""
        if self._layout.strict:
            raise CorpusError(
                f"{self._record(index, reason)}; expected a complete sample there: correct it, or leave out `strict=True` to "
                "skip and count such samples"
            )
        self._count += 1
        bisect.insort(self._first, (index, reason))  # a chunk of empty lines has a million of them
        del self._first[MOST_SHOWN:]

    def _record(self, index: int, reason: str) -> SkippedRecord:
        return SkippedRecord(self._path, self._place(index), reason)

    def without_empty(
        self, texts: dict[str, FeatureTexts], indices: Array, ready: Examples = MappingProxyType({})
    ) -> SampleBlock:
        """Return samples without those that have an empty text; `indices`, int64 [samples], has the index of each."""
        empty = {name: some.is_empty() for name, some in texts.items()}
        wrong = np.logical_or.reduce(list(empty.values()))
        if wrong.any():
            for at in np.flatnonzero(wrong).tolist():
                names = [name for name in texts if empty[name][at]]
                self.add(int(indices[at]), f"its {' and '.join(names)} {'is' if names == ['label'] else 'are'} empty")
            texts = {name: some.select(~wrong) for name, some in texts.items()}
            ready = {name: gather_sequences(ids, starts, np.flatnonzero(~wrong)) for name, (ids, starts) in ready.items()}
            indices = indices[~wrong]
        skipped = Skipped(self._count, tuple(self._record(*found) for found in self._first))
        return SampleBlock(texts, lambda at: f"`{self._path}`, {self._place(int(indices[at]))}", ready, skipped)


def _split_tabbed(lines: bytes, layout: Layout, skips: _Skips) -> tuple[dict[str, FeatureTexts], Array]:
    """Return the fields of lines, and the index of each line."""
    rows = texts_from_lines(lines)
    n_tabs = np.diff(np.searchsorted(np.flatnonzero(np.frombuffer(lines, np.uint8) == TAB), rows.ends), prepend=0)
    wanted = len(layout.names)
    wrong = n_tabs != wanted - 1
    if wrong.any():
        places = np.flatnonzero(wrong).tolist()
        for at, count, line in zip(places, (n_tabs[wrong] + 1).tolist(), rows.select(wrong).texts(), strict=True):
            found = f"it has {count} field{'' if count == 1 else 's'} separated by tabs, not {wanted}"
            skips.add(at, found if line.strip() else "it is empty")
        rows = rows.select(~wrong)
    fields = texts_from_lines(rows.lines.replace(b"\t", b"\n"))
    column = np.arange(len(fields)) % wanted
    columns = [strip_lines(fields.select(column == number).lines) for number in range(wanted)]
    return dict(zip(layout.names, map(texts_from_lines, columns), strict=True)), np.flatnonzero(~wrong)


def _parse_records(lines: bytes, layout: Layout, skips: _Skips) -> tuple[dict[str, FeatureTexts], Array]:
    """Return the fields of JSON lines, and the index of each line."""
    loads = find_parser()
    columns: list[list[bytes]] = [[] for _ in layout.fields]
    indices = []
    for index, line in enumerate(lines.split(b"\n")[:-1]):
        try:
            record = loads(line)
            values = [look_up(record, name).encode() for name in layout.fields]
        except Exception:  # anything may be wrong with a record
            found = [describe_record(line, name) for name in layout.fields]
            reason = next((one for one in found if isinstance(one, str)), "")
            if reason:
                skips.add(index, reason)
            if reason or not line.strip():
                continue
            values = [one for one in found if isinstance(one, bytes)]
        for column, value in zip(columns, values, strict=True):
            column.append(value)
        indices.append(index)
    texts = {name: texts_from_list(column) for name, column in zip(layout.names, columns, strict=True)}
    return texts, np.array(indices, np.int64)


def gather_sequences(ids: Array, starts: Array, order: Array) -> Lists:
    """Return some of several sequences, in the given order.

    Parameters
    ----------
    ids : [n]
        The sequences, adjacent.
    starts : int64 [sequences + 1]
    order : int64 [m]

    Returns
    -------
    ids : [total]
    starts : int64 [m + 1]
    """
    lengths = np.diff(starts)[order]
    return ids[ranges_of(starts[:-1][order], lengths)], starts_of(lengths)


def pack_numbers(rows: Sequence[Sequence[Any]]) -> Lists:
    """Return sequences of whole numbers as one int64 array, and their starts."""
    starts = starts_of(lengths_of(rows))
    return np.fromiter((number for row in rows for number in row), np.int64, int(starts[-1])), starts
