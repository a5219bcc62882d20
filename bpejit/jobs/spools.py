"""Spools: token ids and document ends in raw files that only grow, until they become a token file.

A spool is `<number>.ids`, little-endian ids, and `<number>.ends`, the ends of its documents as little-endian int64. Bytes after
the lengths of the last checkpoint belong to no finished unit, and are cut off when the job is resumed. If the ids are to become
a token file without being copied, they follow space for its header. A checkpoint has the hashes of both files up to there,
which are compared when a later run reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bpejit.arrays import Array
from bpejit.jobs.job_folder import damaged, file_sha256
from bpejit.storage.files import SYNC_BYTES
from bpejit.storage.temporary import start_sync
from bpejit.tokenfiles.borders import EndReader
from bpejit.tokenfiles.file_writer import Hasher

END_DTYPE = np.dtype("<i8")

BLOCK_TOKENS = 1 << 20
"""Number of ids that are read from a spool at a time."""

_HASHED_BYTES = 1 << 20


class GrowingFile:
    """A file that is only appended to, with the hash of its content.

    Parameters
    ----------
    path : Path
    size : int
        Bytes of the content at the last checkpoint; what follows is cut off. 0 for a new file.
    sha256 : str, optional
        The hash of the content then.
    position : int
        Bytes before the content, space for a header.
    alongside : bool
        See `Hasher`.

    Raises
    ------
    OSError
        If the file cannot be written, or is shorter than it was.
    OutputError
        If it does not contain what it did.
    """

    def __init__(
        self,
        path: Path,
        size: int = 0,
        sha256: str | None = None,
        *,
        position: int = 0,
        alongside: bool = True,
    ) -> None:
        self.path = path
        self.size = self._synced = size
        self._position = position
        self._hasher = Hasher(alongside=alongside)
        self._file: BinaryIO = path.open("r+b" if size else "wb", buffering=0)
        try:
            found = self._file.seek(0, 2)
            if size and found < position + size:
                raise OSError(None, f"it has {found} bytes, fewer than the {position + size} of the last checkpoint", str(path))
            self._file.truncate(position + size)
            self._file.seek(position)
            if size:
                self._hash_again()
                if self.sha256 != sha256:
                    raise damaged(path, folder=path.parent)
        except BaseException:
            self.close()
            raise

    def _hash_again(self) -> None:
        data = self._file.read(_HASHED_BYTES)
        while data:
            with self._hasher.updating(memoryview(data)):
                data = self._file.read(_HASHED_BYTES)

    @property
    def sha256(self) -> str:
        """The hash of the content."""
        return self._hasher.hexdigest()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes, or the bytes of an array; a closed file is opened again.

        Raises
        ------
        OSError
        """
        data = memoryview(data)
        if not data.nbytes:  # it cannot be cast
            return
        data = data.cast("B")
        if self._file.closed:
            self._file = self.path.open("ab", buffering=0)
        with self._hasher.updating(data):
            _write_all(self._file, data)
        self.size += data.nbytes
        if self.size - self._synced >= SYNC_BYTES:
            start_sync(self._file.fileno(), self._position + self._synced, self.size - self._synced)
            self._synced = self.size

    def close(self) -> None:
        """Close the file, which is not flushed to disk yet."""
        self._hasher.close()
        with suppress(OSError):
            self._file.close()


def _write_all(file: BinaryIO, data: memoryview) -> None:
    done = 0
    while done < len(data):  # an unbuffered write may be partial, for example if the disk is full
        done += file.write(data[done:])


@dataclass(frozen=True)
class SpoolRecord:
    """What a spool contains.

    Parameters
    ----------
    number : int
        Names its files.
    output : int
        The output to which it belongs: the index of an input if each has its own output, otherwise 0.
    aside : bool
        True if it contains the documents that are set aside for validation.
    shard : int
        The index of the shard; 0 if the output is not divided.
    tokens, documents, bytes : int
        Ids, documents that end in it, and bytes of text.
    ids_sha256, ends_sha256 : str, optional
        The hashes of the ids, and of the file of ends, of a complete spool or at a checkpoint.
    continues : bool
        Whether its last document continues in the next shard.
    position : int
        Bytes before the ids, space for a header.
    """

    number: int
    output: int
    aside: bool
    shard: int
    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    ids_sha256: str | None = None
    ends_sha256: str | None = None
    continues: bool = False
    position: int = 0


def ids_path(folder: Path, number: int) -> Path:
    """Return the file with the ids of a spool."""
    return folder / f"{number:06d}.ids"


def ends_path(folder: Path, number: int) -> Path:
    """Return the file with the document ends of a spool."""
    return folder / f"{number:06d}.ends"


