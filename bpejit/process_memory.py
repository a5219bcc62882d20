"""Pause the garbage collector, and return freed memory to the operating system."""

from __future__ import annotations

import ctypes
import functools
import gc
import mmap
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bpejit.arrays import Array


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, as a context manager or a decorator.

    Use it for code that creates and retains hundreds of thousands of objects, which the collector would scan repeatedly. The
    collector is restored to its previous state on exit.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def trim_heap() -> None:
    """Return freed memory to the operating system. Only glibc retains it; elsewhere this does nothing.

    Call it between two stages if the first one had large arrays. The second stage has arrays of other sizes and could not
    reuse the freed memory, which would count towards the peak. It takes about a millisecond.
    """
    trim = _function_of_libc("malloc_trim", ctypes.c_size_t)
    if trim is not None:
        trim(0)


def release(array: Array) -> None:
    """Return the memory of an array to the operating system, except for pages that it has only a part of.

    The elements are undefined afterwards, but they may be written and read again. Only Linux supports this; elsewhere it does
    nothing.

    Call it for an array, or a part of one, that was read for the last time while another array is written for the first time:
    the peak is lower, and on a virtual machine, the first touch of memory that was released a moment before takes 0.13 ms per
    MB, and of other memory up to 5 ms.
    """
    advise = _function_of_libc("madvise", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    begin = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if advise is not None and sys.platform == "linux" and begin < end:
        advise(begin, end - begin, mmap.MADV_DONTNEED)


@functools.cache
def _function_of_libc(name: str, *types: type) -> Callable[..., int] | None:
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another library, without it; Windows requires a name
        return None
    found.argtypes = types
    return found  # type: ignore[no-any-return]


def peak_memory() -> tuple[int, int]:
    """Return the peak resident memory of this process, and of the largest child process that has ended, in bytes.

    Both are 0 where the system does not tell, and the second one if there were no child processes.
    """
    try:
        import resource
    except ImportError:  # Windows
        return 0, 0
    unit = 1 if sys.platform == "darwin" else 1024
    own, children = (resource.getrusage(who).ru_maxrss * unit for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own, children
