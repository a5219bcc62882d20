"""What is made once for a machine and read by later processes: compiled kernels, a file for each combination of types that one
was called with, and the tables of split patterns (see `bpejit.splitting.table_cache`).

`BPEJIT_CACHE_DIR` names the folder, or `NUMBA_CACHE_DIR` the one above it; by default it is the user's folder for caches.
`BPEJIT_CACHE=0` turns the cache off. In it are:

    kernels-<hash>/<module>.<function>-<hash>.o     a compiled kernel (see `fingerprint` for the hashes)
    patterns/pattern-<hash>.<what>                  what was made of a split pattern
    numba-<hash>/                                   Numba's own cache, where Numba runs the kernels

What is read is executed, so only files are read that nobody but the user and root can have written (see `folders`), and only
what is whole: each file begins with a hash of its content and of what it was stored for. A file is written under a random name
that did not exist, and renamed: readers see all of it or nothing. Nothing is flushed to the disk; what a power cut leaves is
damaged, and written again. If anything goes wrong, there is nothing in the cache: it never makes a process fail.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bpejit.errors import OptionError, shorten
from bpejit.jit import fingerprint, folders
from bpejit.jit.folders import FolderError

_FORMAT = b"bpejit\x00\x01"
"""What a file begins with; the last byte is the version."""

_CHECK_BYTES = 32

_RETURNS = frozenset({"none", "bool", "int", "uint"})

_DAY = 86_400.0  # seconds

_MOST_TRIES = 3

PATTERNS = "patterns"
"""Name of the folder of what is made of split patterns."""

_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class CacheWarning(RuntimeWarning):
    """Compiled kernels cannot be stored."""


class Code(NamedTuple):
    """A compiled kernel.

    Parameters
    ----------
    machine_code : bytes
        An object file in the format of the platform.
    returns : str or tuple of str
        What it returns: `none`, `bool`, `int` or `uint`, or several of them.
    """

    machine_code: bytes
    returns: tuple[str, ...] | str

    def to_bytes(self) -> bytes:
        """Return the content of a file."""
        return json.dumps(self.returns).encode() + b"\n" + self.machine_code

    @classmethod
    def from_bytes(cls, content: bytes) -> Code | None:
        """Read the content of a file; return None if it is not what `to_bytes` writes."""
        head, end, machine_code = content.partition(b"\n")
        try:
            returns = json.loads(head)
        except (ValueError, RecursionError):
            return None
        kinds = [returns] if isinstance(returns, str) else returns
        if not end or not machine_code or not isinstance(kinds, list):
            return None
        if not all(isinstance(kind, str) and kind in _RETURNS for kind in kinds):
            return None
        return cls(machine_code, returns if isinstance(returns, str) else tuple(kinds))


class _State:
    def __init__(self) -> None:
        self.checked: dict[tuple[Any, ...], Path] = {}  # folders that may be read, by `_where` and their names
        self.problem: str | None = None  # why a kernel could not be stored
        self.warned = False
        self.pruned = False


_state = _State()


def load(kernel: Any, signature: str) -> Code | None:
    """Return the code of a kernel for arguments of some types, if it was stored.

    Parameters
    ----------
    kernel : Kernel
    signature : str
        The types, as text.
    """
    if not _is_wanted():
        return None
    content = _read(name_of_kernels(), *_names(kernel, signature))
    return None if content is None else Code.from_bytes(content)


def save(kernel: Any, signature: str, code: Code) -> None:
    """Store the code of a kernel. Where that is not possible, each process compiles for itself, and a warning says so once."""
    if not _is_wanted():
        return
    problem = _write(name_of_kernels(), *_names(kernel, signature), code.to_bytes())
    if problem is None:
        return
    _state.problem = problem
    if not _state.warned:
        _state.warned = True
        warnings.warn(
            f"compiled kernels cannot be stored: {problem}; each process compiles them again, which may take a minute: "
            "set BPEJIT_CACHE_DIR to a folder that only you can write to",
            CacheWarning,
            stacklevel=2,
        )


def read(file_name: str) -> bytes | None:
    """Return what was made of a split pattern; None if nothing was stored by that name, or if it is damaged."""
    return _read(PATTERNS, file_name, file_name) if _is_wanted() else None


def write(file_name: str, content: bytes) -> None:
    """Store what was made of a split pattern, if that is possible."""
    if _is_wanted():
        _write(PATTERNS, file_name, file_name, content)


def name_of_kernels() -> str:
    """Return the name of the folder of kernels that were compiled by this version, for this machine."""
    return f"kernels-{fingerprint.of_machine()}"


def is_empty() -> bool:
    """Whether no kernel is stored for this version and machine, though it can be."""
    if find_problem() is not None:
        return False
    try:
        return _find_folder(name_of_kernels()) is None
    except FolderError:
        return False


def find_problem() -> str | None:
    """Return why nothing can be stored; None if it can."""
    if not _is_wanted():
        return "BPEJIT_CACHE=0 turns the cache off"
    if _state.problem is not None:
        return _state.problem
    try:
        path = folders.find_place().path
        folders.resolve(path)
    except FolderError as error:
        return str(error)
    while not path.exists():
        path = path.parent
    as_effective_user = os.access in os.supports_effective_ids
    is_writable = os.access(path, os.W_OK | os.X_OK, effective_ids=as_effective_user)
    return None if is_writable else f"`{path}` cannot be written to"


def make_numba_folder() -> Path:
    """Return a folder for Numba's own cache of the present kernels, made where it does not exist.

    No other user can write to it. Numba notices an edit in the file of a function only, so the name tells all versions apart.

    Raises
    ------
    FolderError
        If there is no such folder; the message gives the reason.
    """
    if not _is_wanted():
        raise FolderError("BPEJIT_CACHE=0 turns the cache off")
    version = fingerprint.hash_text(fingerprint.of_machine() + fingerprint.of_sources())
    folder = _make_folder(f"numba-{version}")
    with suppress(OSError):
        os.utime(folder)  # it is in use; `upkeep` removes what is not
    return folder


def pack(key: str, content: bytes) -> bytes:
    """Return a file with some content, stored for a key."""
    return _FORMAT + _check(key, content) + content


def unpack(key: str, data: bytes) -> bytes | None:
    """Return the content of a file; None if it is damaged, or was stored for another key."""
    begin = len(_FORMAT) + _CHECK_BYTES
    content = data[begin:]
    return content if data[:begin] == _FORMAT + _check(key, content) else None


def _check(key: str, content: bytes) -> bytes:
    name = key.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(b"%d\n" % len(name), digest_size=_CHECK_BYTES)
    digest.update(name)
    digest.update(content)
    return digest.digest()


def _is_wanted() -> bool:
    value = os.environ.get("BPEJIT_CACHE") or "1"
    if value not in ("0", "1"):
        raise OptionError(
            f"BPEJIT_CACHE is {shorten(value)}, expected 0 or 1: set it to 0 to compile again in each process, or unset it"
        )
    return value == "1"


def _names(kernel: Any, signature: str) -> tuple[str, str]:
    """Return the name of a kernel's file, and the key that it is stored for."""
    name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__qualname__}"
    key = f"{name}\n{signature}\n{fingerprint.of_kernel(kernel).hex()}"
    return f"{name}-{fingerprint.hash_text(key)}.o", key


