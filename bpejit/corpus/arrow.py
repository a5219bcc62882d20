"""Arrow files and streams, and Feather files of version 2, which are Arrow files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bpejit.corpus.base import DocumentsChunk, InputFormat, share
from bpejit.corpus.chunk_reader import AnyChunk
from bpejit.corpus.columns import arrow_errors, batch_chunks, check_column, import_pyarrow, read_columns
from bpejit.corpus.field_names import find_column
from bpejit.corpus.input_options import InputOptions
from bpejit.corpus.input_streams import open_raw, spilled
from bpejit.corpus.kept_columns import kept_schema
from bpejit.storage.remote import is_remote

if TYPE_CHECKING:
    from bpejit.corpus.input_streams import InputStream
    from bpejit.corpus.sources import Source

_FILE = b"ARROW1\0\0"
_STREAM = b"\xff\xff\xff\xff"


class Arrow(InputFormat):
    """Arrow. Batches are mapped or decompressed where the work is divided, which takes little time; workers copy the texts."""

    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather")
    starts: ClassVar[bytes | None] = _FILE[:1] + _STREAM[:1]
    remote: ClassVar[bool] = True

    def recognizes(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        """Return True for the signature of a file, or the start of a stream."""
        return head.startswith(_FILE) or (head.startswith(_STREAM) and head[6:8] == b"\0\0" and head[8:12] == b"\x10\0\0\0")

    def chunks(self, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield the texts of all batches, as chunks in memory."""
        path, options, size = source.path, source.options, source.size or 0
        with arrow_errors(path, "Arrow"), _open(path) as file:
            ipc = import_pyarrow("pyarrow.ipc", path)
            head = file.read(8)
            file.seek(0)
            if head != _FILE:
                reader = ipc.open_stream(file)
                check_column(reader.schema, path, options)
                yield from _stream_batches(reader, path, options, chunk_bytes, lambda: file.tell(), size)
                return
            yield from _file_batches(_open_file(ipc, file, path, options), source, chunk_bytes)

    def stream_chunks(self, stream: InputStream, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
        """Yield the texts of a stream of batches, as chunks in memory."""
        path, options = source.path, source.options
        with arrow_errors(path, "Arrow"):
            pyarrow = import_pyarrow("pyarrow", path)
            if stream.peek(len(_FILE)) == _FILE:
                ipc = import_pyarrow("pyarrow.ipc", path)
                with spilled(stream) as copy:
                    yield from _file_batches(
                        _open_file(ipc, pyarrow.PythonFile(copy, mode="r"), path, options), source, chunk_bytes
                    )
                return
            reader = import_pyarrow("pyarrow.ipc", path).open_stream(pyarrow.PythonFile(_Readable(stream), mode="r"))
            check_column(reader.schema, path, options)
            yield from _stream_batches(reader, path, options, chunk_bytes, lambda: stream.n_raw, source.size or 0)

    def column_schema(self, source: Source) -> Any:
        """Return the schema of the columns to keep; None for a compressed file, which is not read in advance."""
        path, names = source.path, source.options.keep_columns
        ipc = import_pyarrow("pyarrow.ipc", path)
        if source.is_stream:
            pyarrow = import_pyarrow("pyarrow", path)
            with source.open_stream() as stream, arrow_errors(path, "Arrow"):
                if stream.peek(len(_FILE)) == _FILE:
                    return None
                return kept_schema(ipc.open_stream(pyarrow.PythonFile(_Readable(stream), mode="r")).schema, names, path)
        with arrow_errors(path, "Arrow"), _open(path) as file:
            head = file.read(8)
            file.seek(0)
            return kept_schema((ipc.open_file if head == _FILE else ipc.open_stream)(file).schema, names, path)

    def ranges(self, source: Source, unit_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Divide a file into ranges of batches; a stream is one range."""
        size = source.size or 0
        with arrow_errors(source.path, "Arrow"), _open(source.path) as file:
            head = file.read(8)
            file.seek(0)
            n_batches = 0
            if head == _FILE:
                n_batches = import_pyarrow("pyarrow.ipc", source.path).open_file(file).num_record_batches
        if head != _FILE:
            yield 0, 0, size
            return
        step = max(1, n_batches * unit_bytes // max(size, 1))
        for start in range(0, n_batches, step):
            stop = min(start + step, n_batches)
            yield start, stop, share(size, stop, n_batches) - share(size, start, n_batches)


class _Readable:
    """A stream as a file for pyarrow, which needs all bytes that it asks for."""

    closed = False

    def __init__(self, stream: InputStream) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end."""
        return self._stream.read_fully(size)

    def close(self) -> None:
        """Leave the stream open."""

    def flush(self) -> None:
        """Do nothing."""


@contextmanager
def _open(path: str) -> Iterator[Any]:
    pyarrow = import_pyarrow("pyarrow", path)
    with pyarrow.PythonFile(open_raw(path), mode="r") if is_remote(path) else pyarrow.memory_map(path) as file:
        yield file


def _open_file(ipc: Any, file: Any, path: str, options: InputOptions) -> Any:
    """Open an Arrow file to read only the column of the texts, and those to keep."""
    schema = ipc.open_file(file).schema
    check_column(schema, path, options)
    file.seek(0)
    columns = [find_column(schema, name) for name in read_columns(options)]
    numbers = sorted({schema.get_field_index(column[0][0]) for column in columns if column is not None})
    return ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=numbers, use_threads=False))


def _file_batches(reader: Any, source: Source, chunk_bytes: int) -> Iterator[AnyChunk]:
    size = source.size or 0
    n_batches = reader.num_record_batches
    start, stop = (0, None) if source.is_stream else (source.start, source.stop)
    first_row = 0
    for number in range(n_batches if stop is None else stop):
        batch = reader.get_batch(number)
        if number >= start:
            n_bytes = share(size, number + 1, n_batches) - share(size, number, n_batches)
            yield from batch_chunks(
                *(iter([batch]), source.path, source.options, chunk_bytes),
                n_bytes=n_bytes,
                n_rows=batch.num_rows,
                first_row=first_row,
            )
        first_row += batch.num_rows


def _stream_batches(
    reader: Any, path: str, options: InputOptions, chunk_bytes: int, position: Any, size: int
) -> Iterator[AnyChunk]:
    first_row = read = 0
    for batch in reader:
        now = min(position(), size)
        yield from batch_chunks(
            *(iter([batch]), path, options, chunk_bytes), n_bytes=now - read, n_rows=batch.num_rows, first_row=first_row
        )
        read = now
        first_row += batch.num_rows
    if size > read:
        yield DocumentsChunk(np.empty(0, np.uint8), np.empty(0, np.int64), n_read=size - read)
