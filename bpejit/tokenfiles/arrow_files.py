"""Token files in Parquet and in Arrow's IPC format (Feather 2): a row per document, whose column `input_ids` has the ids.

Rows are written in groups. A group ends with the first document after `GROUP_TOKENS` ids, or after `GROUP_ROWS` documents, so
the files do not depend on the blocks in which the ids arrive. Arrow files are not compressed, so that they are mapped into
memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.errors import BpejitError, OptionError, TokenFileError
from bpejit.extras import import_extra
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.storage.files import StrPath, read_error
from bpejit.tokenfiles.base import TokenFileFormat
from bpejit.tokenfiles.description import ALL_DTYPES, Description, Dtypes
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.mapping import Borders, MappedTokens
from bpejit.tokenfiles.readers import TokenReader

COLUMN = "input_ids"
"""The name of the column, as in Hugging Face's datasets."""

LENGTHS_COLUMN = "document_lengths"
"""The name of the column with the lengths of the documents, or parts of documents, in each packed row."""

LIST_DTYPES = {name: ALL_DTYPES[name] for name in ("uint16", "int32", "uint32", "int64")}
"""The dtypes of the ids in lists; int32 before uint32, which fewer tools read."""

GROUP_TOKENS = 1 << 20

GROUP_ROWS = 1 << 17

GROUP_BYTES = 1 << 26
"""Bytes of other columns after which a group ends."""

_LONGEST = 2**31 - 1

