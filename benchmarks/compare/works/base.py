"""The interface of a work: what is measured, on which inputs, and how its table looks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ..processes import run_job
from ..tools import Tool

if TYPE_CHECKING:
    from ..measure import Context

Record = dict[str, Any]


class Metric(NamedTuple):
    """A figure of a work's table."""

    name: str
    heading: str
    more_is_better: bool = False


@dataclass(frozen=True)
class Case:
    """One row of a table."""

    key: Record
    """What identifies the case in the results."""
    params: Record
    """The parameters of the job."""
    threads: int = 1
    """Threads or processes that a tool may use; 1 also pins it to one processor."""


class Work:
    """Something that is measured, with each tool that can do it."""

    name: str
    section: str
    """The title of its table; works with the same title share one."""
    about: str
    """What is measured, in Markdown."""
    metrics: tuple[Metric, ...]
    """The figures in a cell of the table, besides memory."""
    unit = ""
    """The unit of the figures, for tables of several works."""
    method = "load"
    """The method that a tool must have."""
    reference: ClassVar[tuple[str, ...]] = ()
    """Reference tools that take part."""
    only: ClassVar[tuple[str, ...]] = ()
    """If not empty, the only tools that take part."""
    max_rounds = 100
    """Limit of the number of runs, for jobs that repeat the work themselves."""
    memory = False
    """True if peak memory is measured."""
    shows_memory = True
    """True if the tables show it; the results always contain it."""

    def includes(self, tool: Tool) -> bool:
        """Return True if a tool takes part."""
        if self.only:
            return tool.name in self.only
        return tool.name in self.reference or (not tool.is_reference and tool.can(self.method))

    def cases(self, context: Context) -> Iterable[Case]:
        """Create the inputs of each case."""
        raise NotImplementedError

    def params_for(self, tool: Tool, case: Case) -> Record:
        """Return the parameters for a tool; a result is compared with bpejit's for the same parameters."""
        return case.params

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        """Measure, in the worker: return the metrics, and the result that is compared."""
        raise NotImplementedError

    def run(
        self,
        tool: Tool,
        params: Record,
        *,
        environment: dict[str, str],
        save: Path | None,
        memory: bool,
        timeout: float,
    ) -> Record:
        """Run the job in a fresh process."""
        command = [tool.interpreter, "-m", "benchmarks.compare.worker"]
        job = {"work": self.name, "tool": tool.name, "params": params, "save": save and str(save)}
        return run_job(command, job, environment=environment, memory=memory, timeout=timeout)

    def label(self, key: Record) -> str:
        """Return the first cell of a case's row."""
        raise NotImplementedError

    def page_label(self, key: Record) -> str:
        """Return the first cell in benchmarks/README.md; cases with equal labels share a row."""
        return self.label(key)

    def summary_label(self, key: Record) -> str:
        """Return the first cell in docs/speed.md, with the unit in tables that have several."""
        return f"{self.label(key)}, {self.unit}" if self.unit else self.label(key)

    def in_summary(self, key: Record) -> bool:
        """Return True if the case is in the tables of docs/speed.md."""
        return True


def size_label(n_bytes: int) -> str:
    """Return a size such as "30.4 MB"."""
    return f"{n_bytes / 1e6:.3g} MB" if n_bytes >= 999_500 else f"{n_bytes / 1e3:.3g} KB"


def text_label(corpus: Record) -> str:
    """Return name and size of a text."""
    return f"{corpus['name']}, {size_label(corpus['bytes'])}"


def threads_label(threads: int) -> str:
    """Return a number of threads in words."""
    return "one thread" if threads == 1 else f"{threads} threads"
