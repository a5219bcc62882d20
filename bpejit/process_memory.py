"""Memory management of the Python process: pause the garbage collector, return freed memory to the system."""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector for a block, or for a function that this decorates.

    For code that creates hundreds of thousands of objects and keeps them: the collector would scan them again and again.
    It is enabled again afterwards if it was enabled before, also after an exception.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def trim_heap() -> None:
    """Return freed memory to the system where the C library keeps it (glibc; takes about a millisecond).

    Call it between two stages of which the first had large arrays. The second stage could not use what they leave in the
    heap, since its arrays have other sizes, and it would count in the peak.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; on Windows there is no library without a name
        return None
    found.argtypes = [ctypes.c_size_t]
    return found  # type: ignore[no-any-return]
