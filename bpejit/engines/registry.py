"""The registered engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bpejit.errors import EngineError
from bpejit.registry import Registry

if TYPE_CHECKING:
    from bpejit.engines.base import Engine

AUTO = "auto"
"""The name that selects an engine by the size and kind of the work."""

_engines: Registry[Engine] = Registry(
    "engine",
    {
        "serial": ("bpejit.engines.serial:SerialEngine", "one worker in the calling thread"),
        "threads": ("bpejit.engines.threads:ThreadEngine", "a pool of threads"),
        "processes": ("bpejit.engines.processes:ProcessEngine", "a pool of processes"),
    },
    reserved=AUTO,
    error=EngineError,
)


def register(name: str, engine: Callable[[int], Engine] | str, *, description: str = "") -> None:
    """Add an engine that functions and commands select by name.

    Parameters
    ----------
    name : str
    engine : callable or str
        Class or function that takes the number of workers and returns an engine (see `bpejit.engines.base.Engine`), or the
        location of one as `"package.module:name"`, which is imported on first use.
    description : str
        Text for help pages.

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type.
    EngineError
        If the name is taken, or is not a valid name.
    """
    _engines.register(name, engine, description=description)


def unregister(name: str) -> None:
    """Remove an engine.

    Raises
    ------
    EngineError
        If there is no engine with this name.
    """
    _engines.unregister(name)


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines, without `auto`."""
    return _engines.names()


def engine_descriptions() -> dict[str, str]:
    """Return the description of each engine by name."""
    return _engines.descriptions()


def load_engine(name: str) -> Callable[[int], Engine]:
    """Return the class of an engine by name.

    Raises
    ------
    EngineError
        If there is no engine with this name.
    """
    return _engines.factory(name)
