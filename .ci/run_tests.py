"""Run the tests: a process for each folder, some of them at a time, and a line for each that begins or has ended.

On a terminal, one line shows those that are running instead, with the share of their tests that is done.

    python .ci/run_tests.py                                     all tests
    python .ci/run_tests.py -m "not slow" tests/jit -- -k cache    some tests of a folder, with arguments for pytest

One process that runs all tests grows to a gigabyte, and each of the thousands of processes that tests fork would copy its page
tables. Tests that need services mostly wait, so they run beside the others: those with a Ray cluster in one process, and those
with an S3 server or Chromium alone in another.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"

SERVICES = {"cluster": re.compile(r"\bcluster\b"), "services": re.compile(r"\b(bucket|browser|services)\b")}
"""Groups of tests that need services, and their fixtures and marker; only files with one of them are collected for these."""

LONGEST = "tests/project", "tests/training", "tests/storage", "tests/jit"
"""Folders whose tests wait for processes that they start, so that they take longer than the size of their files suggests."""

NO_TESTS = 5
"""Status of pytest if no test was selected."""


class Group(NamedTuple):
    """Files whose tests run in one process, by a name for the reader; `services` says which of their tests."""

    name: str
    files: list[Path]
    services: bool


class Outcome(NamedTuple):
    """Numbers of tests, why tests were skipped, and what pytest printed if something failed."""

    passed: int = 0
    failed: int = 0
    reasons: tuple[str, ...] = ()
    output: str = ""

    def __add__(self, other: Outcome) -> Outcome:  # type: ignore[override]
        """Add the numbers, and append the texts."""
        return Outcome(*(mine + others for mine, others in zip(self, other, strict=True)))


class Display:
    """Shows which groups are running: in one line that is written again on a terminal, and in a line for each elsewhere."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty()
        self._begun = time.monotonic()
        self._running: dict[str, Path] = {}  # what pytest prints
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Time since the first group began."""
        return time.monotonic() - self._begun

    def begin(self, name: str, output: Path) -> None:
        """Record that a group begins."""
        with self._lock:
            self._running[name] = output
            if not self.is_live:
                print(f"running {name} ...", flush=True)

    def end(self, name: str) -> None:
        """Record that a group has ended."""
        with self._lock:
            self._running.pop(name, None)

    def write(self, text: str) -> None:
        """Write lines, above those that are running."""
        with self._lock:
            print(f"\r\033[K{text}" if self.is_live else text, flush=True)

    def refresh(self) -> None:
        """Write the groups that are running, on a terminal."""
        if not self.is_live:
            return
        with self._lock:
            shown = ", ".join(f"{name.removeprefix('tests/')}{share_done(output)}" for name, output in self._running.items())
            text = f"{self.seconds:4.0f} s: {shown}" if shown else ""
            print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)


def share_done(output: Path) -> str:
    """Return the last percentage that pytest has printed, such as ` 45 %`; empty if there is none."""
    try:
        found = re.findall(rb"\[ *(\d+)%\]", output.read_bytes())
    except OSError:  # it has ended
        return ""
    return f" {int(found[-1])} %" if found else ""


def find_groups(paths: list[Path]) -> list[Group]:
    """Return the files of each folder of `tests`, those first that may take longest: services, `LONGEST`, and large files."""
    files = {file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    folders: dict[str, list[Path]] = {}
    for file in sorted(files):
        if "readers" not in file.parts:  # see `make readers`
            folders.setdefault("/".join(file.relative_to(ROOT).parent.parts[:2]), []).append(file)
    groups = [Group(folder, inside, False) for folder, inside in folders.items()]
    groups.sort(key=lambda group: (group.name not in LONGEST, -sum(file.stat().st_size for file in group.files)))
    services: dict[str, list[Path]] = {}
    for file in (file for group in groups for file in group.files):
        text = file.read_text(encoding="utf-8")
        name = next((name for name, used in SERVICES.items() if used.search(text)), None)
        if name is not None:
            services.setdefault(name, []).append(file)
    return [*(Group(name, inside, True) for name, inside in services.items()), *groups]


def run_group(
    python: str | Path, group: Group, markers: str, arguments: list[str], environment: Mapping[str, str], display: Display
) -> Outcome:
    """Run the tests of a group that the expression of markers selects."""
    chosen = "services" if group.services else "not services"
    chosen = f"({markers}) and {chosen}" if markers else chosen
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder, "report.xml"), Path(folder, "output")
        command = [python, "-m", "pytest", "-m", chosen, f"--junitxml={report}", *arguments, *group.files]
        if not group.services and shutil.which("nice"):  # the group with a cluster takes longest, and would end last
            command = ["nice", "-n", "5", *command]
        temporary = Path(folder, "tmp")  # of one pytest: in a common folder, two that end together remove the same and fail
        temporary.mkdir()
        environment = {**environment, "PYTEST_DEBUG_TEMPROOT": str(temporary)}
        display.begin(group.name, output)
        with output.open("wb") as file:
            status = subprocess.run(command, cwd=ROOT, env=environment, stdout=file, stderr=file, check=False).returncode
        display.end(group.name)
        printed = output.read_text(encoding="utf-8", errors="replace")
        try:
            suite = ET.parse(report).getroot()[0]
        except (OSError, ET.ParseError, IndexError):
            return Outcome(failed=1, output=f"pytest did not finish, status {status}:\n{printed}")
    number = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = max(number["failures"] + number["errors"], int(status not in (0, NO_TESTS)))
    reasons = tuple(skipped.get("message", "").removeprefix("Skipped: ") for skipped in suite.iter("skipped"))
    passed = number["tests"] - number["failures"] - number["errors"] - number["skipped"]
    return Outcome(passed, failed, reasons, printed if failed else "")


def run(python: str | Path, paths: list[Path], markers: str, arguments: list[str], environment: Mapping[str, str]) -> Outcome:
    """Run the tests, print a line for each group and the output of those that failed; return the sums."""
    groups = find_groups(paths)
    services = sum(group.services for group in groups)
    total, processors = Outcome(), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    display = Display()
    with ThreadPoolExecutor(processors + 1 + services) as pool:  # tests wait for processes and for the disk
        options = markers, arguments, environment, display
        running = {pool.submit(run_group, python, group, *options): group.name for group in groups}
        while running:
            for one in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                name, outcome = running.pop(one), one.result()
                if outcome.passed or outcome.failed or outcome.reasons:
                    numbers = f"{outcome.passed:5} passed, {len(outcome.reasons):3} skipped, {outcome.failed:2} failed"
                    display.write(f"{name:<28}{numbers}   after {display.seconds:3.0f} s")
                if outcome.output:
                    display.write(outcome.output)
                total += outcome
            display.refresh()
    return total


def main() -> int:
    """Run the tests that the arguments name, and say why some were skipped; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", dest="markers", default="", metavar="MARKERS", help="an expression of markers, as for pytest")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="folders and files (default: tests)")
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    chosen = parser.parse_args(given[:end])
    paths = [path.resolve() for path in chosen.paths] or [TESTS]
    outcome = run(sys.executable, paths, chosen.markers, given[end + 1 :], os.environ)
    sys.path.insert(0, str(TESTS))
    from helpers.skips import summarize_skips

    print(*summarize_skips(list(outcome.reasons)), sep="\n")
    print(f"{outcome.passed} passed, {outcome.failed} failed")
    return int(outcome.failed > 0 or not outcome.passed)


if __name__ == "__main__":
    sys.exit(main())
