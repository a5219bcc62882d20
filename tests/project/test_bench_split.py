"""The benchmark of splitting runs, and compares before it measures."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import DATA, ROOT


@pytest.mark.compiled
def test_benchmark_runs() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "bench_split.py"), str(DATA / "cjk.txt"), "--rounds", "1"]
    done = subprocess.run(
        [*command, "--pattern", "gpt2", "--pattern", r"(?<=a)b"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, head, measured, slow = done.stdout.splitlines()
    assert head.split()[:3] == ["pattern", "file", "MB"]
    assert measured.split()[:2] == ["gpt2", "cjk.txt"]
    assert "because it has the group" in slow
