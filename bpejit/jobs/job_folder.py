"""The files of an unfinished job (see `bpejit.jobs.folder_store`): JSON with a hash, locks, files that grow, second names."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped, SkippedRecord
from bpejit.corpus.fingerprints import IdentifiedInputs
from bpejit.errors import OutputError
from bpejit.storage.exchange import exchange_files
from bpejit.storage.files import SYNC_BYTES, file_sha256, naming_output, write_error
from bpejit.storage.temporary import hidden, is_linked, name_new, remove, start_sync, sync_file, sync_folders, taken, try_lock

Fields = Mapping[str, Any]
"""Named values: the content of a JSON file of a job, or of a field of it, or the checked options of work."""

CHECKPOINT = "checkpoint.json"

LOCK = "lock"

FINAL = "final"
"""The folder with the complete files of a job, below its own."""

WAIT_SECONDS = 0.1
"""Time between two looks at a lock."""

LINKS = "links.json"
"""The second names that these files get beside their final ones, just before the exchange."""

_LINK = re.compile(r"\..+\.bpejit-[0-9a-f]{12}-[0-9a-f]{12}\.new", re.DOTALL)

SEAL = "record_sha256"
"""The field of a JSON file of a job with the hash of the others."""

_LEAST_PATIENCE = 0.2
"""Seconds to try to take a lock, which a process that looks whether it is held (`is_held`) holds for some microseconds, and to
remove a folder in which another process creates files."""

_ATTEMPT_SECONDS = 0.01

_HASHED_BYTES = 1 << 20

_PART = re.compile(r"part-(\d+)-of-(\d+)(?:\.tar)?")


def skipped_as_json(skipped: Skipped) -> list[Any]:
    """Return skipped records for a checkpoint."""
    return [skipped.count, [[record.path, record.place, record.reason] for record in skipped.first]]


def skipped_of_json(found: Sequence[Any]) -> Skipped:
    """Return the skipped records of a checkpoint."""
    return Skipped(found[0], tuple(SkippedRecord(*record) for record in found[1]))


@dataclass
class Totals:
    """Sums over the units of a part.

    Parameters
    ----------
    units : int
    tokens, documents, bytes, read : int
        Ids, documents, bytes of text, and bytes of input.
    skipped : Skipped
    """

    units: int = 0
    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    read: int = 0
    skipped: Skipped = NOTHING_SKIPPED

    def __add__(self, other: Totals) -> Totals:
        return Totals(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def add(self, result: Any, tokens: int, documents: int) -> None:
        """Add the result of a chunk, and what has been written of it."""
        self.tokens += tokens
        self.documents += documents
        self.bytes += result.n_bytes
        self.read += result.n_read
        self.skipped += result.skipped

    def as_json(self) -> dict[str, Any]:
        """Return the fields for a checkpoint."""
        return {**self.__dict__, "skipped": skipped_as_json(self.skipped)}

    @classmethod
    def of_checkpoint(cls, checkpoint: Fields | None) -> Totals:
        """Return the totals of a checkpoint; nothing for None."""
        if checkpoint is None:
            return cls()
        fields = checkpoint["totals"]
        return cls(**{**fields, "skipped": skipped_of_json(fields["skipped"])})

    @classmethod
    def of_manifest(cls, fields: Fields, *, tokens: str = "tokens", documents: str = "documents") -> Totals | None:
        """Return the totals in the manifest of a complete job; None if it is broken. The keywords are the names of fields."""
        try:
            return cls(
                tokens=int(fields[tokens]),
                documents=int(fields[documents]),
                bytes=int(fields["bytes_read"]),
                skipped=Skipped(int(fields["skipped"])),
            )
        except (KeyError, TypeError, ValueError):
            return None


def part_folder(folder: Path, part: int, parts: int) -> Path:
    """Return the folder of a part."""
    return folder / f"part-{part}-of-{parts}"


def parts_in(names: Iterable[str]) -> set[tuple[int, int]]:
    """Return index and number of parts of each part among the names of folders, or of stored files."""
    matches = map(_PART.fullmatch, names)
    return {(int(found[1]), int(found[2])) for found in matches if found is not None}


def read_record(path: Path) -> Fields | None:
    """Return the content of a JSON file of a job; None if it does not exist or is broken.

    The hash of its fields is compared, if it has one (see `sealed`).
    """
    with suppress(OSError):
        return unsealed(path.read_bytes())
    return None


def encode_fields(fields: Any) -> str:
    """Return `json.dumps(fields)`, with the texts of inputs that are known."""
    if isinstance(fields, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {encode_fields(value)}" for name, value in fields.items()) + "}"
    return f"[{', '.join(fields.texts)}]" if isinstance(fields, IdentifiedInputs) else json.dumps(fields)


def sealed(fields: Fields) -> bytes:
    """Return the content of a JSON file with a hash of the fields, by which damage is noticed."""
    data = encode_fields(fields).encode("ascii")
    seal = json.dumps({SEAL: hashlib.sha256(data).hexdigest()}).encode("ascii")
    return data[:-1] + (b", " if fields else b"") + seal[1:]


def unsealed(data: bytes, *, strict: bool = False) -> Fields | None:
    """Return the fields of a JSON file; None if it is broken, or, with `strict`, has no hash."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    seal = fields.pop(SEAL, None)
    if seal is None:
        return None if strict else fields
    return fields if seal == hashlib.sha256(json.dumps(fields).encode("ascii")).hexdigest() else None


