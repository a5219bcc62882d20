"""The memory of a process: large arrays, freed memory, the garbage collector, and a budget for the caches of encoders.

Each encoding thread has a cache of pre-tokens (see `bpejit.encoding.workspace`) that grows as texts require. A cache requests
memory from the budget before growing, and its memory returns to the budget when it is freed. When the budget is exhausted,
caches clear their slots instead of growing. A cache below its fair share then takes memory from those above theirs: from unused
caches at once, from the others at their next request.

The account changes only when caches are created, grow, shrink and are freed, never during encoding.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import mmap
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit.arguments import whole_number
from bpejit.errors import OptionError, shorten

if TYPE_CHECKING:
    import numpy.typing as npt

    from bpejit.arrays import Array

HUGE_PAGE_BYTES = 2 << 20

_MAPPED_BYTES, _RETAINED_BYTES = 1 << 20, 31 << 20
"""Sizes of blocks between which glibc maps them, but can be made to retain them."""

DEFAULT_BYTES = 192 << 20
"""Default limit: a job with two workers stays below 300 MB, besides the libraries and buffers of pyarrow."""

VARIABLE = "BPEJIT_ENCODING_CACHE_BYTES"
"""Environment variable with the default limit in bytes."""


def huge_page_zeros(size: int, dtype: npt.DTypeLike) -> Array:
    """Return an array of zeros for a hash table, on huge pages if it has at least 2 MiB and the system grants them.

    A table that is read at random from pages of 4 KiB misses the processor's cache of page addresses at most reads: later
    passes over English took 1.2 times as long with slots of 8 MiB. NumPy requests huge pages for large arrays, but those that
    malloc maps begin 16 bytes after the start of a page, so the first and the last huge page would be incomplete. So the
    memory is mapped here. It is returned to the system when the array is freed, and glibc does not begin to retain blocks of
    its size.
    """
    wanted = np.dtype(dtype)
    n_bytes = size * wanted.itemsize
    if n_bytes < HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):  # which only Linux has
        return np.zeros(size, dtype=wanted)
    try:
        memory = mmap.mmap(-1, n_bytes + HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"cannot allocate {n_bytes} bytes for a table: {error.strerror}") from error
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    # The bytes around the array are never touched.
    block: Array = np.frombuffer(memory, np.uint8)
    begin = -block.ctypes.data % HUGE_PAGE_BYTES
    return block[begin : begin + n_bytes].view(wanted)


def touch_pages(array: Array) -> Array:
    """Write each page of an array of zeros, and return the array.

    Use it for tables that kernels fill at random while other threads run. Linux maps a shared page of zeros where memory is
    first read, and replaces it when it is written, for which it interrupts the processors of all threads of the process.
    """
    array.view(np.uint8)[:: mmap.PAGESIZE] = 0
    return array


def retained_empty(size: int, dtype: npt.DTypeLike) -> Array:
    """Return an array without initial values, in memory that stays in the process when the array is freed.

    Touching new memory took 12% to 15% of a pass over five megabytes of Chinese. The result may be shrunk before it is freed.
    """
    wanted = np.dtype(dtype)
    if size * wanted.itemsize <= _RETAINED_BYTES:
        retain_freed(size * wanted.itemsize)
    return np.empty(size, dtype=wanted)


def retain_freed(n_bytes: int) -> None:
    """Let the allocator retain about `n_bytes` that are freed, and at most 64 MB, for the next objects and arrays.

    glibc maps a large block and unmaps it when it is freed, and returns the end of its heap to the system when that is free, so
    the next result is in new pages again. It stops mapping blocks up to the size of the largest one that was freed, of at most
    32 MiB, and retains twice as much at the end of the heap. The pages of the block that is freed here are never touched. Other
    allocators do not mind.
    """
    if n_bytes >= _MAPPED_BYTES:
        np.empty(min(n_bytes, _RETAINED_BYTES), dtype=np.uint8)


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


class Pool(list[Any]):
    """The idle workspaces of a tokenizer: a thread-safe stack that supports weak references.

    A workspace returned by `pop` is used by that caller alone.
    """

    __slots__ = ("__weakref__",)


class Budget:
    """A thread-safe account of the memory of caches.

    Parameters
    ----------
    n_bytes : int, optional
        The limit; by default from the environment, or DEFAULT_BYTES.
    """

    def __init__(self, n_bytes: int | None = None) -> None:
        self._limit = n_bytes
        self._used = 0
        self._reserved = 0  # by shares without a cache
        self._caches = 0
        # Sizes of freed shares, and whether they had a cache. The garbage collector may free a share at any point, where no
        # lock can be taken.
        self._freed: deque[tuple[int, bool]] = deque()
        self._pools: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()
        self._pool_numbers = itertools.count()
        self._lock = threading.Lock()
        self.has_starved_cache = False
        """True if a cache could not grow to its fair share because others exceed theirs."""

    @property
    def limit(self) -> int:
        """Limit of the memory of all caches in bytes.

        Raises
        ------
        OptionError
            If the limit comes from the environment, and is not a number.
        """
        if self._limit is None:
            self._limit = _from_environment()
        return self._limit

    @limit.setter
    def limit(self, n_bytes: int) -> None:
        self._limit = n_bytes
        self._reclaim()
        self.has_starved_cache = True  # caches in use shrink at their next request

    @property
    def used(self) -> int:
        """Memory of all caches in bytes."""
        with self._lock:
            self._settle()
            return self._used

    @property
    def available(self) -> int:
        """Unused bytes of the budget."""
        return self.limit - self.used

    @property
    def fair_share(self) -> int:
        """Bytes per cache if all have the same size."""
        return max(self.limit - self._reserved, 0) // max(self._caches, 1)

    def add_pool(self, pool: Pool) -> None:
        """Register the idle workspaces of a tokenizer, whose caches may be shrunk when others need the memory."""
        self._pools[next(self._pool_numbers)] = pool

    def open_share(self, wanted: int, least: int) -> Share:
        """Grant memory to a new cache: the wanted number of bytes, halved until it fits, but not below `least`."""
        limit = self.limit
        with self._lock:
            self._caches += 1
        if self.available < wanted:
            self._reclaim()
        with self._lock:
            self._settle()
            granted = wanted
            while granted > least and granted > limit - self._used:
                granted >>= 1
            granted = max(granted, least)
            self._used += granted
        if granted < wanted:
            self.has_starved_cache = True
        return Share(self, granted)

    def reserve(self, n_bytes: int) -> Share:
        """Take memory that is no cache, and does not count in the fair share of caches."""
        with self._lock:
            self._used += n_bytes
            self._reserved += n_bytes
        return Share(self, n_bytes, has_cache=False)

    def after_fork(self) -> None:
        """Replace the lock in a child process, since a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def _settle(self) -> None:
        while self._freed:
            n_bytes, has_cache = self._freed.popleft()
            self._used -= n_bytes
            if has_cache:
                self._caches -= 1
            else:
                self._reserved -= n_bytes

    def _reclaim(self) -> None:
        """Shrink the idle caches that exceed their fair share."""
        for pool in list(self._pools.values()):
            for workspace in _taken(pool):
                try:
                    if workspace.share.n_bytes > self.fair_share:
                        workspace.shrink_cache()
                finally:
                    pool.append(workspace)


