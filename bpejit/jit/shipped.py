"""Kernels that were compiled when the package was built: a shared library for each of some levels of the processor.

Wheels for a platform have them (`make wheel`); other wheels, and a checkout, have none. The system's own loader loads a
library, so that neither Numba nor LLVM is imported. A library is used if all of these fit; else kernels are compiled here:

- the sources of the kernels and of this folder, by a hash;
- the layout of Python's objects, by the size of their head: builds of Python without GIL have a longer one. Where NumPy's
  arrays have their fields is a part of its stable interface.
- the processor: the highest level that it has is taken, or that which `BPEJIT_CPU` names. With `NUMBA_CPU_NAME` and its like,
  which may ask for anything, kernels are compiled.

A library that was loaded is never unloaded.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import sys
from pathlib import Path
from typing import NamedTuple

from bpejit.jit import fingerprint, target

FOLDER = Path(__file__).parent / "compiled"
"""Where the libraries are, each named by its level, and the index."""

INDEX = "index.json"

LEVELS = ("x86-64-v4-vbmi", "x86-64-v3")
"""Levels that libraries are made for (see `target.LEVELS`), highest first."""

_NAMES_OF_LINUX = {
    "64bit": "lm",
    "avx512vbmi2": "avx512_vbmi2",
    "bmi": "bmi1",
    "crc32": "sse4_2",
    "lzcnt": "abm",
    "sahf": "lahf_lm",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
}
"""What Linux calls the instructions whose names in LLVM differ."""


class Shipped(NamedTuple):
    """A kernel that was compiled for some types.

    Parameters
    ----------
    address : int
    returns : str or tuple of str
        See `cache.Code`.
    """

    address: int
    returns: tuple[str, ...] | str


def find(name: str, signature: str) -> Shipped | None:
    """Return a kernel for arguments of some types, if it was compiled when the package was built.

    Parameters
    ----------
    name : str
        Module and function.
    signature : str
        The types, as text.
    """
    opened = _open()
    if opened is None:
        return None
    library, index = opened
    entry = index.get(name_of(name, signature))
    if entry is None:
        return None
    symbol, returns = entry
    address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    assert address is not None  # a symbol that is missing raises AttributeError
    return Shipped(address, returns if isinstance(returns, str) else tuple(returns))


def name_of(name: str, signature: str) -> str:
    """Return the name of a kernel in the index."""
    return f"{name}({signature})"


def is_available() -> bool:
    """Whether this process uses kernels that were compiled when the package was built."""
    return _open() is not None


def describe_build() -> dict[str, object]:
    """Return what libraries depend on, apart from the processor: the index has the values of the build."""
    return {"sources": fingerprint.of_sources(), "head": object.__basicsize__, "platform": _platform()}


def _platform() -> str:
    return f"{sys.platform}-{platform.machine()}-{8 * ctypes.sizeof(ctypes.c_void_p)}"


@functools.cache
def _open() -> tuple[ctypes.CDLL, dict[str, tuple[str, tuple[str, ...] | str]]] | None:
    """Load the library for this process; return it and the names and results of the kernels in it."""
    try:
        index = json.loads((FOLDER / INDEX).read_bytes())
    except (OSError, ValueError):
        return None
    if index["build"] != describe_build():
        return None
    level = _choose_level()
    try:
        return None if level is None else (ctypes.CDLL(str(FOLDER / f"{level}.so")), index["kernels"])
    except OSError:
        return None  # a system that maps no code from there


def _choose_level() -> str | None:
    if any(name in os.environ for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX")):
        return None
    wanted = os.environ.get("BPEJIT_CPU") or "native"
    if wanted not in ("native", *LEVELS):
        return None
    found = _read_features()
    fitting = (level for level in LEVELS if wanted in ("native", level) and target.LEVELS[level] <= found)
    return next(fitting, None)


def _read_features() -> frozenset[str]:
    """Return which instructions the processor has and the system allows, by LLVM's names, as far as a level needs them."""
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            lines = file.read(1 << 14).split(b"\n\n")[0].decode("ascii", "replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    known = frozenset().union(*target.LEVELS.values())
    return frozenset(name for name in known if _NAMES_OF_LINUX.get(name, name) in flags)
