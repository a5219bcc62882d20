"""The commands of docs/inspection.md on larger texts in English, Chinese and Arabic, with published vocabularies."""

from __future__ import annotations

import json

import pytest
import regex
from conftest import read_shared
from helpers.cli import invoke

import bpejit

pytestmark = [pytest.mark.slow, pytest.mark.compiled]

LANGUAGES = {"english": "Latin", "chinese": "Han", "arabic": "Arabic"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    for name in ("cl100k_base", "o200k_base"):
        (folder / f"{name}.tiktoken").write_bytes(read_shared(f"vocabs/{name}.tiktoken"))
    (folder / "english.txt").write_bytes(read_shared("corpora/english.txt")[:500_000])
    documents = read_shared("corpora/multilingual.txt").decode("utf-8", "ignore").split("<|endoftext|>")
    for language in ("chinese", "arabic"):
        letters = regex.compile(rf"\p{{Script={LANGUAGES[language]}}}")
        others = regex.compile(r"\p{Script=Hiragana}|\p{Script=Hangul}")
        chosen = [text for text in documents if len(letters.findall(text)) > 0.3 * len(text) and not others.search(text)]
        (folder / f"{language}.txt").write_text("".join(chosen)[:200_000], encoding="utf-8")
    return folder


def succeeds(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_show(folder):
    tokenizer = bpejit.load(folder / "cl100k_base.tiktoken")
    for language in LANGUAGES:
        text = (folder / f"{language}.txt").read_text(encoding="utf-8", errors="ignore")[:2000]
        (folder / "some.txt").write_text(text, encoding="utf-8")
        found = json.loads(
            succeeds("show", folder / "cl100k_base.tiktoken", "--file", folder / "some.txt", "--json", "--merges")
        )
        assert [token["id"] for token in found["tokens"]] == tokenizer.encode(text)
        assert all(entry["steps"][-1]["result"] == entry["result"] for entry in found["merges"] if entry["steps"])


def test_stats_and_compare(folder):
    paths = [folder / f"{language}.txt" for language in LANGUAGES]
    tokenizers = [folder / f"{name}.tiktoken" for name in ("cl100k_base", "o200k_base")]
    stats = json.loads(succeeds("stats", tokenizers[0], *paths, "--scripts", "--against", tokenizers[1], "--json"))
    compared = json.loads(succeeds("compare", *tokenizers, *paths, "--json"))
    loaded = [bpejit.load(path) for path in tokenizers]
    for path, group, both in zip(paths, stats["groups"], compared["groups"], strict=True):
        numbers = [len(tokenizer.encode(path.read_bytes())) for tokenizer in loaded]
        assert group["tokens"] == numbers[0]
        assert both["tokens"] == numbers
        assert stats["against"][0]["groups"][str(path)] == numbers[1]
    assert {entry["script"] for entry in stats["scripts"]} >= set(LANGUAGES.values())
    assert sum(entry["tokens"] for entry in stats["scripts"]) == stats["total"]["tokens"]
    assert len(compared["texts"]) == 3


def test_report(folder):
    paths = [folder / f"{language}.txt" for language in LANGUAGES]
    options = ["--against", folder / "o200k_base.tiktoken", "--out", folder / "report.html"]
    succeeds("report", folder / "cl100k_base.tiktoken", *paths, *options)
    page = (folder / "report.html").read_text(encoding="utf-8")
    meta = json.loads(regex.search(r'id="meta">(.*?)</script>', page)[1])
    assert list(meta["curves"]) == ["lengths", "compression", "frequencies"]
    assert [len(of) for of in meta["curves"].values()] == [2, 2, 2]
    assert {row["script"] for row in meta["stats"][0]["scripts"]} >= set(LANGUAGES.values())
    assert len(meta["frequent"]) == 16
    assert regex.search(r"<span class=\"t t\d\" title=\"id \d+\">[^<]*\p{Script=Arabic}", page)
    assert regex.search(r"<span class=\"t t\d\" title=\"id \d+\">[^<]*\p{Script=Han}", page)
