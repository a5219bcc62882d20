"""`bpejit.explain`: its merges and counts are those of the kernels, and its record says what happened."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import twins
from conftest import data_text, examples, small
from helpers.learner import learn_merges
from helpers.training import table_of
from hypothesis import example, given, strategies as st

import bpejit
from bpejit.errors import ArgumentTypeError, CorpusError, OptionError, TrainingError
from bpejit.training import tie_rules, tracing
from bpejit.training.tie_rules import TieRule, tie_rule_names
from bpejit.training.tracing import PlainLearner
from bpejit.training.train_options import MergeSettings

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}

ADDED = {f"reversed-{comparison}": TieRule(comparison, tuple(range(255, -1, -1))) for comparison in tie_rules.COMPARISONS}

words = st.one_of(
    st.text("ab", min_size=1, max_size=12),
    st.text("abcd", min_size=1, max_size=8),
    st.integers(2, 12).map(lambda n: "a" * n),
).map(str.encode)
tables = st.dictionaries(words, st.one_of(st.integers(1, 3), st.just(2**31)), min_size=1, max_size=8)


def as_bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogateescape")


@contextmanager
def registered(name: str) -> Iterator[None]:
    """Register a rule of `ADDED`, if it is one."""
    if name in ADDED:
        tie_rules.register(name, ADDED[name])
    try:
        yield
    finally:
        if name in ADDED:
            tie_rules.unregister(name)


def check_record(learner: PlainLearner, before: list[list[int]], counts: Counter[Any], merge: dict[str, Any]) -> None:
    """Compare the record of a merge, and the attributes of the learner, with the words before and after it."""
    left, right = (learner.tokens.index(as_bytes(token)) for token in merge["pair"])
    pair = (left, right)
    changed = [number for number, word in enumerate(before) if pair in pairwise(word)]
    assert [number for number, word in enumerate(learner.words) if word != before[number]] == changed
    assert set(changed) <= set(learner.index[pair])
    assert (merge["listed"], merge["stale"]) == (len(learner.index[pair]), len(learner.index[pair]) - len(changed))
    now = Counter(twins.training.count_adjacent(list(zip(learner.words, learner.weights, strict=True))))
    assert +learner.counts == +now
    assert merge["count"] == counts[pair]
    assert [row["changed"] for row in merge["words"]].count(True) == min(len(changed), tracing.N_WORDS)
    moved = {
        (learner.tokens[one], learner.tokens[other]): (counts[one, other], now[one, other])
        for one, other in counts | now
        if (one, other) != pair and counts[one, other] != now[one, other]
    }
    rows = merge["changes"]
    assert {tuple(map(as_bytes, row["pair"])): (row["before"], row["count"]) for row in rows} == moved
    assert len(rows) == len(moved)
    made = [row for row in rows if merge["token"] in row["pair"]]
    assert all(row["before"] == 0 for row in made), "a pair gains occurrences only when its newer token is made"
    assert all(row["count"] < row["before"] for row in rows if row not in made)
    for other, numbers in learner.index.items():
        assert len(set(numbers)) == len(numbers)
        assert {number for number, word in enumerate(learner.words) if other in pairwise(word)} <= set(numbers)
    for count, pairs in learner.buckets.items():
        assert all(learner.counts[other] <= count for other in pairs)


@pytest.mark.parametrize("rule", [*tie_rule_names(), *ADDED])
@examples(0.2)
@given(table=tables, least=st.sampled_from([1, 2, 5]), longest=st.sampled_from([None, 1, 3, 5]))
@example({b"aaaaaaaa": 1, b"aaa": 2}, 1, None)
@example({b"abababab": 1, b"bababa": 1, b"bnanana": 3}, 1, None)
@example({b" !": 1, b"~\xa1": 1, b"\xad\xae": 1, b"\0\x01": 1}, 1, None)
def test_equals_the_kernels(rule: str, table: dict[bytes, int], least: int, longest: int | None) -> None:
    with registered(rule):
        settings = MergeSettings(rule, least, longest)
        expected = learn_merges(table_of(table), 1000, settings)
        learner = PlainLearner(table, settings)
        found = []
        while True:
            before, counts = list(learner.words), learner.counts.copy()
            merge = learner.merge()
            if merge is None:
                break
            check_record(learner, before, counts, merge)
            found.append((*map(as_bytes, merge["pair"]), merge["count"]))
    tokens = twins.training.expand_merges(expected.left.tolist(), expected.right.tolist())
    table_rows = zip(expected.left.tolist(), expected.right.tolist(), expected.counts.tolist(), strict=True)
    assert found == [(tokens[left], tokens[right], count) for left, right, count in table_rows]


@pytest.mark.compiled
@pytest.mark.parametrize("rule", tie_rule_names())
def test_text_and_files_equal_training(rule: str, tmp_path: Path) -> None:
    text = data_text("prose.txt")[: small(20_000, 2_000)] + b"<|endoftext|>" + data_text("cjk.txt")[:2_000]
    (tmp_path / "corpus.txt").write_bytes(text)
    model = bpejit.train(tmp_path / "corpus.txt", vocab_size=337, tie_break=rule, pattern="cl100k").model
    for given_text in ({"text": text}, {"inputs": tmp_path / "corpus.txt"}, {"sources": {str(tmp_path / "corpus.txt"): 1}}):
        record = bpejit.explain(**given_text, merges=80, tie_break=rule, pattern="cl100k").to_dict()
        assert [tuple(map(as_bytes, merge["pair"])) for merge in record["merges"]] == list(model.merges)
        assert [merge["count"] for merge in record["merges"]] == list(model.merge_counts)
        assert not record["complete"]


def test_a_well_known_example() -> None:
    record = bpejit.explain(words=HUGS, merges=100).to_dict()
    assert record["complete"]
    assert [(merge["token"], merge["count"]) for merge in record["merges"][:3]] == [("ug", 20), ("un", 16), ("hug", 15)]
    first, second = record["merges"][:2]
    assert [(row["pair"], row["before"], row["count"]) for row in first["changes"]] == [
        (["p", "u"], 17, 12),
        (["h", "u"], 15, 0),
        (["g", "s"], 5, 0),
        (["h", "ug"], 0, 15),
        (["p", "ug"], 0, 5),
        (["ug", "s"], 0, 5),
    ]
    assert first["words"][3:] == [
        {"tokens": ["b", "u", "n"], "count": 4, "changed": False},
        {"tokens": ["h", "ug", "s"], "count": 5, "changed": True},
    ]
    assert second["buckets"][0] == {"count": 17, "pairs": [{"pair": ["p", "u"], "count": 12}]}
    tied = record["merges"][4]
    assert (tied["token"], tied["tied"]) == ("pug", [["hug", "s"]])
    assert record["tie_rule"] == "the greatest left token first, by its bytes, then the greatest right one"
    by_ids = bpejit.explain(words={"ac": 1, "ab": 1, "Z a": 1}, tie_break="hf", merges=10).to_dict()
    assert by_ids["merges"][0]["tied"] == [["a", "b"], ["a", "c"], [" ", "a"]]
    assert by_ids["tie_rule"] == "the smallest left token first, by its ids, then the smallest right one"


def test_stale_entries() -> None:
    record = bpejit.explain(words={"abc": 5, "ab": 4, "bc": 6}).to_dict()
    found = [(merge["token"], merge["listed"], merge["stale"]) for merge in record["merges"]]
    assert found == [("bc", 2, 0), ("abc", 1, 0), ("ab", 2, 1)]
    assert (record["lists"], record["entries"]) == (3, 5)


def test_words_that_change_are_recorded_first() -> None:
    text = " ".join(f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst")
    record = bpejit.explain(text=text, merges=1).to_dict()
    (merge,) = record["merges"]
    assert (len(record["words"]), len(merge["words"]), record["n_words"]) == (40, 40, 100)
    assert [word["changed"] for word in merge["words"]].count(True) == merge["count"] == 10


def test_bytes_need_not_be_text() -> None:
    record = bpejit.explain(text=b"\xff\xfe \xff\xfe \xc3\xa9", merges=1).to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["merges"][0]["pair"] == ["\udcff", "\udcfe"]
    assert bpejit.explain(words={"a\ud800": 1}, merges=0).to_dict()["words"][0]["tokens"][0] == "a"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, OptionError, "0 of `inputs=`, `text=` and `words=` are given; expected one"),
        ({"text": "a", "words": {"a": 1}}, OptionError, "2 of `inputs=`"),
        ({"inputs": "corpus.txt", "text": "a"}, OptionError, "2 of `inputs=`"),
        ({"text": "a" * 1_000_001}, CorpusError, "1,000,001 bytes; expected at most 1,000,000"),
        ({"words": {"ab": 0}}, OptionError, "words['ab'] is 0; expected a whole number from 1 up"),
        ({"words": ["ab"]}, ArgumentTypeError, "words is ['ab'], a list; expected a dict"),
        ({"text": 5}, ArgumentTypeError, "text is 5, an int; expected text"),
        ({"text": "ab", "merges": 1001}, OptionError, "merges is 1001; expected a whole number from 0 to 1000"),
        ({"text": "ab", "tie_break": "best"}, TrainingError, "tie_break is 'best'"),
    ],
)
def test_wrong_calls(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        bpejit.explain(**options)


def test_large_files_are_refused_or_sampled(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_bytes(b"low lower lowest\n" * 60_000)
    with pytest.raises(CorpusError, match="the text has 1,020,000 bytes"):
        bpejit.explain(tmp_path / "corpus.txt")
    record = bpejit.explain(tmp_path / "corpus.txt", max_bytes=10_000, merges=1).to_dict()
    assert record["merges"][0]["token"] in ("lo", "ow", " l")


@pytest.mark.parametrize("rule", ["greatest-bytes", "hf"])
def test_superwords_are_those_of_training(rule: str) -> None:
    text = data_text("prose.txt")[: small(20_000, 2_000)].decode("utf-8", "ignore")
    n_words, n = small((150, 250), (20, 40))
    trace = bpejit.explain(text=text, merges=n, word_merges=n_words, tie_break=rule).to_dict()
    sizes = {"vocab_size": 257 + n, "superwords": "super", "transition": 257 + n_words}
    trained = bpejit.train(iter([text]), workers=1, tie_break=rule, **sizes)
    found = [tuple(map(as_bytes, merge["pair"])) for merge in trace["merges"]]
    assert found == list(trained.merges)
    assert (trace["merges_of_words"], trace["complete"]) == (n_words, False)
    assert trace["n_runs"] <= trained.training["superwords"]["runs"]  # in each of the distinct pre-tokens
    assert all(len(run["tokens"]) > 1 for run in trace["runs"])
    shown = repr(bpejit.explain(text=text, merges=n, word_merges=n_words))
    assert shown.index(f"merge {n_words} ") < shown.index("\nruns ") < shown.index(f"merge {n_words + 1} ")


def test_word_merges_need_text() -> None:
    for options in ({"words": HUGS}, {"text": "a b", "symbols": "characters"}):
        with pytest.raises(OptionError, match="word_merges is given"):
            bpejit.explain(word_merges=3, **options)
    few = bpejit.explain(text="ab cd", merges=9, word_merges=9).to_dict()
    assert (few["complete"], few["n_runs"], few["merges_of_words"], len(few["merges"])) == (True, 1, 3, 4)
