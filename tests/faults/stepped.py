"""Run `bpejit`, and kill it before it takes a certain step of writing to the folder `out`.

    python -m tests.faults.stepped STEP ARGUMENT...

A step is a call that creates, opens to write, renames, links, removes or syncs. With STEP -1 nothing is killed, and the last
line of standard error is the number of steps.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

EVENTS = {"open", "os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


def main() -> None:
    """Count the steps by Python's audit events, and kill this process before the requested one."""
    last = int(sys.argv[1])
    out = str(Path("out").resolve())
    n_steps = 0

    def step() -> None:
        nonlocal n_steps
        if n_steps == last:
            os.kill(os.getpid(), signal.SIGKILL)
        n_steps += 1

    def is_inside(path: Any) -> bool:
        return isinstance(path, (str, os.PathLike)) and os.path.abspath(path).startswith(out)  # noqa: PTH100 (no links)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or not any(map(is_inside, arguments[:2])):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            return
        step()

    sync = os.fsync

    def sync_as_step(descriptor: int) -> None:
        step()
        sync(descriptor)

    os.fsync = sync_as_step
    sys.addaudithook(hook)

    from helpers.cli import program

    try:
        program.main(sys.argv[2:], prog_name="bpejit")
    finally:
        if last < 0:
            print(n_steps, file=sys.stderr)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
    main()
