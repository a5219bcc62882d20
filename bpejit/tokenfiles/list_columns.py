"""Token files with one row per document: a column `input_ids` with lists of ids, in groups of rows.

Parquet and Arrow files have this structure. A group ends with the first document after `GROUP_TOKENS` ids, or after
`GROUP_ROWS` documents, so the files do not depend on the blocks in which the ids arrive.
"""

from __future__ import annotations

import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, overload

import numpy as np
import numpy.typing as npt

from bpejit import arguments
from bpejit.arrays import Array, distinct
from bpejit.arrow_columns import ColumnRows, plain_array, plain_type
from bpejit.errors import TokenFileError
from bpejit.extras import import_extra
from bpejit.storage.files import OutputFile, StrPath, read_error
from bpejit.tokenfiles.base import BLOCK_TOKENS, TokenFileFormat, choose_dtype
from bpejit.tokenfiles.described_tokens import DescribedTokens
from bpejit.tokenfiles.description import ALL_DTYPES, Description, description_path, is_format, read_description
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.mapped_tokens import (
    as_uint32,
    check_counts,
    check_description,
    compare_ids,
    document_number,
    regular_size,
)

COLUMN = "input_ids"
"""The name of the column, as in Hugging Face's datasets."""

LENGTHS_COLUMN = "document_lengths"
"""The name of the column with the lengths of the documents, or parts of documents, in each packed row."""

LIST_DTYPES = {name: ALL_DTYPES[name] for name in ("uint16", "int32", "uint32", "int64")}
"""The dtypes of the ids in lists; int32 before uint32, which fewer tools read."""

GROUP_TOKENS = 1 << 20

GROUP_ROWS = 1 << 17

BATCH_ROWS = 1 << 10
"""Rows of other columns that are read at a time."""

GROUP_BYTES = 1 << 26
"""Bytes of other columns after which a group ends."""

_LONGEST = 2**31 - 1


class GroupWriter(TokenFileWriter):
    """Collect documents, and write them in groups of rows. A document is held in memory until it is complete."""

    document_count = True

    def __init__(
        self, path: StrPath | BinaryIO, *, pack: int | None = None, columns: ColumnRows | None = None, **options: Any
    ) -> None:
        self.left_out = 0
        self._columns = columns
        self._pack = pack
        super().__init__(path, **options)

    def _begin(self) -> None:
        self._parts: list[Array] = []
        self._ends: list[Array] = []
        self._start = 0
        self._n_rows = self._n_ends = 0

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

    def _write_groups(self, *, final: bool) -> None:
        ids = np.concatenate([np.empty(0, dtype=self.dtype), *self._parts])
        ends = np.concatenate([np.empty(0, dtype=np.int64), *self._ends])
        begin = self._start
        (self._write_documents if self._pack is None else self._write_packed)(ids, ends, final=final)
        self._parts = [ids[self._start - begin :]]
        self._ends = [ends[self._n_rows - self._n_ends :] if self._pack is None else ends[ends > self._start]]
        self._n_ends = self._n_rows

    def _write_documents(self, ids: Array, ends: Array, *, final: bool) -> None:
        begin, first = self._start, 0
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
                    f"{self._format} have at most {_LONGEST}: divide the document, or choose another format"
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
            self._write_rows(ids[self._start - begin : stop - begin], {COLUMN: offsets, LENGTHS_COLUMN: parts}, lengths)
            self._start = stop

    def _write_rows(self, ids: Array, offsets: dict[str, Array], lengths: Array | None = None) -> None:
        self._n_rows += int(offsets[COLUMN].size) - 1
        hashed = self._add_to_hash(np.ascontiguousarray(ids).data) if ids.size else None
        values = {COLUMN: ids} if lengths is None else {COLUMN: ids, LENGTHS_COLUMN: lengths}
        arrays = [
            self._arrow.ListArray.from_arrays(offsets[name].astype(np.int32), self._arrow.array(found), type=self._kind(found))
            for name, found in values.items()
        ]
        if self._columns is not None:
            arrays += self._columns.take(int(offsets[COLUMN].size) - 1)
        self._write_group(arrays, int(ids.size))
        if hashed is not None:
            hashed.result()

    def _kind(self, values: Array) -> Any:
        item = self._arrow.field("item", self._arrow.from_numpy_dtype(values.dtype), nullable=False)
        return self._arrow.list_(item)

    def _schema_of_rows(self) -> Any:
        self._arrow = arrow_module("pyarrow", f"the token file format {self._format}")
        columns = {COLUMN: self.dtype}
        if self._pack is not None:
            columns[LENGTHS_COLUMN] = np.dtype(np.int32)
        fields = [
            self._arrow.field(name, self._kind(np.empty(0, dtype=dtype)), nullable=False) for name, dtype in columns.items()
        ]
        return self._arrow.schema([*fields, *(() if self._columns is None else self._columns.schema)])

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:
        """Write rows: an array of lists for each column, with `n_tokens` ids."""
        raise NotImplementedError


