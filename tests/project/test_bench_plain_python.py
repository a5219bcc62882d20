"""Tests of the plain-Python baseline of the benchmarks."""

from __future__ import annotations

import sys

import twins
from conftest import ROOT, data_text, small

sys.path.insert(0, str(ROOT))
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
