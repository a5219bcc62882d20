"""Results as JSON lines, one file for each kind of machine.

The first line describes the machine. Each other line is the result of one tool in one case, with date, commit and versions. A
case that is measured again replaces its older lines, so that all figures of a case are of one run; lines of works and tools
that no longer exist are dropped.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from .tools import TOOLS
from .works import WORKS

Record = dict[str, Any]

RESULTS = Path(__file__).resolve().parent.parent / "results"


def summary(values: list[float]) -> Record:
    """Return median and range of several runs, rounded to four digits."""
    shown = [float(f"{value:.4g}") for value in values]
    return {"median": float(f"{median(values):.4g}"), "min": min(shown), "max": max(shown), "runs": len(shown)}


def case_key(record: Record) -> str:
    """Return a string that identifies the case of a result."""
    return json.dumps([record["work"], record["case"]], sort_keys=True)


def read(path: Path) -> list[Record]:
    """Return the records of a file, the machine first; an absent file has none."""
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.is_file() else []


def write(path: Path, machine: Record, results: list[Record]) -> None:
    """Write the results of a run to a file, in place of older results of the same cases."""
    measured = {case_key(result) for result in results}
    older = [record for record in read(path)[1:] if case_key(record) not in measured]
    stored = [record for record in older + results if record["work"] in WORKS and record["tool"] in TOOLS]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [machine, *stored]))
