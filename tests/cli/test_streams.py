"""Tests of commands without standard input, output or error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import data_text
from helpers.cli import run

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX file descriptors"), pytest.mark.slow]


def start(*arguments, closed=(), cwd, **options):
    """Run a command in a process that starts with some of the file descriptors 0, 1 and 2 closed."""
    return run(*arguments, cwd=cwd, preexec_fn=lambda: [os.close(number) for number in closed], **options)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "text.txt").write_bytes(data_text("prose.txt")[:20_000])
    assert run("train", "text.txt", "--vocab-size", "300", "--out", "tokenizer", cwd=folder).returncode == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(2,), (0, 2), (0,), (1,), (0, 1, 2)])
def test_commands_without_standard_streams(closed, work, tmp_path):
    tokenizer = work / "tokenizer"
    for arguments in (
        ("train", work / "text.txt", "--vocab-size", "300", "--out", "tokenizer"),
        (
            "encode",
            work / "text.txt",
            "--tokenizer",
            tokenizer,
            "--out",
            "tokens.bin",
            "--engine",
            "processes",
            "--workers",
            "2",
        ),
        ("decode", "tokens.bin", "--tokenizer", tokenizer, "--out", "back.txt"),
    ):
        done = start(*arguments, closed=closed, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, b""), done.stderr
        assert (done.stderr == b"") == (2 in closed)
    assert (tmp_path / "back.txt").read_bytes() == (work / "text.txt").read_bytes()
    token_files = ["tokens.bin", "tokens.bin.json", "tokens.bin.manifest.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.txt", "tokenizer", *token_files]
    assert start("encode", "missing.txt", "--out", "x.bin", closed=closed, cwd=tmp_path).returncode == 1


def test_results_are_written_without_stderr(work):
    done = start("info", "tokenizer", closed=(2,), cwd=work)
    assert done.returncode == 0
    assert done.stdout == run("info", "tokenizer", cwd=work).stdout != b""


def test_missing_stdout_is_an_error_for_results(work):
    done = start("info", "tokenizer", closed=(1,), cwd=work)
    assert done.returncode == 1
    assert done.stderr.startswith(b"bpejit: error: standard output is closed")
    assert done.stderr.count(b"\n") == 1


def test_missing_stdin_is_an_error_for_encode(work, tmp_path):
    done = start("encode", "-", "--tokenizer", work / "tokenizer", "--out", "tokens.bin", closed=(0,), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"bpejit: error: standard input is closed")
    assert done.stderr.count(b"\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_messages_that_cannot_be_written_are_discarded(work, tmp_path):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = run("encode", work / "text.txt", "--tokenizer", work / "tokenizer", "--out", "t.bin", cwd=tmp_path, stderr=full)
    assert done.returncode == 0
    assert (tmp_path / "t.bin").stat().st_size > 0


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("train", "--help"), ("subword", "decode", "--help")])
def test_help_without_stdout(arguments, tmp_path):
    done = start(*arguments, closed=(1,), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(b"bpejit: error: standard output is closed")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
@pytest.mark.parametrize(
    "arguments", [("--help",), ("info", "tokenizer"), ("encode", "text.txt", "--out", "-"), ("split", "--list")]
)
def test_full_stdout(arguments, work):
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = run(*arguments, cwd=work, stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith(b"bpejit: error: cannot write to standard output: No space left on device; expected space")
    assert done.stderr.count(b"\n") == 1


def test_piped_text_is_read_without_input(tmp_path):
    text = b"some text, some more text\n" * 40
    assert run("train", "--vocab-size", "270", input=text, cwd=tmp_path).returncode == 0
    done = run("encode", "--out", "tokens.bin", input=text, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run("decode", "tokens.bin", cwd=tmp_path).stdout == text
    for arguments in (["train", "--vocab-size", "270"], ["encode", "--out", "other.bin"]):
        done = run(*arguments, stdin=subprocess.DEVNULL, cwd=tmp_path)
        assert (done.returncode, b"Missing argument" in done.stderr) == (2, True)
    done = run("train", "--vocab-size", "270", "--out", "other", input=b"", cwd=tmp_path)
    assert done.returncode == 1
    assert (
        done.stderr == b"bpejit: error: the corpus (`-`) contains no text to learn from (0 bytes in all); expected some text\n"
    )
    assert not (tmp_path / "other").exists()
