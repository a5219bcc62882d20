"""Reading and writing whole files, so that a run that fails or is interrupted leaves what was there before.

Output goes to a temporary file in the folder of its target and takes the target's name at the end. Nothing is flushed to
the disk itself (fsync): this guards against full disks, errors and interrupts, not against power cuts. A process that is
killed outright leaves its temporary file, with a hidden name that ends in `.tmp`, and the target as it was.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bpejit.errors import BpejitError, OutputError

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

    def _open(self, *, alone: bool) -> None:
        """Make the temporary file. An interrupt may come at any moment: what was made is then taken away by `_discard`."""
        try:
            # Through a symbolic link: the link stays, and the temporary file is on the disk where the target is.
            self._target = self._target.resolve()
            mode = self._mode()
            if mode is None or stat.S_ISREG(mode):
                self._temporary = _hidden(self._target, "tmp")  # known before it exists
                self._file = self._temporary.open("xb")
                if mode is not None:
                    with suppress(OSError):
                        self._temporary.chmod(stat.S_IMODE(mode))
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

    def _close(self) -> None:
        try:
            self._file.close()  # type: ignore[union-attr]
        except OSError as cause:
            raise self._error(cause) from cause

    def _discard(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if self._temporary is not None:
            _remove(self._temporary)

    def _rename(self) -> None:
        if self._temporary is None:
            return
        try:
            self._temporary.replace(self._target)
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
        one comes when all else is in place. So even if the process is killed in between, no description stands beside
        files that it is not about.
    remove : paths
        Files that must not stay beside the new ones; missing ones are ignored.

    Raises
    ------
    OutputError
        If a file cannot be written; what was there before is then in place again.
    """
    paths = list(paths)
    files = [OutputFile(path) for path in paths]
    try:
        for file in files:
            file._open(alone=len(files) == 1)
        yield files
        for file in files:
            file._close()
        _exchange(files, [Path(path) for path in remove])
    except BaseException:
        for file in files:
            file._discard()
        raise


def _exchange(files: list[OutputFile], remove: list[Path]) -> None:
    """Give all files their names; where that fails, put back what was there."""
    if len(files) == 1 and not remove:
        files[0]._rename()
        return
    asides: list[Path] = []
    try:
        _exchange_all(files, remove, asides)
        for aside in asides:
            _remove(aside)
    except BaseException:
        for aside in asides:  # an interrupt may have come before some were removed; after an undone exchange none is left
            _remove(aside)
        raise


def _exchange_all(files: list[OutputFile], remove: list[Path], asides: list[Path]) -> None:
    """Give all files their names; add to `asides` what is then to be removed. Where that fails, put back what was there."""
    description = files[-1]
    with ExitStack() as undo:
        for path in (description._target, *remove):
            aside = _hidden(path, "old")
            asides.append(aside)
            undo.callback(_put_back, aside, path)
            try:
                path.replace(aside)
            except FileNotFoundError:
                pass
            except OSError as cause:
                raise _write_error(str(path), cause) from cause
        for file in files[:-1]:
            if file._target.exists():
                aside = _hidden(file._target, "old")
                asides.append(aside)
                undo.callback(_put_back, aside, file._target)
                _keep(file, aside)
            else:
                undo.callback(_remove, file._target)
            file._rename()
        undo.callback(_remove, description._target)
        description._rename()
        undo.pop_all()


def _keep(file: OutputFile, aside: Path) -> None:
    """Keep the old content of a target under the name `aside`, if possible without a moment in which the target is missing."""
    try:
        aside.hardlink_to(file._target)
    except (OSError, NotImplementedError):  # a file system without hard links
        try:
            file._target.replace(aside)
        except OSError as cause:
            raise _write_error(file.path, cause) from cause


def _put_back(aside: Path, target: Path) -> None:
    with suppress(OSError):
        aside.replace(target)
    _remove(aside)  # where both were names of one file, the line above did nothing


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _hidden(target: Path, suffix: str) -> Path:
    """Return an unused name in the folder of `target`: hidden, and short enough even where `target` has a long name."""
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.{suffix}")
