"""The memory that the caches of pre-tokens may take, all encoders and threads of a process together.

Each thread that encodes has a cache (see `workspace`), which grows with what texts use. Here is the account: a cache asks
before it grows, and what it held comes back when it is freed. When the budget is used up, caches empty their slots and begin
anew instead of growing. One that holds less than its fair part then takes from those that hold more: from caches that nobody
is using at once, from the others when they next ask.

An account is kept only when caches are made, grow, shrink and are freed; encoding itself never comes here.
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

DEFAULT_BYTES = 128 << 20
"""A process with one tokenizer of 200,000 tokens and full caches then stays below 300 MB."""

VARIABLE = "BPEJIT_ENCODING_CACHE_BYTES"
"""The environment variable that says how many bytes, where no one else does."""


class Pool(list[Any]):
    """The workspaces of a tokenizer that no thread is using: a thread-safe stack that others can refer to weakly.

    Whoever has taken one out with `pop` has it alone.
    """

    __slots__ = ("__weakref__",)


class Budget:
    """An account of the memory of caches; thread-safe.

    Parameters
    ----------
    n_bytes : int, optional
        The limit; by default what the environment says, or DEFAULT_BYTES.
    """

    def __init__(self, n_bytes: int | None = None) -> None:
        self._limit = n_bytes
        self._used = 0
        self._shares = 0
        # Freed shares. They may be freed by the garbage collector in the middle of anything, where no lock can be taken.
        self._freed: deque[int] = deque()
        self._pools: weakref.WeakValueDictionary[int, Pool] = weakref.WeakValueDictionary()
        self._pool_numbers = itertools.count()
        self._lock = threading.Lock()
        self.is_short = False
        """Whether a cache wants to grow to its fair part, and cannot because others hold more than theirs."""

    @property
    def limit(self) -> int:
        """How many bytes all caches together may take.

        Raises
        ------
        OptionError
            If it is the environment that says it, and what that says is no number.
        """
        if self._limit is None:
            self._limit = _from_environment()
        return self._limit

    @limit.setter
    def limit(self, n_bytes: int) -> None:
        self._limit = n_bytes
        self._reclaim()
        self.is_short = True  # those that are in use shrink when they next ask

    @property
    def used(self) -> int:
        """How many bytes the caches have now."""
        with self._lock:
            self._settle()
            return self._used

    @property
    def room(self) -> int:
        """How many bytes are left."""
        return self.limit - self.used

    @property
    def fair_part(self) -> int:
        """What each cache may have if all take the same."""
        return self.limit // max(self._shares, 1)

    def add_pool(self, pool: Pool) -> None:
        """Let the caches of a tokenizer be shrunk when nobody is using them and others need the memory."""
        self._pools[next(self._pool_numbers)] = pool

    def open_share(self, wanted: int, least: int) -> Share:
        """Grant memory to a new cache: what it wants if that is there, or else half or a quarter of that and so on."""
        limit = self.limit
        with self._lock:
            self._shares += 1
        if self.room < wanted:
            self._reclaim()
        with self._lock:
            self._settle()
            granted = wanted
            while granted > least and granted > limit - self._used:
                granted >>= 1
            granted = max(granted, least)
            self._used += granted
        if granted < wanted:
            self.is_short = True
        return Share(self, granted)

    def take(self, share: Share, n_bytes: int) -> bool:
        """Grant more memory to a cache, if there is some."""
        if self._try(share, n_bytes):
            return True
        if share.n_bytes + n_bytes > self.fair_part:
            return False
        self._reclaim()
        if self._try(share, n_bytes):
            return True
        self.is_short = True
        return False

    def give_back(self, share: Share, n_bytes: int) -> None:
        """Take back some of what a cache has."""
        with self._lock:
            share.n_bytes -= n_bytes
            self._used -= n_bytes

    def discard(self, share: Share) -> None:
        """Take back all that a freed cache had."""
        self._freed.append(share.n_bytes)

    def after_fork(self) -> None:
        """Make the account usable in a child process, whatever threads of the parent were doing."""
        self._lock = threading.Lock()

    def _try(self, share: Share, n_bytes: int) -> bool:
        with self._lock:
            self._settle()
            if self._used + n_bytes > self.limit:
                return False
            self._used += n_bytes
            share.n_bytes += n_bytes
            return True

    def _settle(self) -> None:
        while self._freed:
            self._used -= self._freed.popleft()
            self._shares -= 1

    def _reclaim(self) -> None:
        """Shrink the caches above their fair part that nobody is using."""
        for pool in list(self._pools.values()):
            for workspace in _taken(pool):
                try:
                    if workspace.share.n_bytes > self.fair_part:
                        workspace.shrink_cache()
                finally:
                    pool.append(workspace)


class Share:
    """What one cache has of a budget; given back when it is freed.

    Parameters
    ----------
    budget : Budget
    n_bytes : int
    """

    def __init__(self, budget: Budget, n_bytes: int) -> None:
        self.budget = budget
        self.n_bytes = n_bytes

    def __del__(self) -> None:
        self.budget.discard(self)

    def take(self, n_bytes: int) -> bool:
        """Ask for more; return whether it was granted."""
        return self.budget.take(self, n_bytes)

    def give_back(self, n_bytes: int) -> None:
        """Give some back."""
        self.budget.give_back(self, n_bytes)


def _taken(pool: Pool) -> Iterator[Any]:
    """Take each workspace out that is in a pool now; the caller puts it back before the next."""
    with suppress(IndexError):  # other threads take them out as well
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
"""That of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=process_budget.after_fork)


def set_encoding_cache_budget(n_bytes: int) -> None:
    """Set how much memory the caches of encoded pre-tokens may take, all tokenizers and threads of this process together.

    The caches make encoding fast, and never change an id. With less memory than the default, 128 MiB, long texts with many
    different words are encoded more slowly; Chinese and Japanese use the most. Each thread that encodes keeps at least
    64 KiB. Besides the caches a tokenizer needs some fixed memory for its tables, and each thread about 2 MB.

    Parameters
    ----------
    n_bytes : int
        The environment variable `BPEJIT_ENCODING_CACHE_BYTES` sets it for processes that do not call this function. Worker
        processes have a budget of the same size each.

    Raises
    ------
    ArgumentTypeError
        If it is no whole number.
    OptionError
        If it is negative.

    Examples
    --------
    >>> import bpejit
    >>> bpejit.set_encoding_cache_budget(64 << 20)
    """
    process_budget.limit = whole_number("n_bytes", n_bytes, least=0)


def get_encoding_cache_budget() -> int:
    """Return how many bytes the caches of encoded pre-tokens may take (see `set_encoding_cache_budget`)."""
    return process_budget.limit
