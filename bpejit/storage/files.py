"""Read and write whole files, so that a failed or interrupted run leaves existing files unchanged; folders for temporary files.

Output is written to a temporary file in the folder of its target, flushed to disk, and renamed to the target at the end.
Several files that belong together are replaced in one exchange (see `bpejit.storage.exchange`). A killed process leaves hidden
temporary files and folders, which the next run that writes to the same place removes (see `bpejit.storage.temporary`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bpejit.errors import BpejitError, OutputError
from bpejit.storage.exchange import exchange_files, recover
from bpejit.storage.temporary import (
    LOCKS,
    hidden,
    is_linked,
    lock,
    remove,
    remove_leftovers,
    start_sync,
    sync_file,
)

StrPath = str | os.PathLike[str]

_URL = re.compile(r"(?:[^\W_]|[+-]|::)+://")

SYNC_BYTES = 1 << 21
"""Bytes of an output after which the system starts to write them to disk."""


def is_remote(path: StrPath) -> bool:
    """Return True for a URL such as `s3://bucket/key`."""
    return _URL.match(os.fspath(path)) is not None


def local_path(path: str) -> str:
    """Return the path in a URL of the scheme `file`, and other paths unchanged."""
    return path[len("file://") :] if path.startswith("file:///") else path


def read_file(path: StrPath, *, error: type[BpejitError], what: str = "file", most: int = -1) -> bytes:
    """Return the content of a file.

    Parameters
    ----------
    path : path
    error : type
        The exception to raise if the file cannot be read.
    what : str
        Noun for the message.
    most : int
        The number of bytes at its start to return; by default all.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(most)
    except OSError as cause:
        raise read_error(path, cause, error=error, what=what) from cause


_HASHED_BYTES = 1 << 18


def file_sha256(path: Path, *, start: int = 0) -> str:
    """Return the hash of a file, or of its bytes from `start` on.

    Raises
    ------
    OSError
    """
    digest = hashlib.sha256()
    block = memoryview(bytearray(_HASHED_BYTES))  # reused, since new memory takes longer than reading
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while size := file.readinto(block):
            digest.update(block[:size])
    return digest.hexdigest()


def read_error(path: StrPath, cause: OSError, *, error: type[BpejitError], what: str = "file") -> BpejitError:
    """Return `error` with a message about a file that could not be opened or read."""
    if cause.errno == errno.ENOENT:
        found, action = "there is no such file", "check the path"
    elif cause.errno == errno.EISDIR:
        found, action = "it is a folder", "give the path of a file"
    elif cause.errno in (errno.EACCES, errno.EPERM):
        found, action = f"no permission ({cause.strerror})", "change its permissions or run as a user who can read it"
    else:
        found, action = cause.strerror or str(cause), "check the disk and the path"
    return error(f"cannot read `{os.fspath(path)}`: {found}; expected a {what} that can be read: {action}")


