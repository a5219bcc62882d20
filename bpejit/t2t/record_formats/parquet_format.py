"""Parquet: a row for each example, and a column with lists of int64 for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import OutputError
from bpejit.extras import import_extra
from bpejit.t2t.example_arrays import read_examples
from bpejit.t2t.record_formats.base import ByteOutput, RecordFormat, RecordWriter

GROUP_IDS = 1 << 20
"""A group of rows ends with the first example after so many ids of all features, or after `GROUP_EXAMPLES`."""

GROUP_EXAMPLES = 1 << 17

_COMPRESSION = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}


class ParquetRecordWriter(RecordWriter):
    """Collects examples, and writes them in groups of rows, which do not depend on the blocks that arrive."""

    def __init__(self, file: ByteOutput, names: Sequence[str]) -> None:
        self._arrow: Any = import_extra("pyarrow", "the record format parquet", error=OutputError)
        parquet = import_extra("pyarrow.parquet", "the record format parquet", error=OutputError)
        self._names = sorted(names, key=str.encode)
        item = self._arrow.field("item", self._arrow.int64(), nullable=False)
        self._kind = self._arrow.list_(item)
        self._schema = self._arrow.schema([self._arrow.field(name, self._kind, nullable=False) for name in self._names])
        self._sink = _Sink(file)
        self._parquet = parquet.ParquetWriter(self._sink, self._schema, **_COMPRESSION)
        self._ids: list[list[Array]] = [[] for _ in self._names]
        self._sizes: list[list[Array]] = [[] for _ in self._names]
        self._n_ids = self._n_examples = 0

    def write(self, data: Array, starts: Array) -> None:
        """Append rows."""
        for number, (ids, own) in enumerate(read_examples(data, starts, names=self._names).values()):
            self._ids[number].append(ids)
            self._sizes[number].append(np.diff(own))
            self._n_ids += int(ids.size)
        self._n_examples += int(starts.size) - 1
        if self._n_ids >= GROUP_IDS or self._n_examples >= GROUP_EXAMPLES:
            self._write_groups(final=False)

    def finish(self) -> None:
        """Write the last rows and the metadata."""
        self._write_groups(final=True)
        self._parquet.close()

    def abandon(self) -> None:
        """Close the writer of pyarrow, whose finalizer writes to the file otherwise."""
        self._sink.discards = True
        self._parquet.close()

    def _write_groups(self, *, final: bool) -> None:
        ids = [np.concatenate([np.empty(0, dtype=np.int64), *parts]) for parts in self._ids]
        starts = [np.cumsum(np.concatenate([[0], *parts]), dtype=np.int64) for parts in self._sizes]
        totals = np.sum(starts, axis=0) if starts else np.zeros(1, dtype=np.int64)
        first, n = 0, totals.size - 1
        while first < n:
            full = int(np.searchsorted(totals, totals[first] + GROUP_IDS, side="left"))
            stop = min(full, first + GROUP_EXAMPLES)
            if stop > n and not final:
                break
            stop = min(stop, n)
            columns = []
            for values, own in zip(ids, starts, strict=True):
                offsets = (own[first : stop + 1] - own[first]).astype(np.int32)
                listed = self._arrow.array(values[int(own[first]) : int(own[stop])])
                columns.append(self._arrow.ListArray.from_arrays(offsets, listed, type=self._kind))
            table = self._arrow.Table.from_arrays(columns, schema=self._schema)
            self._parquet.write_table(table, row_group_size=stop - first)
            first = stop
        self._ids = [[values[int(own[first]) :]] for values, own in zip(ids, starts, strict=True)]
        self._sizes = [[np.diff(own[first:])] for own in starts]
        self._n_ids = int(totals[-1] - totals[first])
        self._n_examples = n - first


class _Sink:
    """An output file for pyarrow."""

    closed = False
    discards = False

    def __init__(self, file: ByteOutput) -> None:
        self._file = file
        self._n_bytes = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if not self.discards:
            self._file.write(view)
        self._n_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._n_bytes

    def flush(self) -> None:
        """Do nothing: the owner of the file flushes it."""

    def close(self) -> None:
        """Do nothing: the owner of the file closes it."""


class ParquetRecordFormat(RecordFormat):
    """The format of Parquet files."""

    suffix = ".parquet"

    def writer(self, file: ByteOutput, names: Sequence[str]) -> ParquetRecordWriter:
        """Return a writer."""
        return ParquetRecordWriter(file, names)
