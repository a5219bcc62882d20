"""Commands killed before each call that changes their output folder, with and without an older output."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import NamedTuple

from tests.faults import commands
from tests.faults.area import WrongError
from tests.faults.commands import TASKS, Task

TITLE = "commands killed before each call that changes the output"
CASES = 150
TIMEOUT = 600.0


class Shared(NamedTuple):
    """The inputs and outputs, and the steps to kill at: a task, whether it replaces an output, and the step number."""

    made: commands.Shared
    steps: list[tuple[Task, bool, int]]


def _program(step: int) -> list[str]:
    return [sys.executable, "-m", "tests.faults.stepped", str(step)]


def prepare(folder: Path) -> Shared:
    """Count the steps of each task."""
    made = commands.prepare(folder)
    steps = []
    for task in TASKS:
        for replaces in (False, True):
            inputs = commands.begin(made, task, replaces=replaces)
            done = commands.run(task, inputs, *(["--overwrite"] if replaces else []), program=_program(-1))
            commands.succeed(done)
            n_steps = int(done.stderr.split()[-1])
            if n_steps < 2:
                raise WrongError(f"{task.name}: {n_steps} steps were seen: {done.stderr}")
            steps += [(task, replaces, step) for step in range(n_steps)]
    return Shared(made, steps)


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Kill a command before a step, and run it again."""
    task, replaces, step = shared.steps[number % len(shared.steps)]
    folder = commands.begin(shared.made, task, replaces=replaces)
    done = commands.run(task, folder, *(["--overwrite"] if replaces else []), program=_program(step))
    if done.returncode != -9:
        raise WrongError(f"{task.name}, step {step}: ended with {done.returncode} before it was killed:\n{done.stderr[-2000:]}")
    outcome = commands.check_files(shared.made, task, replaces=replaces)
    try:
        commands.check_repeated(shared.made, task, replaces=replaces)
    except WrongError as error:
        what = "over an older output" if replaces else "over nothing"
        raise WrongError(f"killed before step {step} {what}: {error}") from None
    return outcome
