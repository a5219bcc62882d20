"""Commands killed at random moments: no file is half-written, and the same command, run again, completes."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from cli_helpers import COMMAND, ENVIRONMENT

from tests.faults import commands
from tests.faults.commands import TASKS, Shared

TITLE = "commands killed at random moments"
CASES = 120
TIMEOUT = 600.0


def prepare(folder: Path) -> Shared:
    """Make the inputs and the outputs to expect."""
    return commands.prepare(folder)


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Kill a command once, and run it again."""
    task = case.choice(TASKS)
    replaces = case.random() < 0.5
    folder = commands.begin(shared, task, replaces=replaces)
    process = subprocess.Popen(
        [*COMMAND, *task.arguments, *(["--overwrite"] if replaces else [])],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # Starting Python takes the first half of the time, and writes nothing.
    time.sleep(shared.seconds[task.name] * case.uniform(0.4, 1.1))
    process.send_signal(case.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
    process.wait(timeout=120)
    outcome = commands.check_files(shared, task, replaces=replaces)
    commands.check_repeated(shared, task, replaces=replaces)
    return outcome
