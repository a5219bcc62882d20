"""Spools: token ids and document ends in raw files that only grow, until they become a token file.

A spool is `<number>.ids`, little-endian ids, and `<number>.ends`, the ends of its documents as little-endian int64. Bytes after
the lengths of the last checkpoint belong to no finished unit, and are cut off when the job is resumed. If the ids are to become
a token file without being copied, they follow space for its header. A checkpoint has the hashes of both files up to there,
which are compared when a later run reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bpejit.arrays import Array
from bpejit.jobs.job_folder import damaged, file_sha256
from bpejit.storage.files import SYNC_BYTES
from bpejit.storage.temporary import start_sync, sync_file

IDS_SUFFIX = ".ids"

END_DTYPE = np.dtype("<i8")

BLOCK_TOKENS = 1 << 20
"""Number of ids that are read from a spool at a time."""

_HASH_ALONGSIDE_BYTES = 1 << 16
"""Blocks of at least this size are hashed by a second thread while they are written; for smaller ones it takes longer."""


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

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def ids_path(folder: Path, number: int) -> Path:
    """Return the file with the ids of a spool."""
    return folder / f"{number:06d}{IDS_SUFFIX}"


def ends_path(folder: Path, number: int) -> Path:
    """Return the file with the document ends of a spool."""
    return folder / f"{number:06d}.ends"


class Hasher:
    """SHA-256 of ids, computed by a second thread where that is faster."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._thread: ThreadPoolExecutor | None = None

    def update(self, data: memoryview) -> Future[None] | None:
        """Hash ids. Return None, or a future if a second thread does it."""
        if data.nbytes >= _HASH_ALONGSIDE_BYTES:
            if self._thread is None:  # not earlier: the engine forks its workers before they send ids
                self._thread = ThreadPoolExecutor(1)
            try:
                return self._thread.submit(self._hash.update, data)
            except RuntimeError:  # no thread can be started
                self._thread.shutdown(cancel_futures=True)
                self._thread = None
        self._hash.update(data)
        return None

    def hexdigest(self) -> str:
        """Return the hash so far as hexadecimal digits."""
        return self._hash.hexdigest()

    def restart(self) -> None:
        """Begin a new hash."""
        self._hash = hashlib.sha256()

    def close(self) -> None:
        """End the second thread."""
        if self._thread is not None:
            self._thread.shutdown()


class Spool:
    """A spool that is being written.

    Parameters
    ----------
    folder : Path
    record : SpoolRecord
        Its lengths are those of a checkpoint; 0 for a new spool.
    dtype : np.dtype
        Little-endian.
    has_ends : bool
        Whether to write the ends of documents.
    hasher : Hasher
        Computes the hash of the ids.

    Raises
    ------
    OSError
        If a file cannot be written, or is shorter than the record.
    OutputError
        If the content of a file is not that of the record.
    """

    def __init__(
        self,
        folder: Path,
        record: SpoolRecord,
        dtype: np.dtype[Any],
        *,
        has_ends: bool,
        hasher: Hasher,
    ) -> None:
        self.record = replace(record, ids_sha256=None, ends_sha256=None)
        self.tokens, self.documents, self.bytes = record.tokens, record.documents, record.bytes
        self.dtype = dtype
        self._hasher = hasher
        self._path = ids_path(folder, record.number)
        self._ids: BinaryIO = _open_at(self._path, self.tokens and record.position + self.tokens * dtype.itemsize)
        self._ends: BinaryIO | None = None
        if has_ends:
            self._ends = _open_at(ends_path(folder, record.number), self.documents * END_DTYPE.itemsize)
        if not self.tokens:
            self._ids.truncate(record.position)
            self._ids.seek(record.position)
        self._synced = self.tokens * dtype.itemsize
        hasher.restart()
        self._ends_hash = hashlib.sha256()
        if record.ids_sha256 is not None:
            try:
                self._hash_again(record)
            except BaseException:
                self.close()
                raise

    def _hash_again(self, record: SpoolRecord) -> None:
        """Hash what the files contain, and compare it with a checkpoint."""
        for path, start, update in ((self._path, record.position, self._hasher.update), (self._ends_path, 0, self._hash_ends)):
            if path is not None:
                with path.open("rb", buffering=0) as file:
                    file.seek(start)
                    while data := file.read(BLOCK_TOKENS):
                        waiting = update(memoryview(data))
                        if waiting is not None:
                            waiting.result()
        found = self.checkpoint()
        if found.ids_sha256 != record.ids_sha256:
            raise damaged(self._path, folder=self._path.parent)
        if self._ends_path is not None and found.ends_sha256 != record.ends_sha256:
            raise damaged(self._ends_path, folder=self._path.parent)

    def _hash_ends(self, data: memoryview) -> None:
        self._ends_hash.update(data)

    @property
    def _ends_path(self) -> Path | None:
        return None if self._ends is None else Path(str(self._ends.name))

    def write(self, ids: Array, ends: Array, n_bytes: int) -> None:
        """Append ids, the ends of documents as positions in `ids`, and the number of bytes of text.

        Raises
        ------
        OSError
        """
        if ends.size:
            if self._ends is not None:
                stored = (ends + self.tokens).astype(END_DTYPE).data
                self._hash_ends(stored)
                _write_all(self._ends, stored)
            self.documents += int(ends.size)
        self.bytes += n_bytes
        if not ids.size:
            return
        data = np.ascontiguousarray(ids, dtype=self.dtype).data.cast("B")
        hashed = self._hasher.update(data)
        try:
            _write_all(self._ids, data)
        finally:
            if hashed is not None:
                hashed.result()
        self.tokens += int(ids.size)
        written = self.tokens * self.dtype.itemsize
        if written - self._synced >= SYNC_BYTES:
            start_sync(self._ids.fileno(), self.record.position + self._synced, written - self._synced)
            self._synced = written

    def snapshot(self) -> SpoolRecord:
        """Return the lengths so far."""
        return replace(self.record, tokens=self.tokens, documents=self.documents, bytes=self.bytes)

    def checkpoint(self) -> SpoolRecord:
        """Return the lengths so far, with the hashes."""
        ends_sha256 = None if self._ends is None else self._ends_hash.hexdigest()
        return replace(self.snapshot(), ids_sha256=self._hasher.hexdigest(), ends_sha256=ends_sha256)

    def sync(self) -> None:
        """Flush the files to disk.

        Raises
        ------
        OSError
        """
        for file in (self._ids, self._ends):
            if file is not None:
                sync_file(file.fileno())

    def complete(self, *, continues: bool = False) -> SpoolRecord:
        """Close the files, which are not flushed to disk yet; return what they contain."""
        self.close()
        return replace(self.checkpoint(), continues=continues)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [Path(str(file.name)) for file in (self._ids, self._ends) if file is not None]

    def close(self) -> None:
        """Close the files."""
        for file in (self._ids, self._ends):
            if file is not None:
                with suppress(OSError):
                    file.close()


