"""Test of the summary of a test run: one line for each cause of skipped tests."""

from __future__ import annotations

from conftest import NEEDS_DATA, summarize_skips


def test_one_line_for_each_cause() -> None:
    reasons = [
        f"{NEEDS_DATA}, which are absent here",
        f"{NEEDS_DATA}: there is no corpora/code.txt in /data",
        "could not import 'transformers': No module named 'transformers'",
        "could not import 'tiktoken_ext.openai_public': No module named 'tiktoken_ext'",
        "could not import 'transformers': No module named 'transformers'",
        "rustbpe is not installed: pip install -e '.[bench]'",
        "not a git checkout",
    ]
    data, packages, other = summarize_skips(reasons)
    assert data.startswith("2 skipped: they need larger corpora")
    assert "BPEJIT_SHARED_DATA" in data
    assert packages == "4 skipped: they need optional packages. pip install rustbpe tiktoken_ext transformers"
    assert other == "1 skipped: not a git checkout"
    assert summarize_skips([]) == []
