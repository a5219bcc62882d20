"""Tests of `bpejit verify`: equal results pass, and differences are found."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from conftest import DATA, read_shared, small
from helpers.cli import invoke

import bpejit
from bpejit import Tokenizer
from bpejit.normalization.byte_characters import encode_byte_characters

pytest.importorskip("tokenizers")
tiktoken = pytest.importorskip("tiktoken")

TEXTS = [DATA / "prose.txt", DATA / "cjk.txt"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "tokenizer"
    bpejit.train([str(text) for text in TEXTS], vocab_size=small(3000, 280)).save(path)
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    texts = [data.read_bytes()[: small(150_000, 1500)] for data in TEXTS]
    path.write_bytes(b"<|endoftext|>".join([*texts, b"", b"not \xff UTF-8", b"the last \xe8\xaa"]))
    return path


def documents_of(path: Path) -> list[bytes]:
    *whole, last = path.read_bytes().split(b"<|endoftext|>")
    return [*whole, last] if last else whole


def with_other_merges(folder: Path, target: Path, pair: tuple[bytes, bytes]) -> Path:
    """Copy the `tokenizer.json` of a tokenizer without one of its merges, as a file of another tool."""
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    removed = [encode_byte_characters(part) for part in pair]
    content["model"]["merges"] = [merge for merge in content["model"]["merges"] if merge != removed]
    target.mkdir()
    (target / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return target


@pytest.mark.parametrize("against", ["tokenizers", "tiktoken"])
def test_equal(folder: Path, corpus: Path, against) -> None:
    tokenizer = bpejit.load(folder)
    report = bpejit.verify(tokenizer, [str(corpus), str(DATA / "awkward.bin")], against=against, path=folder)
    assert report.difference is None
    documents = documents_of(corpus) + documents_of(DATA / "awkward.bin")
    assert report.documents == len(documents)
    assert report.repaired == sum(document.decode("utf-8", "replace").encode() != document for document in documents) >= 3
    assert report.bytes == corpus.stat().st_size + (DATA / "awkward.bin").stat().st_size
    assert report.ids > report.bytes / 6
    assert report.tool.startswith(against + " ")


def test_difference_is_described(folder: Path, corpus: Path, tmp_path: Path) -> None:
    tokenizer = bpejit.load(folder)
    pair = tokenizer.merges[0]
    other = with_other_merges(folder, tmp_path / "other", pair)
    report = bpejit.verify(tokenizer, [str(corpus)], against="tokenizers", path=other)
    found = report.difference
    assert found is not None
    document = corpus.read_bytes().split(b"<|endoftext|>")[found.document - 1]
    span = document[found.start : found.end]
    assert b"".join(token for _, token in found.ours) == b"".join(token for _, token in found.theirs) == span
    assert found.ours != found.theirs
    assert b"".join(pair) in span
    assert span.decode() in found.text
    before = tokenizer.encode(document[: found.start])
    assert tokenizer.encode(document[: found.end])[: len(before)] == before


def test_command(folder: Path, corpus: Path, tmp_path: Path) -> None:
    equal = invoke("verify", folder, corpus, "--against", "tokenizers")
    assert equal.exit_code == 0, equal.stderr
    assert "equal to tokenizers " in equal.output
    assert f": {len(documents_of(corpus)):,} documents, " in equal.output
    assert ", 3 of them with U+FFFD in place of invalid UTF-8, " in equal.output
    other = with_other_merges(folder, tmp_path / "other", bpejit.load(folder).merges[0])
    content = (other / "tokenizer.json").read_text(encoding="utf-8")
    (folder / "tokenizer.json").replace(tmp_path / "kept.json")
    try:
        # bpejit uses its own description of the tokenizer; the other tool uses the file.
        (folder / "tokenizer.json").write_text(content, encoding="utf-8")
        changed = invoke("verify", folder, corpus, "--against", "tokenizers")
        assert changed.exit_code == 1
        assert "was changed after bpejit wrote it" in changed.stderr
    finally:
        (tmp_path / "kept.json").replace(folder / "tokenizer.json")


def test_command_stops_at_a_difference(corpus: Path, tmp_path: Path) -> None:
    """With a wrong pattern for the ranks, two tools interpret the same file differently."""
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"th": 256, b"the": 257, b" the": 258, b"e ": 259}
    path = tmp_path / "mine.tiktoken"
    path.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items()))
    equal = invoke("verify", path, corpus, "--against", "tiktoken", "--pattern", "gpt2", "--special-token", "<|endoftext|>=300")
    assert equal.exit_code == 0, equal.output
    reordered = {**ranks, b"the": 256, b"th": 257}
    tokenizer = Tokenizer.from_model(bpejit.Model({n: t for t, n in reordered.items()}, [], pattern="gpt2", ranked=True))
    report = bpejit.verify(tokenizer, [str(corpus)], against="tiktoken", path=path)
    assert report.difference is not None


@pytest.mark.parametrize("against", ["tokenizers", "tiktoken"])
def test_missing_tool(folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, against: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, against, None)
    result = invoke("verify", folder, corpus, "--against", against)
    assert result.exit_code == 1
    assert f"`{against}` is not installed" in result.stderr
    assert f"pip install {against}" in result.stderr


@pytest.mark.compiled
def test_published_ranks(shared_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_bytes(read_shared("vocabs/cl100k_base.tiktoken"))
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(read_shared("corpora/multilingual.txt")[:1_000_000])
    report = bpejit.verify(bpejit.load(path), [str(corpus)], against="tiktoken", path=path)
    assert report.difference is None
    assert report.documents > 100
