"""Tests of commands on valid input: outputs and reports."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, data_text, small
from helpers.cli import COMMAND, COMMANDS, ENVIRONMENT, MODULE, invoke, run

import bpejit

TEXT = data_text("prose.txt")[: small(200_000, 3000)] + data_text("cjk.txt")[: small(60_000, 600)]
SIZE = small(2000, 300)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with a corpus, a tokenizer trained on it, and the encoded corpus."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "corpus.txt").write_bytes(TEXT)
    result = invoke("train", folder / "corpus.txt", "--vocab-size", SIZE, "--out", folder / "tokenizer")
    assert result.exit_code == 0, result.stderr
    result = invoke("encode", folder / "corpus.txt", "--out", folder / "tokens.bin", "--tokenizer", folder / "tokenizer")
    assert result.exit_code == 0, result.stderr
    return folder


def test_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_bytes(TEXT)
    for arguments in (
        ["train", "corpus.txt", "--vocab-size", str(SIZE)],
        ["encode", "corpus.txt", "--out", "tokens.bin"],
        ["decode", "tokens.bin", "--out", "back.txt"],
    ):
        result = invoke(*arguments)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == ""
        assert f"\n{ {'t': 'trained', 'e': 'encoded', 'd': 'decoded'}[arguments[0][0]] } " in f"\n{result.stderr}"
    assert (tmp_path / "back.txt").read_bytes() == TEXT
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "back.txt",
        "corpus.txt",
        "tokenizer",
        "tokens.bin",
        "tokens.bin.json",
        "tokens.bin.manifest.json",
    ]


def test_train_matches_library(trained):
    learned = bpejit.train([trained / "corpus.txt"], vocab_size=SIZE)
    loaded = bpejit.load(trained / "tokenizer")
    assert loaded.sha256 == learned.sha256
    assert loaded.special_tokens == {"<|endoftext|>": SIZE - 1}
    assert loaded.pattern == "gpt2"
    assert loaded.model.tie_break == "greatest-bytes"


def test_train_options(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(TEXT[: small(50_000, 1500)].replace(b"\n", b"\r\n"))
    options = ["--pattern", "cl100k", "--special-token", "<a>", "--special-token", "<b>", "--special-tokens-first"]
    options += ["--tie-break", "hf", "--min-frequency", "3", "--max-token-bytes", "5", "--normalize-newlines"]
    options += ["--workers", "2", "--engine", "threads"]
    result = invoke("train", tmp_path / "corpus.txt", "--vocab-size", 300, "--out", tmp_path / "out", *options)
    assert result.exit_code == 0, result.stderr
    made = bpejit.load(tmp_path / "out")
    expected = bpejit.train(
        [tmp_path / "corpus.txt"],
        vocab_size=300,
        special_tokens=["<a>", "<b>"],
        special_tokens_first=True,
        pattern="cl100k",
        tie_break="hf",
        min_frequency=3,
        max_token_bytes=5,
        normalize_newlines=True,
    )
    assert made.sha256 == expected.sha256
    assert made.special_tokens == {"<a>": 0, "<b>": 1}
    assert made.model.tie_break == "hf"
    assert max(map(len, made.model.tokens.values())) <= 5
    assert not any(b"\r" in left + right for left, right in made.merges)


def test_train_without_special_tokens(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(TEXT[:2000])
    result = invoke("train", tmp_path / "corpus.txt", "--vocab-size", 270, "--no-special-tokens", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    tokenizer = bpejit.load(tmp_path / "out")
    assert tokenizer.special_tokens == {}
    assert tokenizer.vocab_size == 270


def test_train_reports_smaller_vocabulary(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(b"aaab aaab")
    result = invoke("train", tmp_path / "corpus.txt", "--vocab-size", 1000, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    size = bpejit.load(tmp_path / "out").vocab_size
    assert 257 < size < 270
    assert f"note: nothing was left to merge after {size - 257} merges" in result.stderr
    assert f"has {size} tokens instead of 1,000" in result.stderr


def test_inputs_may_be_files_globs_or_stdin(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = [TEXT[:10_000], TEXT[10_000:30_000], TEXT[30_000:]]
    for name, part in zip(("a1.txt", "a2.txt"), parts, strict=False):
        (tmp_path / name).write_bytes(part)
    result = run("encode", "a?.txt", "-", "--out", "t.bin", "--tokenizer", trained / "tokenizer", cwd=tmp_path, input=parts[2])
    assert result.returncode == 0, result.stderr
    back = run("decode", "t.bin", "--tokenizer", trained / "tokenizer", cwd=tmp_path)
    assert back.returncode == 0, back.stderr
    assert back.stdout == b"".join(parts)


def test_token_file_has_nanogpt_format(trained):
    tokenizer = bpejit.load(trained / "tokenizer")
    ids = np.fromfile(trained / "tokens.bin", dtype="<u2")
    assert np.array_equal(ids, tokenizer.encode_array(TEXT))
    description = json.loads((trained / "tokens.bin.json").read_text(encoding="utf-8"))
    assert description["dtype"] == "uint16"
    values = list(description.values())
    assert ids.size in values
    assert len(TEXT) in values
    assert tokenizer.sha256 in values


def test_encode_dtype(trained, tmp_path):
    out = tmp_path / "wide.bin"
    result = invoke("encode", trained / "corpus.txt", "--out", out, "--tokenizer", trained / "tokenizer", "--dtype", "uint32")
    assert result.exit_code == 0, result.stderr
    wide, narrow = np.fromfile(out, dtype="<u4"), np.fromfile(trained / "tokens.bin", dtype="<u2")
    assert np.array_equal(wide, narrow)
    assert "uint32" in result.stderr


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_engines_write_identical_files(trained, tmp_path, engine):
    options = ["--tokenizer", trained / "tokenizer", "--engine", engine, "--workers", "2"]
    result = invoke("encode", trained / "corpus.txt", "--out", tmp_path / "t.bin", *options)
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "t.bin").read_bytes() == (trained / "tokens.bin").read_bytes()


def test_decode_to_stdout(trained):
    result = run("decode", trained / "tokens.bin", "--tokenizer", trained / "tokenizer")
    assert result.returncode == 0
    assert result.stdout == TEXT
    assert result.stderr.decode().startswith(f"decoded `{trained / 'tokens.bin'}` into ")


def test_round_trip_of_invalid_utf8(trained, tmp_path):
    (tmp_path / "in.bin").write_bytes(data_text("awkward.bin")[: small(None, 3000)])
    tokenizer = ["--tokenizer", trained / "tokenizer"]
    assert invoke("encode", tmp_path / "in.bin", "--out", tmp_path / "t.bin", *tokenizer).exit_code == 0
    assert invoke("decode", tmp_path / "t.bin", "--out", tmp_path / "back", *tokenizer).exit_code == 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "in.bin").read_bytes()


def test_summaries(trained, tmp_path):
    tokens = np.fromfile(trained / "tokens.bin", dtype="<u2").size
    n_special = TEXT.count(b"<|endoftext|>")
    ratio = (len(TEXT) - n_special * len(b"<|endoftext|>")) / (tokens - n_special)
    result = invoke("train", trained / "corpus.txt", "--vocab-size", SIZE, "--out", tmp_path / "out")
    assert re.search(
        rf"^trained {SIZE:,} tokens on [\d.]+ kB in [\d.]+ s: count [\d.]+ s \([\d.,]+ MB/s\), "
        rf"merge [\d.]+ s \([\d,]+ merges/s\); {ratio:.3f} bytes per token of this text; "
        rf"wrote `{tmp_path / 'out'}`$",
        result.stderr,
        re.MULTILINE,
    ), result.stderr
    out = tmp_path / "t.bin"
    result = invoke("encode", trained / "corpus.txt", "--out", out, "--tokenizer", trained / "tokenizer")
    assert re.search(
        rf"^encoded [\d.]+ kB into {tokens:,} tokens \({len(TEXT) / tokens:.2f} bytes per token\) in [\d.]+ s "
        rf"\([\d.,e-]+ MB/s\); wrote `{out}` \(bin, [\d.]+ kB, uint16\)$",
        result.stderr,
        re.MULTILINE,
    ), result.stderr


def test_quiet_prints_nothing(trained, tmp_path):
    tokenizer = ["--tokenizer", tmp_path / "tokenizer", "--quiet"]
    for arguments in (
        ["train", trained / "corpus.txt", "--vocab-size", "5000", "--out", tmp_path / "tokenizer", "--quiet"],
        ["encode", trained / "corpus.txt", "--out", tmp_path / "t.bin", *tokenizer],
        ["decode", tmp_path / "t.bin", "--out", tmp_path / "back.txt", *tokenizer],
    ):
        result = invoke(*arguments)
        assert result.exit_code == 0
        assert result.output == ""


def test_info_tokenizer(trained):
    result = invoke("info", trained / "tokenizer")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in result.stdout.splitlines())
    tokenizer = bpejit.load(trained / "tokenizer")
    assert lines["vocab size"] == f"{SIZE:,} ({SIZE - 257:,} merges, 1 special token)"
    assert lines["special tokens"] == f"'<|endoftext|>' = {SIZE - 1}"
    assert lines["split pattern"] == "gpt2 (runs as a compiled automaton)"
    assert lines["tie rule"] == "greatest-bytes"
    rank = next(rank for rank, (left, right) in enumerate(tokenizer.merges) if (left + right).isascii())
    merged = b"".join(tokenizer.merges[rank]).decode()
    assert f"{merged!r} x {tokenizer.model.merge_counts[rank]:,}" in lines["first merges"]
    longest = max(map(len, tokenizer.model.tokens.values()))
    assert f"({longest} bytes)" in lines["longest tokens"]
    assert str(trained / "corpus.txt") in lines["inputs"]
    notes = tokenizer.model.training
    assert f"{notes['distinct_pretokens']:,} distinct pre-tokens, vocab size {SIZE:,}" in lines["training"]
    assert "_" not in lines["training"]
    assert lines["sha256"] == tokenizer.sha256


def test_info_pattern_outside_dialect(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(TEXT[:3000])
    pattern = r"(?<=\s)\w+|(?s:.)"
    result = invoke("train", tmp_path / "corpus.txt", "--vocab-size", 270, "--pattern", pattern, "--out", tmp_path / "t")
    assert result.exit_code == 0, result.stderr
    result = invoke("info", tmp_path / "t")
    assert result.exit_code == 0, result.stderr
    assert f"{pattern} (runs in the regex package: " in result.stdout


def test_info_sequence_of_patterns(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(TEXT[:3000])
    bpejit.train(tmp_path / "corpus.txt", vocab_size=270, pattern=(r"\p{N}", r"\s+|\S+")).save(tmp_path / "t")
    result = invoke("info", tmp_path / "t")
    assert result.exit_code == 0, result.stderr
    assert r"\p{N}, then \s+|\S+ (runs as a compiled automaton)" in result.stdout


def test_info_token_file(trained):
    result = invoke("info", trained / "tokens.bin")
    assert result.exit_code == 0, result.stderr
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in result.stdout.splitlines())
    ids = np.fromfile(trained / "tokens.bin", dtype="<u2")
    assert lines["dtype"] == "uint16"
    assert lines["tokens"] == f"{ids.size:,}"
    assert lines["text"] == f"{len(TEXT):,} bytes, {len(TEXT) / ids.size:.2f} per token"
    assert lines["tokenizer"] == bpejit.load(trained / "tokenizer").sha256
    assert lines["first ids"] == " ".join(map(str, ids[:10]))


def test_info_token_file_without_description(trained, tmp_path):
    (tmp_path / "tokens.bin").write_bytes((trained / "tokens.bin").read_bytes())
    result = invoke("info", tmp_path / "tokens.bin")
    assert result.exit_code == 0, result.stderr
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in result.stdout.splitlines())
    size = (trained / "tokens.bin").stat().st_size
    assert lines["file size"] == f"{size:,} bytes"
    assert lines["kind"].startswith("not known")
    assert lines["tokens"].startswith(f"{size // 2:,} if they are uint16")
    result = invoke("info", tmp_path / "tokens.bin", "--dtype", "uint16")
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in result.stdout.splitlines())
    assert (lines["dtype"], lines["tokens"]) == ("uint16", f"{size // 2:,}")


@pytest.mark.slow
@pytest.mark.compiled
def test_warmup_summary():
    result = invoke("warmup")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert re.fullmatch(
        r"compiled for this machine in .* s; later runs load the result|"
        r"all kernels are already compiled; loading them took .* s",
        result.stderr.splitlines()[-1],
    )
    assert invoke("warmup").stderr.startswith("all kernels are already compiled")


def test_version():
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"bpejit {bpejit.__version__}\n")


@pytest.mark.parametrize("command", [[], *(name.split() for name in COMMANDS)])
def test_help(command):
    for flag in ("--help", "-h"):
        result = invoke(*command, flag)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: bpejit ")
        assert "Example:\n" in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 100


def test_help_describes_commands_in_groups(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke("--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", text, re.MULTILINE)
    assert listed == [name for name in COMMANDS if " " not in name]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for name in listed:
        assert f"{name} {COMMANDS[name].get_short_help_str(1000)}" in lines  # the whole sentence in one line
    headings = dict(re.findall(r"^(\w+):\n  ([a-z]+) ", text, re.MULTILINE))
    first = {"Train": "train", "Encode": "encode", "Inspect": "info", "Convert": "export", "More": "subword"}
    assert list(headings.items()) == list(first.items())
    words = " ".join(text.split())
    assert all(option in words for option in ("-q", "-v", "--json"))
    for group in ("tokens", "counts", "cache", "subword"):
        lines = [" ".join(line.split()) for line in invoke(group, "--help").stdout.splitlines()]
        names = [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{group} ")]
        described = [f"{name} {COMMANDS[f'{group} {name}'].get_short_help_str(1000)}" for name in names]
        assert lines[-len(names) :] == described


@pytest.mark.parametrize("module", ["bpejit", "cli"])
def test_python_minus_m(module):
    if module == "bpejit" and COMMAND[-1] == "cli":
        pytest.skip("the project is not installed here")
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], cwd=ROOT, env=ENVIRONMENT, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.decode().strip()) == (0, f"bpejit {bpejit.__version__}")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize("no_color", [False, True])
def test_progress_bar_on_terminal(trained, tmp_path, no_color):
    """A terminal shows a bar with bytes and rate, which is erased at the end, and the summary."""
    leader, follower = os.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "120", **({"NO_COLOR": "1"} if no_color else {})}
    command = [*COMMAND, "train", str(trained / "corpus.txt"), "--vocab-size", str(SIZE), "--out", str(tmp_path / "t")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # Linux reports a closed peer this way
                break
            if not part:
                break
            shown += part
        assert process.wait(timeout=600) == 0
        assert process.stdout.read() == b""
    os.close(leader)
    text = shown.decode()
    assert "MB/s" in text
    assert "merges/s" in text
    assert "\x1b[2K" in text  # erases a line of the bar
    assert re.search(r"trained [\d,]+ tokens on .*", text)
    assert ("\x1b[38" in text or "\x1b[3" in text) is not no_color


def test_info_shows_runs_as_a_number(tmp_path):
    bpejit.train_from_iterator([" " * 64] * 9, vocab_size=262, pattern=r"\s+", special_tokens=[]).save(tmp_path / "tk")
    assert "' ' x 64 (64 bytes)" in invoke("info", tmp_path / "tk").stdout


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_rows_on_a_terminal_are_wrapped(monkeypatch, stream):
    """Elsewhere a row is a line, whatever its length, for programs that read it."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", stream())
    rows = [("tokens", "'中文' (6 bytes), ' ' x 64"), ("sha256", "0123456789" * 3), ("none", "")]
    importlib.import_module(f"{MODULE}.reporting").write_table(rows)
    lines = sys.stdout.getvalue().splitlines()
    if stream is io.StringIO:
        assert lines == [f"{name:<16}{value}" for name, value in rows]
    else:
        assert [line[:16].strip() for line in lines] == ["tokens", "", "sha256", "", "none"]
        assert [line[16:].rstrip() for line in lines] == ["'中文' (6 bytes), ' ' x", "64", rows[1][1][:24], "456789", ""]
