"""Spools of the columns that pass through a job: a row for each document, in files that only grow.

`columns-<0 or 1>.rows` in the folder of a part has the rows of the documents that remain, or that are set aside: the number of
the output as little-endian int64, and a stream of Arrow with a record batch, for each chunk. Outputs follow each other, and
shards do not divide them: the documents of a shard are a range of the rows of its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from bpejit.corpus.kept_columns import (
    final_batch,
    final_schema,
    json_schema,
    merge_schemas,
    pack_rows,
    read_schema,
    stored_rows,
)
from bpejit.jobs.job_folder import GrowingFile
from bpejit.jobs.spools import SpoolRecord
from bpejit.storage.arrow_columns import ColumnRows

SCHEMA = "columns.schema"
"""The types that were planned, in the folder of a job."""


def columns_path(folder: Path, aside: bool) -> Path:
    """Return the file of the rows of a part."""
    return folder / f"columns-{int(aside)}.rows"


class ColumnSpools:
    """Writes the rows of the documents of a part.

    Parameters
    ----------
    folder : Path
        Exists.
    sides : tuple of bool
        `(False,)`, or `(False, True)` if documents are set aside.
    schema : bytes, optional
        The types that were planned.
    state : list of (int, str), optional
        The size and the hash of each file at a checkpoint (see `state`); None to begin.

    Raises
    ------
    OSError
    OutputError
        If a file is not that of the checkpoint.
    """

    def __init__(
        self, folder: Path, sides: Sequence[bool], schema: bytes | None, state: Sequence[tuple[int, str | None]] | None = None
    ) -> None:
        self._schema = None if schema is None else read_schema(schema)
        self._files: list[GrowingFile] = []
        try:
            for side, (size, sha256) in zip(sides, state or [(0, None)] * len(sides), strict=True):
                self._files.append(GrowingFile(columns_path(folder, side), size, sha256))
        except BaseException:
            self.close()
            raise

    def write(self, output: int, side: bool, rows: Any) -> None:
        """Append rows of an output, a record batch.

        Raises
        ------
        CorpusError
            If their types and those of earlier rows have none in common.
        OSError
        """
        if rows.num_rows:
            self._schema = merge_schemas(self._schema, rows.schema)
            self._files[side].write(output.to_bytes(8, "little") + pack_rows(rows))

    def state(self) -> list[tuple[int, str]]:
        """Return the size and the hash of each file."""
        return [(file.size, file.sha256) for file in self._files]

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [file.path for file in self._files]

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()


@dataclass(frozen=True)
class StoredColumns:
    """The rows of a complete job, from all its parts.

    Parameters
    ----------
    starts : dict of (int, bool) to list of (Path, int)
        For each output, and the documents that are set aside of it, the files that have its rows, in the order of the parts,
        and the positions of its first item in them.
    known : pyarrow.Schema
        The types of all rows together.
    """

    starts: Mapping[tuple[int, bool], Sequence[tuple[Path, int]]]
    known: Any

    @classmethod
    def of(cls, folder: Path, folders: Sequence[Path], names: Sequence[str]) -> StoredColumns:
        """Return the rows of a job, whose types follow from all of them.

        Parameters
        ----------
        folder : Path
            Of the job.
        folders : list of Path
            Of the parts.
        names : list of str
            Of the columns.

        Raises
        ------
        CorpusError, OSError
        """
        try:
            schema = read_schema((folder / SCHEMA).read_bytes())
        except FileNotFoundError:
            schema = None
        starts: dict[tuple[int, bool], list[tuple[Path, int]]] = {}
        for part in folders:
            for aside in (False, True):
                path = columns_path(part, aside)
                last = -1
                for position, output, batch in stored_rows(path):
                    if output != last:
                        starts.setdefault((output, aside), []).append((path, position))
                        last = output
                    schema = merge_schemas(schema, batch.schema)
        return cls(starts, json_schema(names) if schema is None else schema)

    def rows(self, record: SpoolRecord, start: int) -> ColumnRows:
        """Return the rows of the documents of a spool, the first of which has the number `start` in its output."""
        final = final_schema(self.known)
        return ColumnRows(final, self._batches(record, start, final))

    def _batches(self, record: SpoolRecord, start: int, final: Any) -> Iterator[Any]:
        for path, position in self.starts.get((record.output, record.aside), ()):
            for _, _, batch in takewhile(lambda item: item[1] == record.output, stored_rows(path, position)):
                if start < batch.num_rows:
                    yield final_batch(batch.slice(start), self.known, final)
                start = max(start - batch.num_rows, 0)
