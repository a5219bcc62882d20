"""Token files in Parquet and in Arrow's IPC format (Feather 2): a row per document, whose column `input_ids` has the ids.

Arrow files are not compressed, so that they are mapped into memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from bpejit.errors import OptionError
from bpejit.tokenfiles.list_columns import GroupWriter, ListColumnFormat
from bpejit.tokenfiles.list_readers import BATCH_ROWS, ListColumnTokens, arrow_module

_ARROW, _PARQUET = "Arrow file", "Parquet file"

_COMPRESSION = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
"""A dictionary makes files of ids larger, by a sixth, and reading them slower."""

_COUNTS = b"bpejit.tokens"
"""The key of the metadata with the number of ids of each row group, which Parquet itself does not store."""


class ArrowTokenWriter(GroupWriter):
    """Write an Arrow file of ids, with a record batch for each group."""

    def _open_rows(self) -> Any:
        return self._arrow.ipc.new_file(self._sink, self._schema)

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:  # noqa: ARG002 - readers count the ids
        self._output.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))


class ArrowTokens(ListColumnTokens):
    """An open Arrow file of ids, mapped into memory."""

    kind = _ARROW

    def _open(self) -> tuple[Any, list[int], None]:
        arrow = arrow_module("pyarrow", f"the {_ARROW} `{self.path}`")
        if self.path.stat().st_size == 0:  # which cannot be mapped
            raise arrow.ArrowInvalid("it is empty")
        self._file = arrow.ipc.open_file(arrow.memory_map(os.fspath(self.path)))
        rows = [self._file.get_batch(batch).num_rows for batch in range(self._file.num_record_batches)]
        return self._file.schema, rows, None

    def _read_column(self, group: int, name: str) -> Any:
        return self._file.get_batch(group).column(name)

    def _batches(self, names: list[str]) -> Iterator[Any]:
        for number in range(self._file.num_record_batches):
            batch = self._file.get_batch(number).select(names)
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)


class ArrowFormat(ListColumnFormat):
    """The format of Arrow files."""

    name = "arrow"
    suffix = ".arrow"
    other_suffixes = (".feather",)
    magic = b"ARROW1"
    writer_type = ArrowTokenWriter
    reader_type = ArrowTokens


class ParquetTokenWriter(GroupWriter):
    """Write a Parquet file of ids, compressed with zstd."""

    def _open_rows(self) -> Any:
        parquet = arrow_module("pyarrow.parquet", f"a {_PARQUET}")
        self._counts: list[int] = []
        return parquet.ParquetWriter(self._sink, self._schema, **_COMPRESSION)

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:
        self._output.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema), row_group_size=len(arrays[0]))
        self._counts.append(n_tokens)

    def _close_rows(self) -> None:
        self._output.add_key_value_metadata({_COUNTS: json.dumps(self._counts)})
        super()._close_rows()


class ParquetTokens(ListColumnTokens):
    """An open Parquet file of ids."""

    kind = _PARQUET

    def _open(self) -> tuple[Any, list[int], list[int] | None]:
        parquet = arrow_module("pyarrow.parquet", f"the {_PARQUET} `{self.path}`")
        self._file = parquet.ParquetFile(self.path)
        groups = self._file.metadata
        rows = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
        return self._file.schema_arrow, rows, _stored_counts(groups.metadata, len(rows))

    def _read_column(self, group: int, name: str) -> Any:
        column = self._file.read_row_group(group, columns=[name]).column(0).combine_chunks()
        return column.chunk(0) if hasattr(column, "chunks") else column

    def _batches(self, names: list[str]) -> Iterator[Any]:
        for batch in self._file.iter_batches(batch_size=BATCH_ROWS, columns=names, use_threads=False):
            yield batch.select(names)


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
    writer_type = ParquetTokenWriter
    reader_type = ParquetTokens

    def check_columns(self, schema: Any) -> None:
        """Raise OptionError if Parquet has no types for some of the columns."""
        arrow = arrow_module("pyarrow", "a column of a Parquet file")
        parquet = arrow_module("pyarrow.parquet", "a column of a Parquet file")
        try:
            for field in schema:
                parquet.ParquetWriter(arrow.BufferOutputStream(), arrow.schema([field])).close()
        except (arrow.ArrowException, ValueError) as cause:
            raise OptionError(
                f"the column `{field.name}` contains {field.type}, which Parquet cannot store ({cause}); expected another "
                "type: choose the format arrow, or leave the column out of `keep_columns=`"
            ) from cause
