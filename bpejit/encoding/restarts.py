"""Places in a text where encoding can be restarted, and long texts that several threads encode in parts.

A restart is a position at which a pre-token ends whatever the text around it (see `Splitter.find_cut`): the text after it is
encoded like a text of its own, and the text before it as soon as a few bytes after it are known. Whether a position is one
depends only on the bytes up to `reach` of them before and after it.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from queue import SimpleQueue
from threading import Lock

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.encoding.encode_stream import empty_output, trimmed
from bpejit.encoding.kernel_runner import AnySplitter
from bpejit.encoding.workspace import Workspace

_WINDOW = 1 << 10
"""Characters or bytes that are searched for a restart at first."""

_LAST_WINDOW = 1 << 6
"""Bytes at the end of a text that are searched for its last restart at first."""

_LEAST_PART, _MOST_PART = 1 << 16, 1 << 19
"""Characters or bytes of a part of a text. Parts become shorter, so that all threads end at the same time."""

_PARTS_PER_THREAD = 2

_FARTHEST = 1 << 28
"""Characters or bytes that are searched for a restart; then the rest of the text is one part."""


def ahead_of(splitter: AnySplitter) -> int:
    """Return how many bytes after a restart complete the last pre-token before it. A pipeline does not change these."""
    return max([4, *map(len, splitter.special_tokens)])


def reach_of(splitter: AnySplitter) -> int:
    """Return how many bytes before and after a position decide whether it is a restart."""
    return 2 * ahead_of(splitter) + 8


def find_restart(splitter: AnySplitter, text: str | bytes, low: int, high: int) -> int:
    """Return the first restart in `text[low:high]`, as an index of the text, or -1.

    Few characters are converted at a time. A restart next to a lone surrogate is not found.
    """
    reach = reach_of(splitter)
    size = _WINDOW
    while low < high:
        begin, end = max(0, low - reach), min(low + size, high)
        window = text[begin : end + reach]
        with suppress(UnicodeEncodeError):  # half of a surrogate pair
            data, n_bytes = padded_text(_as_bytes(window))
            last = n_bytes - 1 if begin + len(window) == len(text) else n_bytes - reach
            cut = splitter.find_cut(data, max(len(_as_bytes(window[: low - begin])), 1), last, n_bytes)
            if cut >= 0:
                found = begin + (cut if isinstance(window, bytes) else len(data[:cut].tobytes().decode()))
                return found if found < high else -1
        low = end
        size *= 2
    return -1


def find_last_restart(splitter: AnySplitter, text: bytes, low: int, high: int) -> int:
    """Return a restart in `text[low:high]` that is near the end, or -1 if there is none."""
    size = _LAST_WINDOW
    while low < high:
        begin = max(low, high - size)
        found = find_restart(splitter, text, begin, high)
        if found >= 0:
            return found
        high = begin
        size *= 4
    return -1


def parts_of(splitter: AnySplitter, text: str | bytes, n_threads: int) -> Iterator[range]:
    """Yield the parts of a text between restarts, for a number of threads. A part is longer if there is no restart."""
    start = 0
    while start < len(text):
        size = min(max((len(text) - start) // (_PARTS_PER_THREAD * n_threads), _LEAST_PART), _MOST_PART)
        stop = find_restart(splitter, text, start + size, min(len(text) - _LEAST_PART, start + size + _FARTHEST))
        yield range(start, len(text) if stop < 0 else stop)
        start = len(text) if stop < 0 else stop


class _JoinedIds:
    """Joins the ids of parts, which threads add in any order.

    Parameters
    ----------
    text : str or bytes
        The whole text.
    """

    def __init__(self, text: str | bytes) -> None:
        self._out, self._size = empty_output(text), 0
        self._waiting: dict[int, Array] = {}
        self._next = 0
        self._more: list[Array] = []
        self._lock = Lock()

    def add(self, number: int, ids: Array) -> None:
        """Add the ids of a part, which are copied: at their place, unless that of an earlier part is not known yet."""
        with self._lock:
            self._waiting[number] = ids if number == self._next else ids.copy()
            while (ready := self._waiting.pop(self._next, None)) is not None:
                self._next += 1
                if self._more or self._size + ready.size > self._out.size:
                    self._more.append(ready.copy())
                else:
                    self._out[self._size : self._size + ready.size] = ready
                    self._size += ready.size

    def finish(self) -> Array:
        """Return all ids as one array."""
        out = trimmed(self._out, self._size)
        return np.concatenate([out, *self._more]) if self._more else out


def encode_parts(
    encode: Callable[[range, Workspace], Array],
    workspaces: Callable[[], AbstractContextManager[Workspace]],
    parts: Iterable[range],
    text: str | bytes,
    n_threads: int,
) -> Array:
    """Return the ids of a text that several threads encode, as uint32 [tokens].

    Parameters
    ----------
    encode : callable
        Returns the ids of a part of the text; they may be a view into the workspace.
    workspaces : callable
        Returns a workspace for a thread.
    parts : iterable of range
        From `parts_of`.
    text : str or bytes
    n_threads : int
    """
    joined, numbered, lock = _JoinedIds(text), enumerate(parts), Lock()
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        with workspaces() as workspace:
            while True:
                with lock:
                    number, part = next(numbered, (0, None))
                if part is None:
                    return
                joined.add(number, encode(part, workspace))

    def run_in_thread() -> None:
        try:
            run()
        except BaseException as error:  # of any kind, since nobody else sees it
            ended.put(error)
        else:
            ended.put(None)

    n_started = 0
    try:
        # A pool of threads waits until each has started, which takes a tenth of the time of four megabytes.
        for _ in range(n_threads - 1):
            start_new_thread(run_in_thread, ())
            n_started += 1
        run()
    finally:
        with lock:
            numbered = enumerate(())
        errors = [ended.get() for _ in range(n_started)]
    for error in errors:
        if error is not None:
            raise error
    return joined.finish()


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
