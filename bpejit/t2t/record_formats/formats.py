"""The formats of examples: TFRecord files, JSON lines with an object for each example, and Parquet with a row for each.

Objects and rows have a list for each feature; in Parquet, of int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import OutputError
from bpejit.extras import import_extra
from bpejit.t2t.example_arrays import read_examples
from bpejit.t2t.record_formats.registry import ByteOutput, RecordFormat, RecordWriter
from bpejit.tokenfiles.arrow_files import COMPRESSION, Sink

GROUP_IDS = 1 << 20
"""A group of rows ends with the first example after so many ids of all features, or after `GROUP_EXAMPLES`."""

GROUP_EXAMPLES = 1 << 17


class TfrecordWriter(RecordWriter):
    """Copies records."""

    def __init__(self, file: ByteOutput, names: Sequence[str]) -> None:  # noqa: ARG002 - records have their own
        self._file = file

    def write(self, data: Array, starts: Array) -> None:
        """Append records."""
        self._file.write(data[int(starts[0]) : int(starts[-1])].data)


class TfrecordFormat(RecordFormat):
    """The format of TFRecord files, which have no suffix, as those of Tensor2Tensor."""

    writer = TfrecordWriter


class JsonlWriter(RecordWriter):
    """Writes lines by orjson."""

    def __init__(self, file: ByteOutput, names: Sequence[str]) -> None:
        self._orjson = import_extra("orjson", "the record format jsonl", error=OutputError)
        self._file = file
        self._names = names

    def write(self, data: Array, starts: Array) -> None:
        """Append lines."""
        features = read_examples(data, starts, self._names)
        columns = []
        for ids, own in features.values():
            listed = ids.tolist()
            columns.append([listed[start:end] for start, end in pairwise(own.tolist())])
        dumps, option = self._orjson.dumps, self._orjson.OPT_APPEND_NEWLINE
        rows = (dict(zip(features, lists, strict=True)) for lists in zip(*columns, strict=True))
        self._file.write(b"".join([dumps(row, option=option) for row in rows]))


class JsonlFormat(RecordFormat):
    """The format of JSON lines."""

    suffix = ".jsonl"
    writer = JsonlWriter


class ParquetRecordWriter(RecordWriter):
    """Collects examples, and writes them in groups of rows, which do not depend on the blocks that arrive."""

    def __init__(self, file: ByteOutput, names: Sequence[str]) -> None:
        self._arrow: Any = import_extra("pyarrow", "the record format parquet", error=OutputError)
        parquet = import_extra("pyarrow.parquet", "the record format parquet", error=OutputError)
        self._names = names
        item = self._arrow.field("item", self._arrow.int64(), nullable=False)
        self._kind = self._arrow.list_(item)
        columns = [self._arrow.field(name, self._kind, nullable=False) for name in sorted(names, key=str.encode)]
        self._schema = self._arrow.schema(columns)
        self._sink = Sink(file)
        self._parquet = parquet.ParquetWriter(self._sink, self._schema, **COMPRESSION)
        self._rows: list[Any] = []
        self._sizes: list[Array] = []
        self._n_ids = self._n_rows = 0

    def write(self, data: Array, starts: Array) -> None:
        """Append rows."""
        lists = read_examples(data, starts, self._names).values()
        columns = [self._arrow.ListArray.from_arrays(own.astype(np.int32), ids, type=self._kind) for ids, own in lists]
        self._rows.append(self._arrow.Table.from_arrays(columns, schema=self._schema))
        self._sizes.append(np.sum([np.diff(own) for _, own in lists], axis=0))
        self._n_ids += int(self._sizes[-1].sum())
        self._n_rows += int(starts.size) - 1
        if self._n_ids >= GROUP_IDS or self._n_rows >= GROUP_EXAMPLES:
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
        rows = self._arrow.concat_tables([self._schema.empty_table(), *self._rows])
        sizes = np.concatenate([np.empty(0, np.int64), *self._sizes])
        totals = np.concatenate([[0], np.cumsum(sizes)])
        first = 0
        while first < sizes.size:
            full = int(np.searchsorted(totals, totals[first] + GROUP_IDS, side="left"))
            stop = min(full, first + GROUP_EXAMPLES)
            if stop > sizes.size and not final:
                break
            stop = min(stop, sizes.size)
            self._parquet.write_table(rows.slice(first, stop - first).combine_chunks(), row_group_size=stop - first)
            first = stop
        self._rows, self._sizes = [rows.slice(first)], [sizes[first:]]
        self._n_ids, self._n_rows = int(totals[-1] - totals[first]), sizes.size - first


class ParquetRecordFormat(RecordFormat):
    """The format of Parquet files."""

    suffix = ".parquet"
    writer = ParquetRecordWriter
