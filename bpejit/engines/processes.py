"""Workers in separate processes (multiprocessing), also for work that holds the GIL, such as the `regex` package.

The parent sends chunks over one pipe per worker and detects at once when a worker dies. Workers are forked where that is
safe (Linux, no other Python thread alive): they start in milliseconds with all kernels loaded. Otherwise they are spawned,
and load the kernels that the parent has compiled from the disk cache. `BPEJIT_START_METHOD` overrides the start method.
"""

from __future__ import annotations

import errno
import multiprocessing
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from bpejit.corpus.blocks import AnyChunk
from bpejit.engines import Job, start_method
from bpejit.errors import BpejitError, EngineError, shorten
from bpejit.jit import listening

IN_FLIGHT = 2
"""Chunks assigned to a worker at a time: one being processed, one queued in its pipe.

A chunk that carries its data must not be queued: it may fill the pipe, and if the result of the worker fills the other
direction, both sides block forever.
"""


def _serve(pipe: Connection, inherited: list[Connection], job: Job) -> None:
    """Run in the worker: answer each chunk with its result, and None with the accumulated result."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked worker inherits the parent's handlers, and has nothing to clean up
    # A forked worker inherits the parent's ends of the earlier pipes. While they are open, the death of the parent is not seen.
    for other in inherited:
        other.close()
    try:
        if inherited:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _DEFERRED)
        worker = job.start()
        while (chunk := pipe.recv()) is not None:
            pipe.send((True, worker.run(chunk)))
        pipe.send((True, worker.finish()))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass
    except BpejitError as error:
        _send_error(pipe, error)
    except BaseException as error:
        _send_error(pipe, EngineError(f"a worker failed with {shorten(error)}: {traceback.format_exc()}"))
    finally:
        pipe.close()


def _send_error(pipe: Connection, error: BpejitError) -> None:
    """Send an error to the parent, unless that has closed the pipe, as it does when it fails itself."""
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.send((False, error))


_DEFERRED = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _signals_deferred(wanted: bool) -> Iterator[None]:
    """Defer signals while the block forks: after a fork, Python calls functions that swallow the exceptions of handlers."""
    if not wanted:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Pool:
    """Worker processes and the pipes to them."""

    def __init__(self, job: Job, workers: int) -> None:
        listening.run_preparation()  # not in each of the workers
        context = multiprocessing.get_context(start_method())
        forked = context.get_start_method() == "fork"
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        try:
            for _ in range(workers):
                ours, theirs = context.Pipe()
                inherited = [*self.pipes, ours] if forked else []
                process = context.Process(target=_serve, args=(theirs, inherited, job), daemon=True)  # type: ignore[attr-defined]
                with warnings.catch_warnings(), _signals_deferred(forked):
                    # Python 3.12 warns about any other thread. The ones here belong to NumPy, which handles forks.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                theirs.close()
                self.pipes.append(ours)
                self.processes.append(process)
        except OSError as error:
            self.close()
            raise _no_more_processes(workers, len(self.processes), error) from error
        except BaseException:
            self.close()
            raise

    def send(self, worker: int, message: AnyChunk | None) -> None:
        try:
            # Not `send`, which sends a view of a BytesIO: if the pipe is broken, the exception keeps both in a reference cycle,
            # which Python 3.12 and 3.13 free in the wrong order and crash.
            self.pipes[worker].send_bytes(pickle.dumps(message))
            return
        except (BrokenPipeError, ConnectionResetError):
            pass
        # Outside of the handler: the commands treat errors raised while handling a broken pipe as one of their own output.
        raise self._failure(worker)

    def receive(self, worker: int) -> Any:
        try:
            fine, value = self.pipes[worker].recv()
        except (EOFError, ConnectionResetError):
            fine, value = False, None
        if not fine:
            raise value or self._failure(worker)
        return value

    def _failure(self, worker: int) -> BaseException:
        """Return why a worker no longer answers."""
        # If it could still send the reason, it follows the earlier answers in the pipe.
        try:
            while self.pipes[worker].poll():
                fine, value = self.pipes[worker].recv()
                if not fine:
                    return value  # type: ignore[no-any-return]
        except (EOFError, ConnectionResetError):
            pass
        process = self.processes[worker]
        process.join(5)
        how, advice = _describe_end(process.exitcode)
        return EngineError(
            f"worker process {worker + 1} of {len(self.processes)} (pid {process.pid}) {how} before it finished; "
            f"expected it to answer: {advice}"
        )

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(0.2)
            if process.is_alive():
                process.terminate()
                process.join(2)
            if process.is_alive():  # a stopped process does not receive the signal
                process.kill()
                process.join()


def _describe_end(code: int | None) -> tuple[str, str]:
    """Return how a process ended, and advice for the user.

    Parameters
    ----------
    code : int, optional
        Exit code as in `multiprocessing`: negative for a signal.
    """
    if code is None or code >= 0:
        return f"ended with exit code {code}", _AGAIN
    name = next((one.name for one in signal.Signals if one == -code), "")
    return f"was killed by signal {-code}" + (f" ({name})" if name else ""), _ADVICE.get(name, _AGAIN)


_AGAIN = 'run again, with `engine="threads"` if it happens again'

_ADVICE = {
    "SIGKILL": 'the system may have run out of memory: use fewer workers (`workers=`) or `engine="threads"`',
    **dict.fromkeys(("SIGTERM", "SIGINT", "SIGHUP"), "it was terminated by a user or a job scheduler: run again"),
}
"""What to do after a signal has ended a worker."""


_LIMITS = {
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit on open files (`ulimit -n`)"),
    errno.EAGAIN: "raise the limit on processes (`ulimit -u`, or the container limit)",
}
"""What to do if no process can be started, by the error."""


def _no_more_processes(wanted: int, started: int, error: OSError) -> EngineError:
    """Return the error for worker processes that cannot be started."""
    reason = error.strerror or str(error)
    limit = _LIMITS.get(error.errno or 0, "free some memory")
    return EngineError(
        f"cannot start {wanted} worker processes: {reason} after {started}; expected all of them to start: "
        f'use fewer workers (`workers=`) or `engine="threads"`, or {limit}'
    )


class ProcessEngine:
    """Engine with a pool of processes."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map_chunks(self, job: Job, chunks: Iterable[AnyChunk]) -> Iterator[Any]:
        """Yield the result of each chunk, in order. Chunks are assigned to workers round-robin."""
        with closing(_Pool(job, self.workers)) as pool:
            sent = received = 0
            rest = iter(chunks)
            chunk = next(rest, None)
            while chunk is not None or received < sent:
                while chunk is not None:
                    at_a_time = IN_FLIGHT if getattr(chunk, "data", None) is None else 1
                    if sent - received >= self.workers * at_a_time:
                        break
                    pool.send(sent % self.workers, chunk)
                    sent += 1
                    chunk = next(rest, None)
                yield pool.receive(received % self.workers)
                received += 1

    def fold_chunks(self, job: Job, chunks: Iterable[AnyChunk], done: Callable[[Any], None]) -> list[Any]:
        """Run all chunks, each in the worker with the fewest queued chunks."""
        with closing(_Pool(job, self.workers)) as pool:
            queued = dict.fromkeys(range(self.workers), 0)

            def collect() -> None:
                """Receive all available answers, and wait for at least one."""
                for pipe in wait([pool.pipes[worker] for worker, count in queued.items() if count]):
                    worker = pool.pipes.index(pipe)  # type: ignore[arg-type]
                    done(pool.receive(worker))
                    queued[worker] -= 1

            for chunk in chunks:
                while min(queued.values()) >= IN_FLIGHT:
                    collect()
                worker = min(queued, key=queued.__getitem__)
                pool.send(worker, chunk)
                queued[worker] += 1
            while any(queued.values()):
                collect()
            for worker in queued:
                pool.send(worker, None)
            return [pool.receive(worker) for worker in queued]
