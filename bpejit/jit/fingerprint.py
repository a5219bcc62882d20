"""Hash everything that machine code depends on, so that a process never runs code of another version.

Code compiled on this machine is identified by two hashes. `of_machine` covers what all kernels share: Python, Numba, the
processor, and the sources of the JIT layer. `of_kernel` covers one kernel: the bytecode of its function and of all functions
that it calls, and the constants that they use. Numba reads exactly these. An edit of a comment or of another kernel therefore
changes no hash, and every edit that affects the code does, whatever the modification times.

Code compiled elsewhere is identified by `of_sources`, which does not depend on the version of Python.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import marshal
import os
import platform
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bpejit.jit import target

_FOLDER = Path(__file__).parent

_STORING = frozenset(
    {
        "cache.py",
        "fingerprint.py",
        "folders.py",
        "linking.py",
        "listening.py",
        "loader.py",
        "methods.py",
        "shipped.py",
        "stored_arrays.py",
        "upkeep.py",
    }
)
"""Modules of this package that affect where machine code is stored and how it is loaded, but not the code itself."""


def hash_text(text: str) -> str:
    """Return a hash of 16 hexadecimal digits, for use in file names."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@functools.cache
def of_machine() -> str:
    """Return a hash of everything that all kernels depend on, as 24 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=12)
    _add_files(digest, _FOLDER)
    for package in ("numba", "llvmlite"):
        digest.update(_version_of(package))
    digest.update(
        f"{sys.version} {object.__basicsize__} {platform.machine()} {np.__version__} {target.describe_target()}\n".encode()
    )
    return digest.hexdigest()


@functools.cache
def of_sources() -> str:
    """Return a hash of the sources of all kernels and the JIT layer, as 24 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=12)
    _add_files(digest, _FOLDER)
    _add_files(digest, _FOLDER.parent / "kernels")
    return digest.hexdigest()


@functools.cache
def of_modules(folder: Path, names: tuple[str, ...]) -> str | None:
    """Return a hash of modules, which compute what is stored in the cache, as 24 hexadecimal digits.

    Parameters
    ----------
    folder : Path
    names : tuple of str
        Paths relative to the folder.

    Returns
    -------
    str, optional
        None if the sources cannot be read, as in a package that contains only bytecode.
    """
    digest = hashlib.blake2b(digest_size=12)
    try:
        for name in names:
            _add_file(digest, f"{folder}/{name}", name)
    except OSError:
        return None
    return digest.hexdigest()


class _Own(NamedTuple):
    """The contribution of one function to the hashes of the kernels that call it.

    Parameters
    ----------
    content : bytes
    called : tuple
        The functions that it calls.
    """

    content: bytes
    called: tuple[Any, ...]


_own: dict[Any, _Own] = {}


def of_kernel(kernel: Any) -> bytes:
    """Return a hash of everything specific to a function decorated with `kernel` or `inline`, as 16 bytes.

    Hashing 38 kernels and 141 helpers takes 6 ms.
    """
    found = {kernel: 0}
    waiting = [kernel]
    parts = []
    while waiting:
        function = waiting.pop()
        own = _own.get(function)
        if own is None:
            own = _own[function] = _describe(function)
        for other in own.called:
            if other not in found:
                found[other] = len(found)
                waiting.append(other)
        parts.append(b"%d %d%b%r" % (found[function], len(own.content), own.content, [found[other] for other in own.called]))
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def _describe(kernel: Any) -> _Own:
    function = kernel.function
    code = function.__code__
    called: list[Any] = []
    constants = code.co_consts
    if constants and constants[0] == function.__doc__:
        constants = constants[1:]
    closure = zip(code.co_freevars, function.__closure__ or (), strict=True)
    names = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    names.update((name, cell.cell_contents) for name, cell in closure)
    parts = (
        kernel.inlined,
        code.co_code,
        getattr(code, "co_exceptiontable", b""),
        tuple(_value(constant, called) for constant in constants),
        code.co_names,
        code.co_varnames,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
        tuple((name, _value(value, called)) for name, value in names.items()),
        _value(function.__defaults__, called),
        tuple((name, _value(value, called)) for name, value in (function.__kwdefaults__ or {}).items()),
    )
    # Version 2 of the format depends on values alone. Later versions also record whether two values are the same object.
    return _Own(marshal.dumps(parts, 2), tuple(called))


def _value(value: Any, called: list[Any]) -> Any:
    """Return a marshallable description of a value that a function uses. Append functions that it calls to `called`."""
    kind = type(value)
    if kind in (int, bool, str, bytes, float, type(None)):
        return value
    if isinstance(value, np.generic):
        return kind.__name__, value.tobytes()
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if kind is tuple:
        return tuple(_value(part, called) for part in value)
    if hasattr(kind, "_numba_type_"):
        if hasattr(value, "inlined"):
            called.append(value)
            return "function"
        return "intrinsic", value.function.__module__, value.function.__name__  # `of_machine` covers its source
    if isinstance(value, types.ModuleType) and value.__name__ == "numpy":
        return "module", value.__name__
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return "record", value.__module__, value.__qualname__, value._fields
    if isinstance(value, type) and value.__module__ in ("builtins", "numpy"):
        return "type", value.__module__, value.__qualname__
    return "anything", of_sources()


def _add_files(digest: hashlib.blake2b, folder: Path) -> None:
    """Add the modules in a folder and its subfolders."""
    paths = []
    # `Path.rglob` and `Path.read_bytes` take twice as long, and a process that only encodes a line waits for it.
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        paths += [os.path.join(base, name) for name in names if name.endswith(".py") and name not in _STORING]  # noqa: PTH118
    for path in sorted(paths):
        _add_file(digest, path, path[len(str(folder)) :])


def _add_file(digest: hashlib.blake2b, path: str, name: str) -> None:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        content = file.read()
    digest.update(f"{name} {len(content)}\n".encode())
    digest.update(content)


def _version_of(package: str) -> bytes:
    """Return bytes that identify the version of a package, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return b""
    try:
        return Path(found.origin).with_name("_version.py").read_bytes()
    except OSError:
        stamp = Path(found.origin).stat()
        return f"{found.origin} {stamp.st_mtime_ns} {stamp.st_size}\n".encode()
