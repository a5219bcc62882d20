"""Token files in Parquet and in Arrow's IPC format (Feather 2): a row per document, whose column `input_ids` has the ids.

Rows are written in groups. A group ends with the first document after `GROUP_TOKENS` ids, or after `GROUP_ROWS` documents, so
the files do not depend on the blocks in which the ids arrive. Arrow files are not compressed, so that they are mapped into
memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.errors import OptionError, TokenFileError
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.storage.files import StrPath
from bpejit.tokenfiles.base import TokenFileFormat
from bpejit.tokenfiles.description import ALL_DTYPES, Description, Dtypes
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.list_readers import BATCH_ROWS, COLUMN, LENGTHS_COLUMN, ListColumnTokens, arrow_module
from bpejit.tokenfiles.templates import DescribedFormat

LIST_DTYPES = {name: ALL_DTYPES[name] for name in ("uint16", "int32", "uint32", "int64")}
"""The dtypes of the ids in lists; int32 before uint32, which fewer tools read."""

GROUP_TOKENS = 1 << 20

GROUP_ROWS = 1 << 17

GROUP_BYTES = 1 << 26
"""Bytes of other columns after which a group ends."""

_LONGEST = 2**31 - 1


class GroupWriter(TokenFileWriter):
    """Collect documents, and write them in groups of rows. A document is held in memory until it is complete.

    A format is a subclass with the methods `_open_rows`, which returns a writer of pyarrow, and `_write_group`.
    """

    def __init__(
        self,
        form: TokenFileFormat,
        path: StrPath | BinaryIO,
        *,
        pack: int | None = None,
        columns: ColumnRows | None = None,
        **options: Any,
    ) -> None:
        """Begin a file; with `pack`, each row has so many ids, and `columns` has values for each document."""
        self._arrow = arrow_module("pyarrow", f"the token file format {form.name}")  # before files are opened
        self.left_out = 0
        self._columns = columns
        self._pack = pack
        super().__init__(form, path, **options)

    def _begin(self) -> None:
        self._parts: list[Array] = []
        self._ends: list[Array] = []
        self._start = 0
        self._n_rows = self._n_ends = 0
        lists = {COLUMN: self.dtype} if self._pack is None else {COLUMN: self.dtype, LENGTHS_COLUMN: np.dtype(np.int32)}
        fields = [self._arrow.field(name, self._kind(np.empty(0, dtype)), nullable=False) for name, dtype in lists.items()]
        others = () if self._columns is None else self._columns.schema
        self._schema = self._arrow.schema([*fields, *others])
        self._sink = Sink(self._data)
        self._output = self._open_rows()

    def _append(self, ids: Array, ends: Array | None) -> None:
        if ids.size:
            self._parts.append(ids.copy())  # the caller may reuse its array
        if ends is not None:
            self._ends.append(ends)
        last = self._last_end if self._pack is None else self.n_tokens
        if last - self._start >= GROUP_TOKENS or sum(map(len, self._ends)) >= GROUP_ROWS:
            self._write_groups(final=False)

    def _finish(self) -> None:
        self._write_groups(final=True)
        self.left_out = self.n_tokens - self._start
        self.n_tokens = self._start
        self.n_documents = self._n_rows
        self._close_rows()

    def _close_rows(self) -> None:
        self._output.close()

    def _abandon(self) -> None:
        self._sink.discards = True
        self._output.close()  # otherwise its finalizer writes to the file

    def _hash_documents(self, ends: Array) -> None:
        if self._pack is None:  # otherwise the borders in the rows are hashed
            super()._hash_documents(ends)

    def _write_groups(self, *, final: bool) -> None:
        ids = np.concatenate([np.empty(0, self.dtype), *self._parts])
        ends = np.concatenate([np.empty(0, np.int64), *self._ends])
        begin = self._start
        (self._write_documents if self._pack is None else self._write_packed)(ids, ends, final=final)
        self._parts = [ids[self._start - begin :]]
        self._ends = [ends[self._n_rows - self._n_ends :] if self._pack is None else ends[ends > self._start]]
        self._n_ends = self._n_rows

    def _write_documents(self, ids: Array, ends: Array, *, final: bool) -> None:
        begin = self._start
        first = 0
        while first < ends.size:
            n_rows = 1 + int(np.searchsorted(ends[first:], self._start + GROUP_TOKENS, side="left"))
            n_rows = min(n_rows, GROUP_ROWS)
            if self._columns is not None:
                n_rows = self._columns.count_rows(n_rows, GROUP_BYTES)
            stop = first + n_rows
            if stop > ends.size and not final:
                break
            stop = min(stop, ends.size)
            offsets = np.concatenate([[self._start], ends[first:stop]]) - self._start
            if int(offsets[-1]) > _LONGEST:
                raise TokenFileError(
                    f"a document of `{self._name}` has {int(np.diff(offsets).max())} ids, and the lists of the format "
                    f"{self.form.name} have at most {_LONGEST}: divide the document, or choose another format"
                )
            self._write_rows(ids[self._start - begin : int(ends[stop - 1]) - begin], {COLUMN: offsets})
            self._start = int(ends[stop - 1])
            first = stop

    def _write_packed(self, ids: Array, ends: Array, *, final: bool) -> None:
        """Write rows of `pack` ids, whatever documents these belong to, with the lengths of the documents in each row."""
        assert self._pack is not None
        begin = self._start
        rows_of_group = max(GROUP_TOKENS // self._pack, 1)
        while True:
            n_rows = min((begin + ids.size - self._start) // self._pack, rows_of_group)
            if n_rows == 0 or (n_rows < rows_of_group and not final):
                return
            offsets = np.arange(n_rows + 1) * self._pack
            row_ends = offsets[1:] + self._start
            stop = int(row_ends[-1])
            borders = distinct(np.concatenate([row_ends, ends[(ends > self._start) & (ends < stop)]]))
            lengths = np.diff(borders, prepend=self._start).astype(np.int32)
            parts = np.concatenate([[0], np.searchsorted(borders, row_ends) + 1])
            super()._hash_documents(borders)
            self._write_rows(ids[self._start - begin : stop - begin], {COLUMN: offsets, LENGTHS_COLUMN: parts}, lengths)
            self._start = stop

    def _write_rows(self, ids: Array, offsets: dict[str, Array], lengths: Array | None = None) -> None:
        self._n_rows += int(offsets[COLUMN].size) - 1
        values = {COLUMN: ids} if lengths is None else {COLUMN: ids, LENGTHS_COLUMN: lengths}
        with self._hash.updating(np.ascontiguousarray(ids).data):
            arrays = [
                self._arrow.ListArray.from_arrays(
                    offsets[name].astype(np.int32), self._arrow.array(found), type=self._kind(found)
                )
                for name, found in values.items()
            ]
            if self._columns is not None:
                arrays += self._columns.take(int(offsets[COLUMN].size) - 1)
            self._write_group(arrays, int(ids.size))

    def _kind(self, values: Array) -> Any:
        item = self._arrow.field("item", self._arrow.from_numpy_dtype(values.dtype), nullable=False)
        return self._arrow.list_(item)

    def _open_rows(self) -> Any:
        """Return a writer of rows of `_schema` to `_sink`, which has a method `close`."""
        raise NotImplementedError

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:
        """Write rows: an array of lists for each column, with `n_tokens` ids."""
        raise NotImplementedError


class ListColumnFormat(DescribedFormat):
    """A format with a row per document.

    Attributes
    ----------
    reader_type : type
    """

    dtypes: ClassVar[Dtypes] = LIST_DTYPES
    states_dtype = True
    stores_documents = True
    own_columns = (COLUMN, LENGTHS_COLUMN)
    reader_type: ClassVar[type[ListColumnTokens]]

    def read(self, path: Path, size: int, fields: Description | None, dtype: str | None) -> ListColumnTokens:  # noqa: ARG002
        """Return an open token file."""
        found = self.reader_type(path, fields)
        if dtype not in (None, found.dtype):
            raise TokenFileError(f"`{path}` contains ids of {found.dtype}; expected {dtype}: omit the dtype")
        return found


class Sink:
    """An output file for pyarrow, which is an open file that is written from its start."""

    closed = False
    discards = False
    """Ignore what is written, since the file is abandoned."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._n_bytes = 0

    def write(self, data: Any) -> int:
        """Append bytes."""
        view = memoryview(data)
        if not self.discards:
            self._file.write(view)
        self._n_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._n_bytes

    def flush(self) -> None:
        """Do nothing: the file is flushed when it is complete."""

    def close(self) -> None:
        """Do nothing: the file is closed when all files are complete."""


