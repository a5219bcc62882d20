"""What engines and jobs promise each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from bpejit.corpus.chunks import Chunk

Progress = Callable[[str, int, "int | None", str], None]
"""Called as `progress(stage, done, total, unit)`; `unit` is `bytes`, `merges` or `tokens`, `total` None if unknown."""


def no_progress(stage: str, done: int, total: int | None, unit: str) -> None:
    """Tell nobody."""


class Worker(Protocol):
    """The part of a job that runs in one worker, and keeps that worker's memory."""

    def run(self, chunk: Chunk) -> Any:
        """Do the work of one chunk; return what it makes (`map_chunks`) or its size in bytes (`fold_chunks`)."""

    def finish(self) -> Any:
        """Return what was gathered over all chunks of this worker."""


class Job(Protocol):
    """Work over chunks. A job is sent to other processes, so it can be pickled and holds no open files."""

    def start(self) -> Worker:
        """Make a worker: called once in each thread or process."""


class Engine(Protocol):
    """A way to spread a job over workers."""

    workers: int

    def map_chunks(self, job: Job, chunks: Iterable[Chunk]) -> Iterator[Any]:
        """Yield the result of each chunk, in the order of the chunks."""

    def fold_chunks(self, job: Job, chunks: Iterable[Chunk], done: Callable[[int], None]) -> list[Any]:
        """Run all chunks, call `done` with the result of each, and return what each worker gathered."""
