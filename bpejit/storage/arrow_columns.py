"""Columns of pyarrow that pass from an input to an output: their types, and reading them row by row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.extras import import_extra

_PURPOSE = "a column that passes through"


def plain_type(data_type: Any) -> Any:
    """Return the type of the values of a dictionary, and of strings with offsets for views; other types are returned as is."""
    pyarrow = import_extra("pyarrow", _PURPOSE)
    if pyarrow.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    views = {"string_view": pyarrow.large_string(), "binary_view": pyarrow.large_binary()}
    return views.get(str(data_type), data_type)


def plain_array(array: Any) -> Any:
    """Return an array with the type that `plain_type` returns."""
    wanted = plain_type(array.type)
    return array if array.type == wanted else array.cast(wanted)


class ColumnRows:
    """Rows of columns that are read in order.

    Parameters
    ----------
    schema : pyarrow.Schema
    batches : iterator of pyarrow.RecordBatch
        With this schema.
    """

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        self.schema = schema
        self.batches = batches
        self._ready: deque[tuple[Any, Array]] = deque()

    def count_rows(self, most: int, n_bytes: int) -> int:
        """Return the number of the next rows that reach a size of `n_bytes` together, or `most` if these are fewer."""
        found = 0
        left = n_bytes
        for _, sizes in self._upcoming():
            cumulative = np.cumsum(sizes[: most - found])
            n_rows = int(np.searchsorted(cumulative, left, side="left")) + 1
            if n_rows <= cumulative.size:
                return found + n_rows
            found += cumulative.size
            if found >= most:
                break
            left -= int(cumulative[-1])
        return most

    def _upcoming(self) -> Iterator[tuple[Any, Array]]:
        yield from tuple(self._ready)
        while self._read():
            yield self._ready[-1]

    def _read(self) -> bool:
        for batch in self.batches:
            if batch.num_rows:
                self._ready.append((batch, row_sizes(batch)))
                return True
        return False

    def take(self, n_rows: int) -> list[Any]:
        """Return the next rows as an array for each column.

        Raises
        ------
        ValueError
            If there are fewer rows.
        """
        pyarrow = import_extra("pyarrow", _PURPOSE)
        taken = []
        while n_rows:
            if not self._ready and not self._read():
                raise ValueError(f"the columns end {n_rows} rows before the documents")
            batch, sizes = self._ready.popleft()
            if batch.num_rows > n_rows:
                self._ready.appendleft((batch.slice(n_rows), sizes[n_rows:]))
                batch = batch.slice(0, n_rows)
            taken.append(batch)
            n_rows -= batch.num_rows
        return [
            pyarrow.concat_arrays([batch.column(index) for batch in taken]) if taken else pyarrow.array([], field.type)
            for index, field in enumerate(self.schema)
        ]


def row_sizes(batch: Any) -> Array:
    """Return the bytes of each row of a record batch, as int64 [rows]: those of strings exactly, others on average."""
    compute = import_extra("pyarrow.compute", _PURPOSE)
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if str(column.type) in ("string", "binary", "large_string", "large_binary"):
            sizes += compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        elif batch.num_rows:
            sizes += column.nbytes // batch.num_rows
    return sizes
