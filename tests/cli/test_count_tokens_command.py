"""Tests of `bpejit count-tokens`: the numbers are those of `encode`, whatever the inputs are and however they are read."""

from __future__ import annotations

import gzip
import json

import pytest
from conftest import data_text, small
from helpers.cli import invoke, run

import bpejit

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("count-tokens")
    text = data_text("prose.txt").decode(errors="ignore").replace(END, "")[: small(300_000, 3_000)]
    documents = [text[start : start + 997] + END for start in range(0, len(text), 997)]
    (folder / "text.txt").write_text("".join(documents), encoding="utf-8")
    (folder / "text.txt.gz").write_bytes(gzip.compress("".join(documents).encode()))
    (folder / "some.jsonl").write_text('{"text": "a b"}\n{"text": ""}\n{"other": 1}\n{"text": "c"}\n')
    (folder / "none.jsonl").write_text('{"other": 1}\n')
    (folder / "empty.txt").write_bytes(b"")
    tokenizer = bpejit.train([folder / "text.txt"], vocab_size=300, special_tokens=[END])
    tokenizer.save(folder / "tokenizer")
    return folder, [len(tokenizer.encode(document)) for document in documents]


def lines(result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [int(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("options", [[], ["--workers", "2", "--engine", "threads"]])
@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_count_tokens(made, monkeypatch, name, options):
    folder, expected = made
    monkeypatch.chdir(folder)
    monkeypatch.setattr("bpejit.engines.CHUNK_BYTES", 5_000)  # documents go on in the next chunk
    result = invoke("count-tokens", name, *options)
    assert lines(result) == [sum(expected)]
    assert f"tokens of {len(expected)} documents" in result.stderr
    assert lines(invoke("count-tokens", name, "--each", "document", *options)) == expected


def test_count_tokens__from_a_pipe(made):
    folder, expected = made
    found = run("count-tokens", "-", "--each", "document", cwd=folder, input=(folder / "text.txt").read_bytes())
    assert (found.returncode, [*map(int, found.stdout.split())]) == (0, expected)


def test_count_tokens__records(made, monkeypatch):
    monkeypatch.chdir(made[0])
    result = invoke("count-tokens", "some.jsonl", "--each", "document")
    assert len(lines(result)) == 3
    assert lines(result)[1] == 0
    assert "note: skipped 1 record" in result.stderr
    fields = json.loads(invoke("count-tokens", "some.jsonl", "--each", "document", "--json").stdout)
    assert fields["tokens_of_documents"] == lines(result)
    assert (fields["tokens"], fields["documents"], fields["skipped_records"]) == (sum(lines(result)), 3, 1)
    assert json.loads(invoke("count-tokens", "some.jsonl", "--json").stdout)["tokens_of_documents"] is None
    assert lines(invoke("count-tokens", "empty.txt")) == [0]
    result = invoke("count-tokens", "none.jsonl")
    assert (result.exit_code, "none of the 1 records has a text" in result.stderr) == (1, True), result.stderr
