"""Tests of the plain-Python baselines of the benchmarks, and of the command that compares bpejit with them."""

from __future__ import annotations

import sys

import pytest
import twins
from conftest import ROOT, data_text, small
from hypothesis import given, strategies as st

sys.path.insert(0, str(ROOT))
from benchmarks import __main__ as command, indexed_python
from benchmarks.compare.tools import _plain_python as baseline

SPECIALS = ["<|endoftext|>", "<|end|>", "<|end|><|endoftext|>"]


def test_merges_match_the_twin() -> None:
    text = data_text("prose.txt").decode()[: small(20_000, 3_000)]
    merges = baseline.train(text, 100, SPECIALS)
    tokens = [bytes([byte]) for byte in range(256)]
    words = [(list(pretoken), count) for pretoken, count in baseline.count_pretokens(text, SPECIALS).items()]
    expected = twins.training.merge_some(words, tokens, 356)
    assert merges == [(tokens[left], tokens[right]) for left, right, _ in expected]


def test_training_stops_without_pairs() -> None:
    assert baseline.train("ab ab", 10) == [(b"a", b"b"), (b" ", b"ab")]


def test_longest_special_token_wins() -> None:
    pieces = list(baseline.split_special("a<|end|>b<|end|><|endoftext|>c", SPECIALS))
    assert pieces == [("a", False), ("<|end|>", True), ("b", False), ("<|end|><|endoftext|>", True), ("c", False)]
    assert baseline.count_pretokens("ab<|end|>ab", SPECIALS) == {b"ab": 2}


def test_encoding_with_and_without_cache() -> None:
    merges = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c")]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    ids = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258, b"<|end|>": 259}
    for cache in (None, {}):
        assert baseline.encode("abc bc<|end|>ababc", ids, ranks, ["<|end|>"], cache=cache) == [258, 32, 257, 259, 256, 258]


@given(st.dictionaries(st.text("abc", min_size=1, max_size=12).map(str.encode), st.integers(1, 5), max_size=12))
def test_optimized_design_learns_the_same_merges(counts: dict[bytes, int]) -> None:
    """Few letters have many ties, and merges that make equal tokens."""
    assert indexed_python.learn_merges(counts, 40) == baseline.learn_merges(counts, 40)


def test_optimized_design_on_text() -> None:
    counts = baseline.count_pretokens(data_text("prose.txt").decode()[: small(30_000, 3_000)], SPECIALS)
    assert indexed_python.learn_merges(counts, 100) == baseline.learn_merges(counts, 100)


@pytest.mark.compiled
def test_command_prints_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--bytes", "4000", "--merges", "20"])
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert max(map(len, lines[:-2])) <= 80  # the last two name the machine and the versions
    assert [line.split(",")[0] for line in lines[1:5]] == ["training", "training", "encoding", "decoding"]
    assert all(float(line.split()[-1].replace(",", "")) >= 0 for line in lines[1:5])
    assert "Merges, ids and bytes are equal." in shown


@pytest.mark.compiled
def test_command_refuses_different_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "train", lambda *_: [(b"a", b"b")])
    with pytest.raises(SystemExit, match="the results of bpejit and plain Python differ"):
        command.main(["--bytes", "2000", "--merges", "5"])
