"""Tests of `bpejit subword` and docs/subwords.md: vocabularies, ids, round trips and errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import twins
from conftest import ROOT, data_text, read_shared, small
from helpers.cli import COMMANDS, ENVIRONMENT, MODULE, invoke, run, snapshot
from hypothesis import given, strategies as st

from bpejit.corpus.sources import Source
from bpejit.errors import BpejitError
from bpejit.t2t.subword_files import count_tokens, line_blocks, reserved_tokens, sample_lines, strip_lines
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

TEXT = data_text("prose.txt")[: small(60_000, 2000)]
PAGE = (ROOT / "docs" / "subwords.md").read_text(encoding="utf-8")
VOCAB = ["--vocab", "vocab.subwords"]


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Return the working directory, with a corpus, a vocabulary and a file of ids."""
    (tmp_path / "corpus.txt").write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)
    done = invoke("subword", "train", "corpus.txt", "--vocab-size", 300, "--out", "vocab.subwords")
    assert done.exit_code == 0, done.output
    assert re.search(r"trained \d+ subtokens on .* wrote `vocab.subwords`", done.stderr)
    done = invoke("subword", "encode", "corpus.txt", *VOCAB, "--out", "ids.bin", "--append-eos")
    assert done.exit_code == 0, done.output
    assert f"encoded {TEXT.count(10) + 1:,} lines" in done.stderr
    return tmp_path


def fails(*arguments, code=1):
    """Run a command that must fail and change no file; return its standard error."""
    before = snapshot(Path.cwd())
    result = invoke("subword", *arguments)
    assert snapshot(Path.cwd()) == before
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    if code == 1:
        assert result.stderr.startswith("bpejit: error: ")
        assert result.stderr.count("\n") == 1
    return result.stderr


def test_round_trip(work):
    lines = TEXT.decode().split("\n")
    tokens = [token for line in map(str.strip, lines) for token in twins.subwords.drop_spaces(twins.subwords.split_words(line))]
    counts = {token: tokens.count(token) for token in set(tokens)}
    vocabulary = twins.subwords.bisect_subtokens(counts, 300, 1, 1000, ["<pad>", "<EOS>"])
    encoder = SubwordTextEncoder("vocab.subwords")
    assert list(encoder.all_subtoken_strings) == vocabulary
    ids = [number for line in lines for number in [*(encoder.encode(line) if line else []), 1]]
    assert np.fromfile("ids.bin", "<u2").tolist() == ids
    assert invoke("subword", "decode", "ids.bin", *VOCAB, "--out", "back.txt", "--quiet").output == ""
    assert (work / "back.txt").read_bytes() == TEXT + b"\n"
    result = invoke("subword", "decode", "ids.bin", *VOCAB)
    assert result.stdout_bytes == TEXT + b"\n"
    assert "decoded `ids.bin`" in result.stderr
    assert invoke("subword", "encode", "corpus.txt", *VOCAB, "--out", "plain.bin").exit_code == 0
    assert np.fromfile("plain.bin", "<u2").tolist() == [number for number in ids if number != 1]
    (work / "plain.bin.json").unlink()
    result = invoke("subword", "decode", "plain.bin", *VOCAB, "--dtype", "uint16")
    assert result.stdout.count("\n") == 1


def test_existing_vocabulary_is_refused(work):
    before = (work / "vocab.subwords").read_bytes()
    train = ["train", "corpus.txt", "--vocab-size", 200, "--out", "vocab.subwords"]
    assert "`vocab.subwords`: it already exists" in fails(*train)
    assert (work / "vocab.subwords").read_bytes() == before
    assert invoke("subword", *train, "--overwrite").exit_code == 0
    assert (work / "vocab.subwords").read_bytes() != before


def test_reserved_tokens_and_bounds(work):
    arguments = ["corpus.txt", "--vocab-size", 200, "--max-subtoken-length", 4, "--reserved", "<go>", "--reserved", "<x>"]
    assert invoke("subword", "train", *arguments, "--out", "more.subwords").exit_code == 0
    strings = SubwordTextEncoder("more.subwords").all_subtoken_strings
    assert strings[:4] == ("<pad>_", "<EOS>_", "<go>_", "<x>_")
    assert max(map(len, strings[4:])) == 3
    assert reserved_tokens(["<pad>", "<EOS>", "<go>"]) == ["<pad>", "<EOS>", "<go>"]


