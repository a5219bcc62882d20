"""Who is told that kernels are compiled: callbacks, the log, and the user where no callback tells."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WORTH_SAYING = 1.0  # seconds

_logger = logging.getLogger("bpejit.jit")


class _State:
    def __init__(self) -> None:
        self.callbacks: list[tuple[Callable[[str, float], None], bool]] = []
        self.seconds = 0.0  # spent compiling
        self.said = False


_state = _State()


def on_compile(callback: Callable[[str, float], None], *, reports: bool = True) -> Callable[[], None]:
    """Call a function whenever a kernel is compiled.

    Parameters
    ----------
    callback : callable
        Called with ("start", 0.0) when a kernel has to be compiled, and with ("end", seconds) when that is done. Loading a
        kernel from disk does not count.
    reports : bool
        Whether the callback tells the user. If none does, a line on standard error does once more than a second was spent, if
        that is a terminal or a notebook.

    Returns
    -------
    callable
        Ends it.
    """
    entry = (callback, reports)
    _state.callbacks.append(entry)
    return lambda: _state.callbacks.remove(entry)


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Report that a kernel is compiled in the block."""
    begun = time.perf_counter()
    _tell("start", 0.0)
    try:
        yield
    finally:
        seconds = time.perf_counter() - begun
        _logger.debug("compiled %s in %.2f s", name, seconds)
        _state.seconds += seconds
        _tell("end", seconds)
        if _state.seconds > _WORTH_SAYING and not _state.said:
            _state.said = True
            _say()


def _tell(what: str, seconds: float) -> None:
    for callback, _ in list(_state.callbacks):
        callback(what, seconds)


def _say() -> None:
    text = "compiling kernels for this machine; this may take a minute ..."
    _logger.info(text)
    if any(reports for _, reports in _state.callbacks):
        return
    # A notebook's standard error is no terminal, but somebody reads it.
    if sys.stderr is not None and (sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")):
        print(f"bpejit: {text}", file=sys.stderr, flush=True)  # noqa: T201
