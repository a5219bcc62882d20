"""Show the progress of a function: a bar for each stage, on a terminal or in a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from bpejit.jit.listening import in_notebook, working_time

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID

Progress = Callable[[str, int, "int | None", str], None]
"""Called as `progress(stage, done, total, unit)`; `unit` is `bytes`, `merges` or `tokens`, and `total` is None if
unknown."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_REFRESH_SECONDS = 0.1
"""Seconds between two updates of a bar in a notebook."""


def format_bytes(count: float) -> str:
    """Return a number of bytes as text: `812 bytes`, `3.4 MB` (powers of ten)."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def format_rate(count: float, seconds: float, unit: str) -> str:
    """Return a rate as text: `210 MB/s` for bytes, `44,000 merges/s` for other units."""
    rate = count / max(seconds, 1e-9)
    if unit == "bytes":
        return f"{rate / 1e6:.3g} MB/s" if rate < 1e9 else f"{rate / 1e6:,.0f} MB/s"
    return f"{rate:,.0f} {unit}/s"


def counted(count: int, noun: str) -> str:
    """Return a number and what is counted: `1 file`, `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@dataclass
class Stage:
    """One stage of a function or command: progress and elapsed time."""

    name: str
    unit: str
    begun: float
    done: int = 0
    total: int | None = None
    seconds: float = 0.0
    task: TaskID | None = None

    @property
    def rate(self) -> str:
        """The rate of the stage; empty for kernels, which differ."""
        return "" if self.unit == "kernels" else format_rate(self.done, self.seconds, self.unit)

    def amount(self) -> str:
        """Return what is done: `1.2 GB of 30.0 GB`."""
        done, total = (format_bytes(count) if self.unit == "bytes" else f"{count:,}" for count in (self.done, self.total or 0))
        return done + (f" of {total}" if self.total else "") + ("" if self.unit == "bytes" else f" {self.unit}")


class ProgressBar:
    """Progress callback that shows a bar for each stage, with amount, rate and time left.

    It is called as `progress(stage, done, total, unit)`, and `close` stops the bar. If no bar is `wanted`, `show_line` is
    called instead; a `transient` one is removed at the end.
    """

    def __init__(self, *, wanted: bool = True, transient: bool = False) -> None:
        self.stages: dict[str, Stage] = {}  # so far, in order
        self._last = working_time()
        self._others: dict[str, int] = {}
        self._bar: Bar | None = None
        self._wanted = wanted
        self._transient = transient
        self._display: Any = None  # of a notebook
        self._displayed = 0.0  # when it was updated

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        """Record a progress report, and show it."""
        now = working_time()
        if self._wanted and self._bar is None:
            # Not earlier: the bar starts a thread, and the library forks its workers before its first report.
            self._bar = self.new_bar()
            if not in_notebook():
                self._bar.start()
        state = self.stages.get(stage)
        if state is None:
            # A first report with nothing done marks the start of a stage. Otherwise the stage started with the last report.
            state = self.stages[stage] = Stage(stage, unit, now if done == 0 else self._last)
            if self._bar is not None:
                state.task = self._bar.add_task(stage, total=total, shown="")
        state.done, state.total, state.seconds = done, total, now - state.begun
        self._last = now
        self.show(state, self._bar)

    def details(self, **others: int) -> None:
        """Record further counts of the current stage, such as `tokens`, whose rates are shown."""
        self._others = others

    def show(self, stage: Stage, bar: Bar | None, **options: Any) -> None:
        """Show the progress of a stage in a bar, or as a line if there is none."""
        n_tokens = self._others.get("tokens")
        tokens = format_rate(n_tokens, stage.seconds, "tokens") if n_tokens and stage.seconds else ""
        if bar is None or stage.task is None:
            self.show_line(stage, tokens)
            return
        rate = stage.rate if stage.done and stage.seconds else ""
        shown = f"{stage.amount()}  {rate}{'  ' + tokens if tokens else ''}"
        bar.update(stage.task, completed=stage.done, total=stage.total, shown=shown, **options)
        if in_notebook():
            self._show_in_notebook(bar, ended=stage.done == stage.total)

    def show_line(self, stage: Stage, tokens: str) -> None:
        """Show the progress of a stage, and the rate of its tokens, where there is no bar."""

    def _show_in_notebook(self, bar: Bar, *, ended: bool) -> None:
        """Draw the bar again if the last time is long enough ago. Rich itself would need `ipywidgets`."""
        now = time.perf_counter()
        if now - self._displayed < _REFRESH_SECONDS and not ended:
            return
        self._displayed = now
        drawn = bar.make_tasks_table(bar.tasks)
        if self._display is None:
            from IPython.display import display

            self._display = display(drawn, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._display.update(drawn)

    def new_bar(self, *, auto_refresh: bool = True) -> Bar:
        """Return a bar of the package `rich`, which is not started."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn
        from rich.table import Column

        return Bar(
            TextColumn("{task.description:>7}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[shown]}", markup=False, table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=Console(stderr=True),
            transient=self._transient,
            auto_refresh=auto_refresh,
        )

    def close(self) -> None:
        """Stop the bar."""
        if self._bar is not None:
            if self._display is not None:
                self._show_in_notebook(self._bar, ended=True)
            self._bar.stop()
            self._bar = None
