"""Test of the summary of a test run: one line for each cause of skipped tests."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT
from helpers.skips import NEEDS_DATA, find_distributions, summarize_skips


def test_one_line_for_each_cause() -> None:
    reasons = [
        f"{NEEDS_DATA}, which are absent here",
        f"{NEEDS_DATA}: there is no corpora/code.txt in /data",
        "could not import 'transformers': No module named 'transformers'",
        "could not import 'tiktoken_ext.openai_public': No module named 'tiktoken_ext'",
        "could not import 'transformers': No module named 'transformers'",
        "could not import 'google.protobuf': No module named 'google'",
        "ray is not installed",
        "tokenizers-1.0 is not installed: make bench",
        "bpejit-earlier is not installed: make bench",
        "not a git checkout",
    ]
    data, packages, tools, other = summarize_skips(reasons)
    assert data.startswith("2 skipped: they need larger corpora")
    assert "BPEJIT_SHARED_DATA" in data
    assert packages == "5 skipped: they need optional packages. pip install protobuf ray tiktoken transformers"
    assert tools == "2 skipped: they need bpejit-earlier, tokenizers-1.0. make bench"
    assert other == "1 skipped: not a git checkout"
    assert summarize_skips([]) == []


@pytest.mark.parametrize("reason", ["could not import 'nobody_has_this': ...", "a-tool is not installed"])
def test_other_names_are_not_advised(reason: str) -> None:
    assert summarize_skips([reason]) == [f"1 skipped: {reason}"]


def test_modules_that_tests_import_belong_to_known_distributions() -> None:
    files = (ROOT / "tests").rglob("*.py")
    modules = {name for path in files for name in re.findall(r'importorskip\(\s*"(\w+)', path.read_text(encoding="utf-8"))}
    assert "tokenizers" in modules
    modules -= {"_testcapi", "inspect", "llvmlite"}  # of Python, and of Numba
    lines = summarize_skips([f"could not import '{name}'" for name in sorted(modules)])
    assert len(lines) == 1
    assert set(lines[0].partition("pip install ")[2].split()) <= find_distributions()
