"""What is made once for a machine, on disk: machine code, a file for each kernel and each combination of types that it was
called with, and what else takes long to make (see `bpejit.split.kept`).

`NUMBA_CACHE_DIR` says where; else it is the folder of the kernels themselves, or, where that cannot be written to, the
user's folder for caches. `BPEJIT_CACHE=0` turns it off. The files of one version of the kernels are in a folder that is
named by a hash of what they depend on: all sources of kernels, Numba, Python, and the processor. So no old code is ever
run, after an edit, an upgrade, or on another machine that shares the folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import platform
import sys
from pathlib import Path
from typing import NamedTuple

from bpejit.jit import target

_CHECK_BYTES = 16


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


def load(name: str, signature: str) -> Code | None:
    """Return a kernel for arguments of some types, if it was stored."""
    content = read(_file_name(name, signature))
    if content is None:
        return None
    head, _, machine_code = content.partition(b"\n")
    returns = json.loads(head)
    return Code(machine_code, returns if isinstance(returns, str) else tuple(returns))


def save(name: str, signature: str, code: Code) -> None:
    """Store a kernel, if there is a folder for it; where there is none, each process compiles for itself."""
    write(_file_name(name, signature), json.dumps(code.returns).encode() + b"\n" + code.machine_code)


def read(file_name: str) -> bytes | None:
    """Return what was stored by a name; None if nothing was, or if it is damaged."""
    if not _wanted():
        return None
    for root in _roots():
        try:
            data = (root / _fingerprint() / file_name).read_bytes()
        except OSError:
            continue
        check, content = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
        if _check(content) == check:
            return content
    return None


def write(file_name: str, content: bytes) -> None:
    """Store bytes by a name, at once as a whole, in the first folder that can be written to."""
    if not _wanted():
        return
    for root in _roots():
        path = root / _fingerprint() / file_name
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(_check(content) + content)
            part.replace(path)
        except OSError:
            continue
        return


def is_empty() -> bool:
    """Whether nothing is stored, though it would be."""
    return _wanted() and not any((root / _fingerprint()).is_dir() for root in _roots())


def _wanted() -> bool:
    value = os.environ.get("BPEJIT_CACHE", "1")
    if value not in ("0", "1"):
        raise ValueError(
            f"BPEJIT_CACHE is {value!r}, expected 0 or 1: set it to 0 to compile anew in each process, or unset it"
        )
    return value == "1"


def _check(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECK_BYTES).digest()


def _file_name(name: str, signature: str) -> str:
    return f"{name}-{hash_text(signature)}.o"


def hash_text(text: str) -> str:
    """Return a hash that can be a part of a file's name."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@functools.cache
def _roots() -> list[Path]:
    """Return the folders in which to look, the first that can be written to being the one to write to."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return [Path(chosen) / "bpejit"]
    roots = [Path(__file__).parent / "__pycache__"]
    try:
        roots.append(_user_folder() / "bpejit")
    except RuntimeError:
        pass  # no home directory
    return roots


def _user_folder() -> Path:
    if sys.platform == "win32" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@functools.cache
def _fingerprint() -> str:
    """Return a hash of all that machine code depends on."""
    digest = hashlib.blake2b(digest_size=12)
    sources = Path(__file__).parent.parent
    for path in sorted([*sources.glob("jit/*.py"), *sources.glob("kernels/*.py")]):
        digest.update(path.read_bytes())
    for package in ("numba", "llvmlite"):
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            stamp = Path(found.origin).stat()
            digest.update(f"{found.origin} {stamp.st_mtime_ns} {stamp.st_size}\n".encode())
    digest.update(f"{sys.version} {object.__basicsize__} {platform.machine()} {target.current()}\n".encode())
    return digest.hexdigest()
