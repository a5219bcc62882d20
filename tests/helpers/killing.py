"""Helpers that kill processes at each step of writing to disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

KILLED = 9

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

CHANGES = ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.truncate", "os.symlink")
"""Audit events of changes to a folder; `open` is one if it may create a file."""


def kill_at(step: int, folder: Path) -> list[int]:
    """End this process, without cleaning up, before the `step`-th change of `folder`; count the steps in the result."""
    seen = [0]

    def count() -> None:
        seen[0] += 1
        if seen[0] == step:
            os._exit(KILLED)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGES:
            if any(str(folder) in os.fsdecode(name) for name in arguments if isinstance(name, (str, bytes, os.PathLike))):
                count()
        elif (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT and str(folder) in str(arguments[0])
        ):
            count()

    flush = os.fsync

    def fsync(descriptor: int) -> None:
        count()
        flush(descriptor)

    os.fsync = fsync
    sys.addaudithook(hook)
    return seen


def run_killed(work: Callable[[], object], step: int, folder: Path) -> bool:
    """Run `work` in a forked process that is killed before its `step`-th change of `folder`; return True if it was."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kill_at(step, folder)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED), f"the process failed before step {step}"
    return code == KILLED
