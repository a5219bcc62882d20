"""Workers in threads of this process. Kernels release the GIL, so they run in parallel, and threads start at no cost."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any

from bpejit.corpus.chunk_reader import AnyChunk
from bpejit.engines.base import Job, Worker
from bpejit.errors import EngineError

IN_FLIGHT = 2
"""Chunks per worker that are read or processed at a time: one being processed and one queued, so that workers do not idle."""


class ThreadEngine:
    """Engine with a pool of threads."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map_chunks(self, job: Job, chunks: Iterable[AnyChunk]) -> Iterator[Any]:
        """Yield the result of each chunk, in order, with at most `IN_FLIGHT` chunks per worker in memory."""
        yield from self._run(chunks, self._start_workers(job), in_order=True)

    def fold_chunks(self, job: Job, chunks: Iterable[AnyChunk], done: Callable[[Any], None]) -> list[Any]:
        """Run all chunks, and collect the results of the workers at the end."""
        idle = self._start_workers(job)
        for result in self._run(chunks, idle, in_order=False):
            done(result)
        return [idle.get_nowait().finish() for _ in range(self.workers)]

    def _start_workers(self, job: Job) -> queue.SimpleQueue[Worker]:
        # Sequentially, so that kernels are compiled once and not by all threads at the same time.
        idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for _ in range(self.workers):
            idle.put(job.start())
        return idle

    def _run(self, chunks: Iterable[AnyChunk], idle: queue.SimpleQueue[Worker], *, in_order: bool) -> Iterator[Any]:
        def run(chunk: AnyChunk) -> Any:
            worker = idle.get()
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
                    if not in_order:
                        # Workers would idle if one chunk took longer than several others, as when a table is enlarged.
                        wait(pending, return_when=FIRST_COMPLETED)
                        pending = deque(sorted(pending, key=Future.done, reverse=True))
                    result = pending.popleft().result()
                    pending.extend(self._submit(pool, run, chunk) for chunk in islice(rest, 1))
                    yield result
            finally:
                for future in pending:
                    future.cancel()

    def _submit(self, pool: ThreadPoolExecutor, run: Callable[[AnyChunk], Any], chunk: AnyChunk) -> Future[Any]:
        try:
            return pool.submit(run, chunk)
        except RuntimeError as error:
            raise EngineError(
                f"cannot start {self.workers} worker threads: {error}; expected all of them to start: use fewer workers "
                '(`workers=`) or `engine="serial"`, or raise the limit on processes (`ulimit -u`, or the container limit)'
            ) from error
