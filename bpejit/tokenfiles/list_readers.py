"""Open ids that are in several places: in groups of rows with a document each, in Parquet or Arrow, or in several files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.extras import import_extra
from bpejit.progress_bar import Progress, showing_progress
from bpejit.storage.files import read_error
from bpejit.tokenfiles.description import ALL_DTYPES, Description
from bpejit.tokenfiles.mapping import Borders
from bpejit.tokenfiles.readers import MappedTokens, TokenReader

COLUMN = "input_ids"
"""The name of the column, as in Hugging Face's datasets."""

LENGTHS_COLUMN = "document_lengths"
"""The name of the column with the lengths of the documents, or parts of documents, in each packed row."""

_MOST_OPEN = 64
"""Files that are open at a time: each has up to three mappings, with a file descriptor for each."""


class JoinedTokens(TokenReader):
    """Several token files as one sequence. Only `_MOST_OPEN` of them are open at a time.

    Parameters
    ----------
    path : Path
        What names the files, for messages.
    n_files : int
    open_file : callable
        Opens a file by its number.

    Raises
    ------
    TokenFileError
        If a file cannot be opened, or its format, dtype or tokenizer is not that of the first one.
    """

    description = None

    def __init__(self, path: Path, n_files: int, open_file: Callable[[int], TokenReader]) -> None:
        self.path = path
        self._open = lru_cache(_MOST_OPEN)(open_file)
        first = self._part(0)
        self.dtype, self.format = first.dtype, first.format
        names = ["format", "dtype", "tokenizer_sha256"]
        if first.tokenizer_sha256 is not None:
            names.append("vocab_size")
        same = {name: getattr(first, name) for name in names}
        self._files: list[tuple[Path, Description | None]] = []
        counts: list[int | None] = []
        for part in map(self._part, range(n_files)):
            part.check(
                same, f"`{first.path}`", "convert it with `bpejit tokens convert`, encode the text again, or leave it out"
            )
            self.other_columns = list(dict.fromkeys([*self.other_columns, *part.other_columns]))
            self._files += part.files
            counts.append(part.n_documents)
        self._n_parts = n_files
        self._rows = None if None in counts else np.cumsum([0, *(count or 0 for count in counts)], dtype=np.int64)

    def _part(self, number: int) -> TokenReader:
        return self._open(number)

    @property
    def files(self) -> Sequence[tuple[Path, Description | None]]:
        """The main files, in order, each with its description."""
        return self._files

    def _part_sizes(self) -> list[int]:
        return [
            self._part(number).n_tokens if description is None else description.tokens
            for number, (_, description) in enumerate(self._files)
        ]

    @showing_progress
    def verify(self, *, progress: Progress | bool | None = None) -> None:
        """Verify all files."""
        report = arguments.progress(progress)
        done = 0
        for part in self._parts():

            def part_report(stage: str, n: int, _: int | None, unit: str, before: int = done) -> None:
                report(stage, before + n, self.n_tokens, unit)

            part.verify(progress=part_report)
            done += part.n_tokens


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
        self._cached: tuple[int, TokenReader] | None = None
        with self._reading():
            schema, rows, self._counts = self._open()
            self._column, self.dtype = list_column(schema, path)
            self._packed = LENGTHS_COLUMN in schema.names
            self.other_columns = [name for name in schema.names if name not in (self._column, LENGTHS_COLUMN)]
        if any(number < 0 for number in rows):
            raise self._damaged(f"announces {min(rows)} rows", "none or more")
        self._n_parts = len(rows)
        self._rows: Array = np.cumsum([0, *rows], dtype=np.int64)
        if description is not None:  # otherwise the ids are not counted before they are needed
            self._check_description()

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
        """Return a column of a group, as an array of pyarrow."""

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
