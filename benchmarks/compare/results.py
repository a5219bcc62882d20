"""Results as JSON lines, one file per kind of machine.

A file holds lines of two kinds: `run` says when, on what and by which command, `result` is one tool in one case. A case that is
measured again takes the place of its older lines, and runs that no result belongs to any more are dropped; so all figures of
a case are of one run, and older ones are in the history of the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

Record = dict[str, Any]

RESULTS = Path(__file__).resolve().parent.parent / "results"


def summary(values: list[float]) -> Record:
    """Median and spread of several runs, rounded to what means anything."""
    shown = [float(f"{value:.4g}") for value in values]
    return {"median": float(f"{median(values):.4g}"), "min": min(shown), "max": max(shown), "runs": len(shown)}


def key_of(record: Record) -> str:
    return json.dumps([record["work"], record["case"]], sort_keys=True)


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.is_file() else []


def write(path: Path, run: Record, results: list[Record]) -> None:
    """Put the results of a run into a file; the cases that it measured replace the older ones."""
    keys = {key_of(result) for result in results}
    old = read(path)
    kept = [record for record in old if record["record"] == "result" and key_of(record) not in keys]
    merged = kept + results
    used = {record["run"] for record in merged}
    runs = {record["run"]: record for record in [*old, run] if record["record"] == "run"}
    lines = [runs[name] for name in sorted(runs) if name in used] + merged
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