def test_counts(work):
    (work / "counts.tsv").write_bytes("low\t5\nlower\t2\r\na b\t3\nlow\t1\n日本\t4".encode())
    assert count_tokens("counts.tsv") == {"low": 6, "lower": 2, "a b": 3, "日本": 4}
    assert invoke("subword", "train", "counts.tsv", "--vocab-size", 40, "--out", "small.subwords").exit_code == 0
    (work / "text.txt").write_text("low a")
    assert count_tokens(["text.txt", "counts.tsv"])["low"] == 7
    for line in ("low", "low\tmany", "\t5", "low\t-1", ""):
        (work / "bad.tsv").write_text(f"low\t5\n{line}\nx\t1\n")
        assert "`bad.tsv`, line 2:" in fails("train", "bad.tsv", "--vocab-size", 40, "--out", "new")


def published_sample(data: bytes, size: int, budget: float) -> list[str]:
    """Return the lines that `generator_utils.generate_lines_for_vocab` yields."""
    chosen = []
    counter, most = 0, int(size / budget / 2)
    for line in data.replace(b"\r", b"").decode().split("\n"):
        if counter < most:
            counter += 1
        else:
            if budget <= 0:
                break
            chosen.append(line.strip())
            budget -= len(chosen[-1])
            counter = 0
    return chosen