class ListColumnTokens(DescribedTokens, ABC):
    """An open token file with a column of lists, in groups of rows.

    Parameters
    ----------
    path : Path
    description : Description, optional

    Raises
    ------
    TokenFileError
        If the file cannot be read, has no column of ids, or does not agree with its description.
    """

    def __init__(self, path: Path, description: Description | None) -> None:
        self.path = path
        self.description = description
        self._cached: tuple[int, Array, Array] | None = None
        self._column, self.dtype, rows = self._open()
        self._rows = np.cumsum([0, *rows], dtype=np.int64)
        if description is not None:
            check_counts(path, description, dtype=self.dtype, n_tokens=len(self), n_documents=self.n_documents)

    @abstractmethod
    def _open(self) -> tuple[str, str, list[int]]:
        """Open the file. Return the name and the dtype of the column of ids, and the number of rows of each group."""

    @abstractmethod
    def _read_group(self, group: int) -> tuple[Array, Array]:
        """Return the ids of a group, and the offsets of its documents, [documents + 1] from 0 up."""

    @abstractmethod
    def _other_batches(self, names: list[str]) -> tuple[Any, Iterator[Any]]:
        """Return the schema of some columns, and an iterator of all their rows as record batches of a moderate size."""

    @abstractmethod
    def _column_names(self) -> list[str]:
        """Return the names of all columns."""

    def other_columns(self) -> ColumnRows | None:
        """Return the rows of the other columns, which are read in order; None if there are none."""
        names = [name for name in self._column_names() if name not in (self._column, LENGTHS_COLUMN)]
        if not names:
            return None
        schema, batches = self._other_batches(names)
        arrow = arrow_module("pyarrow", f"the columns of `{self.path}`")
        plain = arrow.schema([arrow.field(field.name, plain_type(field.type)) for field in schema])
        return ColumnRows(plain, (arrow.record_batch(list(map(plain_array, one.columns)), schema=plain) for one in batches))

    @abstractmethod
    def _token_counts(self) -> list[int]:
        """Return the number of ids of each group."""

    @cached_property
    def _starts(self) -> Array:
        """The position of the first id of each group, and the number of ids, int64 [groups + 1]."""
        return np.cumsum([0, *self._token_counts()], dtype=np.int64)

    @property
    def n_tokens(self) -> int:
        """The number of ids."""
        return int(self._starts[-1])

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return int(self._rows[-1])

    @property
    def ids(self) -> npt.NDArray[Any]:
        """All ids as a read-only array, which takes memory for all of them."""
        return self[:]

    def __len__(self) -> int:
        return self.n_tokens

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Array: ...

    def __getitem__(self, index: int | slice) -> int | Array:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.n_tokens)
            if step == 1:
                return self._slice(start, stop)
            found: Array = self._slice(0, self.n_tokens)[index]
            return found
        number = operator.index(index)
        if not -self.n_tokens <= number < self.n_tokens:
            raise IndexError(f"there is no id at {number}; expected -{self.n_tokens} to {self.n_tokens - 1}: check `n_tokens`")
        number %= self.n_tokens
        return int(self._slice(number, number + 1)[0])

    def _slice(self, start: int, stop: int) -> Array:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        while start < stop:
            begin = int(self._starts[first])
            parts.append(self._group(first)[0][start - begin : stop - begin])
            first += 1
            start = int(self._starts[first])
        if len(parts) == 1:
            return parts[0]
        joined = np.concatenate([np.empty(0, dtype=ALL_DTYPES[self.dtype]), *parts])
        joined.flags.writeable = False
        return joined

    def document(self, number: int) -> Array:
        """Return the ids of a document as a read-only array.

        Raises
        ------
        IndexError
            If there is no document with this number; negative numbers count from the end.
        """
        number = document_number(number, self.n_documents)
        group = int(np.searchsorted(self._rows, number, side="right")) - 1
        ids, offsets = self._group(group)
        row = number - int(self._rows[group])
        return ids[int(offsets[row]) : int(offsets[row + 1])]

    def _group(self, group: int) -> tuple[Array, Array]:
        cached = self._cached
        if cached is None or cached[0] != group:
            ids, offsets = self._read_group(group)
            ids.flags.writeable = False
            cached = self._cached = (group, ids, offsets)
        return cached[1], cached[2]

    def _groups(self) -> Iterator[tuple[Array, Array]]:
        for group in range(self._rows.size - 1):
            yield self._read_group(group)

    def blocks(self, size: int = BLOCK_TOKENS) -> Iterator[npt.NDArray[np.uint32]]:
        """Yield all ids in order as new arrays, uint32 [up to `size`], holding one group in memory at a time.

        Raises
        ------
        TokenFileError
            If the file cannot be read.
        """
        for ids, _ in self._groups():
            for start in range(0, ids.size, size):
                yield as_uint32(ids[start : start + size], self.path)

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array]]:
        """Yield all ids in order, in blocks of up to `size`, each with the ends of the documents that end in it.

        Yields
        ------
        ids : array of the dtype of the file
        ends : int64 [documents]
            Positions in `ids`.
        """
        for ids, offsets in self._groups():
            ends = offsets[1:].astype(np.int64)
            found = 0
            for start in range(0, max(ids.size, 1), size):
                last = int(np.searchsorted(ends, min(start + size, ids.size), side="right"))
                yield ids[start : start + size], ends[found:last] - start
                found = last

    def verify(self) -> None:
        """Read the whole file and compare it with its description.

        Raises
        ------
        TokenFileError
            If the SHA-256 of the ids or the range of the ids differs from the description, or the description has no hash.
        """
        dtype = ALL_DTYPES[self.dtype]
        compare_ids(self.path, (ids.astype(dtype).tobytes() for ids, _ in self._groups()), dtype, self.description)


