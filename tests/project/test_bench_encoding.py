"""The encoding benchmark runs, and finds the ids of both encoders equal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import DATA, ROOT


@pytest.mark.compiled
def test_benchmark_runs() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "bench_encoding.py"), "--file", str(DATA / "cjk.txt")]
    done = subprocess.run(
        [*command, "--bytes", "20000", "--vocab-size", "400", "--runs", "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "equal ids" in done.stdout
    assert "| encode, later passes |" in done.stdout
