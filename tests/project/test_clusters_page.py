"""Tests of docs/clusters.md and docs/scaling.md: the examples run, and the tables are those of the stored measurements."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, data_text
from helpers.cli import ENVIRONMENT, MODULE
from helpers.cluster import LocalCluster

PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")

SBATCH = """#!/bin/bash
# Runs the tasks of an array at the same time, and then prints a number.
tasks=0-0
while [[ "$1" == --* ]]; do
  [[ "$1" == --array=* ]] && tasks="${1#--array=}"
  shift
done
export SLURM_ARRAY_TASK_MIN="${tasks%-*}" SLURM_ARRAY_TASK_MAX="${tasks#*-}" SLURM_CPUS_PER_TASK=1
export SLURM_ARRAY_TASK_COUNT=$((SLURM_ARRAY_TASK_MAX - SLURM_ARRAY_TASK_MIN + 1))
running=()
for task in $(seq "$SLURM_ARRAY_TASK_MIN" "$SLURM_ARRAY_TASK_MAX"); do
  SLURM_ARRAY_TASK_ID=$task bash "$@" >&2 & running+=($!)
done
for task in "${running[@]}"; do wait "$task" || exit 1; done
echo 42
"""

SMALLER = {
    "--vocab-size 32000": "--vocab-size 300",
    "vocab_size=32_000": "vocab_size=300",
    "--max-memory 24G": "--max-memory 256M",
}


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for text, smaller in SMALLER.items():
        found = [block.replace(text, smaller) for block in found]
    return found


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a corpus of five files, and commands of the project and of Slurm."""
    folder, tools = tmp_path / "work", tmp_path / "tools"
    (folder / "corpus").mkdir(parents=True)
    tools.mkdir()
    text = data_text("prose.txt")
    text = text[: text.rfind(b"<|endoftext|>", 0, 300_000)] + b"<|endoftext|>\n"
    documents = text.split(b"<|endoftext|>\n")[:-1]
    for number in range(5):
        some = documents[number::5]
        (folder / "corpus" / f"{number}.txt").write_bytes(b"".join(document + b"<|endoftext|>\n" for document in some))
    for name, content in (("bpejit", f'#!/bin/sh\nexec "{sys.executable}" -m {MODULE} "$@"\n'), ("sbatch", SBATCH)):
        (tools / name).write_text(content, encoding="utf-8")
        (tools / name).chmod(0o755)
    return folder


def shell(work: Path, script: str, **environment: str) -> None:
    path = f"{work.parent / 'tools'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=work,
        env={**ENVIRONMENT, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


def results(work: Path) -> dict[str, bytes]:
    """Return the tokenizer and the token files, and remove them."""
    files = [
        path for path in work.rglob("*") if path.is_file() and ("tokenizer" in path.parts or path.name.startswith("train"))
    ]
    found = {str(path.relative_to(work)): path.read_bytes() for path in files if path.suffix in (".json", ".bin")}
    for path in files:
        path.unlink()
    for path in work.glob("*.counts"):
        path.unlink()
    return found


def one_machine(work: Path, options: str) -> dict[str, bytes]:
    shell(work, f"bpejit train corpus --vocab-size 300 --out tokenizer; bpejit encode corpus --out train.bin {options}")
    return results(work)


def without_inputs(found: dict[str, bytes]) -> dict[str, Any]:
    """Leave out of the description of a tokenizer which inputs were counted, and how."""
    return {name: data for name, data in found.items() if not name.endswith("bpejit.json")}


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform != "linux", reason="GNU tools")
def test_slurm(work: Path) -> None:
    expected = one_machine(work, '--append-token "<|endoftext|>" --shard-tokens 100M')
    (script,) = blocks("bash")
    (work / "tokenize.slurm").write_text(script, encoding="utf-8")
    shell(work, blocks("sh")[0])
    assert without_inputs(results(work)) == without_inputs(expected)
    assert "train-00000.bin" in expected


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform != "linux", reason="a cluster of local nodes")
def test_ray_job(work: Path, cluster: LocalCluster) -> None:
    plain = one_machine(work, "")
    expected = one_machine(work, '--append-token "<|endoftext|>" --shard-tokens 100M')
    (script,) = blocks("python")
    (work / "tokenize_corpus.py").write_text(script, encoding="utf-8")
    environment = {"RAY_ADDRESS": cluster.address}
    submit, commands = (block for block in blocks("sh") if "ray job" in block or "--engine ray" in block)
    assert submit.rstrip().endswith("python tokenize_corpus.py'")
    shell(work, "python tokenize_corpus.py", **environment)
    assert without_inputs(results(work)) == without_inputs(expected)
    shell(work, commands, **environment)
    assert without_inputs(results(work)) == without_inputs(plain)


def test_page_of_scaling() -> None:
    from benchmarks.scaling_plan import PAGE as SCALING, RESULTS, fill_page, make_tables, predictions

    stored = json.loads(RESULTS.read_text())
    page = SCALING.read_text(encoding="utf-8")
    assert fill_page(page, make_tables(stored)) == page
    for stage, workers, predicted, measured in predictions(stored):
        assert 2 / 3 < predicted / measured < 4 / 3, (stage, workers)
