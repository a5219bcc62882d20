"""Jobs on a Ray cluster of three nodes, whose workers and nodes are killed at random moments: the bytes of one machine's."""

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

from cli_helpers import COMMAND, ENVIRONMENT
from conftest import data_text
from datagen_helpers import write_problem

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
import bpejit, bpejit.training.cluster_counting
bpejit.training.cluster_counting.PART_BYTES = 200_000, 100_000
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
COMPILING = """
import json, sys
from bpejit.engines.ray_cluster import ClusterTask, connected
function = "bpejit.engines.ray_worker:prepare_node"
with connected(sys.argv[1]) as cluster:
    print(json.dumps([n for _, n in cluster.run([ClusterTask("compile", function, (["training"], []))] * 9)]))
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


class Shared(NamedTuple):
    """The cluster, and for each job the expected files."""

    folder: Path
    cluster: Any
    expected: dict[str, dict[str, bytes]]


def start(folder: Path, name: str, arguments: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, json.dumps([name, arguments])]
    environment = {**ENVIRONMENT, "TMPDIR": str(folder / "temporary")}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: subprocess.Popen[str], what: str) -> None:
    errors = process.communicate(timeout=600)[1]
    if process.returncode:
        raise WrongError(f"{what} ended with {process.returncode}:\n{errors[-3000:]}")


def prepare(folder: Path) -> Shared | None:
    """Make the inputs, run each job on one machine, and start a cluster."""
    if importlib.util.find_spec("ray") is None:
        return None
    from cluster_helpers import LocalCluster

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
    return Shared(folder, LocalCluster(NODES), expected)


def attempt(shared: Shared | None, case: random.Random, number: int) -> str:
    """Run a job, kill up to three things meanwhile, run it again if its driver was killed, and compare the result."""
    if shared is None:
        return "skipped without Ray"
    if number == 0:
        return compile_once(shared)
    name = case.choice(list(JOBS))
    job = JOBS[name] | {"engine": "ray", "ray_address": shared.cluster.address}
    if name not in ("count", "train"):
        job["resume"] = True
    else:
        job["temporary_folder"] = "out"
    folder = shared.folder
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir()
    shared.cluster.fill(NODES)
    process = start(folder, name, job)
    killed: list[str] = []
    faults = [(case.choice(["worker", "worker", "node", "driver"]), case.uniform(0, 4)) for _ in range(case.randrange(1, 4))]
    injecting = threading.Thread(target=inject, args=(shared, process, faults, killed))
    injecting.start()
    errors = process.communicate(timeout=600)[1]
    injecting.join()
    if "driver" in killed:
        finish(start(folder, name, job), f"{name}, run again after {killed}")
    elif process.returncode:
        raise WrongError(f"{name} ended with {process.returncode} after {killed}:\n{errors[-3000:]}")
    found = read_files(folder / "out")
    if found != shared.expected[name]:
        different = [file for file in {*found, *shared.expected[name]} if found.get(file) != shared.expected[name].get(file)]
        raise WrongError(f"{name} after {killed}: {sorted(different)} differ")
    return "equal after faults" if killed else "equal without a fault"


def inject(shared: Shared, process: subprocess.Popen[str], faults: list[tuple[str, float]], killed: list[str]) -> None:
    """Wait until the job has begun its work, and kill what `faults` says, each after some seconds."""
    while process.poll() is None and not any((shared.folder / "out").iterdir()):
        time.sleep(0.02)
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


def compile_once(shared: Shared) -> str:
    """Have several workers at the same time need kernels that nobody has compiled, and count the compilations."""
    cache = shared.folder / "cache"
    environment = {**ENVIRONMENT, "BPEJIT_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", COMPILING, shared.cluster.address]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, check=False)
    if done.returncode:
        raise WrongError(f"compiling on the cluster failed:\n{done.stderr[-3000:]}")
    counts = json.loads(done.stdout)
    stored = len(list(cache.glob("kernels-*/*.o")))
    if sorted(counts)[:-1] != [0] * (len(counts) - 1) or max(counts) != stored:
        raise WrongError(f"the workers compiled {counts} kernels, and {stored} are stored")
    return "compiled once"
