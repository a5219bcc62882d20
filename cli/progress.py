"""What a command says while it works: a bar on a terminal, and closing lines."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


def format_bytes(count: float) -> str:
    """Write a number of bytes for people: `812 bytes`, `3.4 MB` (powers of ten)."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def format_seconds(seconds: float) -> str:
    """Write a time for people: `0.03 s`, `12.3 s`, `3 min 20 s`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def format_rate(count: float, seconds: float, unit: str) -> str:
    """Write how fast something went: `210 MB/s` for bytes, `44,000 merges/s` for the rest."""
    rate = count / max(seconds, 1e-9)
    if unit == "bytes":
        return f"{rate / 1e6:.3g} MB/s" if rate < 1e9 else f"{rate / 1e6:,.0f} MB/s"
    return f"{rate:,.0f} {unit}/s"


@dataclass
class Stage:
    """One long stage of a command: how far it is, and how long it took."""

    name: str
    unit: str
    begun: float
    done: int = 0
    total: int | None = None
    seconds: float = 0.0
    task: TaskID | None = None

    def describe(self) -> str:
        """Say what the stage did: `counting 0.41 s (210 MB/s)`."""
        return f"{self.name} {format_seconds(self.seconds)} ({format_rate(self.done, self.seconds, self.unit)})"


class Progress:
    """What the library calls as `progress(stage, done, total, unit)`.

    On a terminal each stage has a bar with amount, rate and time left, which is gone when the command ends; elsewhere
    nothing is printed before the closing line. With `quiet` nothing is printed at all.

    Attributes
    ----------
    stages : dict of str to Stage
        The stages so far, in order.
    compile_seconds : float
        Time spent compiling kernels for this machine.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.stages: dict[str, Stage] = {}
        self.compile_seconds = 0.0
        self._compile_said = False
        self._open = True
        self._last = self._begun = time.perf_counter()  # as `_now` counts
        self._bar: Bar | None = None
        self._wants_bar = not quiet and sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Time since the command began its work, without the time spent compiling."""
        return self._now() - self._begun

    def _now(self) -> float:
        return time.perf_counter() - self.compile_seconds

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Take a report of the library."""
        now = self._now()
        if self._wants_bar and self._bar is None:
            # Not earlier: the bar has a thread, and the library forks its workers before its first report.
            self._bar = _make_bar()
            self._bar.start()
        state = self.stages.get(stage)
        if state is None:
            # A first report with nothing done marks the beginning; one with something done tells of work since the last.
            state = self.stages[stage] = Stage(stage, unit, now if done == 0 else self._last)
            if self._bar is not None:
                state.task = self._bar.add_task(stage, total=total, unit=unit)
        state.done, state.total, state.seconds = done, total, now - state.begun
        self._last = now
        if self._bar is not None and state.task is not None:
            self._bar.update(state.task, completed=done, total=total)

    def say(self, text: str) -> None:
        """Print a line on standard error, above the bar if there is one."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            click.echo(text, err=True)

    def compiled(self, event: str, seconds: float) -> None:
        """Take note that the compiling of a kernel begins or ends."""
        if not self._open:
            return
        if event == "start" and not self._compile_said:
            self._compile_said = True
            self.say("compiling for this machine; this may take a minute ...")
        elif event == "end":
            self.compile_seconds += seconds

    def close(self) -> None:
        """Take the bar away, and listen no more."""
        self._open = False
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def watch(*, quiet: bool) -> Iterator[Progress]:
    """Report what happens in the block."""
    from bpejit.jit import cache
    from bpejit.jit.dispatch import find_storing_problem, on_compile

    warnings.simplefilter("ignore", cache.CacheWarning)  # the line at the end says it
    progress = Progress(quiet=quiet)
    stop_listening = on_compile(progress.compiled)
    try:
        yield progress
    finally:
        stop_listening()
        progress.close()
    if progress.compile_seconds:
        problem = find_storing_problem()
        later = "later runs load the result" if problem is None else _explain(problem)
        progress.say(f"compiled for this machine in {format_seconds(progress.compile_seconds)}; {later}")


def _explain(problem: str) -> str:
    """Say that nothing was stored, and why."""
    advice = "set BPEJIT_CACHE_DIR (or NUMBA_CACHE_DIR) to a folder that only you can write to"
    if problem.endswith("turns the cache off"):
        advice = "unset it"
    return f"the result could not be stored, and later runs compile again: {problem}: {advice}"


def _make_bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    class Amount(ProgressColumn):
        """How much is done, and how fast, in the stage's own unit."""

        def render(self, task: Any) -> Text:
            unit = task.fields["unit"]
            write = format_bytes if unit == "bytes" else "{:,.0f}".format
            amount = write(task.completed) + (f" of {write(task.total)}" if task.total is not None else "")
            seconds = task.finished_time or task.elapsed  # the latter goes on when the stage has ended
            rate = format_rate(task.completed, seconds, unit) if seconds and task.completed else ""
            return Text(f"{amount}{'' if unit == 'bytes' else ' ' + unit}  {rate}", no_wrap=True)

    return Bar(
        TextColumn("{task.description:>7}"),
        BarColumn(bar_width=20),
        Amount(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=Console(stderr=True),
        transient=True,
    )