_ARROW, _PARQUET = "Arrow file", "Parquet file"

_COMPRESSION = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
"""A dictionary makes files of ids larger, by a sixth, and reading them slower."""

_COUNTS = b"bpejit.tokens"
"""The key of the metadata with the number of ids of each row group, which Parquet itself does not store."""


class ArrowTokenWriter(GroupWriter):
    """Write an Arrow file of ids, with a record batch for each group."""

    def _open_rows(self) -> Any:
        return self._arrow.ipc.new_file(self._sink, self._schema)

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:  # noqa: ARG002 - readers count the ids
        self._output.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))


class ArrowTokens(ListColumnTokens):
    """An open Arrow file of ids, mapped into memory."""

    kind = _ARROW

    def _open(self) -> tuple[Any, list[int], None]:
        arrow = arrow_module("pyarrow", f"the {_ARROW} `{self.path}`")
        if self.path.stat().st_size == 0:  # which cannot be mapped
            raise arrow.ArrowInvalid("it is empty")
        self._file = arrow.ipc.open_file(arrow.memory_map(os.fspath(self.path)))
        rows = [self._file.get_batch(batch).num_rows for batch in range(self._file.num_record_batches)]
        return self._file.schema, rows, None

    def _read_column(self, group: int, name: str) -> Any:
        return self._file.get_batch(group).column(name)

    def _batches(self, names: list[str]) -> Iterator[Any]:
        for number in range(self._file.num_record_batches):
            batch = self._file.get_batch(number).select(names)
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)


