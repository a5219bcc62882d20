"""Kernels that Numba itself runs, through its public functions alone.

That is slower: every process loads Numba, and a first run takes twice the time. It is what `BPEJIT_JIT=numba` asks for, and
`NUMBA_BOUNDSCHECK=1` and `NUMBA_DEBUGINFO=1`; and what happens with a version of Numba whose internals are not those that
`lowering` knows.

Numba keeps what it compiles in a folder of our cache, named by a hash of all sources: by itself, it notices an edit only in the
file of the function that was compiled. Code with checks of indices or information for debuggers is not stored, since Numba
does not tell it from other code.
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
    """Return Numba's own object for a function made with `kernel` or `inline`."""
    folder = _find_folder()
    if folder is None:
        made = numba.njit(**options_of(kernel))(kernel.function)
    else:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = folder  # read only when a dispatcher is made
        try:
            made = numba.njit(**options_of(kernel), cache=True)(kernel.function)
        finally:
            numba.config.CACHE_DIR = before
    _listener().names[made] = kernel.__qualname__
    return made


def options_of(kernel: Any) -> dict[str, Any]:
    """Return the options of `numba.njit` for a function made with `kernel` or `inline`."""
    # error_model="numpy" leaves out the test for division by zero; no kernel divides by data.
    # _nrt=False leaves out reference counting: with it, each call of a helper that has a loop and an early return costs an
    # atomic increment and decrement per array (interning: 40 ns per pre-token instead of 4). Kernels allocate nothing, so
    # there is nothing to count; one that does allocate fails to compile.
    return {"nogil": True, "error_model": "numpy", "_nrt": False, "forceinline": kernel.inlined}


def type_of_kernel(kernel: Any) -> Any:
    """Return the type by which Numba knows a function made with `kernel` or `inline`."""
    return numba.typeof(dispatcher_of(kernel))


@functools.cache
def _find_folder() -> str | None:
    """Return the folder for what Numba compiles, or None if that is not to be stored, or cannot be: then with a warning."""
    if numba.config.BOUNDSCHECK or numba.config.DEBUGINFO_DEFAULT:
        return None
    try:
        return str(cache.make_numba_folder())
    except folders.FolderError as error:
        warnings.warn(
            f"what Numba compiles cannot be stored: {error}; each process compiles it again, which may take a minute",
            cache.CacheWarning,
            stacklevel=2,
        )
        return None


class _Listener(event.Listener):  # type: ignore[misc]
    """Reports when Numba compiles a kernel; the helpers that are compiled meanwhile count as part of it."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self._reports: list[AbstractContextManager[None] | None] = []  # of each function that is being compiled

    def on_start(self, event: Any) -> None:
        """Take note that a function is compiled, of ours or of others."""
        name = self.names.get(event.data.get("dispatcher"))
        report = None if name is None or any(self._reports) else listening.compiling(name)
        if report is not None:
            report.__enter__()
        self._reports.append(report)

    def on_end(self, event: Any) -> None:
        """Take note that it has been compiled."""
        report = self._reports.pop()
        if report is not None:
            report.__exit__(None, None, None)


@functools.cache
def _listener() -> _Listener:
    made = _Listener()
    event.register("numba:compile", made)
    return made
