"""Store compiled kernels and tables for later processes.

`BPEJIT_CACHE_DIR` names the folder of the cache, or `NUMBA_CACHE_DIR` its parent. The default is the user's cache folder.
`BPEJIT_CACHE=0` disables the cache. It contains:

    kernels-<hash>/<module>.<function>-<hash>.o     a compiled kernel, one file for each combination of argument types
    kernels-<hash>/complete-<hash>                  a mark that the kernels of the first commands are stored
    patterns/pattern-<hash>.<kind>                  tables of a split pattern (see `bpejit.splitting.pattern_cache`)
    encoders/encoder-<hash>.tables                  tables of an encoder (see `bpejit.encoding.encoder_tables`)
    encoders/vocabulary-<hash>.tables               a parsed vocabulary (see `bpejit.formats.vocabulary_arrays`)
    numba-<hash>/                                   Numba's own cache, if Numba runs the kernels

The hashes are described in `fingerprint`. Since the content is executed, only files that no other user can have written are
read (see `folders`), and only intact ones: each file starts with a hash of its content and of its key. A file is written under
a new random name and renamed, so readers see all of it or nothing. Files are not flushed to disk; a file damaged by a power
failure is detected and written again. Errors of any kind are treated as a cache miss: the cache never makes a process fail.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bpejit.errors import OptionError, shorten
from bpejit.jit import fingerprint, folders
from bpejit.jit.folders import FolderError

_FORMAT = b"bpejit\x00\x01"
"""First bytes of each file; the last one is the version of the format."""

_CHECK_BYTES = 32

HEAD_BYTES = len(_FORMAT) + _CHECK_BYTES
"""Size of a file without its content."""

_MAX_HASHED = 1 << 20
"""Of a longer file, a table and not code, its length and its CRC-32 are hashed instead, in a quarter of the time."""

_RETURNS = frozenset({"none", "bool", "int", "uint"})

_DAY = 86_400.0  # seconds

_MAX_TRIES = 3

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
        Type of the result, `none`, `bool`, `int` or `uint`; a tuple for several results.
    """

    machine_code: bytes
    returns: tuple[str, ...] | str

    def to_bytes(self) -> bytes:
        """Serialize the code."""
        return json.dumps(self.returns).encode() + b"\n" + self.machine_code

    @classmethod
    def from_bytes(cls, content: bytes) -> Code | None:
        """Deserialize the result of `to_bytes`. Return None if `content` is malformed."""
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
        self.checked: dict[tuple[Any, ...], Path] = {}  # folders that passed the checks, by `_location` and name
        self.problem: str | None = None  # why a kernel could not be stored
        self.warned = False
        self.pruned = False


_state = _State()


def load(kernel: Any, signature: str) -> Code | None:
    """Return the stored code of a kernel for the given argument types, or None.

    Parameters
    ----------
    kernel : Kernel
    signature : str
        The argument types.
    """
    if not _is_wanted():
        return None
    content = _read(name_of_kernels(), *_names(kernel, signature))
    return None if content is None else Code.from_bytes(content)


def save(kernel: Any, signature: str, code: Code) -> None:
    """Store the code of a kernel. Warn once if that is not possible; each process then compiles its own."""
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


PATTERNS = folders.PATTERNS
ENCODERS = folders.ENCODERS


def read(file_name: str, folder: str = PATTERNS, allocate: Callable[[int], memoryview] | None = None) -> Any:
    """Return the stored tables of a split pattern or an encoder, or None if they are missing or damaged.

    They are bytes, or a part of memory of the caller: `allocate` returns writable memory of a number of bytes, the size of the
    file, at whose end the content is then read without a copy.
    """
    return _read(folder, file_name, file_name, allocate) if _is_wanted() else None


def write(file_name: str, content: bytes, folder: str = PATTERNS) -> None:
    """Store the tables of a split pattern or an encoder, if possible."""
    if _is_wanted():
        _write(folder, file_name, file_name, content)


def name_of_kernels() -> str:
    """Return the name of the folder for kernels of this version and machine."""
    return f"kernels-{fingerprint.of_machine()}"


def lacks_mark() -> bool:
    """Return True if kernels can be stored, but `mark` has not been called for these sources."""
    if find_problem() is not None:
        return False
    name = _name_of_mark()
    return _read(name_of_kernels(), name, name) is None


def mark() -> None:
    """Record that the kernels that the first commands need are stored, as long as their sources stay the same."""
    if _is_wanted():
        name = _name_of_mark()
        _write(name_of_kernels(), name, name, b"")


def _name_of_mark() -> str:
    return f"complete-{fingerprint.of_sources()}"


