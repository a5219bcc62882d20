"""Jobs of encoding and counting killed at random moments: the resumed job has the bytes of an uninterrupted one."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from conftest import data_text
from helpers.cli import COMMAND, ENVIRONMENT

from tests.faults.area import WrongError
from tests.faults.commands import read_files

TITLE = "encoding and counting jobs killed at random moments, with full disks, and resumed"
CASES = 30
TIMEOUT = 600.0

END = "<|endoftext|>"
SCRIPT = """
import json, sys
import bpejit
from bpejit.counting import counting_plan
from bpejit.jobs import final_files
final_files.BLOCK_TOKENS = 50_000  # Parquet and Arrow files are begun while the job encodes
arguments = json.loads(sys.argv[1])
if "pattern" in arguments:
    counting_plan.LEAST_UNIT = counting_plan.GROUP_BYTES = arguments.pop("unit_bytes")
    bpejit.count(**arguments)
else:
    bpejit.load("tokenizer").encode_files(**arguments)
"""
COMMON: dict[str, Any] = {"inputs": ["corpus.txt", "more.txt"], "unit_bytes": 500_000, "chunk_bytes": 100_000, "workers": 2}
JOBS: dict[str, dict[str, Any]] = {
    "plain": {"out": "out/t.bin"},
    "shards": {"out": "out/t.bin", "shard_tokens": 200_000, "val_fraction": 0.1, "append_token": END, "document_index": True},
    "parquet": {"out": "out/t.parquet", "format": "parquet", "shard_tokens": 900_000},
    "inputs": {"out_dir": "out", "prepend_token": END},
    "npy": {"out": "out/t.npy", "format": "npy", "document_index": True},
    "megatron": {"out": "out/t", "format": "megatron", "shard_tokens": 700_000},
    "llmc": {"out": "out/t.bin", "format": "llmc", "dtype": "uint16", "shard_tokens": 400_000},
    "datatrove": {"out": "out/t.ds", "format": "datatrove", "append_token": END},
    "text": {"out": "out/t.txt", "format": "text"},
    "counts": {"out": "out/t.counts", "pattern": r"(?<=\s)\w+|\w+|\W"},
    "rows": {"out": "out/t.arrow", "format": "arrow", "pack": 512, "val_fraction": 0.1, "append_token": END},
}


class Launcher(NamedTuple):
    """Starts jobs: a script that receives the arguments of a call as JSON, and those that all jobs have in common."""

    script: str
    common: dict[str, Any]

    def start(self, folder: Path, arguments: dict[str, Any], file_bytes: int | None = None) -> subprocess.Popen[str]:
        """Start a job; with `file_bytes`, writing fails in the middle of a file, as on a full disk."""

        def limit() -> None:
            if file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

        command = [sys.executable, "-c", self.script, json.dumps(self.common | arguments)]
        return subprocess.Popen(
            command,
            cwd=folder,
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=limit,
        )


class Shared(NamedTuple):
    """The inputs, and for each job its arguments, the expected files, and the seconds from its first file to its end."""

    folder: Path
    launcher: Launcher
    jobs: dict[str, dict[str, Any]]
    expected: dict[str, dict[str, bytes]]
    seconds: dict[str, float]


def finish(process: subprocess.Popen[str], what: str) -> None:
    errors = process.communicate(timeout=300)[1]
    if process.returncode:
        raise WrongError(f"{what} ended with {process.returncode}:\n{errors[-2000:]}")


def wait_for_work(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the job has created a file, or has ended; an earlier run may have removed its empty folder of outputs."""
    while process.poll() is None and not any((folder / "out").glob("*")):
        time.sleep(0.002)


def prepare(folder: Path) -> Shared:
    """Make the inputs, and run each job without faults."""
    text = data_text("prose.txt") + data_text("code.txt")
    (folder / "corpus.txt").write_bytes(text * 4)
    (folder / "more.txt").write_bytes(data_text("cjk.txt") * 2)
    arguments = ["train", "corpus.txt", "--vocab-size", "400", "--special-token", END, "--out", "tokenizer", "--quiet"]
    subprocess.run([*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, check=True)
    return run_without_faults(folder, Launcher(SCRIPT, COMMON), JOBS)


def run_without_faults(folder: Path, launcher: Launcher, jobs: dict[str, dict[str, Any]]) -> Shared:
    """Run each job once."""
    expected, seconds = {}, {}
    for name, job in jobs.items():
        (folder / "out").mkdir()
        process = launcher.start(folder, job)
        wait_for_work(folder, process)
        begun = time.monotonic()
        finish(process, name)
        seconds[name] = time.monotonic() - begun
        expected[name] = read_files(folder / "out")
        shutil.rmtree(folder / "out")
    return Shared(folder, launcher, jobs, expected, seconds)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Interrupt each part of a job up to four times, resume it after each, and compare the result."""
    name = case.choice(list(shared.jobs))
    job = shared.jobs[name] | {"resume": True, "engine": case.choice(["serial", "threads", "processes"])}
    parts = case.choice([1, 1, 2, 3]) if name != "counts" else 1  # parts of counts are files of their own
    folder, launcher = shared.folder, shared.launcher
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    faults = 0
    for part in case.sample(range(parts), parts):
        some = job | ({"shard": f"{part}/{parts}"} if parts > 1 else {})
        for _ in range(case.randrange(1, 5)):
            fault = case.choice(["kill", "kill", "group", "terminate", "worker", "disk"])
            process = launcher.start(folder, some, case.randrange(1 << 21) if fault == "disk" else None)
            if fault != "disk":
                wait_for_work(folder, process)
                time.sleep(shared.seconds[name] * case.uniform(0, 1.1))
            faults += inject(process, fault)
            check(shared, name)
        finish(launcher.start(folder, some), f"{name}, part {part} of {parts}, resumed")
    found = read_files(folder / "out")
    if found != shared.expected[name]:
        different = [file for file in {*found, *shared.expected[name]} if found.get(file) != shared.expected[name].get(file)]
        raise WrongError(f"{name} in {parts} parts: {sorted(different)} differ")
    return "equal after faults" if faults else "equal without a fault"


def inject(process: subprocess.Popen[str], fault: str) -> bool:
    """Kill a process or its workers; return True if it had not finished."""
    running = process.poll() is None
    if fault == "group" and running:
        os.killpg(process.pid, signal.SIGKILL)
    elif fault == "worker":
        for child in children(process.pid)[:1]:
            os.kill(child, signal.SIGKILL)
    elif fault in ("kill", "terminate"):
        process.send_signal(signal.SIGKILL if fault == "kill" else signal.SIGTERM)
    errors = process.communicate(timeout=120)[1]
    if process.returncode > 0 and "EngineError" not in errors and "OutputError" not in errors:
        raise WrongError(f"after {fault}, the job ended with {process.returncode}:\n{errors[-2000:]}")
    return process.returncode != 0


def check(shared: Shared, name: str) -> None:
    """Check that every file with a final name is complete."""
    for file, content in read_files(shared.folder / "out").items():
        if file in shared.expected[name] and content != shared.expected[name][file]:
            raise WrongError(f"{name}: `{file}` is half-written")
