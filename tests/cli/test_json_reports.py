"""Tests of `--json`: standard output is a single object with the fields that docs/commands.md lists."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from conftest import ROOT, data_text, small
from helpers.cli import COMMANDS, copy_files, invoke

import bpejit

TEXT = data_text("prose.txt")[: small(20_000, 3000)]
PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")

TRAIN = ["train", "corpus.txt", "--vocab-size", "300", "--out", "new"]
SUBWORD = ["--vocab", "vocab.subwords"]
PROBLEM = """
kind = "text2self"
approx_vocab_size = 300

[[dataset_splits]]
split = "train"
targets = "corpus.txt"
"""
RUNS = {
    "train": TRAIN,
    "train --dry-run": [*TRAIN, "--dry-run"],
    "count": ["count", "corpus.txt", "--out", "new.counts"],
    "count --dry-run": ["count", "corpus.txt", "--out", "new.counts", "--dry-run"],
    "merge-counts": ["merge-counts", "corpus.counts", "--out", "new.counts"],
    "extend": ["extend", "tokenizer", "corpus.txt", "--vocab-size", "320", "--out", "new"],
    "shrink": ["shrink", "tokenizer", "--vocab-size", "280", "--out", "new"],
    "counts info": ["counts", "info", "corpus.counts"],
    "counts export": ["counts", "export", "corpus.counts", "--out", "new.tsv"],
    "counts import": ["counts", "import", "words.tsv", "--out", "new.counts"],
    "encode": ["encode", "corpus.txt", "--out", "new.bin"],
    "combine": ["combine", "tokens.bin"],
    "combine of a data set": ["combine", "made/lines"],
    "decode": ["decode", "tokens.bin", "--out", "new.txt"],
    "info of a tokenizer": ["info", "tokenizer"],
    "info of a token file": ["info", "tokens.bin"],
    "tokens info": ["tokens", "info", "tokens.bin"],
    "tokens verify": ["tokens", "verify", "tokens.bin"],
    "tokens head": ["tokens", "head", "tokens.bin"],
    "tokens head --first-documents": ["tokens", "head", "tokens.bin", "--first-documents", "1", "--tokenizer", "tokenizer"],
    "tokens convert": ["tokens", "convert", "tokens.bin", "--out", "new.npy", "--format", "npy"],
    "show": ["show", "tokenizer", "some text"],
    "stats": ["stats", "tokenizer", "corpus.txt"],
    "count-tokens": ["count-tokens", "corpus.txt"],
    "compare": ["compare", "tokenizer", "tokenizer", "corpus.txt"],
    "report": ["report", "tokenizer", "corpus.txt", "--out", "new.html"],
    "explain": ["explain", "--words", "hug=10,pug=5"],
    "split": ["split", "corpus.txt"],
    "split --stats": ["split", "corpus.txt", "--stats"],
    "export": ["export", "tokenizer", "--to", "gpt2", "--out", "new"],
    "verify": ["verify", "tokenizer", "corpus.txt", "--against", "tokenizers"],
    "subword train": ["subword", "train", "corpus.txt", "--vocab-size", "300", "--out", "new.subwords"],
    "subword encode": ["subword", "encode", "corpus.txt", *SUBWORD, "--out", "new.bin"],
    "subword decode": ["subword", "decode", "ids.bin", *SUBWORD, "--out", "new.txt"],
    "datagen": ["datagen", "lines.toml", "--data-dir", "data"],
    "warmup": ["warmup"],
    "cache info": ["cache", "info"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "corpus.txt").write_bytes(TEXT)
    (folder / "lines.toml").write_text(PROBLEM, encoding="utf-8")
    arguments_of_commands = (
        ["train", "corpus.txt", "--vocab-size", "300"],
        ["encode", "corpus.txt", "--out", "tokens.bin"],
        ["datagen", "lines.toml", "--data-dir", "made"],
        ["count", "corpus.txt", "--out", "corpus.counts"],
        ["counts", "export", "corpus.counts", "--out", "words.tsv"],
        ["subword", "train", "corpus.txt", "--vocab-size", "300", "--out", "vocab.subwords"],
        ["subword", "encode", "corpus.txt", *SUBWORD, "--out", "ids.bin", "--append-eos"],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in arguments_of_commands:
            done = invoke(*arguments, "--quiet")
            assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.fixture
def work(made, tmp_path, monkeypatch):
    copy_files(made, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(*arguments, code=0):
    result = invoke(*arguments, "--json")
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


def documented(name):
    """Return the fields that docs/commands.md lists for a command."""
    rows = [line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| ")]
    (fields,) = [fields for names, fields in rows if name in names.replace("`", "").strip().split(", ")]
    return re.findall(r"`([^`]+)`", fields)


def command_of(name):
    """Return the command of a key of `RUNS`."""
    return name.partition(" of ")[0].removesuffix(" --stats").removesuffix(" --first-documents").removesuffix(" --dry-run")


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", RUNS)
def test_fields_match_documentation(name, work):
    result = invoke(*RUNS[name], "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found) == ["command", *documented(name)]
    assert found["command"] == command_of(name)
    assert "Traceback" not in result.stderr
    assert not re.search("^(trained|encoded|counted|decoded|split|wrote|verified)", result.stderr, re.MULTILINE)


@pytest.mark.slow
def test_fields_of_cache_clear(work, monkeypatch):
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(work / "cache"))
    assert report("cache", "clear") == {"command": "cache clear", "folder": str(work / "cache"), "files": 0, "bytes": 0}
    assert documented("cache clear") == ["folder", "files", "bytes"]


def test_every_command_is_documented():
    tested = {command_of(name) for name in RUNS} | {"cache clear"}
    assert tested == {name for name, command in COMMANDS.items() if not hasattr(command, "list_commands")}


@pytest.mark.slow
def test_values(work):
    found = report(*TRAIN)
    tokenizer = bpejit.load("new")
    assert (found["out"], found["vocab_size"], found["merges"], found["sha256"]) == ("new", 300, 43, tokenizer.sha256)
    assert found["special_tokens"] == {"<|endoftext|>": 299}
    assert found["bytes"] == len(TEXT)
    assert list(found["stages"]) == ["count", "merge"]
    assert found["stages"]["count"]["done"] == len(TEXT)
    found = report("encode", "corpus.txt", "--out", "new.bin", "--dtype", "uint32")
    assert (found["dtype"], found["bytes"]) == ("uint32", len(TEXT))
    assert found["tokens"] == np.fromfile("new.bin", "<u4").size
    found = report("decode", "tokens.bin", "--out", "back.txt")
    assert (found["tokens"], found["bytes"]) == (np.fromfile("tokens.bin", "<u2").size, len(TEXT))


def test_notes_are_reported(work):
    (work / "marked.txt").write_bytes(b"\xef\xbb\xbfaaab aaab")
    result = invoke("train", "marked.txt", "--vocab-size", "400", "--min-frequency", "2", "--out", "new", "--json")
    notes = json.loads(result.stdout)["notes"]
    assert len(notes) == 2
    assert "nothing was left to merge" in notes[0]
    assert "`--min-frequency`" in notes[0]
    assert "`marked.txt`" in notes[1]
    assert "note:" not in result.stderr


def test_info_tokenizer(work):
    found = report("info", "tokenizer")
    assert (found["kind"], found["pattern"], found["pattern_runs_in"]) == ("tokenizer", "gpt2", "automaton")
    assert found["training"]["vocab_size"] == 300
    assert report("info", "tokens.bin")["kind"] == "tokens"


def test_verify_reports_difference(work):
    other = json.loads((work / "tokenizer" / "tokenizer.json").read_text(encoding="utf-8"))
    (work / "foreign").mkdir()
    other["model"]["merges"].pop()
    (work / "foreign" / "tokenizer.json").write_text(json.dumps(other), encoding="utf-8")
    found = report("verify", "foreign/tokenizer.json", "corpus.txt", "--against", "tokenizers")
    assert (found["equal"], found["difference"]) == (True, None)


def test_invalid_utf8_is_escaped_as_surrogates(work):
    (work / "text.txt").write_bytes(b"a\xff\xe2")
    found = report("split", "text.txt")
    pieces = found["inputs"][0]["pretokens"]
    assert b"".join(piece.encode("utf-8", "surrogateescape") for piece in pieces) == b"a\xff\xe2"
    invoke("encode", "text.txt", "--out", "few.bin")
    found = report("tokens", "head", "few.bin", "--tokenizer", "tokenizer")
    assert "".join(found["texts"]).encode("utf-8", "surrogateescape") == b"a\xff\xe2"


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "corpus.txt", "--out", "-"],
        ["encode", "corpus.txt", "--out", "/dev/stdout"],
        ["decode", "tokens.bin"],
        ["decode", "tokens.bin", "--out", "-"],
        ["subword", "encode", "corpus.txt", *SUBWORD, "--out", "-"],
        ["subword", "decode", "ids.bin", *SUBWORD],
    ],
)
def test_data_and_report_cannot_share_stdout(work, arguments):
    result = invoke(*arguments, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "name a file with `--out`, or leave `--json` out" in result.stderr


def test_errors_write_no_report(work):
    result = invoke("info", "missing", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("bpejit: error: ")