def count_kernels() -> int:
    """Return the number of kernels that are stored for this version and machine."""
    try:
        folder = _find_folder(name_of_kernels())
        return 0 if folder is None else sum(name.endswith(".o") for name in os.listdir(folder))  # noqa: PTH208
    except (OSError, FolderError):
        return 0


def find_problem() -> str | None:
    """Return the reason why nothing can be stored, or None."""
    if not _is_wanted():
        return "BPEJIT_CACHE=0 turns the cache off"
    if _state.problem is not None:
        return _state.problem
    try:
        path = folders.find_cache_folder().path
        folders.resolve(path)
    except FolderError as error:
        return str(error)
    while not path.exists():
        path = path.parent
    as_effective_user = os.access in os.supports_effective_ids
    is_writable = os.access(path, os.W_OK | os.X_OK, effective_ids=as_effective_user)
    return None if is_writable else f"`{path}` is not writable"


def make_numba_folder() -> Path:
    """Return the folder for Numba's own cache of the present kernels, and create it if necessary.

    Its name contains a hash of all sources, since Numba detects edits only in the file of the compiled function.

    Raises
    ------
    FolderError
        If the folder cannot be used; the message gives the reason.
    """
    if not _is_wanted():
        raise FolderError("BPEJIT_CACHE=0 turns the cache off")
    version = fingerprint.hash_text(fingerprint.of_machine() + fingerprint.of_sources())
    folder = _find_folder(f"numba-{version}", create=True)
    assert folder is not None  # if it cannot be created, an error is raised
    with suppress(OSError):
        os.utime(folder)  # marks it as used, for `upkeep.prune`
    return folder


def pack(key: str, content: bytes) -> bytes:
    """Return the bytes of a file that stores `content` under `key`."""
    return _FORMAT + _check(key, content) + content


Buffer = TypeVar("Buffer", bytes, memoryview)


def unpack(key: str, data: Buffer) -> Buffer | None:
    """Return the content of a file, or None if it is damaged or was stored under another key."""
    content = data[HEAD_BYTES:]
    return content if data[:HEAD_BYTES] == _FORMAT + _check(key, content) else None


def _check(key: str, content: bytes | memoryview) -> bytes:
    name = key.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(b"%d\n" % len(name), digest_size=_CHECK_BYTES)
    digest.update(name)
    if len(content) <= _MAX_HASHED:
        digest.update(content)
    else:
        digest.update(b"%d %d" % (len(content), zlib.crc32(content)))
    return digest.digest()


def _is_wanted() -> bool:
    value = os.environ.get("BPEJIT_CACHE") or "1"
    if value not in ("0", "1"):
        raise OptionError(
            f"BPEJIT_CACHE is {shorten(value)}; expected 0 or 1: set it to 0 to compile again in each process, or unset it"
        )
    return value == "1"


def _names(kernel: Any, signature: str) -> tuple[str, str]:
    """Return the file name and the key of a kernel."""
    name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__qualname__}"
    key = f"{name}\n{signature}\n{fingerprint.of_kernel(kernel).hex()}"
    return f"{name}-{fingerprint.hash_text(key)}.o", key


def _location() -> tuple[Any, ...]:
    """Return the settings that determine the folder of the cache and whether it passes the checks."""
    variables = ("BPEJIT_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    return (*map(os.environ.get, variables), os.geteuid() if folders.has_owners() else None)


def _find_folder(name: str, *, create: bool = False) -> Path | None:
    """Return a folder of the cache that passed the checks, or None if it does not exist, and is not to be created."""
    location = (*_location(), name)
    found = None if create else _state.checked.get(location)
    if found is None:
        root = folders.resolve(folders.find_cache_folder().path, create=create)
        found = None if root is None else folders.resolve(root / name, create=create)
        if found is not None:
            _state.checked[location] = found
    return found


def _read(folder_name: str, file_name: str, key: str, allocate: Callable[[int], memoryview] | None = None) -> Any:
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
                        os.utime(file.fileno())  # marks it as used, for `upkeep.prune`
            if allocate is None:
                return unpack(f"{folder_name}/{key}", file.read())
            data = allocate(found.st_size)
            return unpack(f"{folder_name}/{key}", data) if file.readinto(data) == len(data) else None
    except (OSError, FolderError):
        return None


def _write(folder_name: str, file_name: str, key: str, content: bytes) -> str | None:
    """Store a file. Return the reason if that is not possible, or None."""
    data = pack(f"{folder_name}/{key}", content)
    try:
        for _ in range(_MAX_TRIES):
            folder = _find_folder(folder_name, create=True)
            assert folder is not None  # if it cannot be created, an error is raised
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
