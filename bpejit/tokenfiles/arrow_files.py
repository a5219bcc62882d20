"""Token files in Parquet and in Arrow's IPC format (Feather 2): a row per document, whose column `input_ids` has the ids.

Rows are written in groups. A group ends with the first document after `GROUP_TOKENS` ids, or after `GROUP_ROWS` documents, so
the files do not depend on the blocks in which the ids arrive. Arrow files are not compressed, so that they are mapped into
memory.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
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
from bpejit.tokenfiles.list_readers import COLUMN, LENGTHS_COLUMN, ListColumnTokens, arrow_module

LIST_DTYPES = {name: ALL_DTYPES[name] for name in ("uint16", "int32", "uint32", "int64")}
"""The dtypes of the ids in lists; int32 before uint32, which fewer tools read."""

GROUP_TOKENS = 1 << 20

GROUP_ROWS = 1 << 17

GROUP_BYTES = 1 << 26
"""Bytes of other columns after which a group ends."""

_LONGEST = 2**31 - 1


class RowWriter(TokenFileWriter):
    """Collect documents, and write them in groups of rows. A document is held in memory until it is complete."""

    form: ListColumnFormat

    def __init__(
        self,
        form: ListColumnFormat,
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
        self._start = self._n_rows = 0
        self._counts: list[int] = []
        fields = [self._field(COLUMN, self.dtype)]
        if self._pack is not None:
            fields.append(self._field(LENGTHS_COLUMN, np.dtype(np.int32)))
        if self._columns is not None:
            fields += self._columns.schema
        self._schema = self._arrow.schema(fields)
        self._sink = Sink(self._data)
        self._output = self.form.open_rows(self._sink, self._schema)

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
        self.form.close_rows(self._output, self._counts)

    def _abandon(self) -> None:
        self._sink.discards = True
        self._output.close()  # otherwise its finalizer writes to the file

    def _hash_documents(self, ends: Array) -> None:
        if self._pack is None:  # otherwise the borders in the rows are hashed
            super()._hash_documents(ends)

    def _write_groups(self, *, final: bool) -> None:
        """Write the groups that are complete; at the end, all rows that are."""
        ids = np.concatenate([np.empty(0, self.dtype), *self._parts])
        ends = np.concatenate([np.empty(0, np.int64), *self._ends])
        begin = self._start
        row_ends = ends
        most = GROUP_ROWS
        if self._pack is not None:  # whatever documents the ids belong to
            row_ends = np.arange(begin + self._pack, begin + ids.size + 1, self._pack)
            most = max(GROUP_TOKENS // self._pack, 1)
        first = 0
        while first < row_ends.size:
            n_rows = min(1 + int(np.searchsorted(row_ends[first:], self._start + GROUP_TOKENS, side="left")), most)
            if self._columns is not None:
                n_rows = self._columns.count_rows(n_rows, GROUP_BYTES)
            if first + n_rows > row_ends.size and not final:
                break
            rows = row_ends[first : first + n_rows]
            self._write_rows(ids[self._start - begin : int(rows[-1]) - begin], rows, ends)
            first += rows.size
        self._parts = [ids[self._start - begin :]]
        self._ends = [ends[first:] if self._pack is None else ends[ends > self._start]]

    def _write_rows(self, ids: Array, row_ends: Array, ends: Array) -> None:
        """Write a group of rows, and in packed ones the lengths of the documents in each row."""
        offsets = np.concatenate([[self._start], row_ends]) - self._start
        if int(offsets[-1]) > _LONGEST:
            raise TokenFileError(
                f"a document of `{self._name}` has {int(np.diff(offsets).max())} ids, and the lists of the format "
                f"{self.form.name} have at most {_LONGEST}: divide the document, or choose another format"
            )
        lists = [(ids, offsets)]
        if self._pack is not None:
            borders = distinct(np.concatenate([row_ends, ends[(ends > self._start) & (ends < row_ends[-1])]]))
            super()._hash_documents(borders)
            lengths = np.diff(borders, prepend=self._start).astype(np.int32)
            lists.append((lengths, np.concatenate([[0], np.searchsorted(borders, row_ends) + 1])))
        with self._hash.updating(np.ascontiguousarray(ids).data):
            arrays = [
                self._arrow.ListArray.from_arrays(positions.astype(np.int32), self._arrow.array(values), type=kind)
                for (values, positions), kind in zip(lists, self._schema.types, strict=False)
            ]
            if self._columns is not None:
                arrays += self._columns.take(int(row_ends.size))
            self._output.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._counts.append(int(ids.size))
        self._n_rows += int(row_ends.size)
        self._start = int(row_ends[-1])

    def _field(self, name: str, dtype: np.dtype[Any]) -> Any:
        item = self._arrow.field("item", self._arrow.from_numpy_dtype(dtype), nullable=False)
        return self._arrow.field(name, self._arrow.list_(item), nullable=False)


class ListColumnFormat(TokenFileFormat):
    """A format with a row per document.

    Attributes
    ----------
    reader_type : type
    """

    dtypes: ClassVar[Dtypes] = LIST_DTYPES
    states_dtype = True
    stores_documents = True
    own_columns = (COLUMN, LENGTHS_COLUMN)
    writer_type = RowWriter
    reader_type: ClassVar[type[ListColumnTokens]]

    def read(self, path: Path, size: int, fields: Description | None, dtype: str | None) -> ListColumnTokens:  # noqa: ARG002
        """Return an open token file."""
        found = self.reader_type(path, fields)
        if dtype not in (None, found.dtype):
            raise TokenFileError(f"`{path}` contains ids of {found.dtype}; expected {dtype}: omit the dtype")
        return found

    def open_rows(self, sink: Sink, schema: Any) -> Any:
        """Return a writer of pyarrow for record batches."""
        raise NotImplementedError

    def close_rows(self, output: Any, counts: list[int]) -> None:  # noqa: ARG002
        """Complete a file with some numbers of ids in its groups."""
        output.close()


class Sink(io.RawIOBase):
    """An output file for pyarrow, which is an open file that is written from its start, and stays open."""

    discards = False
    """Ignore what is written, since the file is abandoned."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file
        self._n_bytes = 0

    def writable(self) -> bool:
        """Return True."""
        return True

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


