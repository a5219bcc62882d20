"""Read samples in workers: chunks of lines, of fields in lines, of records and of texts in memory."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress

from bpejit.corpus.blocks import MOST_SHOWN, NOTHING_SKIPPED, ChunkReader, Skipped, SkippedRecord
from bpejit.corpus.input_streams import read_range
from bpejit.corpus.json_lines import describe_record, find_parser
from bpejit.corpus.kept_columns import look_up
from bpejit.errors import CorpusError
from bpejit.t2t.subword_files import strip_lines

Texts = dict[str, list[bytes]]
"""The texts of each feature."""

Numbers = dict[str, list[list[int]]]
"""The whole numbers of each feature that has them already."""


def lines_of(data: bytes) -> list[bytes]:
    """Return lines, of which the last one may lack its line break."""
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


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
    paths : tuple of list of str
        The inputs of each feature, or one list of inputs that contain all features; empty for samples in memory.
    strict : bool
        Whether a malformed or empty sample is an error. By default it is skipped and counted.
    chunk_bytes : int
        Size of the lines of a chunk. It affects which examples go to which shard.
    """

    names: tuple[str, ...]
    form: str = LINES
    fields: tuple[str, ...] = ()
    paths: tuple[list[str], ...] = ()
    strict: bool = False
    chunk_bytes: int = CHUNK_BYTES


@dataclass
class SampleBlock:
    """Samples in memory.

    Parameters
    ----------
    texts : dict of str to list of bytes
        The features that are texts.
    place : callable
        `place(i)` describes where sample i is, for messages.
    numbers : dict of str to list of lists of int
        The features that are numbers already.
    skipped : Skipped
    """

    texts: Texts
    place: Callable[[int], str]
    numbers: Numbers = field(default_factory=dict)
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
    layout: Layout, paths: Sequence[str], starts: Sequence[int], stops: Sequence[int], reader: ChunkReader
) -> SampleBlock:
    """Return samples in whole lines of files: of one file for each feature if the layout is `LINES`, otherwise of one.

    Parameters
    ----------
    layout : Layout
    paths : sequence of str
    starts, stops : sequence of int
        The range of each file.
    """
    blocks = [read_range(path, start, stop - start) for path, start, stop in zip(paths, starts, stops, strict=True)]
    # As published, tags are removed if the names of all files end in "sgm".
    tagged = all(path.endswith("sgm") for path in paths)
    return _parse_lines(layout, blocks, paths[0], lambda: reader.line_number(paths[0], starts[0]), tagged)


def _segment(line: bytes) -> bytes:
    """Return the text within `<seg ...>` and `</seg>`, and an empty text for another line, which has other tags."""
    found = re.fullmatch(rb"<seg[^>]*>(.*)</seg>", line)
    return found[1].strip() if found else b""


def read_lines_in_memory(layout: Layout, blocks: Sequence[bytes], path: str, first_line: int, _: ChunkReader) -> SampleBlock:
    """Return samples in lines in memory; `first_line` is the number of the first one in the input, from 1."""
    return _parse_lines(layout, blocks, path, lambda: first_line)


def _parse_lines(
    layout: Layout, blocks: Sequence[bytes], path: str, first_line: Callable[[], int], tagged: bool = False
) -> SampleBlock:
    skips = _Skips(path, lambda index: f"line {first_line() + index}", layout)
    if layout.form != LINES:
        parse = _split_tabbed if layout.form == TABBED else _parse_records
        columns, indices = parse(lines_of(blocks[0]), layout, skips)
    else:
        # A last line of white space is a line, too, if it does not end.
        columns = [lines_of(strip_lines(block if block[-1:] in b"\n" else block + b"\n")) for block in blocks]
        indices = list(range(len(columns[0])))
        if tagged:
            columns = [list(map(_segment, column)) for column in columns]
            chosen = list(map(any, zip(*columns, strict=True)))
            columns = [list(compress(column, chosen)) for column in columns]
            indices = list(compress(indices, chosen))
    return skips.without_empty(dict(zip(layout.names, columns, strict=True)), {}, indices)


def read_texts(layout: Layout, texts: Texts, numbers: Numbers, path: str, first: int, _: ChunkReader) -> SampleBlock:
    """Return samples in memory.

    Parameters
    ----------
    layout : Layout
    texts, numbers : dict of str to lists
        See `SampleBlock`.
    path : str
        What the samples were read from, for messages.
    first : int
        Number of the first sample, from 1.
    """
    skips = _Skips(path, lambda index: f"sample {first + index}", layout)
    return skips.without_empty(texts, numbers, range(len(next(iter(texts.values())))))


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

    def without_empty(self, texts: Texts, numbers: Numbers, indices: Sequence[int]) -> SampleBlock:
        """Return samples without those that have an empty text; `indices` has the index of each in the chunk."""
        if not all(map(all, texts.values())):
            chosen = list(map(all, zip(*texts.values(), strict=True)))
            for at in [at for at, is_complete in enumerate(chosen) if not is_complete]:
                names = [name for name, some in texts.items() if not some[at]]
                self.add(indices[at], f"its {' and '.join(names)} {'is' if names == ['label'] else 'are'} empty")
            texts = {name: list(compress(some, chosen)) for name, some in texts.items()}
            numbers = {name: list(compress(some, chosen)) for name, some in numbers.items()}
            indices = list(compress(indices, chosen))
        skipped = Skipped(self._count, tuple(self._record(*found) for found in self._first))
        return SampleBlock(texts, lambda at: f"`{self._path}`, {self._place(indices[at])}", numbers, skipped)


def _split_tabbed(lines: list[bytes], layout: Layout, skips: _Skips) -> tuple[list[list[bytes]], list[int]]:
    """Return the fields of lines, and the index of each line."""
    wanted = len(layout.names)
    chosen = [line.count(b"\t") == wanted - 1 for line in lines]
    for index in [index for index, is_right in enumerate(chosen) if not is_right]:
        count = lines[index].count(b"\t") + 1
        found = f"it has {count} field{'' if count == 1 else 's'} separated by tabs, not {wanted}"
        skips.add(index, found if lines[index].strip() else "it is empty")
    kept = b"\n".join([*compress(lines, chosen), b""])
    fields = lines_of(strip_lines(kept.replace(b"\t", b"\n")))
    columns = [fields[number::wanted] for number in range(wanted)]
    return columns, list(compress(range(len(lines)), chosen))


def _parse_records(lines: list[bytes], layout: Layout, skips: _Skips) -> tuple[list[list[bytes]], list[int]]:
    """Return the fields of JSON lines, and the index of each line."""
    loads = find_parser()
    columns: list[list[bytes]] = [[] for _ in layout.fields]
    indices = []
    for index, line in enumerate(lines):
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
    return columns, indices
