"""Run kernels through Numba's public interface.

This is slower: every process imports Numba, and a first run takes twice as long. It is used with `BPEJIT_JIT=numba`,
`NUMBA_BOUNDSCHECK=1` or `NUMBA_DEBUGINFO=1`, and with versions of Numba that `lowering` does not support.

Numba stores compiled code in a folder of the cache that is named by a hash of all sources, because Numba detects edits only in
the file of the compiled function. Code with bounds checks or debug information is not stored, since Numba's cache does not
distinguish it from other code.
"""

from __future__ import annotations

import functools
import warnings
from contextlib import AbstractContextManager
from typing import Any

import numba
from numba.core import event

from bpejit.jit import cache, folders, listening


@functools.cache
def dispatcher_of(kernel: Any) -> Any:
    """Return Numba's dispatcher of a function decorated with `kernel` or `inline`."""
    folder = _find_folder()
    if folder is None:
        made = numba.njit(**options_of(kernel))(kernel.function)
    else:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = folder  # read only when a dispatcher is created
        try:
            made = numba.njit(**options_of(kernel), cache=True)(kernel.function)
        finally:
            numba.config.CACHE_DIR = before
    _listener().names[made] = kernel.__qualname__
    return made


def options_of(kernel: Any) -> dict[str, Any]:
    """Return the options of `numba.njit` for a function decorated with `kernel` or `inline`."""
    # error_model="numpy" omits the check for division by zero; no kernel divides by data.
    # _nrt=False omits reference counting. With it, each call of a helper with a loop and an early return costs an atomic
    # increment and decrement per array (interning: 40 ns per pre-token instead of 4). Kernels allocate nothing, so there is
    # nothing to count; a kernel that allocates fails to compile.
    return {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": kernel.inlined}


def type_of_kernel(kernel: Any) -> Any:
    """Return the Numba type of a function decorated with `kernel` or `inline`."""
    return numba.typeof(dispatcher_of(kernel))


@functools.cache
def _find_folder() -> str | None:
    """Return the folder for Numba's cache, or None if nothing is stored. Warn if storing is impossible."""
    if numba.config.BOUNDSCHECK or numba.config.DEBUGINFO_DEFAULT:
        return None
    try:
        return str(cache.make_numba_folder())
    except folders.FolderError as error:
        warnings.warn(
            f"kernels compiled by Numba cannot be stored: {error}; each process compiles them again, which may take a minute",
            cache.CacheWarning,
            stacklevel=2,
        )
        return None


class _Listener(event.Listener):  # type: ignore[misc]
    """Report when Numba compiles a kernel. Helpers compiled at the same time are part of the kernel."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self._reports: list[AbstractContextManager[None] | None] = []  # one for each function being compiled

    def on_start(self, event: Any) -> None:
        """Handle the start of a compilation, of a kernel or of any other function."""
        name = self.names.get(event.data.get("dispatcher"))
        report = None if name is None or any(self._reports) else listening.compiling(name)
        if report is not None:
            report.__enter__()
        self._reports.append(report)

    def on_end(self, event: Any) -> None:
        """Handle the end of a compilation."""
        report = self._reports.pop()
        if report is not None:
            report.__exit__(None, None, None)


@functools.cache
def _listener() -> _Listener:
    made = _Listener()
    event.register("numba:compile", made)
    return made
