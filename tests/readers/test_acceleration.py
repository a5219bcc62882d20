"""Tokenizers of transformers 4 and 5 in which bpejit encodes and trains; run by `make readers`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

FOLDER = Path(os.environ.get("BPEJIT_READERS", ROOT / ".readers"))

SKIPPED = {"datasets": set(), "transformers4": {"datasets", "torch"}}
"""The packages that the environments lack."""


@pytest.mark.parametrize("name", SKIPPED)
def test_results_are_those_of_transformers(name: str) -> None:
    python = FOLDER / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"needs the environment {name}: run `make readers`")
    files = ["tests/compat/test_acceleration.py", "tests/training/test_huggingface_trainer.py"]
    command = [python, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert set(re.findall(r"could not import '(\w+)", done.stdout)) == SKIPPED[name]
