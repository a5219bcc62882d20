"""Run the fast tests with several versions of Python, each with the oldest and the newest versions of the dependencies.

    python .ci/matrix.py                                          each installed Python, oldest and newest
    python .ci/matrix.py --python 3.11 --versions oldest -- -k cli    one environment, with arguments for pytest

Pythons are found as `python3.11` on the PATH or among those of pyenv; those that are missing are listed. Environments, logs
and compiled kernels go to `.matrix`. The last lines are a table of the environments and their results.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import run_tests

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".matrix"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SHOWN = ("numba", "numpy", "regex", "click", "rich")


class Outcome(NamedTuple):
    """The result of the tests in one environment; `versions` are those of the packages in `SHOWN`."""

    name: str
    versions: list[str]
    passed: int
    failed: int
    skipped: int
    seconds: float


def find_python(version: str) -> str | None:
    """Return the path of a Python that runs and has this version, such as "3.11"."""
    candidates = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates += [str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))]
    for candidate in candidates:
        if candidate is None:
            continue
        code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        found = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        if found.stdout.strip() == version:  # pyenv has commands for disabled versions, which fail
            return candidate
    return None


def run(command: list[str | Path], log: Path, **options: object) -> int:
    """Run a command in the checkout, append what it prints to a file, and return its exit status."""
    with log.open("ab") as file:
        return subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, check=False, **options).returncode


def make_environment(python: str, versions: str, folder: Path, log: Path) -> Path:
    """Make a fresh environment with bpejit and what its tests need; return its Python."""
    environment_python = folder / "bin" / "python"
    pip = [environment_python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    steps: list[list[str | Path]] = [[python, "-m", "venv", "--clear", folder], [*pip, "install", "--upgrade", "pip"]]
    if versions == "newest":
        steps.append([*pip, "install", "--upgrade", "--editable", ".[test,data,plot,t2t]"])
    else:
        steps.append([*pip, "install", "--no-deps", "--editable", "."])
        steps.append([*pip, "install", "packaging"])
    for step in steps:
        if run(step, log):
            raise SystemExit(f"cannot make the environment {folder.name}: see {log.relative_to(ROOT)}")
    if versions == "oldest":
        listed = subprocess.run(
            [environment_python, ".ci/oldest.py", "test", "data", "plot", "t2t"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        # Built from source, an old package may get another version number than its release. `tfrecord` has no wheels.
        if run([*pip, "install", "--only-binary", ":all:", "--no-binary", "tfrecord", *listed.stdout.split()], log):
            raise SystemExit(f"the oldest versions do not install in {folder.name}: see {log.relative_to(ROOT)}")
    return environment_python


def test(python: str, versions: str, pytest_arguments: list[str], install_only: bool) -> Outcome | None:
    """Run the fast tests in a fresh environment, or in one that was installed for this run; or only install it."""
    version = subprocess.run(
        [python, "-c", "import platform; print(platform.python_version())"], capture_output=True, text=True, check=True
    )
    name = f"{version.stdout.strip()} {versions}"
    folder = FOLDER / name.replace(" ", "-")
    log = FOLDER / f"{folder.name}.log"
    unused = folder / "unused"
    if unused.exists():
        environment_python = folder / "bin" / "python"
    else:
        FOLDER.mkdir(exist_ok=True)
        log.unlink(missing_ok=True)
        print(f"{name}: installing ...", flush=True)
        environment_python = make_environment(python, versions, folder, log)
        unused.touch()
    if install_only:
        return None
    unused.unlink()
    code = f"import importlib.metadata as m; print(*map(m.version, {SHOWN!r}))"
    shown = subprocess.run([environment_python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    print(f"{name}: testing with {', '.join(map(' '.join, zip(SHOWN, shown, strict=True)))} ...", flush=True)
    shutil.rmtree(FOLDER / "kernels", ignore_errors=True)  # kernels compiled in another environment may hide an error
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(FOLDER / "kernels")}
    start = time.monotonic()
    if run([environment_python, ".ci/compile_kernels.py"], log, env=environment):
        raise SystemExit(f"{name}: the kernels cannot be compiled: see {log.relative_to(ROOT)}")
    found = run_tests.run(environment_python, [ROOT / "tests"], "not slow", pytest_arguments, environment)
    return Outcome(name, shown, found.passed, found.failed, len(found.reasons), time.monotonic() - start)


def main() -> int:
    """Test each combination and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="VERSION", help="versions such as 3.11 (default: all)")
    parser.add_argument("--versions", nargs="+", default=("oldest", "newest"), choices=("oldest", "newest"))
    parser.add_argument("--install", action="store_true", help="only make the environments, which the next run uses")
    parser.add_argument("pytest", nargs="*", metavar="-- PYTEST_ARGUMENT", help="more arguments for pytest")
    arguments = parser.parse_args()
    pythons = {version: find_python(version) for version in arguments.python}
    missing = [version for version, path in pythons.items() if path is None]
    outcomes = [
        test(path, versions, arguments.pytest, arguments.install)
        for path in pythons.values()
        if path is not None
        for versions in arguments.versions
    ]
    if arguments.install:
        return int(not outcomes)
    row = "{:<16}" + "{:>11}" * len(SHOWN) + "{:>8}{:>8}{:>9}{:>9}"
    print(row.format("python", *SHOWN, "passed", "failed", "skipped", "seconds"))
    for outcome in filter(None, outcomes):
        print(
            row.format(outcome.name, *outcome.versions, outcome.passed, outcome.failed, outcome.skipped, round(outcome.seconds))
        )
    if missing:
        print("not tested, since no such Python was found:", ", ".join(missing))
    return int(not outcomes or any(not outcome or outcome.failed or not outcome.passed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
