"""What machine code depends on, as hashes, so that no process ever runs code of another version.

Code that was compiled on this machine is found by two hashes. `of_machine` covers what all kernels have in common: Python,
Numba, the processor, and the sources that decide how kernels are compiled and called. `of_kernel` covers one kernel: the
bytecode of its function and of all that it calls, and the constants they use. That is what Numba reads, so an edit of a comment
or of another kernel changes nothing, and an edit that is read in no way escapes, whatever the times of the files say.

Code that was compiled elsewhere is found by `of_sources`, which is the same under every version of Python.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import marshal
import platform
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bpejit.jit import target

_FOLDER = Path(__file__).parent

_STORING = frozenset({"cache.py", "fingerprint.py", "folders.py", "upkeep.py"})
"""Modules here that decide where machine code is stored, and nothing about the code itself."""


def hash_text(text: str) -> str:
    """Return a hash of 16 hexadecimal digits, for names of files."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@functools.cache
def of_machine() -> str:
    """Return the hash of what the machine code of all kernels depends on: 24 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=12)
    _add_files(digest, _FOLDER)
    for package in ("numba", "llvmlite"):
        digest.update(_version_of(package))
    digest.update(f"{sys.version} {object.__basicsize__} {platform.machine()} {np.__version__} {target.current()}\n".encode())
    return digest.hexdigest()


@functools.cache
def of_sources() -> str:
    """Return the hash of all sources that machine code is made of: 24 hexadecimal digits, the same under every Python."""
    digest = hashlib.blake2b(digest_size=12)
    _add_files(digest, _FOLDER)
    _add_files(digest, _FOLDER.parent / "kernels")
    return digest.hexdigest()


class _Own(NamedTuple):
    """What one function contributes to the hashes of the kernels that call it.

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
    """Return the hash of what a function made with `kernel` or `inline` depends on, apart from `of_machine`: 16 bytes.

    All helpers of all kernels together take about a millisecond.
    """
    found = {kernel: 0}
    waiting = [kernel]
    digest = hashlib.blake2b(digest_size=16)
    while waiting:
        function = waiting.pop()
        own = _own.get(function)
        if own is None:
            own = _own[function] = _describe(function)
        for other in own.called:
            if other not in found:
                found[other] = len(found)
                waiting.append(other)
        digest.update(b"%d %d" % (found[function], len(own.content)))
        digest.update(own.content)
        digest.update(b"%r" % [found[other] for other in own.called])
    return digest.digest()


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
    # Version 2 depends on values alone; later ones also tell whether two of them are one object.
    return _Own(marshal.dumps(parts, 2), tuple(called))


def _value(value: Any, called: list[Any]) -> Any:
    """Return what `marshal` can write for something that a function uses; functions that it calls are added to `called`."""
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
        return "intrinsic", value.function.__module__, value.function.__name__  # its source is a part of `of_machine`
    if isinstance(value, types.ModuleType) and value.__name__ == "numpy":
        return "module", value.__name__
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return "record", value.__module__, value.__qualname__, value._fields
    if isinstance(value, type) and value.__module__ in ("builtins", "numpy"):
        return "type", value.__module__, value.__qualname__
    return "anything", of_sources()


def _add_files(digest: hashlib.blake2b, folder: Path) -> None:
    """Add the modules in a folder and in those below it."""
    for path in sorted(folder.rglob("*.py")):
        if path.name not in _STORING:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode())
            digest.update(content)


def _version_of(package: str) -> bytes:
    """Return what tells the versions of a package apart, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return b""
    try:
        return Path(found.origin).with_name("_version.py").read_bytes()
    except OSError:
        stamp = Path(found.origin).stat()
        return f"{found.origin} {stamp.st_mtime_ns} {stamp.st_size}\n".encode()
