"""Run the fault injection and print its figures.

    python -m tests.faults                            all areas
    python -m tests.faults patterns --seed 5          one area
    python -m tests.faults patterns --seed 5 --case 17    repeat one case, in this process

`BPEJIT_FAULTS` is a factor for the number of cases (1: some minutes on two cores), `BPEJIT_FAULTS_SEED` the seed. The same
seed gives the same faults; the state of a process killed at a random moment varies.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tests.faults.area import Area, WrongError  # noqa: E402 (the path comes first)

AREAS = (
    *("mutations", "token_files", "patterns", "cache_damage", "steps", "kills", "jobs", "job_files", "cluster", "datagen"),
    *("limits", "sessions"),
)
SHOWN_FAULTS = 5
PROGRESS_SECONDS = 30.0


def load_area(name: str) -> Area:
    return importlib.import_module(f"tests.faults.{name}")  # type: ignore[return-value]


def attempt(area: Area, name: str, shared: Any, seed: int, case: int) -> tuple[str, str]:
    """Run one case; return its outcome, and a description if the outcome is "wrong"."""
    try:
        return area.attempt(shared, random.Random(f"{name} {seed} {case}"), case), ""
    except WrongError as error:
        return "wrong", str(error)
    except Exception:
        return "wrong", traceback.format_exc(limit=-6)


def work(name: str, seed: int, first: int, stop: int, step: int) -> None:
    """Run cases in this process, and print a line of JSON before and after each."""
    area = load_area(name)
    with tempfile.TemporaryDirectory(prefix="bpejit-faults-") as folder:
        shared = area.prepare(Path(folder))
        for case in range(first, stop, step):
            print(json.dumps([case, "running", ""]), flush=True)
            faulthandler.dump_traceback_later(area.TIMEOUT, exit=True)
            outcome, wrong = attempt(area, name, shared, seed, case)
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps([case, outcome, wrong]), flush=True)


class Result(NamedTuple):
    """The results of an area: the number of cases by outcome, and number and description of each failure."""

    outcomes: Counter[str]
    faults: list[tuple[int, str]]
    seconds: float


def run_area(name: str, seed: int, n_cases: int, n_workers: int) -> Result:
    """Run all cases of an area in several processes; one that dies or hangs counts as wrong and is replaced."""
    outcomes: Counter[str] = Counter()
    faults: list[tuple[int, str]] = []
    start = time.monotonic()
    shown = start

    def report() -> None:
        nonlocal shown
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{name}: {sum(outcomes.values())} of {n_cases}, {len(faults)} wrong", file=sys.stderr, flush=True)

    def watch(first: int) -> None:
        while first < n_cases:
            command = [sys.executable, "-m", "tests.faults", name, "--work", *map(str, (seed, first, n_cases, n_workers))]
            with tempfile.TemporaryFile() as errors:
                process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
                assert process.stdout is not None
                running = None
                for line in process.stdout:
                    case, outcome, wrong = json.loads(line)
                    if outcome == "running":
                        running = case
                        continue
                    running = None
                    outcomes[outcome] += 1
                    if outcome == "wrong":
                        faults.append((case, wrong))
                    report()
                status = process.wait()
                if status == 0:
                    return
                errors.seek(0)
                tail = errors.read().decode(errors="replace")[-3000:]
            if running is None:
                raise SystemExit(f"{name}: a worker ended with status {status} between two cases:\n{tail}")
            outcomes["wrong"] += 1
            faults.append((running, f"the process hung or died with status {status}:\n{tail}"))
            first = running + n_workers

    threads = [threading.Thread(target=watch, args=(first,)) for first in range(n_workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Result(outcomes, sorted(faults), time.monotonic() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)} (default: all)")
    parser.add_argument(
        "--seed", type=int, default=os.environ.get("BPEJIT_FAULTS_SEED") or random.SystemRandom().randrange(10**6)
    )
    parser.add_argument(
        "--size", type=float, default=os.environ.get("BPEJIT_FAULTS") or "1", help="factor for the number of cases"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--case", type=int, help="try this case of one area alone, in this process")
    parser.add_argument("--work", type=int, nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.areas or AREAS
    unknown = set(names) - set(AREAS)
    if unknown:
        parser.error(f"there is no area {', '.join(sorted(unknown))}: expected {', '.join(AREAS)}")
    if arguments.work:
        seed, first, stop, step = arguments.work
        work(names[0], seed, first, stop, step)
        return 0
    if arguments.case is not None:
        area = load_area(names[0])
        with tempfile.TemporaryDirectory(prefix="bpejit-faults-") as folder:
            outcome, wrong = attempt(area, names[0], area.prepare(Path(folder)), arguments.seed, arguments.case)
        print(outcome, wrong)
        return int(outcome == "wrong")

    print(f"seed {arguments.seed}", flush=True)
    n_wrong = 0
    for name in names:
        area = load_area(name)
        n_cases = max(1, round(area.CASES * arguments.size))
        result = run_area(name, arguments.seed, n_cases, arguments.workers)
        wrong = result.outcomes.pop("wrong", 0)
        n_wrong += wrong
        tried = sum(result.outcomes.values()) + wrong
        details = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(result.outcomes.items()))
        print(f"{area.TITLE}: {tried:,} tried, {wrong:,} wrong ({details}; {result.seconds:.0f} s)", flush=True)
        for case, description in result.faults[:SHOWN_FAULTS]:
            print(f"  to repeat: python -m tests.faults {name} --seed {arguments.seed} --case {case}\n    ", end="")
            print("\n    ".join(description.strip().splitlines()), flush=True)
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
