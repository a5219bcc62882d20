"""Generation of data sets killed at random moments, again and again: the resumed job has the bytes of an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import data_text
from helpers.datagen import write_lines, write_problem

from tests.faults.jobs import Launcher, Shared, attempt, run_without_faults

__all__ = ["CASES", "TIMEOUT", "TITLE", "attempt", "prepare"]

TITLE = "data sets killed at random moments, with full disks, and resumed"
CASES = 20
TIMEOUT = 600.0

SCRIPT = """
import json, sys
import bpejit
arguments = json.loads(sys.argv[1])
bpejit.generate_data(**arguments)
"""
COMMON: dict[str, Any] = {"data_dir": "out", "unit_bytes": 300_000, "workers": 2, "seed": 7}
LABELS = ["odd", "even"]
SPLITS: dict[str, dict[str, str]] = {
    "pairs": {"inputs": "source.txt", "targets": "target.txt"},
    "tabbed": {"tabbed": "pairs.tsv"},
    "self": {"targets": "source.txt"},
    "class": {"tabbed": "labels.tsv"},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "tabbed": {"packed_length": 128},
    "self": {"kind": "text2self"},
    "class": {"kind": "text2class", "class_labels": LABELS},
}


def prepare(folder: Path) -> Shared:
    """Make the inputs, and generate each data set without faults."""
    sources, targets = (
        [line.strip() for line in data_text(name).decode().replace("\t", " ").split("\n") if line.strip()]
        for name in ("prose.txt", "cjk.txt")
    )
    sources = (sources * 2)[:9000]
    targets = (targets * 2)[:9000]
    write_lines(folder / "source.txt", sources)
    write_lines(folder / "target.txt", targets)
    write_lines(folder / "pairs.tsv", [f"{source}\t{target}" for source, target in zip(sources, targets, strict=False)])
    write_lines(folder / "labels.tsv", [f"{source}\t{LABELS[index % 2]}" for index, source in enumerate(sources)])
    count = min(len(sources), len(targets))
    write_lines(folder / "source.txt", sources[:count])
    write_lines(folder / "target.txt", targets[:count])
    for name, inputs in SPLITS.items():
        splits: list[dict[str, Any]] = [{"split": "train", "shards": 7, **inputs}, {"split": "eval", "shards": 2}]
        write_problem(folder / f"{name}.toml", splits, approx_vocab_size=1000, **SETTINGS.get(name, {}))
    return run_without_faults(folder, Launcher(SCRIPT, COMMON), {name: {"problem": f"{name}.toml"} for name in SPLITS})
