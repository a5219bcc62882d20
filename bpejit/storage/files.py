"""Reading and writing whole files, so that a run that fails or is interrupted leaves what was there before.

Output goes to a temporary file in the folder of its target, is flushed to the disk, and takes the target's name at the end.
Several files that belong together are exchanged as one (see `bpejit.storage.exchange`). A process that is killed leaves its
temporary files with hidden names, which the next run that writes to the folder removes (see `bpejit.storage.temporary`).
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bpejit.errors import BpejitError, OutputError
from bpejit.storage.exchange import Exchange, recover
from bpejit.storage.temporary import LOCKS, hidden, is_linked, lock, remove, sync_file, sync_folders

StrPath = str | os.PathLike[str]


def read_file(path: StrPath, *, error: type[BpejitError], what: str = "file") -> bytes:
    """Read a whole file.

    Parameters
    ----------
    path : path
    error : type
        The error to raise where the file cannot be read.
    what : str
        What the file is, for the message.
    """
    try:
        return Path(path).read_bytes()
    except OSError as cause:
        raise read_error(path, cause, error=error, what=what) from cause


def read_error(path: StrPath, cause: OSError, *, error: type[BpejitError], what: str = "file") -> BpejitError:
    """Return `error` with a message about a file that could not be opened or read."""
    if cause.errno == errno.ENOENT:
        found, action = "there is no such file", "check the path"
    elif cause.errno == errno.EISDIR:
        found, action = "it is a folder", "give the path of a file"
    elif cause.errno in (errno.EACCES, errno.EPERM):
        found, action = f"no permission ({cause.strerror})", "change its permissions or run as a user that may read it"
    else:
        found, action = cause.strerror or str(cause), "check the disk and the path"
    return error(f"cannot read `{os.fspath(path)}`: {found}; expected a {what} that can be read: {action}")


def parse_json(
    data: bytes, path: StrPath, *, error: type[BpejitError], hook: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parse JSON; a broken one raises `error`, which names the file and the place.

    Parameters
    ----------
    data : bytes
    path : path
        Where the data came from, for the message.
    error : type
    hook : callable, optional
        Passed on as `object_pairs_hook`.
    """
    try:
        return json.loads(data, object_pairs_hook=hook)
    except json.JSONDecodeError as cause:
        found = f"line {cause.lineno}, column {cause.colno}: {cause.msg}"
        raise error(_broken_json(path, found)) from cause
    except UnicodeDecodeError as cause:
        raise error(_broken_json(path, f"byte {cause.start} is not UTF-8")) from cause
    except RecursionError as cause:
        raise error(_broken_json(path, "brackets are nested too deep")) from cause
    except ValueError as cause:  # a number of thousands of digits
        raise error(_broken_json(path, str(cause))) from cause


def _broken_json(path: StrPath, found: str) -> str:
    return f"`{os.fspath(path)}` is broken at {found}; expected JSON; it may be cut short or damaged: get or make it again"


def _write_error(path: str, cause: OSError) -> OutputError:
    folder = Path(path).parent
    reason = cause.strerror or str(cause)
    if cause.errno == errno.ENOENT:
        found = f"the folder `{folder}` does not exist"
        expected, action = "an existing folder", "create it or choose another place"
    elif cause.errno in (errno.ENOTDIR, errno.EEXIST):
        found, expected, action = f"`{folder}` is not a folder", "an existing folder", "choose another place"
    elif cause.errno == errno.EISDIR:
        found, expected, action = "it is a folder", "the name of a file", "choose another name"
    elif cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        found = f"no permission ({reason})"
        expected, action = "a file and a folder that may be written to", "change the permissions or choose another place"
    elif cause.errno in (errno.ENOSPC, errno.EDQUOT):
        found = f"the disk is full ({reason})"
        expected, action = "room for the whole file", "free some space or choose another place"
    elif cause.errno == errno.EFBIG:
        found = f"a limit on the size of files was reached ({reason})"
        expected, action = "room for the whole file", "raise the limit (`ulimit -f`) or choose another place"
    else:
        found, expected, action = reason, "a file that can be written", "check the disk and the path"
    error = OutputError(f"cannot write `{path}`: {found}; expected {expected}: {action}")
    error.errno = cause.errno
    return error


