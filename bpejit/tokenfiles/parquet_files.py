"""Token files in Parquet: a row per document, with its ids as a list in the column `input_ids`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bpejit.arrays import Array
from bpejit.errors import OptionError
from bpejit.tokenfiles.list_columns import (
    BATCH_ROWS,
    GroupWriter,
    ListColumnFormat,
    ListColumnTokens,
    Sink,
    arrow_module,
    list_arrays,
    list_column,
    reading,
)

_KIND = "Parquet file"

_COMPRESSION = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
"""A dictionary makes files of ids larger, by a sixth, and reading them slower."""

_COUNTS = b"bpejit.tokens"
"""The key of the metadata with the number of ids of each row group, which Parquet itself does not store."""


class ParquetTokenWriter(GroupWriter):
    """Write a Parquet file of ids, compressed with zstd."""

    def _begin(self) -> None:
        super()._begin()
        parquet = arrow_module("pyarrow.parquet", f"a {_KIND}")
        self._schema = self._schema_of_rows()
        self._counts: list[int] = []
        self._sink = Sink(self._data)
        self._parquet = parquet.ParquetWriter(self._sink, self._schema, **_COMPRESSION)

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:
        self._parquet.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema), row_group_size=len(arrays[0]))
        self._counts.append(n_tokens)

    def _finish(self) -> None:
        super()._finish()
        self._parquet.add_key_value_metadata({_COUNTS: json.dumps(self._counts)})
        self._parquet.close()

    def _abandon(self) -> None:
        self._sink.discards = True
        self._parquet.close()  # otherwise its finalizer writes to the file


class ParquetTokens(ListColumnTokens):
    """An open Parquet file of ids."""

    def _open(self) -> tuple[str, str, list[int]]:
        parquet = arrow_module("pyarrow.parquet", f"the {_KIND} `{self.path}`")
        with reading(self.path, _KIND):
            self._file = parquet.ParquetFile(self.path)
            groups = self._file.metadata
            rows = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
            return *list_column(self._file.schema_arrow, self.path), rows

    def _read_group(self, group: int) -> tuple[Array, Array]:
        with reading(self.path, _KIND):
            column = self._file.read_row_group(group, columns=[self._column]).column(0).combine_chunks()
        return list_arrays(column.chunk(0) if hasattr(column, "chunks") else column, self.path)

    def _column_names(self) -> list[str]:
        return [field.name for field in self._file.schema_arrow]

    def _other_batches(self, names: list[str]) -> tuple[Any, Iterator[Any]]:
        schema = self._file.schema_arrow

        def batches() -> Iterator[Any]:
            with reading(self.path, _KIND):
                for batch in self._file.iter_batches(batch_size=BATCH_ROWS, columns=names, use_threads=False):
                    yield batch.select(names)

        return [schema.field(name) for name in names], batches()

    def _token_counts(self) -> list[int]:
        stored = (self._file.metadata.metadata or {}).get(_COUNTS)
        try:
            counts = [int(count) for count in json.loads(stored)] if stored else []
        except (ValueError, TypeError):
            counts = []
        if len(counts) != self._rows.size - 1:  # written by another tool
            counts = [int(ids.size) for ids, _ in self._groups()]
        return counts


class ParquetFormat(ListColumnFormat):
    """The format of Parquet files."""

    name = "parquet"
    suffix = ".parquet"
    magic = b"PAR1"
    writer_type = ParquetTokenWriter
    reader_type = ParquetTokens

    def check_columns(self, schema: Any) -> None:
        """Raise OptionError if Parquet has no types for some of the columns."""
        arrow = arrow_module("pyarrow", "a column of a Parquet file")
        parquet = arrow_module("pyarrow.parquet", "a column of a Parquet file")
        for field in schema:
            with _storing(field):
                parquet.ParquetWriter(arrow.BufferOutputStream(), arrow.schema([field])).close()


@contextmanager
def _storing(field: Any) -> Iterator[None]:
    """Raise OptionError where pyarrow cannot store a column."""
    errors = (arrow_module("pyarrow", "a column").ArrowException, ValueError)
    try:
        yield
    except errors as cause:
        raise OptionError(
            f"the column `{field.name}` contains {field.type}, which Parquet cannot store ({cause}); expected another type: "
            "choose the format arrow, or leave the column out of `keep_columns=`"
        ) from cause
