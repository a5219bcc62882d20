"""The plain-Python baseline is right, and the benchmark runs."""

from __future__ import annotations

import os
import subprocess
import sys

import naive
import pytest
from conftest import DATA, ROOT, data_text, small

sys.path.insert(0, str(ROOT / "benchmarks"))
import baseline

SPECIALS = ["<|endoftext|>", "<|end|>", "<|end|><|endoftext|>"]


def test_baseline_learns_what_the_twin_learns() -> None:
    text = data_text("prose.txt").decode()[: small(20_000, 3_000)]
    merges = baseline.train(text, 100, SPECIALS)
    tokens = [bytes([byte]) for byte in range(256)]
    words = [(list(pretoken), count) for pretoken, count in baseline.count_pretokens(text, SPECIALS).items()]
    expected = naive.merge_some(words, tokens, 356)
    assert merges == [(tokens[left], tokens[right]) for left, right, _ in expected]


def test_baseline_stops_when_nothing_is_left() -> None:
    assert baseline.train("ab ab", 10) == [(b"a", b"b"), (b" ", b"ab")]


def test_baseline_cuts_out_special_tokens_longest_first() -> None:
    pieces = list(baseline.split_special("a<|end|>b<|end|><|endoftext|>c", SPECIALS))
    assert pieces == [("a", False), ("<|end|>", True), ("b", False), ("<|end|><|endoftext|>", True), ("c", False)]
    assert baseline.count_pretokens("ab<|end|>ab", SPECIALS) == {b"ab": 2}


def test_baseline_encodes() -> None:
    merges = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c")]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    ids = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258, b"<|end|>": 259}
    for cache in (None, {}):
        assert baseline.encode("abc bc<|end|>ababc", ids, ranks, ["<|end|>"], cache=cache) == [258, 32, 257, 259, 256, 258]


@pytest.mark.compiled
def test_benchmark_runs() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "bench_training.py"), "--file", str(DATA / "cjk.txt")]
    done = subprocess.run(
        [*command, "--bytes", "10000", "--vocab-size", "280", "--large-vocab-size", "300", "--runs", "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "| 23 merges |" in done.stdout
    assert "| 43 merges |" in done.stdout