def parse_json(
    data: bytes, path: StrPath, *, error: type[BpejitError], hook: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Return the value of a JSON document, or raise `error` with the file and the position of the fault.

    Parameters
    ----------
    data : bytes
    path : path
        Source of the data, for the message.
    error : type
    hook : callable, optional
        Passed on as `object_pairs_hook`.
    """
    try:
        return json.loads(data, object_pairs_hook=hook)
    except BpejitError:  # of the hook
        raise
    except (ValueError, RecursionError) as cause:
        found = str(cause)  # about a number of thousands of digits
        if isinstance(cause, json.JSONDecodeError):
            found = f"line {cause.lineno}, column {cause.colno}: {cause.msg}"
        elif isinstance(cause, UnicodeDecodeError):
            found = f"byte {cause.start} is not UTF-8"
        elif isinstance(cause, RecursionError):
            found = "brackets are nested too deep"
        raise error(
            f"`{os.fspath(path)}` is broken at {found}; expected JSON; the file may be truncated or damaged: download or "
            "create it again"
        ) from cause


def write_error(path: str, cause: OSError) -> OutputError:
    """Return the error for a file that could not be written."""
    folder = Path(path).parent
    reason = cause.strerror or str(cause)
    if cause.errno == errno.ENOENT:
        found = f"the folder `{folder}` does not exist"
        expected, action = "an existing folder", "create it or choose another path"
    elif cause.errno in (errno.ENOTDIR, errno.EEXIST):
        found, expected, action = f"`{folder}` is not a folder", "an existing folder", "choose another path"
    elif cause.errno == errno.EISDIR:
        found, expected, action = "it is a folder", "the name of a file", "choose another name"
    elif cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        found = f"no permission ({reason})"
        expected, action = "a writable file and folder", "change the permissions or choose another path"
    elif cause.errno in (errno.ENOSPC, errno.EDQUOT):
        found = f"the disk is full ({reason})"
        expected, action = "space for the whole file", "free some space or choose another path"
    elif cause.errno == errno.EFBIG:
        found = f"a limit on the size of files was reached ({reason})"
        expected, action = "space for the whole file", "raise the limit (`ulimit -f`) or choose another path"
    else:
        found, expected, action = reason, "a file that can be written", "check the disk and the path"
    error = OutputError(f"cannot write `{path}`: {found}; expected {expected}: {action}")
    error.errno = cause.errno
    return error


@contextmanager
def naming_output(path: StrPath, *, always: bool = False) -> Iterator[None]:
    """Raise errors of the system as errors that name the output, or a file that they name unless `always` is true."""
    try:
        yield
    except (BpejitError, BrokenPipeError):
        raise
    except OSError as cause:
        named = None if always else cause.filename2 or cause.filename
        raise write_error(str(named or path), cause) from cause


class OutputFile:
    """A file being written, which gets its final name only when it is complete.

    Created by `replacing` and `replacing_all`.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self.n_bytes = 0
        self._n_synced = 0
        self._target = Path(path)
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None  # until it is open

    def _open(self, *, alone: bool, home: Path | None = None) -> None:
        """Create the temporary file. After an interrupt at any moment, `_discard` removes it."""
        with naming_output(self.path, always=True):
            # A symbolic link stays, and the temporary file is on the same file system as the target.
            self._target = self._target.resolve()
            mode = self._mode()
            if mode is None or stat.S_ISREG(mode):
                kind = "tmp" if home in (None, self._target.parent) else "new"
                while self._file is None or not is_linked(self._file.fileno()):  # another run may have removed it as a leftover
                    self._close()
                    self._temporary = temporary = hidden(self._target, kind)  # known before it exists
                    self._file = temporary.open("x+b")
                    lock(self._file.fileno())
                if mode is not None:
                    with suppress(OSError):
                        temporary.chmod(stat.S_IMODE(mode))
            elif alone:
                # Renaming over a device or a pipe (/dev/null, /dev/stdout) would destroy it, so these are written directly.
                self._file = self._target.open("wb")
            else:
                raise OutputError(
                    f"cannot write `{self.path}`: it is a device or a pipe; expected a regular file, "
                    "because other files are written beside it: choose another name"
                )

    def _mode(self) -> int | None:
        """Return type and permissions of the existing file, or None if there is none."""
        try:
            mode = self._target.stat().st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(self._target, os.W_OK):
            # Renaming would succeed in any writable folder, but a read-only file is meant to stay.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return mode

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append all bytes and return their number.

        Raises
        ------
        OutputError
            If writing fails.
        """
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        try:
            self._file.write(data)  # type: ignore[union-attr]  # made and opened by `replacing_all` alone
        except OSError as cause:
            raise write_error(self.path, cause) from cause
        self.n_bytes += size
        if self.n_bytes - self._n_synced >= SYNC_BYTES and self._temporary is not None:
            start_sync(self._file.fileno(), self._n_synced, self.n_bytes - self._n_synced)  # type: ignore[union-attr]
            self._n_synced = self.n_bytes
        return size

    def write_at_start(self, data: bytes) -> None:
        """Replace the first bytes, such as a header that contains the length of the file. Not for devices and pipes.

        Raises
        ------
        OutputError
            If writing fails.
        """
        assert self._file is not None
        with naming_output(self.path, always=True):
            self._file.seek(0)
            self._file.write(data)
            self._file.seek(0, os.SEEK_END)

    def _flush(self) -> None:
        """Flush the content to disk."""
        assert self._file is not None
        with naming_output(self.path, always=True):
            self._file.flush()
            if self._temporary is not None:
                sync_file(self._file.fileno())
            if self._temporary is None or not LOCKS:  # Windows renames no open files
                self._file.close()

    def _close(self) -> None:
        """Close the file, which releases its lock. Called when it has its final name."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _discard(self) -> None:
        self._close()
        if self._temporary is not None:
            remove(self._temporary)


@contextmanager
def replacing(path: StrPath) -> Iterator[OutputFile]:
    """Write a file that gets its final name only when the context exits without an exception.

    An existing file is unchanged until then. Devices and pipes are written to directly.

    Raises
    ------
    OutputError
        If the file cannot be written. Other exceptions propagate.

    Examples
    --------
    >>> with replacing("notes.txt") as file:  # doctest: +SKIP
    ...     file.write(b"all or nothing")
    """
    with replacing_all([path]) as (file,):
        yield file


def check_writable(path: StrPath) -> None:
    """Raise OutputError if a file cannot be written. An existing file is unchanged, and no new file remains."""
    file = OutputFile(path)
    try:
        file._open(alone=True)
    finally:
        file._discard()


@contextmanager
def replacing_all(paths: Iterable[StrPath], *, remove: Iterable[StrPath] = ()) -> Iterator[list[OutputFile]]:
    """Write several files that belong together. All get their final names when the context exits without an exception, or none.

    Parameters
    ----------
    paths : paths
        The last describes the others: its old version is removed first, and its new version appears last. If the process is
        killed in between, the next run that writes there, or a reader that does not find the description, recovers the files.
    remove : paths
        Files to remove in the same exchange. Missing files are ignored.

    Raises
    ------
    OutputError
        If a file cannot be written. Existing files are then unchanged.
    """
    paths = list(paths)
    removed = [Path(path).parent.resolve() / Path(path).name for path in remove]
    recover([Path(path) for path in (*paths, *removed)])
    home = Path(paths[-1]).resolve().parent if len(paths) > 1 else None
    files = [OutputFile(path) for path in paths]
    try:
        for file in files:
            file._open(alone=len(files) == 1, home=home)
        yield files
        for file in files:
            file._flush()
        pairs = [(file._temporary, file._target) for file in files if file._temporary is not None]
        if pairs:  # no device
            with naming_output(files[-1].path, always=len(files) == 1):
                exchange_files(pairs, removed)
        for file in files:
            file._close()
    except BaseException:
        for file in files:
            file._discard()
        raise


@contextmanager
def scratch_folder(parent: Path | None, name: str) -> Iterator[Path]:
    """Create a hidden folder for temporary files, and remove it with its content when the context exits.

    Parameters
    ----------
    parent : Path, optional
        An existing folder; by default that of the system for temporary files.
    name : str
        Part of the name of the new folder.

    Raises
    ------
    OutputError
        If the folder cannot be created.
    """
    if parent is None:
        import tempfile  # not at the top: it takes 2 ms, and most inputs and outputs are local

        parent = Path(tempfile.gettempdir())
    remove_leftovers(parent)
    descriptor = None
    while True:
        folder = hidden(parent / name, "scratch")
        with naming_output(folder, always=True):
            folder.mkdir(mode=0o700)
            if not LOCKS:  # Windows opens no folders
                break
            with suppress(FileNotFoundError):  # another run removed the new folder as a leftover
                descriptor = os.open(folder, os.O_RDONLY)
                lock(descriptor)
                if folder.exists():
                    break
                os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)
