"""One worker in the calling thread. The other engines are tested against this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bpejit.corpus.blocks import AnyChunk
from bpejit.engines.base import Job


class SerialEngine:
    """Engine with one worker in the calling thread."""

    def __init__(self, workers: int = 1) -> None:  # noqa: ARG002
        self.workers = 1

    def map_chunks(self, job: Job, chunks: Iterable[AnyChunk]) -> Iterator[Any]:
        """Yield the result of each chunk, in order."""
        worker = job.start()
        for chunk in chunks:
            yield worker.run(chunk)

    def fold_chunks(self, job: Job, chunks: Iterable[AnyChunk], done: Callable[[Any], None]) -> list[Any]:
        """Run all chunks in this thread."""
        worker = job.start()
        for chunk in chunks:
            done(worker.run(chunk))
        return [worker.finish()]
