"""Progress of a command: a bar on a terminal, then a summary in one line or as JSON."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from bpejit.errors import visible
from bpejit.jit.listening import compiling_time, pausing, prepare_with, working_time
from bpejit.progress_bar import (
    ProgressBar,
    Stage,
    counted as counted,
    format_bytes as format_bytes,
    format_rate as format_rate,
)

from .reporting import shell_line, this_command, with_option_names, write_event, write_json, write_message

LINE_SECONDS = 10.0
"""Seconds between two lines about the progress, where there is no terminal."""


def format_estimate(count: float) -> str:
    """Return an estimated number with three digits that count: `148,000,000`."""
    return f"{int(float(f'{count:.3g}')):,}"


def format_seconds(seconds: float) -> str:
    """Return a time as text: `0.03 s`, `12.3 s`, `3 min 20 s`."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def describe_stage(stage: Stage) -> str:
    """Return a summary of a stage: `count 0.41 s (210 MB/s)`."""
    return f"{stage.name} {format_seconds(stage.seconds)} ({format_rate(stage.done, stage.seconds, stage.unit)})"


def format_memory(peak: int, worker: int) -> str:
    """Return the peak memory of the process and of its largest worker as text; `worker` is 0 if there was none."""
    return f"peak memory {format_bytes(peak)}" + (f" (largest worker {format_bytes(worker)})" if worker else "")


