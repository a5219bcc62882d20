"""Threads that work on one task each, while the calling thread works on another one. Kernels release the GIL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bpejit.errors import EngineError


class TaskThreads:
    """Threads that start with the first tasks.

    Parameters
    ----------
    threads : int
        Number of threads, with the calling one.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, task: Callable[[int], Any], tasks: int | None = None) -> list[Any]:
        """Return the results of `task(number)` for each number below `tasks`, by default one for each thread.

        Raises
        ------
        EngineError
            If a thread cannot be started.
        """
        if self._pool is None or tasks == 1:
            return [task(0)]
        try:
            futures = [self._pool.submit(task, number) for number in range(1, tasks or self._threads)]
        except RuntimeError as error:
            raise EngineError(
                f"cannot start {self._threads - 1} threads for training: {error}; expected all of them to start: use "
                "fewer workers (`workers=`), or raise the limit on processes (`ulimit -u`, or the container limit)"
            ) from error
        return [task(0), *(future.result() for future in futures)]
