"""Commands that run out of disk space, files or memory: they report it in one line and leave the output unchanged."""

from __future__ import annotations

import random
import resource
from functools import partial
from pathlib import Path

from tests.faults import commands
from tests.faults.area import WrongError
from tests.faults.commands import TASKS, Shared

TITLE = "commands that run out of disk, files or memory"
CASES = 120
TIMEOUT = 600.0


def prepare(folder: Path) -> Shared:
    """Create the inputs and the expected outputs."""
    return commands.prepare(folder)


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Run a command under a limit, and again without it."""
    task = case.choice(TASKS)
    replaces = case.random() < 0.5
    kind, limit = case.choice(
        [
            (resource.RLIMIT_FSIZE, case.randrange(max(map(len, shared.expected[task.name].values())))),
            (resource.RLIMIT_NOFILE, case.randint(3, 9)),
            (resource.RLIMIT_AS, case.randint(20, 400) << 20),
        ]
    )
    name = {resource.RLIMIT_FSIZE: "disk", resource.RLIMIT_NOFILE: "files", resource.RLIMIT_AS: "memory"}[kind]
    folder = commands.begin(shared, task, replaces=replaces)
    more = ["--overwrite"] if replaces else []
    done = commands.run(task, folder, *more, preexec_fn=partial(resource.setrlimit, kind, (limit, limit)))
    outcome = commands.check_files(shared, task, replaces=replaces)
    if done.returncode == 0:
        if outcome != "new output":
            raise WrongError(f"{task.name} with {name} {limit}: ended with 0 and {outcome}: {done.stderr}")
        return "enough"
    if outcome not in ("old output", "no output"):
        raise WrongError(f"{task.name} with {name} {limit}: ended with {done.returncode} and {outcome}: {done.stderr}")
    has_begun = "bpejit: " in done.stderr
    if kind == resource.RLIMIT_FSIZE or has_begun:
        left = set(commands.read_files(folder / "out")) - set(shared.older[task.name] if replaces else ())
        if "`--resume` continues" in done.stderr:
            left.discard("tokenizer.partial.counts")  # a training that took long, as the message says
        if left:
            raise WrongError(f"{task.name} with {name} {limit}: temporary files are left: {sorted(left)}")
        # Without memory, libraries fail in various ways.
        unexpected = "internal error" in done.stderr and kind != resource.RLIMIT_AS
        if done.returncode != 1 or "Traceback" in done.stderr or unexpected:
            raise WrongError(f"{task.name} with {name} {limit}: ended with {done.returncode}: {done.stderr[-2000:]}")
    commands.check_repeated(shared, task, replaces=replaces)
    # Python itself, or a library, may fail to start, before the command can report anything.
    return f"out of {name}" if has_begun else f"could not start, out of {name}"