class Progress(ProgressBar):
    """Progress callback of a command.

    On a terminal each stage has a bar with amount, rate and time left, which is removed when the command ends. Elsewhere
    a line with the same figures appears every ten seconds. With `--quiet` nothing is printed at all, with `--json` the summary
    is a JSON object, and with `--log-json` each line on standard error is one.
    """

    def __init__(self) -> None:
        self._state = this_command()
        is_plain = self._state.quiet or self._state.log_json
        super().__init__(wanted=not is_plain and sys.stderr.isatty(), transient=True)
        self.command = ""  # that continues the job of this one; empty if it runs none
        self.n_compiled = 0  # kernels
        self._compile_reported = False
        self._expected_time = "a minute"
        self._compiled_before = compiling_time()
        self._begun = self._last
        self._ended: tuple[float, float] | None = None  # when the command was done: times of working and of compiling
        self._last_line = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time of the command, without the time spent compiling."""
        return (working_time() if self._ended is None else self._ended[0]) - self._begun

    @property
    def compile_seconds(self) -> float:
        """Time that the command spent compiling kernels for this machine, or waiting for that."""
        return (compiling_time() if self._ended is None else self._ended[1]) - self._compiled_before

    def show_line(self, stage: Stage, tokens: str) -> None:
        """Write a line about a stage, if the last one is long ago."""
        now = time.perf_counter()
        if now - self._last_line < LINE_SECONDS:
            return
        self._last_line = now
        seconds_left = None  # as far as it is known
        if stage.total is not None and stage.done and stage.seconds > 0:
            seconds_left = max(stage.total - stage.done, 0) * stage.seconds / stage.done
        if self._state.log_json and not self._state.quiet:
            left = None if seconds_left is None else round(seconds_left, 1)
            amounts = {"stage": stage.name, "done": stage.done, "total": stage.total, "unit": stage.unit}
            write_event("progress", **amounts, seconds=round(stage.seconds, 3), seconds_left=left, **self._others)
            return
        share = f" ({100 * stage.done // stage.total} %)" if stage.total else ""
        time_left = "" if seconds_left is None else f"{format_seconds(seconds_left)} left"
        self.message(", ".join(filter(None, (f"{stage.name}: {stage.amount()}{share}", stage.rate, tokens, time_left))))

    def message(self, text: str) -> None:
        """Write a line to standard error, above the bar if there is one, unless the command is quiet."""
        if not self._state.quiet:
            self.write(text)

    def write(self, text: str) -> None:
        """Write a line even if the command is quiet."""
        if self._state.log_json:
            write_event("message", text=text)
        elif self._bar is not None:
            self._bar.console.print(visible(text), markup=False, highlight=False)
        else:
            write_message(text)

    def finish(
        self, summary: str, *, seconds: float | None = None, details: str = "", notes: Iterable[str] = (), **fields: Any
    ) -> None:
        """Report the result: as a line, a second line with details, and lines for notes, or as JSON with these fields.

        `seconds` is the elapsed time, by default that of the command. Arguments in notes become options of the command.
        """
        state, seconds = self._state, self.seconds if seconds is None else seconds
        notes = [with_option_names(note, state.command) for note in notes]
        if state.json:
            stages = {
                stage.name: {"seconds": stage.seconds, "done": stage.done, "unit": stage.unit} for stage in self.stages.values()
            }
            write_json(**fields, seconds=seconds, stages=stages, compile_seconds=self.compile_seconds, notes=notes)
        if state.log_json and not state.quiet:
            write_event("summary", text=summary, seconds=seconds, notes=notes, **fields)
        elif not (state.json or state.log_json):
            for line in filter(None, (summary, details, *(f"note: {note}" for note in notes))):
                self.message(line)

    def compiled(self, event: str, _seconds: float) -> None:
        """Record that compiling a kernel starts or ends."""
        if self._ended is not None:
            return
        if event == "start" and not self._compile_reported:
            self._compile_reported = True
            self.message(f"compiling for this machine, once; this may take {self._expected_time} ...")
        elif event == "end":
            self.n_compiled += 1

    def compile_first(self, *, others: bool = False) -> None:
        """Compile what the first commands need, or all kernels, with a bar, if some of what the first need may be missing."""
        from bpejit.jit.dispatch import find_storing_problem, is_first_run
        from bpejit.warm_kernels import compile_first

        if not is_first_run():
            if find_storing_problem() is None:
                self._expected_time = "some seconds"  # for kernels that few commands need
            return
        self.compiled("start", 0.0)
        stage = Stage("compile", "kernels", working_time())
        bar = self.new_bar(auto_refresh=False) if self._wanted and self._bar is None else None  # without a thread

        def report(done: int, total: int | None) -> None:
            stage.done, stage.total = done, total
            self.show(stage, bar, refresh=True)

        with bar or nullcontext(), pausing():
            if bar is not None:
                stage.task = bar.add_task(stage.name, total=None, shown="")
            compile_first(report, others=others)

    def close(self) -> None:
        """Remove the bar, and ignore further reports."""
        self._ended = working_time(), compiling_time()
        super().close()


@contextmanager
def watch() -> Iterator[Progress]:
    """Show the progress of the block."""
    from bpejit.jit import cache
    from bpejit.jit.dispatch import KERNELS, find_storing_problem, on_compile

    warnings.simplefilter("ignore", cache.CacheWarning)  # the line after the block reports it
    progress = Progress()
    state = this_command()
    state.write = progress.write
    stop_listening = on_compile(progress.compiled)
    prepare_with(progress.compile_first)
    try:
        yield progress
    finally:
        stop_listening()
        prepare_with(None)
        progress.close()
    if state.verbose is not None:
        n_kernels = sum(len(getattr(kernel, "signatures", ())) for kernel in KERNELS)
        logging.getLogger("bpejit").debug("%d kernels used, %d of them compiled in this run", n_kernels, progress.n_compiled)
    if progress.compile_seconds:
        problem = find_storing_problem()
        later = "later runs load the result"
        if problem is not None:
            advice = "set BPEJIT_CACHE_DIR (or NUMBA_CACHE_DIR) to a folder that only you can write to"
            advice = "unset it" if problem.endswith("turns the cache off") else advice
            later = f"the result could not be stored, and later runs compile again: {problem}: {advice}"
        progress.message(f"compiled for this machine in {format_seconds(progress.compile_seconds)}; {later}")


@contextmanager
def telling_what_is_kept(progress: Progress, out: str, *, per_input: bool = False, is_part: bool = False) -> Iterator[None]:
    """After an error or an interrupt, write what an unfinished job keeps, and the command that continues it.

    That is the command which began the job, unless this one runs another part of it.
    """
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--resume", "--overwrite")]
    progress.command = shell_line(["bpejit", *arguments, "--resume"])
    try:
        yield
    except BaseException as error:
        from bpejit.jobs.job_plan import open_store

        kept = None
        with suppress(Exception):  # a storage that cannot be reached
            store = open_store(out, per_input=per_input)
            kept, begun = store.kept(), store.begun() or {}
        if kept is not None:
            total = begun.get("units", kept.units)
            text = f"kept {kept.units:,} of {total:,} units ({format_bytes(kept.read)} of input) in `{store.folder}`"
            command = (not is_part and begun.get("command")) or progress.command
            progress.message(text if "continue it with `" in str(error) else f"{text}; continue with: {command}")
        raise