class Share:
    """The part of a budget that one cache uses, or another part; returned to the budget when it is freed."""

    def __init__(self, budget: Budget, n_bytes: int, has_cache: bool = True) -> None:
        self.n_bytes = n_bytes
        self.has_cache = has_cache
        self.is_fair = False
        """Whether the cache gets no more than its fair share, since another one needed the memory before."""
        self.budget = budget  # last: `__del__` needs the others

    def __del__(self) -> None:
        if hasattr(self, "budget"):  # a signal may interrupt `__init__`
            self.budget._freed.append((self.n_bytes, self.has_cache))

    def take(self, n_bytes: int, returned: int = 0) -> bool:
        """Request more memory, of which `returned` bytes will be given back at once; return True if it was granted."""
        exceeds = self.n_bytes + n_bytes - returned > self.budget.fair_share
        if exceeds and self.is_fair:
            return False
        if self._try(n_bytes):
            return True
        if exceeds:
            return False
        self.budget._reclaim()
        if self._try(n_bytes):
            return True
        self.budget.has_starved_cache = True
        return False

    def _try(self, n_bytes: int) -> bool:
        with self.budget._lock:
            self.budget._settle()
            if self.budget._used + n_bytes > self.budget.limit:
                return False
            self.budget._used += n_bytes
            self.n_bytes += n_bytes
            return True

    def give_back(self, n_bytes: int) -> None:
        """Return some memory to the budget."""
        with self.budget._lock:
            self.n_bytes -= n_bytes
            self.budget._used -= n_bytes


def _taken(pool: Pool) -> Iterator[Any]:
    """Yield each workspace now in a pool, removed from it; the caller puts it back before the next."""
    with suppress(IndexError):  # other threads remove workspaces as well
        for _ in range(len(pool)):
            yield pool.pop(0)


def _from_environment() -> int:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT_BYTES
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise OptionError(
            f"the environment variable {VARIABLE} is {shorten(text)}; expected a number of bytes, such as {DEFAULT_BYTES}: "
            "correct it or unset it"
        )
    return int(text)


process_budget = Budget()
"""The budget of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_budget.after_fork)


def set_encoding_cache_budget(n_bytes: int) -> None:
    """Set the memory limit of the pre-token caches of all tokenizers and threads in this process.

    The caches make encoding fast, and never change an id. With less memory than the default of 192 MiB, long texts with many
    distinct words are encoded more slowly; Chinese and Japanese use the most. Each encoding thread has a cache of at least
    64 KiB. In addition to the caches, a tokenizer needs a fixed amount of memory for its tables, and each thread about 2 MB.

    Parameters
    ----------
    n_bytes : int
        The limit. The environment variable `BPEJIT_ENCODING_CACHE_BYTES` sets it for processes that do not call this
        function. Each worker process has a budget of the same size.

    Raises
    ------
    ArgumentTypeError
        If `n_bytes` is not an integer.
    OptionError
        If `n_bytes` is negative.

    Examples
    --------
    >>> import bpejit
    >>> bpejit.set_encoding_cache_budget(64 << 20)
    """
    process_budget.limit = whole_number("n_bytes", n_bytes, least=0)


def get_encoding_cache_budget() -> int:
    """Return the memory limit of the pre-token caches in bytes (see `set_encoding_cache_budget`)."""
    return process_budget.limit
