"""Load kernels that were compiled when the package was built: one shared library for each supported level of the processor.

Platform wheels include these libraries (`make wheel`); other wheels and a checkout do not. The system's dynamic linker loads a
library, so neither Numba nor LLVM is imported. A library is used only if all of the following match. Otherwise kernels are
compiled on this machine.

- The sources of the kernels and of the JIT layer, by hash.
- The layout of Python objects, by the size of the object header, which is larger in free-threaded builds of Python. The offsets
  of the fields of NumPy arrays are part of NumPy's stable ABI.
- The processor. The highest level that it supports is used, or the level named by `BPEJIT_CPU`. If `NUMBA_CPU_NAME` or a
  related variable is set, kernels are compiled.

A loaded library is never unloaded.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import sys
from pathlib import Path

from bpejit.jit import fingerprint, target

FOLDER = Path(__file__).parent / "compiled"
"""Folder of the libraries, named by level, and of the index."""

INDEX = "index.json"

LEVELS = ("x86-64-v4-vbmi", "x86-64-v3")
"""Levels for which libraries are built (see `target.LEVELS`), highest first."""

_LINUX_NAMES = {
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
"""Linux names of instruction sets, by LLVM name, where the two differ."""


def find(name: str, signature: str) -> tuple[int, tuple[str, ...] | str] | None:
    """Return the address of the kernel for the given argument types and its `cache.Code.returns`, or None if it is missing.

    Parameters
    ----------
    name : str
        Module and function.
    signature : str
        The argument types.
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
    return address, returns if isinstance(returns, str) else tuple(returns)


def name_of(name: str, signature: str) -> str:
    """Return the name of a kernel in the index."""
    return f"{name}({signature})"


def is_available() -> bool:
    """Return True if this process uses kernels that were compiled when the package was built."""
    return _open() is not None


def describe_build() -> dict[str, object]:
    """Return the properties, other than the processor, that must match those of the build, which are stored in the index."""
    return {"sources": fingerprint.of_sources(), "head": object.__basicsize__, "platform": _platform()}


def _platform() -> str:
    return f"{sys.platform}-{platform.machine()}-{8 * ctypes.sizeof(ctypes.c_void_p)}"


@functools.cache
def _open() -> tuple[ctypes.CDLL, dict[str, tuple[str, tuple[str, ...] | str]]] | None:
    """Load the library for this process. Return it with the symbols and result types of its kernels."""
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
        return None  # for example on a file system mounted with noexec


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
    """Return the LLVM names of the supported instruction sets, limited to those that the levels use."""
    lines = [line.decode("ascii", "replace") for line in target.read_cpuinfo()]
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    known = frozenset().union(*target.LEVELS.values())
    return frozenset(name for name in known if _LINUX_NAMES.get(name, name) in flags)
