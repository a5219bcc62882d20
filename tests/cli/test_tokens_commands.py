"""Tests of `bpejit tokens info`, `head` and `verify`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import data_text
from helpers.cli import MODULE, copy_files, invoke, run

import bpejit
import bpejit.tokenfiles

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
def test_verify_tells_its_progress(work, monkeypatch, command):
    monkeypatch.setattr(f"{MODULE}.progress.LINE_SECONDS", 0.0)
    n_tokens = np.fromfile("tokens.bin", "<u2").size
    lines = [json.loads(line) for line in invoke(*command, "--log-json").stderr.splitlines()]
    assert {line["stage"] for line in lines} == {"verify"}
    assert [line["done"] for line in (lines[0], lines[-1])] == [0, n_tokens]


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


# ---- documents and conversion


@pytest.fixture
def documents(work):
    """Return texts, and write them as a token file of each kind that has borders."""
    texts = ["one two\n", "", "three\n"]
    tokenizer = bpejit.train(work / "corpus.txt", vocab_size=300, special_tokens=["<|endoftext|>"])
    tokenizer.save(work / "special")
    (work / "documents.txt").write_text("<|endoftext|>".join(texts))
    tokenizer.encode_files(work / "documents.txt", work / "plain.bin")
    return texts


def test_convert_through_all_formats(work, documents):
    names = [name for name in bpejit.tokenfiles.format_names() if name != "bin"]
    ids = np.fromfile("plain.bin", "<u2").tolist()
    source = "plain.bin"
    for name in [*names, "bin"]:
        result = invoke("tokens", "convert", source, "--out", f"to-{name}", "--format", name)
        assert result.exit_code == 0, result.stderr
        assert f"converted `{source}`: {len(ids)} tokens" in result.stdout
        source = f"to-{name}"
        found = bpejit.open_tokens(source)
        found.verify()
        assert found.ids.tolist() == ids
        assert found.tokenizer_sha256 == bpejit.load("special").sha256
        assert found.bytes_read == (work / "documents.txt").stat().st_size
    fields = json.loads(invoke("tokens", "info", "to-parquet", "--json").stdout)
    assert (fields["format"], fields["documents"], fields["tokens"]) == ("parquet", 1, len(ids))
    assert "documents       1, " in invoke("tokens", "info", "to-parquet").stdout
    refused = invoke("tokens", "convert", "plain.bin", "--out", "to-npy", "--format", "npy")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "already exists" in refused.stderr
    again = invoke("tokens", "convert", "plain.bin", "--out", "to-npy", "--format", "npy", "--overwrite", "--json")
    assert json.loads(again.stdout) == {
        "command": "tokens convert",
        "path": "plain.bin",
        "out": "to-npy",
        "format": "npy",
        "dtype": "uint16",
        "tokens": len(ids),
        "documents": None,
        "left_out": 0,
    }


def test_convert_ids_of_unknown_origin(work):
    np.save("ids.npy", np.array([1, 70000, 2]))
    assert invoke("tokens", "convert", "ids.npy", "--out", "ids.bin", "--format", "bin").exit_code == 0
    found = bpejit.open_tokens("ids.bin")
    assert (found.dtype, found.ids.tolist(), found.vocab_size) == ("uint32", [1, 70000, 2], 70001)
    assert found.tokenizer_sha256 is found.bytes_read is None
    found.verify()
    assert invoke("tokens", "info", "ids.bin").exit_code == 0
    refused = invoke("tokens", "convert", "ids.npy", "--out", "u2", "--format", "bin", "--dtype", "uint16")
    assert "uint16 holds ids up to 65535" in refused.stderr
    np.array([1, 2], "<u2").tofile("bare")
    assert "`--input-dtype uint16`" in invoke("tokens", "convert", "bare", "--out", "b.npy", "--format", "npy").stderr
    assert invoke("tokens", "convert", "bare", "--out", "b.npy", "--format", "npy", "--input-dtype", "uint16").exit_code == 0
    assert np.load("b.npy").tolist() == [1, 2]


def test_head_shows_documents(work, documents):
    """A file without borders is divided after the end-of-text token."""
    shown = invoke("tokens", "head", "plain.bin", "--first-documents", "2", "--tokenizer", "special").stdout.splitlines()
    assert shown[1::2] == ["'one two\\n<|endoftext|>'", "'<|endoftext|>'"]
    assert shown[2] == "document 1: 1 tokens"
    found = json.loads(
        invoke("tokens", "head", "plain.bin", "--first-documents", "9", "--tokenizer", "special", "--json").stdout
    )
    assert found["texts"] == ["one two\n<|endoftext|>", "<|endoftext|>", "three\n"]
    assert found["documents"] is None
    assert [number for ids in found["ids"] for number in ids] == np.fromfile("plain.bin", "<u2").tolist()
    assert invoke("tokens", "convert", "plain.bin", "--out", "t.npy", "--format", "npy").exit_code == 0
    refused = invoke("tokens", "head", "t.npy", "--first-documents", "2")
    assert (refused.exit_code, "does not contain the borders" in refused.stderr) == (1, True)
    options = ["--format", "npy", "--tokenizer", "special", "--overwrite"]
    assert "3 documents" in invoke("tokens", "convert", "plain.bin", "--out", "t.npy", *options).stdout
    lines = invoke("tokens", "head", "t.npy", "--first-documents", "9").stdout.splitlines()
    assert [[int(word) for word in line.split()] for line in lines] == found["ids"]


@pytest.mark.slow
def test_text_of_ids(work):
    ids = np.fromfile("tokens.bin", "<u2").tolist()
    done = run("encode", "corpus.txt", "--tokenizer", "tokenizer", "--out", "-", "--text", cwd=work)
    assert [int(word) for word in done.stdout.split()] == ids
    assert done.stdout.endswith(b"\n")
    back = run("decode", "-", "--tokenizer", "tokenizer", "--text", input=done.stdout, cwd=work)
    assert back.stdout == TEXT
    raw = run("encode", "corpus.txt", "--tokenizer", "tokenizer", "--out", "-", cwd=work)
    assert np.frombuffer(raw.stdout, "<u2").tolist() == ids
    assert run("decode", "-", "--tokenizer", "tokenizer", "--dtype", "uint16", input=raw.stdout, cwd=work).stdout == TEXT
    wrong = run("decode", "-", "--tokenizer", "tokenizer", "--text", input=b"1 2\n3 x\n", cwd=work)
    assert wrong.returncode == 1
    assert b"standard input, line 2: 'x' is not a token id" in wrong.stderr
    both = invoke("encode", "corpus.txt", "--out", "t", "--text", "--format", "npy")
    assert (both.exit_code, "`--text` selects the format text" in both.stderr) == (2, True)