def _where() -> tuple[Any, ...]:
    """Return what decides where the cache is, and whether it can be trusted."""
    variables = ("BPEJIT_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    return (*map(os.environ.get, variables), os.geteuid() if folders.has_owners() else None)


def _find_folder(name: str) -> Path | None:
    """Return a folder of the cache that may be read; None if it does not exist."""
    where = (*_where(), name)
    found = _state.checked.get(where)
    if found is None:
        root = folders.resolve(folders.find_place().path)
        found = None if root is None else folders.resolve(root / name)
        if found is not None:
            _state.checked[where] = found
    return found


def _make_folder(name: str) -> Path:
    root = folders.resolve(folders.find_place().path, create=True)
    assert root is not None  # what cannot be made, is an error
    folder = folders.resolve(root / name, create=True)
    assert folder is not None
    return folder


def _read(folder_name: str, file_name: str, key: str) -> bytes | None:
    try:
        folder = _find_folder(folder_name)
        if folder is None:
            return None
        path = folder / file_name
        with open(os.open(path, _READ), "rb") as file:  # noqa: PTH123  (a descriptor)
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return None
            if folders.has_owners():
                folders.check_owner(path, found)
                folders.check_writers(path, found)
                if found.st_uid == os.geteuid() and abs(time.time() - found.st_mtime) > _DAY:
                    with suppress(OSError):  # on a file system that is read-only
                        os.utime(file.fileno())  # it is in use; `upkeep` removes what is not
            return unpack(f"{folder_name}/{key}", file.read())
    except (OSError, FolderError):
        return None


def _write(folder_name: str, file_name: str, key: str, content: bytes) -> str | None:
    """Store a file; return why that is not possible, or None."""
    data = pack(f"{folder_name}/{key}", content)
    try:
        for _ in range(_MOST_TRIES):
            folder = _make_folder(folder_name)
            try:
                _write_file(folder, file_name, data)
            except FileNotFoundError:  # another process has just cleared the cache
                problem = f"`{folder}` was removed"
            else:
                break
        else:
            return problem
    except FolderError as error:
        return str(error)
    except OSError as error:
        return f"`{folder}`: {error.strerror or error}"
    if not _state.pruned:
        _state.pruned = True
        from bpejit.jit import upkeep

        upkeep.prune(folder.parent, folder_name)
    return None


def _write_file(folder: Path, name: str, data: bytes) -> None:
    temporary = folder / f".{os.urandom(8).hex()}.tmp"
    try:
        with open(os.open(temporary, _CREATE, 0o600), "wb") as file:  # noqa: PTH123  (a descriptor)
            file.write(data)
        temporary.replace(folder / name)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
