"""Inputs of the commands that count tokens: without text, with records without text, unmatched labels, exchanged arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.cli import invoke

import bpejit


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    bpejit.train_from_iterator(["some words to count, and some more"], vocab_size=265).save(folder / "tokenizer")
    (folder / "some.txt").write_text("some words")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "content.jsonl").write_text('{"content": "a"}\n{"content": "b"}\n')
    (folder / "mixed.jsonl").write_text('{"content": "a"}\n{"text": "some"}\n')
    return folder


@pytest.fixture(params=["stats", "compare", "report"])
def command(request, made, monkeypatch, tmp_path):
    """Return the beginning and the end of a command; inputs come between them."""
    monkeypatch.chdir(made)
    tokenizers = ["tokenizer"] * (2 if request.param == "compare" else 1)
    return [request.param, *tokenizers], ["--out", tmp_path / "r.html"] if request.param == "report" else []


def run(command, *arguments):
    begin, end = command
    return invoke(*begin, *arguments, *end)


def test_inputs_without_text_are_refused(command):
    result = run(command, "content.jsonl")
    assert result.exit_code == 1
    assert "none of the 2 records has a text" in result.stderr
    assert "the fields are `content`" in result.stderr
    assert "`--text-field`" in result.stderr
    result = run(command, "empty.txt")
    assert (result.exit_code, "the corpus (`empty.txt`) contains no text" in result.stderr) == (1, True)
    assert not any(Path(argument).exists() for argument in command[1][1:])


def test_skipped_records_are_reported(command):
    result = run(command, "mixed.jsonl")
    assert result.exit_code == 0, result.output
    assert "note: skipped 1 record that has no text: `mixed.jsonl`, line 1" in result.stderr
    result = run(command, "mixed.jsonl", "--json", "--overwrite") if command[1] else run(command, "mixed.jsonl", "--json")
    fields = json.loads(result.stdout)
    assert fields["skipped_records"] == 1
    assert "skipped 1 record" in fields["notes"][0]
    result = run(command, "mixed.jsonl", "--strict", *(["--overwrite"] if command[1] else []))
    assert (result.exit_code, "a record has no text" in result.stderr) == (1, True)


def test_labels_match_inputs(command):
    result = run(command, "some.txt", "--label", "cjk=held/[cj]*.txt")
    assert result.exit_code == 1
    assert "`held/[cj]*.txt`, which matches none of the inputs (`some.txt`)" in result.stderr
    assert "--label has 'cjk'" in result.stderr


@pytest.mark.parametrize("name", ["compare", "report"])
def test_labels_need_inputs(made, monkeypatch, name):
    monkeypatch.chdir(made)
    arguments = ["tokenizer"] if name == "compare" else ["--out", "r.html"]
    result = invoke(name, "tokenizer", *arguments, "--label", "a=b")
    assert (result.exit_code, "`--label` groups inputs, and there are none" in result.stderr) == (2, True)


def test_exchanged_arguments(command):
    command[0][1] = "some.txt"
    result = run(command, "tokenizer")
    assert result.exit_code == 2
    assert "`some.txt` is where a tokenizer is expected, and `tokenizer` is a tokenizer" in result.stderr
