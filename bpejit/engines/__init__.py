"""How work is spread: in this thread, over threads, or over processes. An engine never changes a byte of the result.

An engine runs a *job* over chunks. It offers two ways, and both hold only a few chunks in memory at a time:

- `map_chunks` yields what the job makes of each chunk, in order (encoding);
- `fold_chunks` lets each worker gather something over its chunks, and returns what the workers gathered (counting).

A new engine is a file here with a class that has these two methods, and a line in `ENGINES`.
"""

from __future__ import annotations

import importlib
import os

from bpejit import arguments
from bpejit.engines.base import Engine
from bpejit.errors import EngineError, shorten
from bpejit.kernels.constants import MAX_TEXT_BYTES

ENGINES = {
    "serial": ("bpejit.engines.serial", "SerialEngine"),
    "threads": ("bpejit.engines.threads", "ThreadEngine"),
    "processes": ("bpejit.engines.processes", "ProcessEngine"),
}
"""Module and class of each engine by name."""

SERIAL_BYTES = 8 << 20
"""Below this much input `auto` takes the serial engine: starting workers would cost more than they save."""


def count_cpus() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_spread(workers: int | None, engine: str, chunk_bytes: int) -> tuple[int | None, str, int]:
    """Return the arguments that say how work is spread, checked.

    Raises
    ------
    ArgumentTypeError, OptionError, EngineError
    """
    return (
        arguments.optional_whole_number("workers", workers, least=1, error=EngineError),
        arguments.choice("engine", engine, ("auto", *ENGINES), error=EngineError),
        arguments.whole_number("chunk_bytes", chunk_bytes, least=1, most=MAX_TEXT_BYTES),
    )


def make_engine(name: str, workers: int | None, *, input_bytes: int | None, parallel: str) -> Engine:
    """Return an engine by name.

    Parameters
    ----------
    name : str
        `serial`, `threads`, `processes`, or `auto`: `serial` for little input or one worker, otherwise `parallel`.
    workers : int, optional
        As many as there are processors by default.
    input_bytes : int, optional
        Size of the input, where it is known.
    parallel : str
        What `auto` takes for much input.

    Raises
    ------
    EngineError
        If there is no such engine, or fewer than one worker is asked for.
    """
    if name != "auto" and name not in ENGINES:
        raise EngineError(f"the engine {shorten(name)} is not known; expected one of auto, {', '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise EngineError(f"{workers} workers were asked for; expected at least 1")
    count = workers or count_cpus()
    if name == "auto":
        small = input_bytes is not None and input_bytes < SERIAL_BYTES
        name = "serial" if small or count == 1 else parallel
    module, class_name = ENGINES[name]
    engine: Engine = getattr(importlib.import_module(module), class_name)(count)
    return engine
