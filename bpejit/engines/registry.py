"""The registered engines."""

from __future__ import annotations

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


register, unregister = _engines.register, _engines.unregister
"""Add and remove an engine (see `Registry`) that functions and commands select by name: a class or function that takes the
number of workers and returns a `bpejit.engines.base.Engine`.
"""

engine_names, engine_descriptions = _engines.names, _engines.descriptions
"""Return the names of all engines, without `auto`, and their descriptions."""

load_engine = _engines.factory