def damaged(path: Path | str, *, folder: Path | str) -> OutputError:
    """Return the error for a file of an unfinished job that is not what was written."""
    return OutputError(
        f"`{path}`, which an earlier run left, is damaged: its bytes are not those that were written; expected an intact file: "
        f"remove `{folder}`, so that it is written again with `resume=True`, or start again with `overwrite=True`"
    )


def check_file(path: Path, sha256: str | None, *, folder: Path, start: int = 0) -> None:
    """Raise OutputError unless the content of a file that an earlier run left, from `start` on, has its hash."""
    if not path.exists() or file_sha256(path, start=start) != sha256:
        raise damaged(path, folder=folder)


def write_record(path: Path, fields: Fields, *, synced: bool = True, is_new: bool = False) -> bool:
    """Write a JSON file, which is replaced as a whole; with `is_new`, return False if another process has written one.

    Raises
    ------
    OSError
    """
    written = path.with_name(f"{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        with written.open("wb") as file:
            file.write(sealed(fields))
            file.flush()
            if synced:
                sync_file(file.fileno())
        if not is_new:
            written.replace(path)
        elif not name_new(written, path):
            return False
        elif synced:
            sync_folders([path.parent])
        return True
    finally:
        remove(written)


class LockHeldError(OutputError):
    """Another process holds a lock."""


@contextmanager
def held(folder: Path, what: str, *, patience: float = 0.0, creates: bool = True) -> Iterator[None]:
    """Hold the lock of a folder for the duration of the context.

    Parameters
    ----------
    folder : Path
    what : str
        What another process does with it, for the message.
    patience : float
        Seconds to wait for another process that holds the lock.
    creates : bool
        Whether to create the folder. Otherwise another process may remove it.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist, and `creates` is False.
    LockHeldError
        If another process holds the lock.
    OutputError
        If the folder cannot be created.
    """
    until = time.monotonic() + max(patience, _LEAST_PATIENCE)
    with ExitStack() as stack:
        try:
            while not (found := _take_lock(folder, stack, what, creates=creates, is_late=time.monotonic() >= until)):
                if found is not None:
                    time.sleep(WAIT_SECONDS if patience else _ATTEMPT_SECONDS)
        except OSError as cause:
            if isinstance(cause, OutputError) or (isinstance(cause, FileNotFoundError) and not creates):
                raise
            raise write_error(str(folder), cause) from cause
        yield


def _take_lock(folder: Path, stack: ExitStack, what: str, *, creates: bool, is_late: bool) -> bool | None:
    """Lock a folder until a stack is left; return False if another process holds the lock, None if one removes the folder."""
    path = folder / LOCK
    try:
        if creates:
            folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        if is_late or not creates:
            raise
        return None
    with ExitStack() as opened:
        opened.callback(os.close, descriptor)
        is_free = try_lock(descriptor) is not False
        if is_free and is_linked(descriptor) and path.exists():
            stack.push(opened.pop_all())
            return True
    if is_late and not is_free:
        raise LockHeldError(
            f"another process {what} (it holds the lock of `{path}`); expected one at a time: wait until it ends, or end it"
        )
    return None if is_free else False


def is_held(folder: Path) -> bool:
    """Return True if a process of this machine, or of one that shares its locks, holds the lock of a folder."""
    with taken(folder / LOCK, shared=True) as free:
        return free is False


def remove_folder(folder: Path) -> int:
    """Remove a folder with all its files; return the number of bytes in them.

    Other processes may remove it at the same time, or create the files of a lock in it.

    Raises
    ------
    OutputError
        If something cannot be removed.
    """
    size = 0
    until = time.monotonic() + _LEAST_PATIENCE
    while True:
        try:
            # Not `shutil.rmtree`, which takes several file descriptors.
            for parent, folders, names in os.walk(folder, topdown=False):
                for path in (Path(parent, name) for name in (*names, *folders)):
                    found = path.lstat()
                    path.rmdir() if stat.S_ISDIR(found.st_mode) else path.unlink()
                    size += 0 if stat.S_ISDIR(found.st_mode) else found.st_size
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError as cause:
            if cause.errno != errno.ENOTEMPTY or time.monotonic() >= until:
                raise OutputError(
                    f"cannot remove `{folder}`, which an earlier run left: {cause.strerror or cause}; expected a folder that "
                    "can be written to: remove it yourself"
                ) from cause
        if not folder.exists():
            return size
        time.sleep(_ATTEMPT_SECONDS)


class GrowingFile:
    """A file that is only appended to, with the hash of its content. It is open from the first call of `write` on.

    Parameters
    ----------
    path : Path
    size : int
        Bytes of the content at the last checkpoint; what follows is cut off. 0 for a new file.
    sha256 : str, optional
        The hash of the content then.
    position : int
        Bytes before the content, space for a header.

    Raises
    ------
    OSError
        If the file cannot be written, or is shorter than it was.
    OutputError
        If it does not contain what it did.
    """

    def __init__(self, path: Path, size: int = 0, sha256: str | None = None, *, position: int = 0) -> None:
        self.path = path
        self.size = self._synced = size
        self._position = position
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = None
        with path.open("r+b" if size else "wb", buffering=0) as file:
            found = file.seek(0, 2)
            if size and found < position + size:
                raise OSError(None, f"it has {found} bytes, fewer than the {position + size} of the last checkpoint", str(path))
            file.truncate(position + size)
            file.seek(position)
            while size and (data := file.read(_HASHED_BYTES)):
                self._hash.update(data)
        if size and self.sha256 != sha256:
            self.close()
            raise damaged(path, folder=path.parent)

    @property
    def sha256(self) -> str:
        """The hash of the content."""
        return self._hash.hexdigest()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes, or the bytes of an array; the file is opened if it is closed.

        Raises
        ------
        OSError
        """
        data = memoryview(data)
        if not data.nbytes:  # it cannot be cast
            return
        data = data.cast("B")
        if self._file is None:
            self._file = self.path.open("ab", buffering=0)
        self._hash.update(data)
        _write_all(self._file, data)
        self.size += data.nbytes
        if self.size - self._synced >= SYNC_BYTES:
            start_sync(self._file.fileno(), self._position + self._synced, self.size - self._synced)
            self._synced = self.size

    def close(self) -> None:
        """Close the file, which is not flushed to disk yet."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


def _write_all(file: BinaryIO, data: memoryview) -> None:
    done = 0
    while done < len(data):  # an unbuffered write may be partial, for example if the disk is full
        done += file.write(data[done:])


def exchange(folder: Path, pairs: Sequence[tuple[Path, Path]], removed: Iterable[Path]) -> None:
    """Give the files of a job their final names: all of them, or none if the process is killed.

    Parameters
    ----------
    folder : Path
        The folder of the job.
    pairs : list of (Path, Path)
        Files below `folder`, and their final paths. The last one describes the others.
    removed : paths
        Files of an earlier job.

    Raises
    ------
    OutputError
        If a file cannot be written. Existing files are then unchanged.
    """
    targets = [Path(os.path.realpath(target)) for _, target in pairs]
    drop = [Path(os.path.realpath(path)) for path in removed]
    drop = [path for path in drop if path not in set(targets)]
    links = [hidden(target, "new") for target in targets]
    try:
        with naming_output(targets[-1]):
            # Second names, not renames: if the exchange is rolled back, it removes them, and the files here stay.
            write_record(folder / LINKS, {"links": [str(link) for link in links]}, synced=False)
            for (file, _), target, link in zip(pairs, targets, links, strict=True):
                with suppress(OSError):  # the permissions of the file that it replaces
                    file.chmod(target.stat().st_mode & 0o7777)
                _link(file, link)
            exchange_files(list(zip(links, targets, strict=True)), drop)
    except BaseException:
        remove_links(folder)
        raise


def _link(file: Path, link: Path) -> None:
    try:
        link.hardlink_to(file)
    except (OSError, NotImplementedError) as cause:
        if isinstance(cause, OSError) and not file.exists():
            raise
        file.replace(link)  # a file system without hard links


def remove_links(folder: Path) -> None:
    """Remove the second names that an interrupted run gave to the files of a job."""
    names = (read_record(folder / LINKS) or {}).get("links")
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    links = [Path(name) for name in names if _LINK.fullmatch(Path(name).name)]
    ours = {(found.st_dev, found.st_ino) for found in map(Path.lstat, folder.rglob("*"))} if links else set()
    for link in links:
        with suppress(OSError, ValueError):
            found = link.lstat()
            if (found.st_dev, found.st_ino) in ours:
                link.unlink()
    remove(folder / LINKS)