def _open_at(path: Path, size: int) -> BinaryIO:
    """Open a file for appending after `size` bytes, and remove what follows."""
    file = path.open("r+b" if size else "wb", buffering=0)
    try:
        found = file.seek(0, 2)
        if found < size:
            raise OSError(None, f"it has {found} bytes, fewer than the {size} of the last checkpoint", str(path))
        file.truncate(size)
        file.seek(size)
    except BaseException:
        file.close()
        raise
    return file


def _write_all(file: BinaryIO, data: memoryview) -> None:
    data = data.cast("B")
    done = 0
    while done < len(data):  # an unbuffered write may be partial, for example if the disk is full
        done += file.write(data[done:])


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
        Of the complete spool, or of an earlier moment (see `Spool.snapshot`), up to which it is read.
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
        If the ends are not in order, and after the last block, if the content of a complete spool is not that of the record.
    """
    done, used = (0, 0) if start is None else (start.tokens, start.documents)
    checked = start is None and record.ids_sha256 is not None
    ids_hash, ends_hash = hashlib.sha256(), hashlib.sha256()
    n_ends = record.documents if has_ends else used
    kept = np.empty(0, dtype=np.int64)
    with ids_path(folder, record.number).open("rb") as file:
        file.seek(record.position + done * dtype.itemsize)
        ends_file = ends_path(folder, record.number).open("rb") if has_ends else None
        try:
            if ends_file is not None:
                ends_file.seek(used * END_DTYPE.itemsize)
            while done < record.tokens or used < n_ends or kept.size:
                wanted = min(BLOCK_TOKENS, record.tokens - done)
                data = _read_all(file, wanted * dtype.itemsize)
                ids = np.frombuffer(data, dtype=dtype)
                if checked:
                    ids_hash.update(data)
                # A document has at least zero ids, so the ends of a block may be many: all that are not after it.
                while ends_file is not None and used < n_ends and (not kept.size or kept[-1] <= done + wanted):
                    count = min(BLOCK_TOKENS, n_ends - used)
                    data = _read_all(ends_file, count * END_DTYPE.itemsize)
                    if checked:
                        ends_hash.update(data)
                    kept = np.concatenate((kept, np.frombuffer(data, dtype=END_DTYPE).astype(np.int64)))
                    used += count
                here = int(np.searchsorted(kept, done + wanted, side="right"))
                ends = kept[:here] - done
                if (ends.size and ends[0] < 0) or (np.diff(ends) < 0).any() or not (wanted or here):
                    raise damaged(ends_path(folder, record.number), folder=folder)
                yield ids, ends
                kept = kept[here:]
                done += wanted
        finally:
            if ends_file is not None:
                ends_file.close()
    if checked and ids_hash.hexdigest() != record.ids_sha256:
        raise damaged(ids_path(folder, record.number), folder=folder)
    if checked and has_ends and ends_hash.hexdigest() != record.ends_sha256:
        raise damaged(ends_path(folder, record.number), folder=folder)


def _read_all(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise OSError(None, f"it ends {size - len(data)} bytes early", str(file.name))
    return data