class Spool:
    """A spool that is being written.

    Parameters
    ----------
    folder : Path
    record : SpoolRecord
        That of a checkpoint, up to which the files are kept, or of a new spool.
    dtype : np.dtype
        Little-endian.
    has_ends : bool
        Whether to write the ends of documents.

    Attributes
    ----------
    record : SpoolRecord
        What the spool contains, without the hashes.

    Raises
    ------
    OSError
        If a file cannot be written, or is shorter than the record.
    OutputError
        If the content of a file is not that of the record.
    """

    def __init__(self, folder: Path, record: SpoolRecord, dtype: np.dtype[Any], *, has_ends: bool) -> None:
        self.record = replace(record, ids_sha256=None, ends_sha256=None)
        self.dtype = dtype
        size = record.tokens * dtype.itemsize
        self._ids = GrowingFile(ids_path(folder, record.number), size, record.ids_sha256, position=record.position)
        self._ends: GrowingFile | None = None
        if has_ends:
            try:
                size = record.documents * END_DTYPE.itemsize
                self._ends = GrowingFile(ends_path(folder, record.number), size, record.ends_sha256)
            except BaseException:
                self.close()
                raise

    def write(self, ids: Array, ends: Array, n_bytes: int) -> None:
        """Append ids, the ends of documents as positions in `ids`, and the number of bytes of text.

        Raises
        ------
        OSError
        """
        record = self.record
        if self._ends is not None:
            self._ends.write((ends + record.tokens).astype(END_DTYPE).data)
        self._ids.write(np.ascontiguousarray(ids, self.dtype).data)
        self.record = replace(
            record,
            tokens=record.tokens + int(ids.size),
            documents=record.documents + int(ends.size),
            bytes=record.bytes + n_bytes,
        )

    def checkpoint(self, *, continues: bool = False) -> SpoolRecord:
        """Return what the spool contains, with the hashes."""
        ends_sha256 = None if self._ends is None else self._ends.sha256
        return replace(self.record, ids_sha256=self._ids.sha256, ends_sha256=ends_sha256, continues=continues)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [file.path for file in (self._ids, self._ends) if file is not None]

    def close(self) -> None:
        """Close the files, which are not flushed to disk yet."""
        for file in (self._ids, self._ends):
            if file is not None:
                file.close()


def check_spool(folder: Path, record: SpoolRecord, ids_file: Path, *, has_ends: bool) -> None:
    """Compare the content of a complete spool, whose ids are in a file, with its record.

    Raises
    ------
    OSError, OutputError
    """
    if file_sha256(ids_file, start=record.position) != record.ids_sha256:
        raise damaged(ids_file, folder=folder.parent)
    path = ends_path(folder, record.number)
    if has_ends and file_sha256(path) != record.ends_sha256:
        raise damaged(path, folder=folder.parent)


def read_spool(
    folder: Path, record: SpoolRecord, dtype: np.dtype[Any], *, has_ends: bool, start: SpoolRecord | None = None
) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of the ids of a spool, and the ends of the documents in each as positions in the block.

    Parameters
    ----------
    folder : Path
    record : SpoolRecord
        Of the complete spool, or of an earlier moment, up to which it is read.
    dtype : np.dtype
    has_ends : bool
        Whether the spool has the ends of documents.
    start : SpoolRecord, optional
        The moment from which it is read.

    Raises
    ------
    OSError
        If a file cannot be read, or is shorter than the record.
    OutputError
        If the content of a complete spool is not that of the record; for ids, after the last block.
    """
    begin, used = (0, 0) if start is None else (start.tokens, start.documents)
    checked = start is None and record.ids_sha256 is not None
    path = ids_path(folder, record.number)
    ends_file = ends_path(folder, record.number)
    if checked and has_ends and file_sha256(ends_file) != record.ends_sha256:
        raise damaged(ends_file, folder=folder)
    ends = EndReader(read_ends(ends_file, used, record.documents) if has_ends else iter(()))
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(record.position + begin * dtype.itemsize)
        for position in range(begin, max(record.tokens, begin + 1), BLOCK_TOKENS):  # once if there are no ids
            size = min(BLOCK_TOKENS, record.tokens - position)
            data = file.read(size * dtype.itemsize)
            if len(data) != size * dtype.itemsize:
                raise OSError(None, f"it ends {size * dtype.itemsize - len(data)} bytes early", str(path))
            if checked:
                digest.update(data)
            yield np.frombuffer(data, dtype), ends.up_to(position + size) - position
    if checked and digest.hexdigest() != record.ids_sha256:
        raise damaged(path, folder=folder)


def read_ends(path: Path, start: int, stop: int) -> Iterator[Array]:
    """Yield the ends of the documents from `start` to `stop` in blocks, int64."""
    with path.open("rb") as file:
        file.seek(start * END_DTYPE.itemsize)
        while start < stop and (data := file.read(min(stop - start, BLOCK_TOKENS) * END_DTYPE.itemsize)):
            ends = np.frombuffer(data, END_DTYPE)
            yield ends
            start += ends.size
