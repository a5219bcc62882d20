"""Workers in threads of this process. Kernels release the GIL, so they run in parallel, and threads start at no cost.

Besides the engine there are threads that work on one task each, while the calling thread works on another one.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from bpejit.corpus.blocks import AnyChunk
from bpejit.engines import Job, Worker
from bpejit.errors import EngineError

IN_FLIGHT = 2
"""Chunks per worker that are read or processed at a time: one being processed and one queued, so that workers do not idle."""


class ThreadEngine:
    """Engine with a pool of threads."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map_chunks(self, job: Job, chunks: Iterable[AnyChunk]) -> Iterator[Any]:
        """Yield the result of each chunk, in order, with at most `IN_FLIGHT` chunks per worker in memory."""
        idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        starting = threading.Lock()  # as below

        def run(chunk: AnyChunk) -> Any:
            with starting:
                worker = job.start() if idle.empty() else idle.get()
            try:
                return worker.run(chunk)
            finally:
                idle.put(worker)

        rest = iter(chunks)
        pending: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                pending.extend(self._submit(pool, run, chunk) for chunk in islice(rest, IN_FLIGHT * self.workers))
                while pending:
                    result = pending.popleft().result()
                    pending.extend(self._submit(pool, run, chunk) for chunk in islice(rest, 1))
                    yield result
            finally:
                for future in pending:
                    future.cancel()

    def fold_chunks(self, job: Job, chunks: Iterable[AnyChunk], done: Callable[[Any], None]) -> list[Any]:
        """Run all chunks, and collect the results of the workers at the end. The calling thread runs one of the workers.

        Each thread takes its next chunk itself: one that did this for the others would interrupt them for each chunk.
        """
        # One after the other, so that kernels are compiled once, and not by all threads at the same time.
        own, *others = workers = [job.start() for _ in range(self.workers)]
        rest: Iterator[AnyChunk | None] = iter(chunks)
        taking, failed = threading.Lock(), threading.Event()
        results: deque[Any] = deque()

        def collect() -> None:
            while results:
                done(results.popleft())

        def run(worker: Worker, collect: Callable[[], None] | None = None) -> None:
            try:
                while not failed.is_set():
                    with taking:
                        chunk = next(rest, None)
                    if chunk is None:
                        break
                    results.append(worker.run(chunk))
                    if collect is not None:
                        collect()
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(self.workers) as pool:
            try:
                futures = [self._submit(pool, run, worker) for worker in others]
                run(own, collect)
                for future in futures:
                    future.result()
            except BaseException:
                failed.set()
                raise
        collect()
        return [worker.finish() for worker in workers]

    def _submit(self, pool: ThreadPoolExecutor, run: Callable[[Any], Any], argument: Any) -> Future[Any]:
        try:
            return pool.submit(run, argument)
        except RuntimeError as error:
            raise EngineError(
                f"cannot start {self.workers} worker threads: {error}; expected all of them to start: use fewer workers "
                '(`workers=`) or `engine="serial"`, or raise the limit on processes (`ulimit -u`, or the container limit)'
            ) from error


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
