"""Open token files with one row per document, in Parquet or Arrow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.extras import import_extra
from bpejit.storage.arrow_columns import ColumnRows, plain_array, plain_type
from bpejit.storage.files import read_error
from bpejit.tokenfiles.base import BLOCK_TOKENS, TokenReader, document_number
from bpejit.tokenfiles.description import ALL_DTYPES, Description

COLUMN = "input_ids"
"""The name of the column, as in Hugging Face's datasets."""

LENGTHS_COLUMN = "document_lengths"
"""The name of the column with the lengths of the documents, or parts of documents, in each packed row."""

BATCH_ROWS = 1 << 10
"""Rows of other columns that are read at a time."""


class ListColumnTokens(TokenReader):
    """An open token file with a column of lists, in groups of rows.

    Attributes
    ----------
    kind : str
        What the file is, for messages.

    Raises
    ------
    TokenFileError
        If the file cannot be read, has no column of ids, or does not agree with its description.
    """

    kind: ClassVar[str]

    def __init__(self, path: Path, description: Description | None) -> None:
        self.path = path
        self.description = description
        self._cached: tuple[int, Array, Array] | None = None
        with self._reading():
            self._schema, rows, self._counts = self._open()
            self._column, self.dtype = list_column(self._schema, path)
        if any(number < 0 for number in rows):
            raise self._damaged(f"announces {min(rows)} rows", "none or more")
        self._rows = np.cumsum([0, *rows], dtype=np.int64)
        if description is not None:  # otherwise the ids are not counted before they are needed
            self._check_counts(self.dtype, self.n_tokens, self.n_documents)

    @abstractmethod
    def _open(self) -> tuple[Any, list[int], list[int] | None]:
        """Open the file.

        Returns
        -------
        schema : pyarrow.Schema
            Of all columns.
        rows : list of int
            The number of rows of each group.
        counts : list of int, optional
            The number of ids of each group; None if it is not stored.
        """

    @abstractmethod
    def _read_column(self, group: int, name: str) -> Any:
        """Return a column of lists of a group, as an array of pyarrow."""

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise TokenFileError where pyarrow cannot read the file."""
        # Besides its own exceptions, pyarrow raises those of Python for names that are not UTF-8 or occur twice, for example.
        arrow = arrow_module("pyarrow", self.kind)
        try:
            yield
        except TokenFileError:
            raise
        except (arrow.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError) as cause:
            if isinstance(cause, OSError) and cause.errno is not None:
                raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause
            found = (str(cause).splitlines() or [type(cause).__name__])[0].rstrip(".")
            raise TokenFileError(
                f"`{self.path}` cannot be read: {found}; expected a complete {self.kind}: copy it again, or encode the text "
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

    @abstractmethod
    def _batches(self, names: list[str]) -> Iterator[Any]:
        """Yield all rows of some columns as record batches of a moderate size."""

    def other_columns(self) -> ColumnRows | None:
        """Return the rows of the other columns, which are read in order; None if there are none."""
        arrow = arrow_module("pyarrow", f"the columns of `{self.path}`")
        with self._reading():
            fields = [field for field in self._schema if field.name not in (self._column, LENGTHS_COLUMN)]
            plain = arrow.schema([arrow.field(field.name, plain_type(field.type)) for field in fields])
        if not fields:
            return None

        def rows() -> Iterator[Any]:
            n_rows = 0
            with self._reading():
                for batch in self._batches(plain.names):
                    batch.validate(full=True)  # otherwise pyarrow follows any offsets
                    n_rows += batch.num_rows
                    yield arrow.record_batch(list(map(plain_array, batch.columns)), schema=plain)
            if n_rows != self.n_documents:
                raise self._damaged(f"has {n_rows} rows in its other columns", f"{self.n_documents}, those of `{self._column}`")

        return ColumnRows(plain, rows())

    @cached_property
    def _starts(self) -> Array:
        """The position of the first id of each group, and the number of ids, int64 [groups + 1]."""
        if self._counts is None:  # another tool wrote the file, or the format does not store them
            self._counts = [int(ids.size) for ids, _ in self._groups()]
        return np.cumsum([0, *self._counts], dtype=np.int64)

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

    def _id(self, number: int) -> int:
        if not -self.n_tokens <= number < self.n_tokens:
            raise IndexError(f"there is no id at {number}; expected -{self.n_tokens} to {self.n_tokens - 1}: check `n_tokens`")
        number %= self.n_tokens
        return int(self._range(number, number + 1)[0])

    def _slice(self, index: slice) -> Array:
        start, stop, step = index.indices(self.n_tokens)
        if step == 1:
            return self._range(start, stop)
        found: Array = self._range(0, self.n_tokens)[index]
        return found

    def _range(self, start: int, stop: int) -> Array:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        while start < stop:
            begin = int(self._starts[first])
            parts.append(self._group(first)[0][start - begin : stop - begin])
            first += 1
            start = int(self._starts[first])
        if len(parts) == 1:
            return parts[0]
        joined = np.concatenate([np.empty(0, ALL_DTYPES[self.dtype]), *parts])
        joined.flags.writeable = False
        return joined

    def document(self, number: int) -> Array:
        """Return the ids of a document."""
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

    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids in order, [up to `size`], holding one group in memory at a time."""
        for ids, _ in self._groups():
            for start in range(0, ids.size, size):
                yield ids[start : start + size]

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array]]:
        """Yield blocks of up to `size` ids, each with the ends of documents."""
        for ids, offsets in self._groups():
            ends = offsets[1:].astype(np.int64)
            found = 0
            for start in range(0, max(ids.size, 1), size):
                last = int(np.searchsorted(ends, min(start + size, ids.size), side="right"))
                yield ids[start : start + size], ends[found:last] - start
                found = last

    def _blocks_with_ends(self) -> Iterator[tuple[Array, Array]]:
        with self._reading():
            packed = LENGTHS_COLUMN in self._schema.names
        done = 0
        for group, (ids, offsets) in enumerate(self._groups()):
            ends = self._part_ends(group, offsets) if packed else offsets[1:]
            yield np.ascontiguousarray(ids, ALL_DTYPES[self.dtype]), ends + done
            done += ids.size

    def _part_ends(self, group: int, offsets: Array) -> Array:
        """Return the ends of the documents and parts of documents in the packed rows of a group."""
        lengths, parts = self._read_lists(group, LENGTHS_COLUMN)
        ends = np.cumsum(lengths, dtype=np.int64)
        sizes = np.diff(offsets)
        if (np.concatenate([[0], ends])[parts] != offsets).any() or (sizes != sizes[:1]).any():
            raise self._damaged(f"has rows in its group {group} that `{LENGTHS_COLUMN}` does not divide", "lengths that add up")
        return ends


def arrow_module(name: str, what: str) -> Any:
    """Return a module of pyarrow, or raise TokenFileError with the command that installs it."""
    return import_extra(name, what, error=TokenFileError)


def list_column(schema: Any, path: Path) -> tuple[str, str]:
    """Return the name and the dtype of the column of ids in a schema.

    Raises
    ------
    TokenFileError
        If there is not exactly one column `input_ids`, and no other single column of lists of integers.
    """
    found = {}
    types = arrow_module("pyarrow", f"the columns of `{path}`").types
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
