"""Generation of data sets killed at random moments, again and again: the resumed job has the bytes of an uninterrupted one."""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from cli_helpers import ENVIRONMENT
from conftest import data_text
from datagen_helpers import write_lines, write_problem

from tests.faults.area import WrongError
from tests.faults.commands import read_files
from tests.faults.jobs import finish, inject, wait_for_work

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


class Shared(NamedTuple):
    """The inputs, and for each problem the expected files and the seconds from its first file to its end."""

    folder: Path
    expected: dict[str, dict[str, bytes]]
    seconds: dict[str, float]


def start(folder: Path, arguments: dict[str, Any], file_bytes: int | None = None) -> subprocess.Popen[str]:
    def limit() -> None:
        if file_bytes is not None:  # as on a full disk, writing fails in the middle of a file
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    command = [sys.executable, "-c", SCRIPT, json.dumps(COMMON | arguments)]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=limit,
    )


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
    expected, seconds = {}, {}
    for name, inputs in SPLITS.items():
        splits: list[dict[str, Any]] = [{"split": "train", "shards": 7, **inputs}, {"split": "eval", "shards": 2}]
        write_problem(folder / f"{name}.toml", splits, approx_vocab_size=1000, **SETTINGS.get(name, {}))
        (folder / "out").mkdir()
        process = start(folder, {"problem": f"{name}.toml"})
        wait_for_work(folder, process)
        begun = time.monotonic()
        finish(process, name)
        seconds[name] = time.monotonic() - begun
        expected[name] = read_files(folder / "out")
        shutil.rmtree(folder / "out")
    return Shared(folder, expected, seconds)


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Interrupt each part of a job up to four times, resume it after each, and compare the result."""
    name = case.choice(list(SPLITS))
    job = {"problem": f"{name}.toml", "resume": True, "engine": case.choice(["threads", "processes"])}
    parts = case.choice([1, 1, 2, 3])
    folder = shared.folder
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    faults = 0
    for part in case.sample(range(parts), parts):
        some = job | ({"shard": f"{part}/{parts}"} if parts > 1 else {})
        for _ in range(case.randrange(1, 5)):
            fault = case.choice(["kill", "kill", "group", "terminate", "worker", "disk"])
            process = start(folder, some, case.randrange(1 << 20) if fault == "disk" else None)
            if fault != "disk":
                wait_for_work(folder, process)
                time.sleep(shared.seconds[name] * case.uniform(0, 1.1))
            faults += inject(process, fault)
            check(shared, name)
        finish(start(folder, some), f"{name}, part {part} of {parts}, resumed")
    found = read_files(folder / "out")
    if found != shared.expected[name]:
        different = [file for file in {*found, *shared.expected[name]} if found.get(file) != shared.expected[name].get(file)]
        raise WrongError(f"{name} in {parts} parts: {sorted(different)} differ")
    return "equal after faults" if faults else "equal without a fault"


def check(shared: Shared, name: str) -> None:
    """Check that every file with a final name is complete."""
    for file, content in read_files(shared.folder / "out").items():
        if file in shared.expected[name] and content != shared.expected[name][file]:
            raise WrongError(f"{name}: `{file}` is half-written")
