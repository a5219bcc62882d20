"""The recipes run with PyTorch and `datasets`, and none of their examples is skipped; run by `make readers`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from helpers.skips import NEEDS_DATA

PYTHON = Path(os.environ.get("BPEJIT_READERS", ROOT / ".readers")) / "datasets" / "bin" / "python"


@pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment datasets: run `make readers`")
def test_every_example_runs() -> None:
    command = [PYTHON, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "tests/project/test_recipes.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    skipped = re.findall(r"^SKIPPED .*", done.stdout, re.MULTILINE)
    assert [line for line in skipped if NEEDS_DATA not in line] == []
    recipes = {path.stem for path in (ROOT / "docs" / "recipes").glob("*.md")}
    named = set(re.findall(r"^PASSED .*::test_recipe\[(\w+)\]", done.stdout, re.MULTILINE))
    assert named == recipes - {"index", "nanogpt", "dataloader"}
