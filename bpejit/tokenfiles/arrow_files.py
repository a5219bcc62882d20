"""Token files in Arrow's IPC format (Feather 2): a row per document, with its ids as a list in the column `input_ids`.

The file is not compressed, so that it is mapped into memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from bpejit.tokenfiles.list_columns import GroupWriter, ListColumnFormat
from bpejit.tokenfiles.list_readers import BATCH_ROWS, ListColumnTokens, arrow_module

_KIND = "Arrow file"


class ArrowTokenWriter(GroupWriter):
    """Write an Arrow file of ids, with a record batch for each group."""

    def _open_rows(self) -> Any:
        return self._arrow.ipc.new_file(self._sink, self._schema)

    def _write_group(self, arrays: list[Any], n_tokens: int) -> None:  # noqa: ARG002 - readers count the ids
        self._output.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))


class ArrowTokens(ListColumnTokens):
    """An open Arrow file of ids, mapped into memory."""

    kind = _KIND

    def _open(self) -> tuple[Any, list[int], None]:
        arrow = arrow_module("pyarrow", f"the {_KIND} `{self.path}`")
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
