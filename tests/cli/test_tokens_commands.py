"""Tests of `bpejit tokens info`, `head` and `verify`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_helpers import copy_files, invoke, run
from conftest import data_text

import bpejit

TEXT = data_text("prose.txt")[:3000] + "日本語\n".encode()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "corpus.txt").write_bytes(TEXT)
    tokenizer = bpejit.train(folder / "corpus.txt", vocab_size=300)
    tokenizer.save(folder / "tokenizer")
    tokenizer.encode_files(folder / "corpus.txt", folder / "tokens.bin")
    bpejit.train(folder / "corpus.txt", vocab_size=290).save(folder / "other")
    return folder


@pytest.fixture
def work(made, tmp_path, monkeypatch):
    copy_files(made, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tokens_info_matches_info(work):
    result = invoke("tokens", "info", "tokens.bin")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == invoke("info", "tokens.bin").stdout
    assert result.stdout.startswith("token file      tokens.bin\nfile size ")
    ours = json.loads(invoke("tokens", "info", "tokens.bin", "--json").stdout)
    theirs = json.loads(invoke("info", "tokens.bin", "--json").stdout)
    assert {**theirs, "command": "tokens info"} == ours
    assert ours["tokens"] == np.fromfile("tokens.bin", "<u2").size
    assert (ours["format"], ours["verified"], ours["dtype"]) == ("bin", False, "uint16")


def test_info_without_description(work):
    (work / "tokens.bin.json").unlink()
    size = (work / "tokens.bin").stat().st_size
    assert (
        f"{size // 2:,} if they are uint16, {size // 4:,} if they are uint32" in invoke("tokens", "info", "tokens.bin").stdout
    )
    found = json.loads(invoke("tokens", "info", "tokens.bin", "--json").stdout)
    assert (found["format"], found["dtype"], found["tokens"], found["first_ids"]) == (None, None, None, None)
    found = json.loads(invoke("tokens", "info", "tokens.bin", "--dtype", "uint16", "--json").stdout)
    assert (found["dtype"], found["tokens"], found["tokenizer_sha256"]) == ("uint16", size // 2, None)


def test_head(work):
    ids = np.fromfile("tokens.bin", "<u2").tolist()
    assert invoke("tokens", "head", "tokens.bin").stdout.splitlines() == [str(number) for number in ids[:10]]
    assert invoke("tokens", "head", "tokens.bin", "-n", "3").stdout.splitlines() == [str(number) for number in ids[:3]]
    assert len(invoke("tokens", "head", "tokens.bin", "--count", "1M").stdout.splitlines()) == len(ids)
    tokenizer = bpejit.load("tokenizer")
    lines = invoke("tokens", "head", "tokens.bin", "--tokenizer", "tokenizer", "-n", "5").stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == ids[:5]
    assert lines[0] == f"{ids[0]:<8}'{tokenizer.decode(ids[:1])}'"
    found = json.loads(invoke("tokens", "head", "tokens.bin", "--tokenizer", "tokenizer", "-n", "1M", "--json").stdout)
    assert (found["ids"], found["tokens"]) == (ids, len(ids))
    assert "".join(found["texts"]).encode("utf-8", "surrogateescape") == TEXT
    assert json.loads(invoke("tokens", "head", "tokens.bin", "--json").stdout)["texts"] is None


def test_head_of_stdin(work):
    ids = (work / "tokens.bin").read_bytes()
    done = run("tokens", "head", "-", "--dtype", "uint16", "-n", "2", input=ids, cwd=work)
    assert done.stdout.split() == [b"%d" % number for number in np.frombuffer(ids, "<u2")[:2]]
    done = run("tokens", "head", "-", input=ids, cwd=work)
    assert done.returncode == 1
    assert b"`--dtype uint16`" in done.stderr


def test_head_of_empty_file(work):
    (work / "empty.bin").write_bytes(b"")
    result = invoke("tokens", "head", "empty.bin", "--dtype", "uint16")
    assert (result.exit_code, result.output) == (0, "")
    assert json.loads(invoke("tokens", "head", "empty.bin", "--dtype", "uint16", "--json").stdout)["ids"] == []


def test_verify(work):
    digest = json.loads((work / "tokens.bin.json").read_text())["ids_sha256"]
    n_tokens = np.fromfile("tokens.bin", "<u2").size
    result = invoke("tokens", "verify", "tokens.bin", "--tokenizer", "tokenizer")
    assert result.stdout == f"verified `tokens.bin`: {n_tokens:,} tokens, SHA-256 {digest}\n"
    assert invoke("tokens", "verify", "tokens.bin", "-q").output == ""
    found = json.loads(invoke("tokens", "verify", "tokens.bin", "--json").stdout)
    assert (found["verified"], found["ids_sha256"]) == (True, digest)


@pytest.mark.parametrize("command", [["tokens", "verify", "tokens.bin"], ["info", "tokens.bin", "--verify"]])
def test_verify_detects_changed_id(work, command):
    data = bytearray((work / "tokens.bin").read_bytes())
    data[100] ^= 1
    (work / "tokens.bin").write_bytes(data)
    for more in ([], ["--json"]):
        result = invoke(*command, *more)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "SHA-256" in result.stderr
        assert result.stderr.count("\n") == 1


def test_other_tokenizers_are_refused(work):
    for command in ("head", "verify"):
        result = invoke("tokens", command, "tokens.bin", "--tokenizer", "other")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "another tokenizer" in result.stderr
    assert invoke("tokens", "verify", "missing.bin").exit_code == 1
    (work / "tokens.bin.json").unlink()
    assert "--dtype" not in invoke("tokens", "verify", "tokens.bin").stdout
    assert invoke("tokens", "verify", "tokens.bin").exit_code == 1
