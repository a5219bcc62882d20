"""Engines distribute work over the calling thread, threads or processes. The engine never changes the result.

An engine runs a *job* over chunks in one of two ways, with only a few chunks in memory at a time:

- `map_chunks` yields the result of each chunk, in order (encoding);
- `fold_chunks` has each worker accumulate a result over its chunks, and returns one result per worker (counting).

To add an engine, write a class with these two methods (see `bpejit.engines.Engine`) and pass it to `register`. Functions
and commands with an `engine` option then accept its name. This package imports nothing heavy before an engine is made, since
the command line lists the names, with the options of how work is distributed, which change no result. `TaskThreads` in
`threads` are for short tasks inside a stage, without chunks.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypedDict

from bpejit import arguments
from bpejit.corpus.reading_options import CHUNK_BYTES
from bpejit.errors import EngineError, shorten
from bpejit.options import AUTO as AUTO, Option, Registry
from bpejit.progress_bar import Progress

if TYPE_CHECKING:
    from bpejit.corpus.blocks import AnyChunk


def remarks(report: Progress) -> Callable[[str], None]:
    """Return the method `message` of a progress callback, which takes remarks for the user; without one, they are logged."""
    import logging  # not above: the help of commands, which lists the engines, needs no logging

    say: Callable[[str], None] = getattr(report, "message", None) or logging.getLogger("bpejit").info
    return say


def peak_memory() -> tuple[int, int]:
    """Return the peak resident memory of this process, and of the largest child process that has ended, in bytes.

    Both are 0 where the system does not tell, and the second one if there were no child processes.
    """
    try:
        import resource
    except ImportError:  # Windows
        return 0, 0
    unit = 1 if sys.platform == "darwin" else 1024
    own, children = (resource.getrusage(who).ru_maxrss * unit for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own, children


def report_details(report: Progress, **counted: int) -> None:
    """Pass counts, such as `tokens`, to the method `details` of a progress callback, if it has one."""
    details = getattr(report, "details", None)
    if details is not None:
        details(**counted)


class Worker(Protocol):
    """State of a job in one worker."""

    def run(self, chunk: "AnyChunk") -> Any:
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

    def start(self) -> "FunctionJob":
        """Return a new worker."""
        return self if self.prepare is None else FunctionJob(partial(self.run, self.prepare()))

    def finish(self) -> None:
        """Return None."""


class Engine(Protocol):
    """A way to run a job in workers."""

    workers: int

    def map_chunks(self, job: Job, chunks: Iterable["AnyChunk"]) -> Iterator[Any]:
        """Yield the result of each chunk, in the order of the chunks."""

    def fold_chunks(self, job: Job, chunks: Iterable["AnyChunk"], done: Callable[[Any], None]) -> list[Any]:
        """Run all chunks, call `done` with the result of each, and return the accumulated result of each worker."""


class SerialEngine:
    """Engine with one worker in the calling thread."""

    def __init__(self, workers: int = 1) -> None:  # noqa: ARG002
        self.workers = 1

    def map_chunks(self, job: Job, chunks: Iterable["AnyChunk"]) -> Iterator[Any]:
        """Yield the result of each chunk, in order."""
        worker = job.start()
        for chunk in chunks:
            yield worker.run(chunk)

    def fold_chunks(self, job: Job, chunks: Iterable["AnyChunk"], done: Callable[[Any], None]) -> list[Any]:
        """Run all chunks in this thread."""
        worker = job.start()
        for chunk in chunks:
            done(worker.run(chunk))
        return [worker.finish()]


_engines: Registry[Engine] = Registry(
    "engine",
    {
        "serial": ("bpejit.engines:SerialEngine", "one worker in the calling thread"),
        "threads": ("bpejit.engines.threads:ThreadEngine", "a pool of threads"),
        "processes": ("bpejit.engines.processes:ProcessEngine", "a pool of processes"),
    },
    reserved=AUTO,
    error=EngineError,
)

register, unregister = _engines.register, _engines.unregister
"""Add and remove an engine (see `Registry`) that functions and commands select by name: a class or function that takes the
number of workers and returns a `bpejit.engines.Engine`.
"""

engine_names, engine_descriptions = _engines.names, _engines.descriptions
"""Return the names of all engines, without `auto`, and their descriptions."""

RAY = "ray"
"""The name that runs the parts of a job on a Ray cluster, in functions and commands that have jobs with parts."""

SERIAL_BYTES = 8 << 20
"""Below this input size `auto` selects the serial engine: starting workers would take longer than they save."""


def count_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_method() -> str:
    """Return the start method of worker processes: `fork` where it is safe, else `spawn`."""
    import multiprocessing  # not at the top: the help of commands needs none of these
    import threading

    wanted = os.environ.get("BPEJIT_START_METHOD")
    if wanted is not None:
        if wanted not in multiprocessing.get_all_start_methods():
            known = ", ".join(multiprocessing.get_all_start_methods())
            raise EngineError(
                f"BPEJIT_START_METHOD is {shorten(wanted)}; expected one of {known} on this system, or leave it unset"
            )
        return wanted
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"


def choose_engine(workers: int, *, input_bytes: int | None, releases_gil: bool, returns_arrays: bool) -> str:
    """Return the name of the engine that `auto` selects.

    Parameters
    ----------
    workers : int
    input_bytes : int, optional
        Size of the input, if known.
    releases_gil : bool
        True if the work runs in kernels, and False if it runs in Python or the `regex` package.
    returns_arrays : bool
        True if the result of each chunk, or of a worker, is large arrays, which processes have to copy through a pipe.
    """
    if workers == 1 or (input_bytes is not None and input_bytes < SERIAL_BYTES):
        return "serial"
    if not releases_gil:
        return "processes"
    if returns_arrays:
        return "threads"
    # Forked workers start at no cost. Spawned workers import everything again, so threads are faster.
    return "processes" if start_method() == "fork" else "threads"


def make_engine(
    name: str,
    workers: int | None = None,
    *,
    input_bytes: int | None = None,
    releases_gil: bool = True,
    returns_arrays: bool = True,
) -> Engine:
    """Return an engine by name.

    Parameters
    ----------
    name : str
        A registered name, or `auto` for the result of `choose_engine`.
    workers : int, optional
        Number of workers. The default is the number of processors.
    input_bytes, releases_gil, returns_arrays
        See `choose_engine`.

    Raises
    ------
    ArgumentTypeError
        If `name` has the wrong type.
    EngineError
        If the engine is unknown, or `workers` is less than 1.
    """
    name = arguments.choice("engine", name, (AUTO, *engine_names()), error=EngineError)
    if workers is not None and workers < 1:
        raise EngineError(f"workers is {workers}; expected at least 1: choose another number")
    count = workers or count_cpus()
    chosen = name
    if name == AUTO:
        chosen = choose_engine(count, input_bytes=input_bytes, releases_gil=releases_gil, returns_arrays=returns_arrays)
    engine = _engines.factory(chosen)(count)
    import logging  # not above, as in `remarks`

    logging.getLogger("bpejit.engines").debug(
        "engine %s with %d worker(s)%s", chosen, engine.workers, ", chosen automatically" if name == AUTO else ""
    )
    return engine


def _engine_option(text: str = "", **more: str) -> Option:
    """Return the declaration of the option `engine`, with further names and their descriptions."""

    def described() -> str:
        listed = {**engine_descriptions(), **more}
        names = ", ".join(f"{name} ({text})" if text else name for name, text in listed.items())
        return f"How work is distributed, with equal results: auto, {names}."

    return Option(
        AUTO,
        f"""How the work is distributed: "auto" or a name in `bpejit.engines.engine_names()`.{text} Does not change the
        result.""",
        described,
        choices=lambda: (AUTO, *engine_names(), *more),
        section="Large corpora",
    )


class ProgressOption(TypedDict, total=False):
    """How a function reports."""

    progress: Annotated[
        Progress | bool | None,
        Option(
            None,
            """Called as `progress(stage, done, total, unit)`. True shows a bar on a terminal or in a notebook, and a line on
            standard error elsewhere.""",
            kind="callable or bool",
        ),
    ]


class Workers(TypedDict, total=False):
    """How many workers there are."""

    workers: Annotated[
        int | None,
        Option(
            None,
            """Number of threads or processes that read text, and of threads that learn merges: passes over all cells run in
            parallel, and the merges themselves in one thread. The default is the number of processors. Does not change the
            result.""",
            "Number of workers.",
            shown="one per processor",
            section="Large corpora",
        ),
    ]


class LocalEngine(TypedDict, total=False):
    """An engine on this machine."""

    engine: Annotated[str, _engine_option()]


_ON_RAY = """ "ray" runs parts of the work on a Ray cluster, as many at a time as `workers`. Merges are learned in this process,
with "serial" in one thread."""


class AnyEngine(TypedDict, total=False):
    """An engine on this machine, or a cluster."""

    engine: Annotated[str, _engine_option(_ON_RAY, ray="a Ray cluster")]
    ray_address: Annotated[
        str | None,
        Option(
            None,
            """For `engine="ray"`: `host:port` of the cluster, or "local". By default the running cluster, otherwise a local
            one.""",
            "The Ray cluster of --engine ray, or local.",
            metavar="HOST:PORT",
            shown="the running cluster, otherwise a local one",
            section="Large corpora",
        ),
    ]


class Chunks(TypedDict, total=False):
    """How inputs are divided."""

    chunk_bytes: Annotated[
        int, Option(CHUNK_BYTES, "Size of the chunks into which files are divided. Does not change the result.")
    ]


class LocalWork(Workers, LocalEngine, Chunks, ProgressOption, total=False):
    """How work is distributed on this machine, and reported."""


class Distribution(Workers, AnyEngine, Chunks, total=False):
    """How work is distributed on this machine or a cluster."""


class Work(Distribution, ProgressOption, total=False):
    """How work is distributed on this machine or a cluster, and reported."""


def checked_work(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `Work` after checking them, with `report`, which is callable, in place of `progress`.

    Raises
    ------
    ArgumentTypeError, OptionError, EngineError
    """
    from bpejit.kernels.constants import MAX_TEXT_BYTES

    clusters = [RAY] if "ray_address" in options else []
    chunk_bytes = options.get("chunk_bytes", CHUNK_BYTES)
    found = {
        "report": arguments.progress(options.get("progress")),
        "workers": arguments.optional_whole_number("workers", options["workers"], least=1, error=EngineError),
        "engine": arguments.choice("engine", options["engine"], (AUTO, *engine_names(), *clusters), error=EngineError),
        "chunk_bytes": arguments.whole_number("chunk_bytes", chunk_bytes, least=1, most=MAX_TEXT_BYTES),
    }
    if clusters:
        found["ray_address"] = address = arguments.optional_string("ray_address", options["ray_address"])
        if address is not None and found["engine"] != RAY:
            raise EngineError(
                f"ray_address is given, and engine is {found['engine']!r}; expected the engine that uses it: give "
                "`engine='ray'`, or leave `ray_address=` out"
            )
    return found