class ListColumnFormat(TokenFileFormat):
    """A format with a row per document.

    Attributes
    ----------
    magic : bytes
        The first bytes of its files.
    writer_type : type
    reader_type : type
    """

    dtypes: ClassVar[Mapping[str, np.dtype[Any]]] = LIST_DTYPES
    stores_documents = True
    own_columns = (COLUMN, LENGTHS_COLUMN)
    magic: ClassVar[bytes]
    writer_type: ClassVar[type[GroupWriter]]
    reader_type: ClassVar[type[ListColumnTokens]]

    def writer(
        self,
        path: StrPath | BinaryIO,
        *,
        dtype: str = "auto",
        vocab_size: int,
        tokenizer_sha256: str | None,
        overwrite: bool = False,
        document_index: bool = False,  # noqa: ARG002 - rows are documents
        pack: int | None = None,
        columns: ColumnRows | None = None,
    ) -> GroupWriter:
        """Return a writer; streams are refused, because a description is written as well.

        With `pack`, each row has so many ids, and ids at the end that do not fill a row are left out. `columns` has a row for
        each document, whose values are written beside its ids.
        """
        arrow_module("pyarrow", f"the token file format {self.name}")  # before files are opened
        return self.writer_type(
            path,
            files=[path] if isinstance(path, (str, os.PathLike)) else [],
            file_format=self.name,
            dtype=choose_dtype(self.dtypes, dtype, vocab_size),
            vocab_size=vocab_size,
            tokenizer_sha256=tokenizer_sha256,
            overwrite=overwrite,
            pack=pack,
            columns=columns,
        )

    def open(
        self, path: StrPath, *, dtype: str | None = None, tokenizer_sha256: str | None = None, vocab_size: int | None = None
    ) -> ListColumnTokens:
        """Open a token file, checked against its description if there is one."""
        path = Path(arguments.path("path", path, error=TokenFileError))
        fields = read_description(path)
        regular_size(path)
        if fields is not None:
            check_description(
                path, fields, file_format=self.name, dtype=dtype, tokenizer_sha256=tokenizer_sha256, vocab_size=vocab_size
            )
        found = self.reader_type(path, fields)
        if dtype not in (None, found.dtype):
            raise TokenFileError(f"`{path}` contains ids of {found.dtype}; expected {dtype}: omit the dtype")
        return found

    def files(self, path: StrPath) -> list[StrPath]:
        """Return the token file and its description."""
        return [path, description_path(path)]

    def recognizes(self, path: StrPath) -> bool:
        """Return True if a file is described as one of this format, or begins like one."""
        return is_format(path, self.name, self.magic)


