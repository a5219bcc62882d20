"""The one place that decides how kernels are compiled.

Two decorators: `kernel` for what Python calls, `inline` for small helpers that kernels call. Both compile on the first
call (an explicit signature would compile on import), release the GIL, and keep the machine code on disk.

`BPEJIT_CACHE=0` turns the disk cache off; `NUMBA_DISABLE_JIT=1` turns compiling off, and the kernels run as plain
Python, which is slow, exact, and what the coverage run uses.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config
from numba.core.caching import IndexDataCacheFile
from numba.core.event import Listener, register

Function = TypeVar("Function", bound=Callable[..., Any])

JIT_ENABLED: bool = not config.DISABLE_JIT

KERNELS: list[Any] = []
"""Every function made with `kernel`, in order of definition."""


def _cache_wanted() -> bool:
    value = os.environ.get("BPEJIT_CACHE", "1")
    if value not in ("0", "1"):
        raise ValueError(
            f"BPEJIT_CACHE is {value!r}, expected 0 or 1: set it to 0 to compile anew in each process, or unset it"
        )
    return value == "1"


def _compile(function: Function, **options: Any) -> Function:
    # error_model="numpy" leaves out the test for division by zero; no kernel divides by data.
    # _nrt=False leaves out reference counting: with it, each call of a helper that has a loop and an early return costs an
    # atomic increment and decrement per array (interning: 40 ns per pre-token instead of 4). Kernels allocate nothing, so
    # there is nothing to count; one that does allocate fails to compile.
    options = {"nogil": True, "error_model": "numpy", "_nrt": False, **options}
    if _cache_wanted() and JIT_ENABLED:
        try:
            compiled = numba.njit(cache=True, **options)(function)
        except RuntimeError:
            # numba found no folder that it may write to (a read-only install without a home directory): compiling in
            # each process is slower, and the result is the same.
            pass
        else:
            _name_files_by_content(compiled)
            return compiled  # type: ignore[no-any-return]
    return numba.njit(**options)(function)  # type: ignore[no-any-return]


@functools.cache
def _content() -> str:
    """Return a hash of the source of all kernels; reading it takes a millisecond."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _name_files_by_content(compiled: Any) -> None:
    """Put a hash of all kernels into the names of a kernel's files on disk.

    numba itself looks only at the file that a kernel is in. It would run old code where a function of another file was
    edited, and fail where a record that was stored was renamed since: after an upgrade, or a change of branch.
    """
    cache = compiled._cache
    base, stamp = cache._impl.filename_base, cache._impl.locator.get_source_stamp()
    cache._cache_file = IndexDataCacheFile(cache._cache_path, f"{base}-{_content()}", stamp)


def kernel(function: Function) -> Function:
    """Compile a function that Python calls."""
    compiled = _compile(function)
    KERNELS.append(compiled)
    return compiled


def inline(function: Function) -> Function:
    """Compile a small function that only kernels call; LLVM inlines it at each call."""
    return _compile(function, forceinline=True)


class _CompileListener(Listener):
    """Tells a callback when compiling begins and ends; helpers compiled within a kernel belong to it."""

    def __init__(self, callback: Callable[[str, float], None]) -> None:
        self._callback = callback
        self._depth = 0
        self._begun = 0.0

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._begun = time.perf_counter()
            self._callback("start", 0.0)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._callback("end", time.perf_counter() - self._begun)


def on_compile(callback: Callable[[str, float], None]) -> None:
    """Call `callback("start", 0.0)` when a kernel has to be compiled, and `callback("end", seconds)` when that is done.

    Loading a kernel from the disk cache does not count.
    """
    register("numba:compile", _CompileListener(callback))