_import = partial(import_extra, error=TokenFileError)


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
        self._arrow = _import("pyarrow", f"the token file format {form.name}")  # before files are opened
        self.left_out = 0
        self._columns = columns
        self._pack = pack
        super().__init__(form, path, **options)

    def _begin(self, stack: ExitStack) -> None:
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
        stack.push(self._abandon)

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

    def _abandon(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._sink.discards = True
            with suppress(Exception):
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
        self._hash.update(np.ascontiguousarray(ids).data)
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


Groups = tuple[Any, list[int], list[int] | None, Callable[[int, str], Any]]
"""What is read of an open file: the pyarrow.Schema of all columns, the number of rows of each group, the number of ids of each
group if it is stored, and a function that returns a column of a group, as an array of pyarrow, by number and name.
"""


class ListColumnFormat(TokenFileFormat):
    """A format with a row per document.

    Attributes
    ----------
    kind : str
        What a file is, for messages.
    """

    dtypes: ClassVar[Dtypes] = LIST_DTYPES
    states_dtype = True
    stores_documents = True
    own_columns = (COLUMN, LENGTHS_COLUMN)
    writer_type = RowWriter
    kind: ClassVar[str]

    def read(self, path: Path, fields: Description | None, dtype: str | None) -> ListColumnTokens:  # noqa: ARG002
        """Return an open token file."""
        return ListColumnTokens(self, path, fields)

    def open_groups(self, path: Path) -> Groups:
        """Open a file; what pyarrow raises is raised."""
        raise NotImplementedError

    def open_rows(self, sink: Sink, schema: Any) -> Any:
        """Return a writer of pyarrow for record batches."""
        raise NotImplementedError

    def close_rows(self, output: Any, counts: list[int]) -> None:  # noqa: ARG002
        """Complete a file with some numbers of ids in its groups."""
        output.close()


class ListColumnTokens(TokenReader):
    """An open token file with a column of lists, in groups of rows.

    Raises
    ------
    TokenFileError
        If the file cannot be read, or has no column of ids.
    """

    def __init__(self, form: ListColumnFormat, path: Path, description: Description | None) -> None:
        self.path = path
        self.description = description
        self._kind = form.kind
        self._cached: tuple[int, TokenReader] | None = None
        with self._reading():
            schema, rows, self._counts, self._read_column = form.open_groups(path)
            self._column, self.dtype = _list_column(schema, path)
            self._packed = LENGTHS_COLUMN in schema.names
            self.other_columns = [name for name in schema.names if name not in (self._column, LENGTHS_COLUMN)]
        if any(number < 0 for number in rows):
            raise self._damaged(f"announces {min(rows)} rows", "none or more")
        self._n_parts = len(rows)
        self._rows: Array = np.cumsum([0, *rows], dtype=np.int64)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise TokenFileError where pyarrow cannot read the file."""
        try:
            yield
        except (BpejitError, MemoryError):
            raise
        except Exception as cause:  # besides its own ones, those of Python, such as for names that are not UTF-8 or occur twice
            if isinstance(cause, OSError) and cause.errno is not None:
                raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause
            found = (str(cause).splitlines() or [type(cause).__name__])[0].rstrip(".")
            raise TokenFileError(
                f"`{self.path}` cannot be read: {found}; expected a complete {self._kind}: copy it again, or encode the text "
                "again"
            ) from cause

    def _damaged(self, found: str, expected: str) -> TokenFileError:
        return TokenFileError(
            f"`{self.path}` {found}; expected {expected}: the file is damaged; copy it again, or encode the text again"
        )

    def _read_lists(self, group: int, name: str) -> tuple[Array, Array]:
        """Return the numbers of a column of a group, and the offsets of its lists, int64 [rows + 1] from 0 up."""
        with self._reading():
            column = self._read_column(group, name)
            column.validate(full=True)  # otherwise pyarrow follows any offsets
            if column.null_count or column.values.null_count:
                raise TokenFileError(
                    f"`{self.path}` has nulls in its column `{name}`; expected a list of numbers in each row: remove them"
                )
            offsets = column.offsets.to_numpy().astype(np.int64)
            values = column.values.to_numpy()[int(offsets[0]) : int(offsets[-1])]
        n_rows = int(self._rows[group + 1] - self._rows[group])
        if offsets.size != n_rows + 1:
            raise self._damaged(f"has {offsets.size - 1} rows in its group {group}", f"{n_rows}, the number that it announces")
        return values, offsets - offsets[0]

    def _read_group(self, group: int) -> tuple[Array, Array]:
        """Return the ids of a group, and the offsets of its documents, [documents + 1] from 0 up."""
        ids, offsets = self._read_lists(group, self._column)
        if self._counts is not None and ids.size != self._counts[group]:
            raise self._damaged(
                f"has {ids.size} ids in its group {group}", f"{self._counts[group]}, the number that it announces"
            )
        return ids, offsets

    def _part_sizes(self) -> list[int]:
        if self._counts is None:  # another tool wrote the file, or the format does not store them
            self._counts = [part.n_tokens for part in self._parts()]
        return self._counts

    def _part(self, number: int) -> TokenReader:
        if self._cached is None or self._cached[0] != number:
            self._cached = None  # before another group is in memory
            ids, offsets = self._read_group(number)
            ids.flags.writeable = False
            self._cached = (number, MappedTokens(self.path, ids, None, Borders(self.path, int(ids.size), offsets[1:])))
        return self._cached[1]

    def _hashed_blocks(self) -> Iterator[tuple[Array, Array | None]]:
        if not self._packed:
            yield from self.document_blocks()
        for group in range(self._n_parts if self._packed else 0):
            ids, offsets = self._read_group(group)
            yield np.ascontiguousarray(ids, ALL_DTYPES[self.dtype]), self._part_ends(group, offsets)

    def _part_ends(self, group: int, offsets: Array) -> Array:
        """Return the ends of the documents and parts of documents in the packed rows of a group."""
        lengths, parts = self._read_lists(group, LENGTHS_COLUMN)
        ends = np.cumsum(lengths, dtype=np.int64)
        sizes = np.diff(offsets)
        if (np.concatenate([[0], ends])[parts] != offsets).any() or (sizes != sizes[:1]).any():
            raise self._damaged(f"has rows in its group {group} that `{LENGTHS_COLUMN}` does not divide", "lengths that add up")
        return ends


def _list_column(schema: Any, path: Path) -> tuple[str, str]:
    """Return the name and the dtype of the column of ids: `input_ids`, or the only one with lists of integers."""
    found = {}
    types = _import("pyarrow", f"the columns of `{path}`").types
    for field in schema:
        name = str(field.type.value_type) if types.is_list(field.type) or types.is_large_list(field.type) else ""
        if name in ALL_DTYPES:
            found[field.name] = name
    column = COLUMN if COLUMN in found else next(iter(found), COLUMN)
    if (column != COLUMN and len(found) > 1) or column not in found or len(schema.get_all_field_indices(column)) != 1:
        columns = ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
        raise TokenFileError(
            f"`{path}` has no column of token ids: its columns are {columns}; expected `{COLUMN}` or a single column with "
            f"lists of one of {', '.join(ALL_DTYPES)}: check the path"
        )
    return column, found[column]


class Sink:
    """An output file for pyarrow, which is written from its start, and stays open.

    Parameters
    ----------
    file : binary file

    Attributes
    ----------
    discards : bool
        Ignore what is written, since the file is abandoned.
    """

    closed = discards = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """Append bytes."""
        return len(data) if self.discards else self._file.write(memoryview(data))  # type: ignore[no-any-return]

    def flush(self) -> None:
        """Do nothing."""

    close = flush


COMPRESSION = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
"""A dictionary makes files of ids larger, by a sixth, and reading them slower."""

_COUNTS = b"bpejit.tokens"
"""The key of the metadata with the number of ids of each row group, which Parquet itself does not store."""


class ArrowFormat(ListColumnFormat):
    """The format of Arrow files."""

    name = "arrow"
    suffix = ".arrow"
    other_suffixes = (".feather",)
    magic = b"ARROW1"
    kind = "Arrow file"

    def open_groups(self, path: Path) -> Groups:
        """Open a file, mapped into memory, with a record batch for each group."""
        arrow = _import("pyarrow", f"the {self.kind} `{path}`")
        if path.stat().st_size == 0:  # which cannot be mapped
            raise ValueError("it is empty")
        file = arrow.ipc.open_file(arrow.memory_map(os.fspath(path)))
        rows = [file.get_batch(batch).num_rows for batch in range(file.num_record_batches)]
        return file.schema, rows, None, lambda group, name: file.get_batch(group).column(name)

    def open_rows(self, sink: Sink, schema: Any) -> Any:
        """Return a writer of an Arrow file."""
        return _import("pyarrow", f"an {self.kind}").ipc.new_file(sink, schema)


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
    kind = "Parquet file"

    def open_groups(self, path: Path) -> Groups:
        """Open a file with row groups."""
        file = _import("pyarrow.parquet", f"the {self.kind} `{path}`").ParquetFile(path)
        rows = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]

        def read(group: int, name: str) -> Any:
            column = file.read_row_group(group, columns=[name]).column(name).combine_chunks()
            return column.chunk(0) if hasattr(column, "chunks") else column

        return file.schema_arrow, rows, _stored_counts(file.metadata.metadata, len(rows)), read

    def open_rows(self, sink: Sink, schema: Any) -> Any:
        """Return a writer of a Parquet file, compressed with zstd."""
        return _import("pyarrow.parquet", f"a {self.kind}").ParquetWriter(sink, schema, **COMPRESSION)

    def close_rows(self, output: Any, counts: list[int]) -> None:
        """Complete a file, with the number of ids of each group in its metadata."""
        output.add_key_value_metadata({_COUNTS: json.dumps(counts)})
        output.close()

    def check_columns(self, schema: Any) -> None:
        """Raise OptionError if Parquet has no types for some of the columns."""
        arrow = _import("pyarrow", "a column of a Parquet file")
        parquet = _import("pyarrow.parquet", "a column of a Parquet file")
        try:
            for field in schema:
                parquet.ParquetWriter(arrow.BufferOutputStream(), arrow.schema([field])).close()
        except (arrow.ArrowException, ValueError) as cause:
            raise OptionError(
                f"the column `{field.name}` contains {field.type}, which Parquet cannot store ({cause}); expected another "
                "type: choose the format arrow, or leave the column out of `keep_columns=`"
            ) from cause
