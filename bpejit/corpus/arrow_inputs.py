"""Parquet, Arrow and Feather files: columns of tables, one of which has the texts.

Row groups of Parquet are read in parallel, and large ones batch by batch. Batches of Arrow are mapped or decompressed where the
work is divided, which takes little time; workers copy the texts. Feather files of version 2 are Arrow files. The index of a
file is at its end, so a pipe and a compressed file are read only if they are a stream of Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from bpejit.corpus.base import DocumentsChunk, InputFormat, share
from bpejit.corpus.blocks import AnyChunk, Block, ChunkReader
from bpejit.corpus.columns import (
    MOST_DECODED,
    arrow_errors,
    batch_chunks,
    check_column,
    import_pyarrow,
    longest_values,
    read_columns,
    read_rows,
)
from bpejit.corpus.input_streams import InputStream, open_raw
from bpejit.corpus.kept_columns import find_column, kept_schema, pack_rows
from bpejit.corpus.reading_options import InputOptions
from bpejit.corpus.sources import Source
from bpejit.storage.files import is_remote

GROUP_BYTES = 4 << 20
"""Row groups of texts up to this size are read by workers. Larger ones are read in the process that divides the work, batch by
batch, since the ids of a chunk are in memory until they are written: with 8 MiB, a job takes up to 40 MB more.
"""

_FILE = b"ARROW1\0\0"
_STREAM = b"\xff\xff\xff\xff"


class Parquet(InputFormat):
    """Parquet. Its ranges are of row groups."""

    suffixes = (".parquet",)
    indexed = b"PAR1"
    starts = (indexed,)

    def recognizes(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        """Return True for the signature of a Parquet file."""
        return head.startswith(self.indexed)

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield row groups, several small ones together, and the batches of large ones."""
        with _parquet(source) as file:
            yield from _parquet_chunks(file, source, chunk_bytes)

    def text_size(self, source: Source) -> int:
        """Return the size of the column, which is too small if it has a dictionary."""
        with _parquet(source) as file:
            return sum(group.n_bytes for group in _measure_groups(file, source.options))

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the columns to keep."""
        with _parquet(source) as file:
            return kept_schema(file.schema_arrow, source.options.keep_columns, source.path)

    def is_empty(self, source: Source) -> bool:
        """Return True if a file has no rows."""
        with _parquet(source) as file:
            return bool(file.metadata.num_rows == 0)

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Divide a file into ranges of row groups."""
        with _parquet(source) as file:
            positions = _positions(source, _measure_groups(file, source.options))
        start = 0
        for number, position in enumerate(positions):
            size = position - positions[start]
            if number > start and (size >= unit_bytes or number == len(positions) - 1):
                yield start, number, size
                start = number


def open_parquet(path: str, **options: Any) -> Any:
    """Open a Parquet file, without reading ahead and without threads; the options are those of `ParquetFile` of pyarrow."""
    parquet = import_pyarrow("pyarrow.parquet", path)
    file, buffer_size = (open_raw(path), 1 << 20) if is_remote(path) else (path, 1 << 16)
    return parquet.ParquetFile(file, pre_buffer=False, buffer_size=buffer_size, **options)


@contextmanager
def _parquet(source: Source) -> Iterator[Any]:
    with arrow_errors(source.path, "Parquet"), open_parquet(source.path) as file:
        yield file


class _RowGroup(NamedTuple):
    """Size of a row group: bytes of its texts, bytes of all columns, rows, and the number of its first row."""

    n_bytes: int
    weight: int
    n_rows: int
    first_row: int


def _measure_groups(file: Any, options: InputOptions) -> list[_RowGroup]:
    metadata = file.metadata
    columns = [column for column, _ in _wanted_columns(file, options)]
    groups = []
    first_row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        n_bytes = sum(group.column(index).total_uncompressed_size for index in columns)
        groups.append(_RowGroup(n_bytes, group.total_byte_size, group.num_rows, first_row))
        first_row += group.num_rows
    return groups


def _wanted_columns(file: Any, options: InputOptions) -> Iterator[tuple[int, Any]]:
    """Yield the index and the schema of each column of values that is read."""
    wanted = read_columns(options)
    schema = file.metadata.schema
    for index in range(file.metadata.num_columns):
        column = schema.column(index)
        if any(f"{column.path}.".startswith(f"{one}.") for one in wanted):
            yield index, column