class OutputFile:
    """A file being written, which appears under its name only when all of it is there.

    Made by `replacing` and `replacing_all`.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self.n_bytes = 0
        self._target = Path(path)
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None  # until it is open

    def _open(self, *, alone: bool, home: Path | None = None) -> None:
        """Make the temporary file. An interrupt may come at any moment: what was made is then taken away by `_discard`."""
        try:
            # Through a symbolic link: the link stays, and the temporary file is on the disk where the target is.
            self._target = self._target.resolve()
            mode = self._mode()
            if mode is None or stat.S_ISREG(mode):
                kind = "tmp" if home in (None, self._target.parent) else "new"
                while self._file is None or not is_linked(self._file.fileno()):  # another run may take it for a leftover
                    self._temporary = temporary = hidden(self._target, kind)  # known before it exists
                    self._file = temporary.open("xb")
                    lock(self._file.fileno())
                if mode is not None:
                    with suppress(OSError):
                        temporary.chmod(stat.S_IMODE(mode))
            elif alone:
                # Renaming over a device or a pipe would destroy it (/dev/null, /dev/stdout), so these get the bytes directly.
                self._file = self._target.open("wb")
            else:
                raise OutputError(
                    f"cannot write `{self.path}`: it is a device or a pipe; expected a regular file, "
                    "since other files must appear beside it: choose another name"
                )
        except OSError as cause:
            raise self._error(cause) from cause

    def _mode(self) -> int | None:
        """Type and permissions of what is there now; None for nothing."""
        try:
            mode = self._target.stat().st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(self._target, os.W_OK):
            # Renaming would succeed wherever the folder is writable, but a file made read-only is meant to stay.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return mode

    def _error(self, cause: OSError) -> OutputError:
        return cause if isinstance(cause, OutputError) else _write_error(self.path, cause)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append bytes, all of them; return their number.

        Raises
        ------
        OutputError
            If they cannot be written.
        """
        try:
            self._file.write(data)  # type: ignore[union-attr]  # made and opened by `replacing_all` alone
        except OSError as cause:
            raise self._error(cause) from cause
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        self.n_bytes += size
        return size

    def _flush(self) -> None:
        """Wait until all is written, and on the disk."""
        assert self._file is not None
        try:
            self._file.flush()
            if self._temporary is None:
                self._file.close()
                return
            sync_file(self._file.fileno())
            if not LOCKS:  # Windows renames no open files
                self._file.close()
        except OSError as cause:
            raise self._error(cause) from cause

    def _close(self) -> None:
        """Close the file, and with it give up its lock: when it has its name."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def _discard(self) -> None:
        self._close()
        if self._temporary is not None:
            remove(self._temporary)

    def _rename(self) -> None:
        if self._temporary is None:
            return
        try:
            self._temporary.replace(self._target)
            sync_folders([self._target.parent])
        except OSError as cause:
            raise self._error(cause) from cause


@contextmanager
def replacing(path: StrPath) -> Iterator[OutputFile]:
    """Write a file that appears under its name only when the block ends without an exception.

    An existing file stays untouched until then. Devices and pipes are written to directly.

    Raises
    ------
    OutputError
        If the file cannot be written. Other exceptions of the block pass through.

    Examples
    --------
    >>> with replacing("notes.txt") as file:  # doctest: +SKIP
    ...     file.write(b"all or nothing")
    """
    with replacing_all([path]) as (file,):
        yield file


@contextmanager
def replacing_all(paths: Iterable[StrPath], *, remove: Iterable[StrPath] = ()) -> Iterator[list[OutputFile]]:
    """Write several files that belong together; all appear when the block ends without an exception, or none does.

    Parameters
    ----------
    paths : paths
        The last is the one that describes the others: an old one goes away before anything else changes, and the new
        one comes when all else is in place. If the process is killed in between, the next run that writes there, or a
        reader that misses the description, puts everything in order.
    remove : paths
        Files that must not stay beside the new ones; missing ones are ignored.

    Raises
    ------
    OutputError
        If a file cannot be written; what was there before is then in place again.
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
        if len(files) == 1 and not removed:
            files[0]._rename()
        else:
            _exchange(files, removed)
        for file in files:
            file._close()
    except BaseException:
        for file in files:
            file._discard()
        raise


def _exchange(files: list[OutputFile], removed: list[Path]) -> None:
    pairs = [(file._temporary, file._target) for file in files if file._temporary is not None]
    try:
        Exchange(pairs, removed).run()
    except OutputError:
        raise
    except OSError as cause:
        raise _write_error(str(cause.filename2 or cause.filename or files[-1].path), cause) from cause
