"""Columns of pyarrow that pass from an input to an output, read row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.extras import import_extra

_PURPOSE = "a column that passes through"


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
        self._ready = schema.empty_table()
        self._sizes = np.empty(0, np.int64)

    def _read(self, n_rows: int, n_bytes: float = np.inf) -> None:
        """Read batches until so many rows are ready, or rows of so many bytes, or all."""
        pyarrow = import_extra("pyarrow", _PURPOSE)
        while self._ready.num_rows < n_rows and self._sizes.sum() < n_bytes:
            batch = next(self.batches, None)
            if batch is None:
                return
            self._ready = pyarrow.concat_tables([self._ready, pyarrow.Table.from_batches([batch])])
            self._sizes = np.concatenate([self._sizes, row_sizes(batch)])

    def count_rows(self, most: int, n_bytes: int) -> int:
        """Return the number of the next rows that reach a size of `n_bytes` together, or `most` if these are fewer."""
        self._read(most, n_bytes)
        n_rows = int(np.searchsorted(np.cumsum(self._sizes[:most]), n_bytes, side="left")) + 1
        return n_rows if n_rows <= self._sizes.size else most

    def take(self, n_rows: int) -> list[Any]:
        """Return the next rows as an array for each column.

        Raises
        ------
        ValueError
            If there are fewer rows.
        """
        self._read(n_rows)
        if self._ready.num_rows < n_rows:
            raise ValueError(f"the columns end {n_rows - self._ready.num_rows} rows before the documents")
        taken = self._ready.slice(0, n_rows)
        self._ready = self._ready.slice(n_rows)
        self._sizes = self._sizes[n_rows:]
        return [column.combine_chunks() for column in taken.columns]


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