_ARROW, _PARQUET = "Arrow file", "Parquet file"

_COMPRESSION = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
"""A dictionary makes files of ids larger, by a sixth, and reading them slower."""

_COUNTS = b"bpejit.tokens"
"""The key of the metadata with the number of ids of each row group, which Parquet itself does not store."""


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


class ArrowFormat(ListColumnFormat):
    """The format of Arrow files."""

    name = "arrow"
    suffix = ".arrow"
    other_suffixes = (".feather",)
    magic = b"ARROW1"
    reader_type = ArrowTokens

    def open_rows(self, sink: Sink, schema: Any) -> Any:
        """Return a writer of an Arrow file, with a record batch for each group."""
        return arrow_module("pyarrow", f"an {_ARROW}").ipc.new_file(sink, schema)


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
        column = self._file.read_row_group(group, columns=[name]).column(name).combine_chunks()
        return column.chunk(0) if hasattr(column, "chunks") else column


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
    reader_type = ParquetTokens

    def open_rows(self, sink: Sink, schema: Any) -> Any:
        """Return a writer of a Parquet file, compressed with zstd."""
        return arrow_module("pyarrow.parquet", f"a {_PARQUET}").ParquetWriter(sink, schema, **_COMPRESSION)

    def close_rows(self, output: Any, counts: list[int]) -> None:
        """Complete a file, with the number of ids of each group in its metadata."""
        output.add_key_value_metadata({_COUNTS: json.dumps(counts)})
        output.close()

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