class ArrowFormat(ListColumnFormat):
    """The format of Arrow files."""

    name = "arrow"
    suffix = ".arrow"
    other_suffixes = (".feather",)
    magic = b"ARROW1"
    writer_type = ArrowTokenWriter
    reader_type = ArrowTokens


class ParquetTokenWriter(GroupWriter):
    """Write a Parquet file of ids, compressed with zstd."""

    def _open_rows(self) -> Any:
        parquet = arrow_module("pyarrow.parquet", f"a {_PARQUET}")
        self._counts: list[int] = []
        return parquet.ParquetWriter(self._sink, self._schema, **_COMPRESSION)

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:
        self._output.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema), row_group_size=len(arrays[0]))
        self._counts.append(n_tokens)

    def _close_rows(self) -> None:
        self._output.add_key_value_metadata({_COUNTS: json.dumps(self._counts)})
        super()._close_rows()


class ParquetTokens(ListColumnTokens):
    """An open Parquet file of ids."""

    kind = _PARQUET

    def _open(self) -> tuple[Any, list[int], list[int] | None]:
        parquet = arrow_module("pyarrow.parquet", f"the {_PARQUET} `{self.path}`")
        self._file = parquet.ParquetFile(self.path)
        groups = self._file.metadata
        rows = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        return self._file.schema_arrow, rows, _stored_counts(groups.metadata, len(rows))

    def _read_column(self, group: int, name: str) -> Any:
        column = self._file.read_row_group(group, columns=[name]).column(0).combine_chunks()
        return column.chunk(0) if hasattr(column, "chunks") else column

    def _batches(self, names: list[str]) -> Iterator[Any]:
        for batch in self._file.iter_batches(batch_size=BATCH_ROWS, columns=names, use_threads=False):
            yield batch.select(names)


def _stored_counts(metadata: Mapping[bytes, bytes] | None, n_groups: int) -> list[int] | None:
    """Return the number of ids of each group in the metadata of a file; None if another tool wrote it."""
    try:
        counts = json.loads((metadata or {}).get(_COUNTS, b"null"))
    except (ValueError, RecursionError):
        return None
    valid = isinstance(counts, list) and len(counts) == n_groups and all(type(count) is int and count >= 0 for count in counts)
    return counts if valid and sum(counts) < 2**63 else None


class ParquetFormat(ListColumnFormat):
    """The format of Parquet files."""

    name = "parquet"
    suffix = ".parquet"
    magic = b"PAR1"
    writer_type = ParquetTokenWriter
    reader_type = ParquetTokens

    def check_columns(self, schema: Any) -> None:
        """Raise OptionError if Parquet has no types for some of the columns."""
        arrow = arrow_module("pyarrow", "a column of a Parquet file")
        parquet = arrow_module("pyarrow.parquet", "a column of a Parquet file")
        try:
            for field in schema:
                parquet.ParquetWriter(arrow.BufferOutputStream(), arrow.schema([field])).close()
        except (arrow.ArrowException, ValueError) as cause:
            raise OptionError(
                f"the column `{field.name}` contains {field.type}, which Parquet cannot store ({cause}); expected another "
                "type: choose the format arrow, or leave the column out of `keep_columns=`"
            ) from cause