@pytest.mark.parametrize("block", [7, 100, 1 << 22])
def test_byte_budget(tmp_path, monkeypatch, block):
    monkeypatch.setattr("bpejit.t2t.subword_files.BLOCK_BYTES", block)
    data = b"".join(b" %05d\r word\xe3\x80\x80\r\n" % i for i in range(1000)) + b"last"
    (tmp_path / "lines").write_bytes(data)
    source = Source(str(tmp_path / "lines"), len(data))

    def sampled(budget, source=source):
        blocks = [block for block, _ in sample_lines(source, budget)]
        return [line for block in blocks for line in block.decode().split("\n") if line]

    everything = [*(f"{i:05d} word" for i in range(1000)), "last"]
    assert sampled(None) == sampled(len(data)) == everything
    for budget in (len(data) - 1, len(data) // 2, len(data) // 10, 5000, 300, 30, 10, 1):
        assert sampled(budget) == published_sample(data, len(data), budget)
    assert sampled(len(data) // 10)[:2] == ["00005 word", "00011 word"]
    assert sampled(25, Source(source.path, None)) == everything[:3]


def test_stripped_lines():
    spaces = [chr(point) for point in range(0x110000) if chr(point).isspace()]
    assert len(spaces) > 20
    lines = [a + "x" + b + c + "y" + a for a in ["", *spaces] for b in spaces[:3] for c in ["", *spaces[-3:]]]
    lines += ["", " ", "\udc85", "\udca0 a \udc85", "。", "、\u3000", "\u200b"]
    for text in ("\n".join(lines), "\n".join(lines) + "\n", "", "\n", " ", "x"):
        expected = "\n".join(line.replace("\r", "").strip() for line in text.split("\n"))
        assert strip_lines(text.encode("utf-8", "surrogateescape")) == expected.encode("utf-8", "surrogateescape")


PARTS = [*b"\n\r ax\x1c\x80\x85\xa0\xc2\xe1\xe2\xe3\xf0", b"\xe3\x80\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"\xe3\x80\x81"]


@given(st.lists(st.sampled_from([bytes([part]) if isinstance(part, int) else part for part in PARTS]), max_size=15))
def test_lines_of_any_bytes_are_stripped(parts):
    # Carriage returns are removed first: the bytes around one may be the two halves of a white-space character.
    lines = b"".join(parts).replace(b"\r", b"").decode("utf-8", "surrogateescape").split("\n")
    expected = "\n".join(line.strip() for line in lines)
    assert strip_lines(b"".join(parts)) == expected.encode("utf-8", "surrogateescape")


def test_blocks_of_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("bpejit.t2t.subword_files.BLOCK_BYTES", 5)
    data = b"one\ntwo three four\n\nfive\nsix"
    (tmp_path / "lines").write_bytes(data)
    blocks = list(line_blocks(Source(str(tmp_path / "lines"), len(data))))
    assert b"".join(blocks) == data
    assert all(block.endswith(b"\n") for block in blocks[:-1])


@pytest.mark.parametrize("budget", ["0", "many", "-5", "1X"])
def test_invalid_byte_budget(work, budget):
    assert "size in bytes" in fails(
        "train", "corpus.txt", "--vocab-size", 99, "--out", "new", f"--byte-budget={budget}", code=2
    )


def test_errors(work):
    (work / "empty.txt").write_bytes(b"\n\n")
    train = ["--vocab-size", 99, "--out", "new"]
    assert "sample is empty" in fails("train", "empty.txt", *train)
    assert "there is no such file" in fails("encode", "corpus.txt", "--vocab", "missing", "--out", "new.bin")
    assert "No such file" in fails("train", "missing.txt", *train)
    assert "put these first, in this order" in fails("train", "corpus.txt", *train, "--reserved", "<EOS>")
    for inputs in ("corpus.txt", "empty.txt"):  # the output path is checked first
        assert "does not exist" in fails("train", inputs, "--vocab-size", 99, "--out", "missing/new")
    (work / "other.subwords").write_text("'a'\n'_'\n")
    other = ["--vocab", "other.subwords"]
    assert "no end-of-sentence token" in fails("encode", "corpus.txt", *other, "--out", "new.bin", "--append-eos")
    assert "cannot be encoded with this vocabulary" in fails("encode", "corpus.txt", *other, "--out", "new.bin")
    assert "another tokenizer" in fails("decode", "ids.bin", *other)
    np.array([2, 60_000], "<u2").tofile("wrong.bin")
    assert "id 60000" in fails("decode", "wrong.bin", *VOCAB, "--dtype", "uint16", "--out", "new.txt")
    result = invoke("subword", "encode", "corpus.txt", *other, "--out", "new.bin", "--debug")
    assert isinstance(result.exception, BpejitError)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_examples_of_page_and_help(tmp_path):
    """Run every command and all Python code of docs/subwords.md, in order, and check the round trip."""
    work, tools = tmp_path / "work", tmp_path / "tools"
    work.mkdir()
    tools.mkdir()
    (tools / "bpejit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {MODULE} "$@"\n', encoding="utf-8")
    (tools / "bpejit").chmod(0o755)
    lines = data_text("prose.txt").split(b"\n")[:3000]
    (work / "demo").mkdir()
    (work / "demo" / "texts.txt").write_bytes(data_text("prose.txt"))
    (work / "corpus.txt").write_bytes(b"\n".join(lines) + b"\n")
    (work / "shards").mkdir()
    (work / "shards" / "a.txt").write_bytes(b"\n".join(lines))
    commands = [
        line[2:]
        for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) == 9
    assert [command.partition(" ")[0] for command in commands[:2]] == ["head", "tr"]
    for command in COMMANDS["subword"].commands.values():
        commands += [line.strip() for line in command.help.partition("Example:\n")[2].strip().splitlines()]
    assert all(command.startswith("bpejit subword ") for command in commands[2:])
    environment = {**ENVIRONMENT, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["sh", "-euc", "\n".join(commands)], cwd=work, env=environment, timeout=600, check=True)
    for name in ("source", "target"):
        assert (work / f"{name}.back.txt").read_bytes() == (work / f"{name}.txt").read_bytes()
    pieces = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    checks = (
        f"assert first == {lines[0].decode()!r}",
        "assert text == 'The same ids as ever.'",
        "assert all(sample['targets'][-1] == 1 for sample in encoded)",
        "import os; assert sorted(os.listdir('data'))[::2] == [paths[0].replace('unshuffled-', '')[5:], 'vocab.subwords']",
    )
    assert len(pieces) == 4
    for piece, check in zip(pieces, checks, strict=True):
        subprocess.run([sys.executable, "-c", piece + check], cwd=work, env=environment, timeout=600, check=True)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["english.txt", "code.txt", "hard.txt", "multilingual.txt", "hard_bytes.bin"])
def test_every_corpus(name, tmp_path, monkeypatch):
    data = read_shared(f"corpora/{name}")[:1_000_000]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").write_bytes(data)
    assert invoke("subword", "train", "corpus", "--vocab-size", 8192, "--out", "vocab.subwords").exit_code == 0
    assert invoke("subword", "encode", "corpus", *VOCAB, "--out", "ids.bin", "--append-eos").exit_code == 0
    assert invoke("subword", "decode", "ids.bin", *VOCAB, "--out", "back").exit_code == 0
    assert (tmp_path / "back").read_bytes() == data + b"\n" * (not data.endswith(b"\n"))


def test_standard_input_and_output(work):
    done = run("subword", "encode", "-", *VOCAB, "--out", "piped.bin", "--append-eos", input=TEXT, cwd=work)
    assert done.returncode == 0, done.stderr
    assert (work / "piped.bin").read_bytes() == (work / "ids.bin").read_bytes()
    done = run("subword", "decode", "piped.bin", *VOCAB, "--quiet", cwd=work)
    assert done.stdout == TEXT + b"\n"
    assert done.stderr == b""
