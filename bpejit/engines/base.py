"""Protocols of engines, jobs and workers, and the engine with one worker, against which the others are tested."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from bpejit.progress_bar import Progress as Progress

if TYPE_CHECKING:
    from bpejit.corpus.blocks import AnyChunk


def remarks(report: Progress) -> Callable[[str], None]:
    """Return the method `message` of a progress callback, which takes remarks for the user; without one, they are logged."""
    say: Callable[[str], None] = getattr(report, "message", None) or logging.getLogger("bpejit").info
    return say


def report_details(report: Progress, **counted: int) -> None:
    """Pass counts, such as `tokens`, to the method `details` of a progress callback, if it has one."""
    details = getattr(report, "details", None)
    if details is not None:
        details(**counted)


class Worker(Protocol):
    """State of a job in one worker."""

    def run(self, chunk: AnyChunk) -> Any:
        """Process one chunk; return its result (`map_chunks`), or what to report of it (`fold_chunks`)."""

    def finish(self) -> Any:
        """Return the result accumulated over all chunks of this worker."""


class Job(Protocol):
    """Work to run over chunks. Jobs are sent to other processes, so they can be pickled and hold no open files."""

    def start(self) -> Worker:
        """Return a new worker. Called once in each thread or process."""


@dataclass(frozen=True)
class FunctionJob:
    """A job whose workers call a function with each chunk, and accumulate nothing.

    Parameters
    ----------
    run : callable
        Called with what `prepare` returns, and each chunk. Both are sent to other processes.
    prepare : callable, optional
        Returns the state of a worker, such as a reader; without it, `run` is called with each chunk alone.
    """

    run: Callable[..., Any]
    prepare: Callable[[], Any] | None = None

    def start(self) -> FunctionJob:
        """Return a new worker."""
        return self if self.prepare is None else FunctionJob(partial(self.run, self.prepare()))

    def finish(self) -> None:
        """Return None."""


class Engine(Protocol):
    """A way to run a job in workers."""

    workers: int

    def map_chunks(self, job: Job, chunks: Iterable[AnyChunk]) -> Iterator[Any]:
        """Yield the result of each chunk, in the order of the chunks."""

    def fold_chunks(self, job: Job, chunks: Iterable[AnyChunk], done: Callable[[Any], None]) -> list[Any]:
        """Run all chunks, call `done` with the result of each, and return the accumulated result of each worker."""


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
