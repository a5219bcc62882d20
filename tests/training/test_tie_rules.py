"""Tests of the registry of tie rules, and of third-party rules, as in CONTRIBUTING.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import twins
from conftest import ROOT, data_text, small
from helpers.cli import invoke
from helpers.learner import learn_merges
from helpers.training import table_of
from hypothesis import given, strategies as st

import bpejit
from bpejit.arrays import MergeTable
from bpejit.errors import ArgumentTypeError, TrainingError
from bpejit.kernels.training import buckets
from bpejit.training import tie_rules
from bpejit.training.tie_rules import TieRule, tie_rule_names
from bpejit.training.train_options import MergeSettings

EVENS_FIRST = (*range(0, 256, 2), *range(1, 256, 2))


def evens_first(token: int) -> int:
    return EVENS_FIRST.index(token) if token < 256 else token


def by_evens(token: bytes) -> bytes:
    return bytes(map(EVENS_FIRST.index, token))


# Name: rule, and the key of the twin trainer.
ADDED: dict[str, tuple[TieRule, Any]] = {
    "newest": (TieRule("greatest-ids"), lambda pair, tokens: pair),
    "first-bytes": (TieRule("smallest-bytes"), twins.training.TIE_KEYS["smallest-bytes"]),
    "evens-first": (TieRule("smallest-ids", EVENS_FIRST), lambda pair, tokens: [-evens_first(token) for token in pair]),
    "greatest-evens": (TieRule("greatest-bytes", EVENS_FIRST), lambda pair, tokens: [by_evens(tokens[t]) for t in pair]),
}


@contextmanager
def registered(name: str) -> Iterator[None]:
    """Register a rule of `ADDED`, here and with the twin trainer."""
    rule, twins.training.TIE_KEYS[name] = ADDED[name]
    tie_rules.register(name, rule)
    try:
        yield
    finally:
        tie_rules.unregister(name)
        del twins.training.TIE_KEYS[name]


def as_list(merges: MergeTable) -> list[tuple[int, int, int]]:
    return list(zip(merges.left.tolist(), merges.right.tolist(), merges.counts.tolist(), strict=True))


words = st.text("abcd", min_size=2, max_size=10).map(str.encode)


@pytest.mark.parametrize("added", ADDED)
@given(table=st.dictionaries(words, st.integers(1, 3), max_size=10))
def test_added_rule_equals_the_twin(added: str, table: dict[bytes, int]) -> None:
    with registered(added):
        merges = learn_merges(table_of(table), 100, MergeSettings(added))
        expected = twins.training.learn_merges(table, 100, added)
    assert as_list(merges) == expected


@pytest.fixture(params=ADDED)
def added(request: pytest.FixtureRequest) -> Iterator[str]:
    with registered(request.param):
        yield request.param


def test_functions_engines_and_commands_accept_an_added_rule(added: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(data_text("prose.txt")[: small(30_000, 3_000)])
    size = small(400, 290)
    made = [
        bpejit.train(corpus, vocab_size=size, tie_break=added, engine=engine, workers=2, chunk_bytes=4096)
        for engine in ("serial", "threads", "processes")
    ]
    assert {tokenizer.sha256 for tokenizer in made} == {made[0].sha256}
    assert made[0].merges not in [
        bpejit.train(corpus, vocab_size=size, tie_break=rule).merges for rule in ("hf", "smallest-ids")
    ]

    out = tmp_path / "tokenizer"
    assert invoke("train", corpus, "--vocab-size", str(size), "--tie-break", added, "--out", out).exit_code == 0
    loaded = bpejit.load(out)
    assert loaded.merges == made[0].merges
    assert loaded.model.tie_break == added


def test_unregistered_rule_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_bytes(b"ab cd")
    with pytest.raises(TrainingError, match="tie_break is 'newest'; expected one of 'greatest-bytes'"):
        bpejit.train(tmp_path / "corpus.txt", vocab_size=258, tie_break="newest")
    result = invoke("train", tmp_path / "corpus.txt", "--vocab-size", "258", "--tie-break", "newest", "--out", tmp_path / "t")
    assert result.exit_code == 2
    assert "'newest' is not one of 'greatest-bytes', 'smallest-ids', 'hf'" in result.stderr


def test_every_comparison_has_its_own_result() -> None:
    """A comparison that the kernel lacks would have the result of another one."""
    assert set(tie_rules.COMPARISONS) == set(buckets.COMPARISONS)
    assert len({int(number) for number in buckets.COMPARISONS.values()}) == len(tie_rules.COMPARISONS)
    # First "Z z" is merged. Then "Zz e", "a b" and "c d" are tied; "Zz" has the greatest id and the smallest bytes.
    table = {b"Zz": 9, b"Zze": 5, b"ab": 5, b"cd": 5}
    results = []
    for comparison in tie_rules.COMPARISONS:
        tie_rules.register("temporary", TieRule(comparison))
        try:
            merges = learn_merges(table_of(table), 4, MergeSettings("temporary"))
        finally:
            tie_rules.unregister("temporary")
        assert as_list(merges) == twins.training.learn_merges(table, 4, comparison)
        results.append(as_list(merges))
    assert all(a != b for a, b in combinations(results, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("largest",), "comparison is 'largest'; expected one of 'greatest-bytes', 'smallest-bytes'"),
        (("smallest-ids", tuple(range(255))), "expected each number from 0 to 255 once"),
        (("smallest-ids", (*range(255), 0)), "expected each number from 0 to 255 once"),
    ],
)
def test_wrong_rules_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TrainingError, match=re.escape(message)):
        TieRule(*arguments)


def test_wrong_registrations_are_refused() -> None:
    before = tie_rule_names()
    with pytest.raises(TrainingError, match="the tie rule 'hf' already exists"):
        tie_rules.register("hf", TieRule("greatest-ids"))
    with pytest.raises(TrainingError, match="the name of the tie rule is 'a b'"):
        tie_rules.register("a b", TieRule("greatest-ids"))
    with pytest.raises(ArgumentTypeError, match="expected a TieRule"):
        tie_rules.register("new", "greatest-ids")  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="'new' is not known; expected one of greatest-bytes, smallest-ids, hf"):
        tie_rules.unregister("new")
    with pytest.raises(TrainingError, match="'new' is not known; expected one of greatest-bytes, smallest-ids, hf"):
        tie_rules.load_tie_rule("new")
    assert tie_rule_names() == before


def test_documentation_lists_the_rules() -> None:
    section = (
        (ROOT / "docs" / "internals.md").read_text(encoding="utf-8").partition("### The tie rule")[2].partition("\n## ")[0]
    )
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(tie_rule_names())
    (option,) = (parameter for parameter in train_parameters() if parameter.name == "tie_break")
    assert option.help.partition(": ")[2].rstrip(".").split(", ") == list(tie_rule_names())


def train_parameters() -> list[Any]:
    from helpers.cli import program

    return program.commands["train"].params
