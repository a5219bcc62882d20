"""Spools of the columns that pass through a job: a row for each document, in files that only grow.

`columns-<output>-<0 or 1>.rows` in the folder of a part has the rows of the documents of an output that remain, or that are set
aside, as streams of Arrow, each with a record batch. Shards do not divide it: the documents of a shard are a range of its rows.
The hash of a side covers its files, in the order of the outputs, each followed by its size when the next one begins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from bpejit.corpus.kept_columns import (
    final_batch,
    final_schema,
    json_schema,
    merge_schemas,
    pack_rows,
    read_schema,
    stored_rows,
)
from bpejit.jobs.job_folder import damaged
from bpejit.jobs.spools import SpoolRecord
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.storage.temporary import sync_file

SCHEMA = "columns.schema"
"""The types that were planned, in the folder of a job."""

_HASHED_BYTES = 1 << 20


def columns_path(folder: Path, output: int, aside: bool) -> Path:
    """Return the file of the rows of an output."""
    return folder / f"columns-{output:06d}-{int(aside)}.rows"


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
    state : dict, optional
        The state at a checkpoint (see `snapshot`); None to begin.

    Raises
    ------
    OSError
    OutputError
        If a file is not that of the checkpoint.
    """

    def __init__(
        self, folder: Path, sides: tuple[bool, ...], schema: bytes | None, state: Mapping[str, Any] | None = None
    ) -> None:
        self._folder = folder
        self._sides = sides
        self._schema = None if schema is None else read_schema(schema)
        self._output = -1
        self._open: dict[bool, BinaryIO] = {}
        self._unsynced: set[Path] = set()
        self._hashes = {side: hashlib.sha256() for side in sides}
        if state is not None and state["output"] >= 0:
            self._hashes = _hash_rows(folder, sides, state["output"], state["sizes"])
            check_rows(folder, state["sha256"], self._hashes)
            self._begin(state["output"], [int(size) for size in state["sizes"]])

    def begin_output(self, output: int) -> None:
        """Set the output of the next rows.

        Raises
        ------
        OSError
        """
        if output != self._output:
            self._begin(output, [0] * len(self._sides))

    def _begin(self, output: int, sizes: Sequence[int]) -> None:
        self.close()
        self._output = output
        for side, size in zip(self._sides, sizes, strict=True):
            path = columns_path(self._folder, output, side)
            file = path.open("r+b" if size else "wb", buffering=0)
            self._open[side] = file
            self._unsynced.add(path)
            if file.seek(0, os.SEEK_END) < size:
                raise OSError(None, "it is shorter than at the last checkpoint", str(path))
            file.truncate(size)
            file.seek(size)

    def write(self, side: bool, rows: Any) -> None:
        """Append rows, a record batch, to the current output.

        Raises
        ------
        CorpusError
            If their types and those of earlier rows have none in common.
        OSError
        """
        if not rows.num_rows:
            return
        self._schema = merge_schemas(self._schema, rows.schema)
        data = memoryview(pack_rows(rows))
        file = self._open[side]
        self._hashes[side].update(data)
        while data:
            data = data[file.write(data) :]

    @property
    def sha256(self) -> list[str]:
        """The hash of each side."""
        return [found.hexdigest() for found in self._hashes.values()]

    def snapshot(self) -> tuple[dict[str, Any], list[Callable[[], None]]]:
        """Return the state for a checkpoint, and functions that flush what it refers to."""
        state = {"output": self._output, "sizes": [file.tell() for file in self._open.values()], "sha256": self.sha256}
        return state, [partial(self._sync, path) for path in tuple(self._unsynced)]

    def _sync(self, path: Path) -> None:
        with path.open("rb") as file:
            sync_file(file.fileno())
        if all(path.name != Path(str(file.name)).name for file in tuple(self._open.values())):
            self._unsynced.discard(path)

    def finish(self) -> None:
        """Close all files, and flush them to disk.

        Raises
        ------
        OSError
        """
        self.close()
        for path in tuple(self._unsynced):
            self._sync(path)

    def close(self) -> None:
        """Close all files."""
        for side, file in self._open.items():
            with suppress(OSError):
                self._hashes[side].update(b"%d " % file.tell())
                file.close()
        self._open.clear()


def _hash_rows(folder: Path, sides: Sequence[bool], last: int | None = None, sizes: Sequence[int] = ()) -> dict[bool, Any]:
    """Return the hash object of each side, up to the given sizes of the files of output `last`; by default of all files."""
    hashes = {}
    for at, side in enumerate(sides):
        digest = hashes[side] = hashlib.sha256()
        for path in sorted(folder.glob(f"columns-*-{int(side)}.rows")):
            output = int(path.name.split("-")[1])
            if last is not None and output > last:
                break
            left = int(sizes[at]) if output == last else path.stat().st_size
            with path.open("rb", buffering=0) as file:
                while data := file.read(min(left, _HASHED_BYTES)):
                    digest.update(data)
                    left -= len(data)
                if output != last:
                    digest.update(b"%d " % file.tell())
    return hashes


def check_rows(folder: Path, sha256: Sequence[str], hashes: Mapping[bool, Any] | None = None) -> None:
    """Compare the rows of a part with the hashes of its checkpoint; by default those of a complete part.

    Raises
    ------
    OSError, OutputError
    """
    hashes = hashes or _hash_rows(folder, (False, True)[: len(sha256)])
    for (side, found), expected in zip(hashes.items(), sha256, strict=True):
        if found.hexdigest() != expected:
            raise damaged(folder / f"columns-*-{int(side)}.rows", folder=folder)


@dataclass(frozen=True)
class StoredColumns:
    """The rows of a complete job, from all its parts.

    Parameters
    ----------
    folders : list of Path
        The folders of the parts, in order.
    known : pyarrow.Schema
        The types of all rows together.
    """

    folders: Sequence[Path]
    known: Any

    @classmethod
    def of(
        cls,
        folder: Path,
        folders: Sequence[Path],
        records: Sequence[SpoolRecord],
        names: Sequence[str],
    ) -> StoredColumns:
        """Return the rows of a job, whose types follow from all of them.

        Parameters
        ----------
        folder : Path
            Of the job.
        folders : list of Path
            Of the parts.
        records : list of SpoolRecord
            Of the outputs.
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
        for output, aside in {(record.output, record.aside) for record in records}:
            for part in folders:
                for batch in stored_rows(columns_path(part, output, aside)):
                    schema = merge_schemas(schema, batch.schema)
        return cls(folders, json_schema(names) if schema is None else schema)

    def rows(self, record: SpoolRecord, start: int) -> ColumnRows:
        """Return the rows of the documents of a spool, the first of which has the number `start` in its output."""
        final = final_schema(self.known)
        return ColumnRows(final, self._batches(record, start, final))

    def _batches(self, record: SpoolRecord, start: int, final: Any) -> Iterator[Any]:
        for part in self.folders:
            for batch in stored_rows(columns_path(part, record.output, record.aside)):
                if start < batch.num_rows:
                    yield final_batch(batch.slice(start), self.known, final)
                start = max(start - batch.num_rows, 0)


def first_rows(records: Sequence[SpoolRecord]) -> list[int]:
    """Return the number of the first row of each spool in its output, for all spools in order.

    A document that continues in the next shard belongs to both.
    """
    found = []
    following: dict[tuple[int, bool], int] = {}
    for record in records:
        start = following.get((record.output, record.aside), 0)
        found.append(start)
        following[record.output, record.aside] = start + record.documents - int(record.continues)
    return found
