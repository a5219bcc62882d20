"""A memory budget for the pre-token caches of all encoders and threads of a process.

Each encoding thread has a cache (see `workspace`) that grows as texts require. A cache requests memory from the budget before
growing, and its memory returns to the budget when it is freed. When the budget is exhausted, caches clear their slots instead
of growing. A cache below its fair share then takes memory from those above theirs: from unused caches at once, from the others
at their next request.

The account changes only when caches are created, grow, shrink and are freed, never during encoding.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from bpejit.arguments import whole_number
from bpejit.errors import OptionError, shorten

DEFAULT_BYTES = 192 << 20
"""Default limit: a job with two workers stays below 300 MB, besides the libraries and buffers of pyarrow."""

VARIABLE = "BPEJIT_ENCODING_CACHE_BYTES"
"""Environment variable with the default limit in bytes."""


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
