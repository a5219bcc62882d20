"""Jobs on a Ray cluster of three nodes, whose workers and nodes are killed at random moments: the bytes of one machine's.

Some outputs are at s3:// URLs, of a server in this process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from conftest import data_text
from helpers.cli import COMMAND, ENVIRONMENT
from helpers.datagen import write_problem

from tests.faults.area import WrongError
from tests.faults.commands import read_files

TITLE = "jobs on a cluster with workers, nodes and drivers killed at random moments"
CASES = 20
TIMEOUT = 900.0

END = "<|endoftext|>"
NODES = 3
SLOW = r"(?<=\s)\w+|\w+|\W"
SCRIPT = """
import json, sys
import bpejit
from bpejit.counting import counting_plan
counting_plan.LEAST_UNIT, counting_plan.UNIT_BYTES, counting_plan.GROUP_BYTES = 100_000, 100_000, 200_000
name, arguments = json.loads(sys.argv[1])
if name == "train":
    bpejit.train(**arguments).save("out/tokenizer", overwrite=True)
elif name == "datagen":
    bpejit.generate_data(**arguments)
elif name == "count":
    bpejit.count(**arguments)
else:
    bpejit.load("tokenizer").encode_files(**arguments)
"""
ENCODING: dict[str, Any] = {"inputs": "in", "unit_bytes": 100_000, "chunk_bytes": 50_000}
COUNTING: dict[str, Any] = {"inputs": "in", "pattern": SLOW, "chunk_bytes": 50_000}
JOBS: dict[str, dict[str, Any]] = {
    "plain": ENCODING | {"out": "out/t.bin"},
    "shards": ENCODING | {"out": "out/t.bin", "shard_tokens": 200_000, "val_fraction": 0.1, "document_index": True},
    "inputs": ENCODING | {"out_dir": "out", "append_token": END},
    "count": COUNTING | {"out": "out/t.counts"},
    "datagen": {"problem": "problem.toml", "data_dir": "out", "unit_bytes": 100_000},
    "train": COUNTING | {"vocab_size": 400},
}
AT_URLS = {"plain": "out", "count": "out", "datagen": "data_dir"}
"""Jobs that also run with an output at a URL, and the option that has it."""


class Shared(NamedTuple):
    """The cluster, and for each job the expected files."""

    folder: Path
    cluster: Any
    expected: dict[str, dict[str, bytes]]
    storage: Any = None


def start(folder: Path, name: str, arguments: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, json.dumps([name, arguments])]
    storage = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    environment = {**ENVIRONMENT, **storage, "TMPDIR": str(folder / "temporary")}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: subprocess.Popen[str], what: str) -> None:
    errors = process.communicate(timeout=600)[1]
    if process.returncode:
        raise WrongError(f"{what} ended with {process.returncode}:\n{errors[-3000:]}")


def prepare(folder: Path) -> Shared | None:
    """Make the inputs, run each job on one machine, and start a cluster."""
    if importlib.util.find_spec("ray") is None:
        return None
    from helpers.cluster import LocalCluster

    storage = _storage()  # before the cluster, whose nodes get the credentials from this process

    (folder / "in").mkdir()
    (folder / "temporary").mkdir()
    text = data_text("prose.txt")
    documents = [text[begin : begin + 5000] for begin in range(0, len(text), 5000)]
    (folder / "in" / "one.txt").write_bytes(END.encode().join(documents) * 3)
    (folder / "in" / "two.txt").write_bytes(data_text("cjk.txt"))
    (folder / "lines.txt").write_bytes(text.replace(b"\t", b" "))
    inputs = {"inputs": "lines.txt", "targets": "lines.txt"}
    splits = [{"split": "train", "shards": 3, **inputs}, {"split": "dev", **inputs}]
    write_problem(folder / "problem.toml", splits, name="pairs", approx_vocab_size=400)
    arguments = ["train", "in", "--vocab-size", "400", "--pattern", SLOW, "--out", "tokenizer", "--quiet"]
    subprocess.run([*COMMAND, *arguments], cwd=folder, env=ENVIRONMENT, check=True)
    expected = {}
    for name, job in JOBS.items():
        (folder / "out").mkdir()
        finish(start(folder, name, job), name)
        expected[name] = read_files(folder / "out")
        shutil.rmtree(folder / "out")
    return Shared(folder, LocalCluster(NODES), expected, storage)


def _storage() -> Any:
    """Start a server and create a bucket; None if the packages are missing."""
    if any(importlib.util.find_spec(name) is None for name in ("s3fs", "moto", "flask")):
        return None
    from helpers.s3 import Bucket, server_environment

    os.environ |= server_environment()
    return Bucket(server_environment())


def outputs(shared: Shared, storage: Any) -> dict[str, bytes]:
    """Return the files of the output, without what a driver that was killed leaves while it counts to a URL."""
    if storage is None:
        return read_files(shared.folder / "out")
    return {key.removeprefix("out/"): storage.get(key) for key in storage.list_keys() if "out/.counting.bpejit-" not in key}


def attempt(shared: Shared | None, case: random.Random, number: int) -> str:
    """Run a job, kill up to three things meanwhile, run it again if its driver was killed, and compare the result."""
    if shared is None:
        return "skipped without Ray"
    name = case.choice(list(JOBS))
    job = JOBS[name] | {"engine": "ray", "ray_address": shared.cluster.address}
    storage = shared.storage if name in AT_URLS and case.random() < 0.5 else None
    if storage is not None:
        job[AT_URLS[name]] = f"{storage.url}/{job[AT_URLS[name]]}"
        for key in storage.list_keys():
            storage.file_system.rm_file(f"{storage.name}/{key}")
    if name != "train":
        job["resume"] = True
    elif storage is None:
        job["temporary_folder"] = "out"
    folder = shared.folder
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    shared.cluster.fill(NODES)
    process = start(folder, name, job)
    killed: list[str] = []
    faults = [(case.choice(["worker", "worker", "node", "driver"]), case.uniform(0, 4)) for _ in range(case.randrange(1, 4))]
    injecting = threading.Thread(target=inject, args=(shared, process, faults, killed, storage))
    injecting.start()
    errors = process.communicate(timeout=600)[1]
    injecting.join()
    if "driver" in killed:
        finish(start(folder, name, job), f"{name}, run again after {killed}")
    elif process.returncode:
        raise WrongError(f"{name} ended with {process.returncode} after {killed}:\n{errors[-3000:]}")
    found = outputs(shared, storage)
    if found != shared.expected[name]:
        different = [file for file in {*found, *shared.expected[name]} if found.get(file) != shared.expected[name].get(file)]
        raise WrongError(f"{name}{' at a URL' if storage else ''} after {killed}: {sorted(different)} differ")
    where = " at a URL" if storage else ""
    return f"equal after faults{where}" if killed else f"equal without a fault{where}"


def inject(
    shared: Shared, process: subprocess.Popen[str], faults: list[tuple[str, float]], killed: list[str], storage: Any
) -> None:
    """Wait until the job has begun its work, and kill what `faults` says, each after some seconds."""
    while process.poll() is None and not (any((shared.folder / "out").iterdir()) if storage is None else storage.list_keys()):
        time.sleep(0.02 if storage is None else 0.2)
    for fault, seconds in faults:
        time.sleep(seconds)
        if process.poll() is not None:
            return
        if fault == "driver":
            os.killpg(process.pid, signal.SIGKILL)
            killed.append(fault)
            return
        if shared.cluster.kill_node() if fault == "node" else shared.cluster.kill_worker():
            killed.append(fault)
