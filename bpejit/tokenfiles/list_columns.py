"""The writer of token files with one row per document: a column `input_ids` with lists of ids, in groups of rows.

Parquet and Arrow files have this structure. A group ends with the first document after `GROUP_TOKENS` ids, or after
`GROUP_ROWS` documents, so the files do not depend on the blocks in which the ids arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.errors import TokenFileError
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.storage.files import StrPath
from bpejit.tokenfiles.base import TokenFileFormat
from bpejit.tokenfiles.described_format import DescribedFormat
from bpejit.tokenfiles.description import ALL_DTYPES, Description
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.list_readers import COLUMN, LENGTHS_COLUMN, ListColumnTokens, arrow_module

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

    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = LIST_DTYPES
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
