"""Commands killed at random moments: no file is half-written, and a second run completes."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from helpers.cli import COMMAND, ENVIRONMENT

from tests.faults import commands
from tests.faults.commands import TASKS, Shared

TITLE = "commands killed at random moments"
CASES = 120
TIMEOUT = 600.0


def prepare(folder: Path) -> Shared:
    """Create the inputs and the expected outputs."""
    return commands.prepare(folder)


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Kill a command at a random moment, and run it again."""
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
    # The first half of the time is spent on starting Python, which writes nothing.
    time.sleep(shared.seconds[task.name] * case.uniform(0.4, 1.1))
    process.send_signal(case.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
    process.wait(timeout=120)
    outcome = commands.check_files(shared, task, replaces=replaces)
    commands.check_repeated(shared, task, replaces=replaces)
    return outcome
