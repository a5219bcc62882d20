"""Parquet files: row groups are read in parallel, and large ones batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.base import InputFormat, documents_block, share
from bpejit.corpus.blocks import NOTHING_SKIPPED, Block, Skipped
from bpejit.corpus.chunk_reader import AnyChunk, ChunkReader
from bpejit.corpus.columns import (
    MOST_DECODED,
    arrow_errors,
    batch_chunks,
    check_column,
    column_documents,
    import_pyarrow,
    kept_rows,
    longest_values,
    read_columns,
)
from bpejit.corpus.input_options import InputOptions
from bpejit.corpus.input_streams import InputStream, open_raw, spilled
from bpejit.corpus.kept_columns import KeptColumns, column_of, kept_schema
from bpejit.corpus.sources import Source
from bpejit.storage.remote import is_remote

GROUP_BYTES = 4 << 20
"""Row groups of texts up to this size are read by workers. Larger ones are read in the process that divides the work, batch by
batch, since the ids of a chunk are in memory until they are written: with 8 MiB, a job takes up to 40 MB more.
"""


class Parquet(InputFormat):
    """Parquet."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet",)
    starts: ClassVar[bytes | None] = b"P"
    remote: ClassVar[bool] = True

    def recognizes(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        """Return True for the signature of a Parquet file."""
        return head.startswith(b"PAR1")

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield row groups, several small ones together, and the batches of large ones."""
        path, options = source.path, source.options
        with arrow_errors(path, "Parquet"), open_parquet(path) as file:
            check_column(file.schema_arrow, path, options)
            groups = _measure_groups(file, options)
            n_groups = len(groups)
            begin, end = source.start, n_groups if source.stop is None else source.stop
            positions = _positions(source, groups)
            dictionaries = _Dictionaries(path, file, options)
            first = begin
            n_bytes = 0
            for number in range(begin, end):
                size = groups[number].n_bytes
                if first < number and n_bytes + size > chunk_bytes:
                    yield _chunk(source, first, number, groups, positions)
                    first, n_bytes = number, 0
                group = groups[number]
                most = dictionaries.most_rows(number, group)
                if size > GROUP_BYTES or most < group.n_rows:
                    n_rows = max(1, min(most, int(group.n_rows * chunk_bytes / max(size, 1))))
                    if first < number:
                        yield _chunk(source, first, number, groups, positions)
                    batches = file.iter_batches(
                        batch_size=n_rows, row_groups=[number], columns=read_columns(options), use_threads=False
                    )
                    yield from batch_chunks(
                        *(batches, path, options, chunk_bytes),
                        n_bytes=positions[number + 1] - positions[number],
                        n_rows=group.n_rows,
                        first_row=group.first_row,
                    )
                    first, n_bytes = number + 1, 0
                else:
                    n_bytes += size
            if first < end:
                yield _chunk(source, first, end, groups, positions)

    def stream_chunks(self, stream: InputStream, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield batches of all row groups, from a temporary copy, since the description of a Parquet file is at its end."""
        path, options = source.path, source.options
        parquet = import_pyarrow("pyarrow.parquet", path)
        with spilled(stream) as copy, arrow_errors(path, "Parquet"), parquet.ParquetFile(copy, pre_buffer=False) as file:
            check_column(file.schema_arrow, path, options)
            groups = _measure_groups(file, options)
            total = sum(group.n_bytes for group in groups)
            n_rows = sum(group.n_rows for group in groups)
            dictionaries = _Dictionaries(copy, file, options)
            most = [dictionaries.most_rows(number, group) for number, group in enumerate(groups)]
            batches = file.iter_batches(
                batch_size=max(1, min([n_rows * chunk_bytes // max(total, chunk_bytes), *most])),
                columns=read_columns(options),
                use_threads=False,
            )
            yield from batch_chunks(batches, path, options, chunk_bytes, n_bytes=source.size or 0, n_rows=n_rows)

    def text_size(self, source: Source) -> int:
        """Return the size of the column, which is too small if it has a dictionary."""
        with arrow_errors(source.path, "Parquet"), open_parquet(source.path) as file:
            return sum(group.n_bytes for group in _measure_groups(file, source.options))

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the columns to keep; None for a compressed file, which is not read in advance."""
        if source.is_stream:
            return None
        with arrow_errors(source.path, "Parquet"), open_parquet(source.path) as file:
            return kept_schema(file.schema_arrow, source.options.keep_columns, source.path)

    def is_empty(self, source: Source) -> bool:
        """Return True if a file has no rows."""
        if source.is_stream:
            return False
        with arrow_errors(source.path, "Parquet"), open_parquet(source.path) as file:
            return bool(file.metadata.num_rows == 0)

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Divide a file into ranges of row groups."""
        with arrow_errors(source.path, "Parquet"), open_parquet(source.path) as file:
            positions = _positions(source, _measure_groups(file, source.options))
        start = 0
        for number, position in enumerate(positions):
            size = position - positions[start]
            if number > start and (size >= unit_bytes or number == len(positions) - 1):
                yield start, number, size
                start = number


def open_parquet(path: str, **options: Any) -> Any:
    """Open a Parquet file, without reading ahead and without threads. The options are those of `ParquetFile` of pyarrow."""
    parquet = import_pyarrow("pyarrow.parquet", path)
    if not is_remote(path):
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16, **options)
    return parquet.ParquetFile(open_raw(path), pre_buffer=False, buffer_size=1 << 20, **options)


class _RowGroup(NamedTuple):
    """Size of a row group: bytes of its texts, bytes of all columns, rows, and the number of its first row."""

    n_bytes: int
    weight: int
    n_rows: int
    first_row: int


def _measure_groups(file: Any, options: InputOptions) -> list[_RowGroup]:
    metadata = file.metadata
    names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    wanted = read_columns(options)
    columns = [index for index, name in enumerate(names) if any(f"{name}.".startswith(f"{one}.") for one in wanted)]
    groups = []
    first_row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        n_bytes = sum(group.column(index).total_uncompressed_size for index in columns)
        groups.append(_RowGroup(n_bytes, group.total_byte_size, group.num_rows, first_row))
        first_row += group.num_rows
    return groups


class _Dictionaries:
    """The dictionaries of a file, which tell how large the rows of a row group may become when they are decoded.

    A value that is repeated is stored once: 300 rows of 1 MiB may take 587 bytes.

    Parameters
    ----------
    path : str or binary file
    file : pyarrow.parquet.ParquetFile
        The same file.
    options : InputOptions
    """

    def __init__(self, path: Any, file: Any, options: InputOptions) -> None:
        self._path = path
        self._file = file
        wanted, schema = read_columns(options), file.metadata.schema
        self._columns = [
            index
            for index, column in enumerate(map(schema.column, range(file.metadata.num_columns)))
            if column.physical_type == "BYTE_ARRAY"
            and column.logical_type.type in ("STRING", "NONE", "JSON", "ENUM")
            and any(f"{column.path}.".startswith(f"{one}.") for one in wanted)
        ]

    def most_rows(self, number: int, group: _RowGroup) -> int:
        """Return the number of rows of a row group that have at most `MOST_DECODED` bytes together, at least 1."""
        metadata = self._file.metadata.row_group(number)
        columns = [column for column in map(metadata.column, self._columns) if column.has_dictionary_page]
        if sum(column.num_values * column.total_uncompressed_size for column in columns) <= MOST_DECODED:
            return group.n_rows
        names = [column.path_in_schema for column in columns]
        decoded = group.n_bytes
        with self._open(names) as file:
            # The first batch has the dictionary of the whole row group.
            for batch in file.iter_batches(batch_size=1, row_groups=[number], columns=names, use_threads=False):
                values = sum(column.num_values for column in columns)
                decoded += values * max(map(longest_values, batch.columns), default=0)
                break
        return group.n_rows if decoded <= MOST_DECODED else max(1, group.n_rows * MOST_DECODED // decoded)

    def _open(self, names: list[str]) -> Any:
        options = {"read_dictionary": names, "metadata": self._file.metadata}
        if isinstance(self._path, str):
            return open_parquet(self._path, **options)
        self._path.seek(0)
        return import_pyarrow("pyarrow.parquet", "-").ParquetFile(self._path, pre_buffer=False, **options)


def _positions(source: Source, groups: list[_RowGroup]) -> list[int]:
    """Return how many bytes of the file stand for the row groups before each one, and before the end."""
    total = sum(group.weight for group in groups)
    return [share(source.size, done, total) for done in accumulate((group.weight for group in groups), initial=0)]


def _chunk(source: Source, first: int, stop: int, groups: list[_RowGroup], positions: list[int]) -> RowGroupsChunk:
    n_read = positions[stop] - positions[first]
    return RowGroupsChunk(source.path, first, stop, groups[first].first_row, source.options, n_read)


def _joined_rows(found: list[tuple[Array, Array, Skipped, Array | None]]) -> Array | None:
    """Return the rows of a table that have documents, given those of its parts; None if all have one."""
    if all(rows is None for _, _, _, rows in found):
        return None
    starts = np.cumsum([0, *(ends.size + skipped.count for _, ends, skipped, _ in found)])
    parts = (np.arange(ends.size) if rows is None else rows for _, ends, _, rows in found)
    return np.concatenate([start + part for start, part in zip(starts, parts, strict=False)])


class RowGroupsChunk(NamedTuple):
    """Adjacent row groups of a Parquet file.

    Parameters
    ----------
    path : str
    first, stop : int
        The row groups.
    first_row : int
        Number of their first row, from 0.
    options : InputOptions
    n_read : int
        Bytes of the input.
    """

    path: str
    first: int
    stop: int
    first_row: int
    options: InputOptions
    n_read: int

    @property
    def data(self) -> None:
        """None: the file is read by the worker."""

    def read(self, reader: ChunkReader) -> Block:
        """Return the documents in the buffer of a reader."""
        options = self.options
        with arrow_errors(self.path, "Parquet"):
            file = reader.opened(self.path, open_parquet)
            table = file.read_row_groups(list(range(self.first, self.stop)), columns=read_columns(options), use_threads=False)
            column = column_of(table, options.text_column)
            found = list(column_documents(column, self.path, self.first_row, options))
            rows = kept_rows(table, options, _joined_rows(found))
        skipped = sum((one[2] for one in found), NOTHING_SKIPPED)
        if len(found) == 1:
            data, ends, _, _ = found[0]
        else:
            offsets = np.cumsum([0, *(one[0].size for one in found)])
            data = np.concatenate([np.empty(0, np.uint8), *(one[0] for one in found)])
            shifted = [one[1] + offset for one, offset in zip(found, offsets, strict=False)]
            ends = np.concatenate([np.empty(0, np.int64), *shifted])
        columns = None if rows is None else KeptColumns.packed(rows)
        return documents_block(
            reader, data, ends, specials=options.allow_special, n_read=self.n_read, skipped=skipped, columns=columns
        )