def _positions(source: Source, groups: list[_RowGroup]) -> list[int]:
    """Return how many bytes of the file stand for the row groups before each one, and before the end."""
    total = sum(group.weight for group in groups)
    return [share(source.size, done, total) for done in accumulate((group.weight for group in groups), initial=0)]


def _parquet_chunks(file: Any, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
    """Yield the chunks of an open file."""
    path, options = source.path, source.options
    check_column(file.schema_arrow, path, options)
    groups = _measure_groups(file, options)
    positions = _positions(source, groups)
    for first, stop, batch_rows in _divide_groups(file, source, groups[: source.stop], chunk_bytes):
        n_read = positions[stop] - positions[first]
        first_row, n_rows = groups[first].first_row, groups[first].n_rows
        if batch_rows is None:
            yield RowGroupsChunk(path, first, stop, first_row, options, n_read)
            continue
        wanted = read_columns(options)
        batches = file.iter_batches(batch_size=batch_rows, row_groups=[first], columns=wanted, use_threads=False)
        yield from batch_chunks(batches, path, options, chunk_bytes, n_bytes=n_read, n_rows=n_rows, first_row=first_row)


def _divide_groups(
    file: Any, source: Source, groups: list[_RowGroup], chunk_bytes: int
) -> Iterator[tuple[int, int, int | None]]:
    """Yield ranges of row groups of about `chunk_bytes`, with None; large groups alone, with the rows of a batch of them."""
    first = source.start
    n_bytes = 0
    for number, group in enumerate(groups[first:], start=first):
        most = _most_rows(file, source, number, group)
        is_large = group.n_bytes > GROUP_BYTES or most < group.n_rows
        if first < number and (is_large or n_bytes + group.n_bytes > chunk_bytes):
            yield first, number, None
            first, n_bytes = number, 0
        n_bytes += group.n_bytes
        if is_large:
            yield number, number + 1, max(1, min(most, int(group.n_rows * chunk_bytes / max(group.n_bytes, 1))))
            first, n_bytes = number + 1, 0
    if first < len(groups):
        yield first, len(groups), None


def _most_rows(file: Any, source: Source, number: int, group: _RowGroup) -> int:
    """Return the number of rows of a row group that have at most `MOST_DECODED` bytes together, at least 1.

    A value that is repeated is stored once, in a dictionary: 300 rows of 1 MiB may take 587 bytes.
    """
    metadata = file.metadata.row_group(number)
    texts = [
        metadata.column(index)
        for index, column in _wanted_columns(file, source.options)
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in ("STRING", "NONE", "JSON", "ENUM")
    ]
    columns = [column for column in texts if column.has_dictionary_page]
    if sum(column.num_values * column.total_uncompressed_size for column in columns) <= MOST_DECODED:
        return group.n_rows
    names = [column.path_in_schema for column in columns]
    decoded = group.n_bytes
    with open_parquet(source.path, read_dictionary=names, metadata=file.metadata) as again:
        # The first batch has the dictionary of the whole row group.
        for batch in again.iter_batches(batch_size=1, row_groups=[number], columns=names, use_threads=False):
            values = sum(column.num_values for column in columns)
            decoded += values * max(map(longest_values, batch.columns), default=0)
            break
    return group.n_rows if decoded <= MOST_DECODED else max(1, group.n_rows * MOST_DECODED // decoded)


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

    def read(self, reader: ChunkReader) -> Block:
        """Return the documents in the buffer of a reader."""
        options = self.options
        with arrow_errors(self.path, "Parquet"):
            file = reader.opened(self.path, open_parquet)
            groups = list(range(self.first, self.stop))
            table = file.read_row_groups(groups, columns=read_columns(options), use_threads=False)
            data, ends, skipped, kept = read_rows(table, self.path, self.first_row, options)
        columns = None if kept is None else pack_rows(kept)
        return DocumentsChunk(data, ends, options.allow_special, self.n_read, skipped, columns).read(reader)


class Arrow(InputFormat):
    """Arrow. The ranges of a file are of record batches; a stream is one range."""

    suffixes = (".arrow", ".feather")
    starts = (_FILE, _STREAM)
    indexed = _FILE

    def recognizes(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        """Return True for the signature of a file, or the start of a stream."""
        return head.startswith(_FILE) or (head.startswith(_STREAM) and head[6:8] == b"\0\0" and head[8:12] == b"\x10\0\0\0")

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield the texts of all batches, as chunks in memory."""
        with _arrow(source.path) as opened:
            yield from _batches(*opened, source, chunk_bytes, opened[1].tell)

    def stream_chunks(self, stream: InputStream, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield the texts of a stream of batches, as chunks in memory."""
        with _arrow(source.path, stream) as opened:
            yield from _batches(*opened, source, chunk_bytes, lambda: stream.n_raw)

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the columns to keep."""
        opened = source.open_stream() if source.is_stream else nullcontext()
        with opened as stream, _arrow(source.path, stream) as (ipc, file, is_file):
            schema = (ipc.open_file if is_file else ipc.open_stream)(file).schema
            return kept_schema(schema, source.options.keep_columns, source.path)

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Divide a file into ranges of batches."""
        size = source.size or 0
        with _arrow(source.path) as (ipc, file, is_file):
            n_batches = ipc.open_file(file).num_record_batches if is_file else 0
        if not is_file:
            yield 0, 0, size
        step = max(1, n_batches * unit_bytes // max(size, 1))
        for start in range(0, n_batches, step):
            stop = min(start + step, n_batches)
            yield start, stop, share(size, stop, n_batches) - share(size, start, n_batches)


@contextmanager
def _arrow(path: str, stream: InputStream | None = None) -> Iterator[tuple[Any, Any, bool]]:
    """Yield the module of pyarrow that reads Arrow, an open file, and whether it is a file of Arrow and not a stream."""
    pyarrow = import_pyarrow("pyarrow", path)
    ipc = import_pyarrow("pyarrow.ipc", path)
    with arrow_errors(path, "Arrow"):
        if stream is None:
            with pyarrow.PythonFile(open_raw(path), mode="r") if is_remote(path) else pyarrow.memory_map(path) as file:
                is_file = file.read(len(_FILE)) == _FILE
                file.seek(0)
                yield ipc, file, is_file
        else:
            # pyarrow needs all bytes that it asks for, and leaves the stream open.
            read = SimpleNamespace(read=stream.read_fully, close=lambda: None, flush=lambda: None, closed=False)
            yield ipc, pyarrow.PythonFile(read, mode="r"), False


def _open_batches(ipc: Any, file: Any, path: str, options: InputOptions) -> Any:
    """Open an Arrow file to read only the column of the texts, and those to keep."""
    schema = ipc.open_file(file).schema
    check_column(schema, path, options)
    file.seek(0)
    columns = [find_column(schema, name) for name in read_columns(options)]
    numbers = sorted({schema.get_field_index(column[0][0]) for column in columns if column is not None})
    return ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=numbers, use_threads=False))


def _batches(
    ipc: Any, file: Any, is_file: bool, source: Source, chunk_bytes: int, position: Callable[[], int]
) -> Iterator[AnyChunk]:
    """Yield the chunks of a file, or of a stream, of which `position` returns the number of bytes that were read."""
    path = source.path
    options = source.options
    size = source.size or 0
    start, stop = (source.start, source.stop) if is_file else (0, None)
    if is_file:
        reader = _open_batches(ipc, file, path, options)
        n = reader.num_record_batches
        found = ((reader.get_batch(number), share(size, number + 1, n)) for number in range(n if stop is None else stop))
    else:
        reader = ipc.open_stream(file)
        check_column(reader.schema, path, options)
        found = ((batch, min(position(), size)) for batch in reader)
    read = first_row = 0
    for number, (batch, now) in enumerate(found):
        if number >= start:
            rows = {"n_rows": batch.num_rows, "first_row": first_row}
            yield from batch_chunks(iter([batch]), path, options, chunk_bytes, n_bytes=now - read, **rows)
        read = now
        first_row += batch.num_rows
    if not is_file and size > read:
        yield DocumentsChunk(b"", np.empty(0, np.int64), n_read=size - read)
