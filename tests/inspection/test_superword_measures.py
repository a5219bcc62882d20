"""Tests of the measures of superwords, against counts of a text in plain Python."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import data_text
from helpers.cli import invoke

import bpejit
from bpejit.encoding import encoder_tables
from bpejit.inspection.vocabulary_measures import words_of_tokens

WORDS = r"\w+|[^\w ]+| +\w+| +"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("superwords")
    (folder / "text.txt").write_bytes(data_text("prose.txt")[:60_000])
    words = bpejit.train(folder / "text.txt", vocab_size=600, pattern=WORDS, workers=1)
    words.save(folder / "words")
    runs = bpejit.Tokenizer.from_model(replace(words.model, pattern=r"[^\n]+|\n+"))
    longer = bpejit.extend(runs, folder / "text.txt", vocab_size=800, workers=1)
    notes = {"superwords": {"pattern": WORDS, "merges_of_words": len(words.model.merges)}}
    bpejit.Tokenizer.from_model(replace(longer.model, training=notes)).save(folder / "noted")
    bpejit.Tokenizer.from_model(replace(longer.model, training={})).save(folder / "tokenizer")
    return folder


def test_figures(folder: Path) -> None:
    tokenizer = bpejit.load(folder / "noted")
    found = bpejit.stats(tokenizer, folder / "text.txt", workers=1).to_dict()["superwords"]
    text = (folder / "text.txt").read_text(encoding="utf-8")
    tokens = [tokenizer.model.vocab[number] for number in tokenizer.encode(text)]
    late = {left + right for left, right in tokenizer.merges[-200:]}
    sizes = [len(re.findall(WORDS, token.decode(errors="replace"))) if token in late else 1 for token in tokens]
    n_bytes = len(text.encode())
    assert found["share"] == pytest.approx(sum(len(t) for t, n in zip(tokens, sizes, strict=True) if n > 1) / n_bytes)
    assert found["token_share"] == pytest.approx(sum(n > 1 for n in sizes) / len(sizes))
    assert {row["words"]: row["count"] for row in found["words"] if row["count"]} == Counter(sizes)
    assert sum(row["tokens"] for row in found["words"]) == tokenizer.vocab_size
    assert found["bytes_per_token"] == pytest.approx(n_bytes / len(tokens))
    # The tokens of words alone are those of the first merges with the pattern of the runs.
    words = bpejit.Tokenizer.from_model(replace(bpejit.load(folder / "words").model, pattern=tokenizer.model.pattern))
    assert found["bytes_per_word_token"] == pytest.approx(n_bytes / words.count(text))


def test_without_notes(folder: Path) -> None:
    """The words of a file of another tool are found as the encoder finds them."""
    noted, other = (words_of_tokens(bpejit.load(folder / name).model) for name in ("noted", "tokenizer"))
    assert noted is not None
    assert other is not None
    assert ((noted.words > 1) == (other.words > 1)).mean() > 0.95
    assert words_of_tokens(bpejit.load(folder / "words").model) is None


def test_commands(folder: Path) -> None:
    shown = invoke("stats", folder / "noted", folder / "text.txt").stdout
    assert re.search(r"superwords [\d,]+ of [\d,]+ are used; they cover [\d.]+ % of the text", shown)
    assert re.search(r"words +tokens +occurrences", shown)
    first = json.loads(invoke("info", folder / "tokenizer", "--json").stdout)["first_superword"]
    assert 256 <= first < len(bpejit.load(folder / "tokenizer").merges)
    assert json.loads(invoke("info", folder / "words", "--json").stdout)["first_superword"] is None


def test_merges_show_where_superwords_begin(folder: Path) -> None:
    tokenizer = bpejit.load(folder / "noted")
    longest = max((left + right for left, right in tokenizer.merges[-200:] if (left + right).count(b" ") == 2), key=len)
    shown = invoke("show", folder / "noted", longest.decode(), "--merges")
    labels = [line.split()[0] for line in shown.stdout.splitlines() if line.strip()]
    ranks = [int(label) for label in labels if label.isdigit()]
    n_words = len(bpejit.load(folder / "words").model.merges)
    assert labels.index("words") == 1 + sum(rank < n_words for rank in ranks) < len(labels) - 1
    assert ", 1 superword, " in shown.stderr
    (traced,) = json.loads(invoke("show", folder / "noted", longest.decode(), "--merges", "--json").stdout)["merges"]
    assert [step["words"] > 1 for step in traced["steps"]] == [rank >= n_words for rank in ranks]
    assert "superword" not in invoke("show", folder / "words", "the words").stderr


def test_comparison_and_report(folder: Path) -> None:
    found = bpejit.compare(bpejit.load(folder / "words"), bpejit.load(folder / "noted"))
    n_superwords = int((words_of_tokens(bpejit.load(folder / "noted").model).words > 1).sum())
    assert found.to_dict()["vocabulary"]["superwords"] == [0, n_superwords]
    assert re.search(rf"superwords +0 +{n_superwords}\b", repr(found))
    assert "superwords" not in repr(bpejit.compare(bpejit.load(folder / "words"), bpejit.load(folder / "words")))
    page = bpejit.report(bpejit.load(folder / "noted"), folder / "text.txt", against=[bpejit.load(folder / "words")]).page
    meta = json.loads(re.search(r'<script[^>]*id="meta"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert [of["superwords"] for of in meta["vocabularies"]] == [n_superwords, 0]
    noted, words = (of["total"] for of in meta["stats"])
    assert 0 < noted["superword_share"] < 1 == 1 + words["superword_share"]
    assert noted["bytes_per_word_token"] < noted["bytes_per_token"]
    assert words["bytes_per_word_token"] == words["bytes_per_token"]


@pytest.mark.parametrize(
    "notes", [5, "super", [], {"kind": "super"}, {"merges_of_words": "5", "pattern": WORDS}, {"pattern": 1}]
)
def test_other_notes_are_ignored(folder: Path, notes: object) -> None:
    model = bpejit.load(folder / "tokenizer").model
    found, expected = words_of_tokens(replace(model, training={"superwords": notes})), words_of_tokens(model)
    assert found is not None
    assert expected is not None
    assert found.words.tolist() == expected.words.tolist()
    assert words_of_tokens(replace(model, training={"superwords": {"merges_of_words": -5, "pattern": WORDS}})) is None


def test_ranked_vocabularies_are_not_analyzed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deriving the merges of a large one takes a fifth of a second."""
    monkeypatch.setattr(encoder_tables, "internal_rules", None)
    tokens = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab"}
    assert encoder_tables.first_superword(bpejit.Model(tokens, [], {}, ranked=True)) is None
