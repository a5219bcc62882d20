"""Report the compilation of kernels to callbacks, to the log, and to the user if no callback does.

`working_time` is the clock for all times that bpejit reports: it stands still while this process compiles.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

_REPORT_AFTER = 1.0  # seconds


class _State:
    def __init__(self) -> None:
        self.callbacks: list[tuple[Callable[[str, float], None], bool]] = []
        self.seconds = 0.0  # spent compiling
        self.reported = False
        self.depth = 0  # of the blocks of `pausing`
        self.clock: tuple[float | None, float] = (
            None,
            0.0,
        )  # stopped since; seconds before
        self.preparation: tuple[int, Callable[[], None]] | None = None  # a process, and what it runs before it compiles


_state = _State()
_lock = threading.Lock()


def working_time() -> float:
    """Return the seconds since some point in time, without those spent compiling."""
    stopped, paused = _state.clock  # in one step: other threads replace it
    return (time.perf_counter() if stopped is None else stopped) - paused


def compiling_time() -> float:
    """Return the seconds that `working_time` has stood still."""
    stopped, paused = _state.clock
    return paused if stopped is None else paused + time.perf_counter() - stopped


@contextmanager
def pausing() -> Iterator[None]:
    """Stop the clock of `working_time` in a `with` block; blocks of several threads may overlap."""
    with _lock:
        _state.depth += 1
        if _state.depth == 1:
            _state.clock = time.perf_counter(), _state.clock[1]
    try:
        yield
    finally:
        with _lock:
            _state.depth -= 1
            since, paused = _state.clock
            if _state.depth == 0 and since is not None:
                _state.clock = None, paused + time.perf_counter() - since


def prepare_with(preparation: Callable[[], None] | None) -> None:
    """Set what this process runs once before it compiles its first kernel, such as compiling all that are needed, or None."""
    _state.preparation = None if preparation is None else (os.getpid(), preparation)


def awaits_preparation() -> bool:
    """Return True if `run_preparation` has something to run."""
    return _state.preparation is not None


def run_preparation() -> None:
    """Run the preparation, if there is one that has not run in this process."""
    with _lock:
        found, _state.preparation = _state.preparation, None
    if found is not None and found[0] == os.getpid():
        found[1]()


def on_compile(callback: Callable[[str, float], None], *, reports: bool = True) -> Callable[[], None]:
    """Call a function whenever a kernel is compiled.

    Parameters
    ----------
    callback : callable
        Called with ("start", 0.0) before a kernel is compiled, and with ("end", seconds) afterwards. Loading a kernel from disk
        is not reported.
    reports : bool
        Whether the callback informs the user. If no callback does, a message is printed on standard error after one second of
        compiling, provided that it is a terminal or a notebook.

    Returns
    -------
    callable
        Unregisters the callback.
    """
    entry = (callback, reports)
    _state.callbacks.append(entry)
    return lambda: _state.callbacks.remove(entry)


@contextmanager
def counting_compilations() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the number of kernels compiled since the beginning of a `with` block."""
    compiled = 0

    def count(event: str, _: float) -> None:
        nonlocal compiled
        compiled += event == "end"

    stop_counting = on_compile(count, reports=False)
    try:
        yield lambda: compiled
    finally:
        stop_counting()


def _logger() -> logging.Logger:
    import logging  # not at the top: it takes 3 ms, and most processes compile nothing

    return logging.getLogger("bpejit.jit")


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Report the compilation of a kernel in a `with` block."""
    start = time.perf_counter()
    _notify("start", 0.0)
    try:
        with pausing():
            yield
    finally:
        seconds = time.perf_counter() - start
        _logger().debug("compiled %s in %.2f s", name, seconds)
        _state.seconds += seconds
        _notify("end", seconds)
        if _state.seconds > _REPORT_AFTER and not _state.reported:
            _state.reported = True
            _print_notice()


def _notify(event: str, seconds: float) -> None:
    for callback, _ in list(_state.callbacks):
        callback(event, seconds)


def in_notebook() -> bool:
    """Return True if the standard error is that of a notebook, which is not a terminal, but is shown to the user."""
    return type(sys.stderr).__module__.startswith("ipykernel.")


def _print_notice() -> None:
    text = "compiling kernels for this machine; this may take a minute ..."
    _logger().info(text)
    if any(reports for _, reports in _state.callbacks):
        return
    if sys.stderr is not None and (sys.stderr.isatty() or in_notebook()):
        print(f"bpejit: {text}", file=sys.stderr, flush=True)  # noqa: T201
