"""Helpers that run commands in this process or in a new one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from conftest import ROOT

MODULE = "bpejit_cli" if importlib.util.find_spec("bpejit_cli") else "cli"
"""The package of the commands: `bpejit_cli` if the project is installed, and otherwise the folder `cli`."""

program = importlib.import_module(f"{MODULE}.app").program


def find_commands(group: Any = program, path: str = "") -> dict[str, Any]:
    """Return all commands and groups below a group by their names, such as `cache info`."""
    found = {}
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        found[f"{path}{name}"] = command
        if hasattr(command, "list_commands"):
            found |= find_commands(command, f"{path}{name} ")
    return found


COMMANDS = find_commands()

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
"""Environment of subprocesses, which find the checkout from any folder."""

COMMAND = [sys.executable, "-m", MODULE]


# Before click 8.2, standard error is captured separately only on request.
SEPARATELY: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
if SEPARATELY:
    Result.output = property(lambda result: result.stdout + result.stderr)  # type: ignore[assignment, misc]


def invoke(*arguments: str | Path) -> Result:
    """Run a command in this process."""
    return CliRunner(**SEPARATELY).invoke(program, [str(argument) for argument in arguments], prog_name="bpejit")


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a new process, and capture its output as bytes."""
    options = {
        "env": ENVIRONMENT,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "timeout": 600,
        "check": False,
        **options,
    }
    return subprocess.run([*COMMAND, *map(str, arguments)], **options)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def copy_files(source: Path, target: Path) -> None:
    """Copy every file below a folder to another folder."""
    for name, data in snapshot(source).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