class Sink:
    """An output file for pyarrow."""

    closed = False
    discards = False
    """Ignore what is written, since the file is abandoned."""

    def __init__(self, file: OutputFile) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """Append bytes."""
        return memoryview(data).nbytes if self.discards else self._file.write(memoryview(data))

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._file.n_bytes

    def flush(self) -> None:
        """Do nothing: the file is flushed when it is complete."""

    def close(self) -> None:
        """Do nothing: the file is closed when all files are complete."""


def arrow_module(name: str, what: str) -> Any:
    """Return a module of pyarrow, or raise TokenFileError with the command that installs it."""
    return import_extra(name, what, error=TokenFileError)


def list_column(schema: Any, path: Path) -> tuple[str, str]:
    """Return the name and the dtype of the column of ids in a schema.

    Raises
    ------
    TokenFileError
        If there is no column `input_ids` and no other single column of lists of integers.
    """
    found = {}
    for field in schema:
        kind = getattr(field.type, "value_type", None)
        name = None if kind is None else str(kind)
        if name in ALL_DTYPES:
            found[field.name] = name
    if COLUMN in found:
        return COLUMN, found[COLUMN]
    if len(found) != 1:
        columns = ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
        raise TokenFileError(
            f"`{path}` has no column of token ids: its columns are {columns}; expected `{COLUMN}` or a single column with "
            f"lists of one of {', '.join(ALL_DTYPES)}: check the path"
        )
    return next(iter(found.items()))


def list_arrays(column: Any, path: Path) -> tuple[Array, Array]:
    """Return the ids of an array of lists without nulls, and its offsets from 0 up."""
    if column.null_count or column.values.null_count:
        raise TokenFileError(
            f"`{path}` has nulls in its column of token ids; expected a list of numbers in each row: remove them"
        )
    offsets = column.offsets.to_numpy()
    ids = column.values.to_numpy()[int(offsets[0]) : int(offsets[-1])]
    return ids, offsets - offsets[0]


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Raise TokenFileError where pyarrow cannot read a file; `kind` is a noun for the message."""
    errors = (arrow_module("pyarrow", kind).ArrowException, OSError)
    try:
        yield
    except errors as cause:
        if isinstance(cause, OSError) and cause.errno is not None:
            raise read_error(path, cause, error=TokenFileError, what="token file") from cause
        raise TokenFileError(
            f"`{path}` cannot be read: {str(cause).splitlines()[0].rstrip('.')}; expected a complete {kind}: copy it again, or "
            "encode the text again"
        ) from cause
