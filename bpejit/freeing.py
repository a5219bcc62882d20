"""Giving freed memory back to the system."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def give_back_memory() -> None:
    """Return what was freed to the system, where the C library keeps it: glibc does, and takes a millisecond for this.

    Worth a call between stages of which the first had large arrays: what they leave in the heap is of no use to the second,
    whose arrays have other sizes, and would count in the peak.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library; on Windows there is no library without a name
        return None
    found.argtypes = [ctypes.c_size_t]
    return found  # type: ignore[no-any-return]
