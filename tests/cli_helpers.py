"""Running the command line in tests: in this process, or as a process of its own."""

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
"""The package of the commands: installed as `bpejit_cli`; in a checkout that is not installed it is the folder `cli`."""

program = importlib.import_module(f"{MODULE}.app").program

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
"""The environment of subprocesses: they find the checkout from any folder."""

COMMAND = [sys.executable, "-m", MODULE]


# Before click 8.2, standard error is captured on its own on demand only.
SEPARATELY: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
if SEPARATELY:
    Result.output = property(lambda result: result.stdout + result.stderr)  # type: ignore[assignment, misc]


def invoke(*arguments: str | Path) -> Result:
    """Run the command in this process."""
    return CliRunner(**SEPARATELY).invoke(program, [str(argument) for argument in arguments], prog_name="bpejit")


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a process; its output is captured as bytes."""
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
