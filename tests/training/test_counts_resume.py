"""Continuing an interrupted training from its counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import data_text, small
from helpers.cli import COMMAND, ENVIRONMENT, invoke

import bpejit
from bpejit import OutputError
from bpejit.training import counts_resume, model_learning

ARGUMENTS = ["--vocab-size", "320", "--out", "tok"]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        Path(name).write_bytes(name.encode() + data_text("prose.txt")[: small(20_000, 1_500)])
    assert invoke("train", "a.txt", "b.txt", "--vocab-size", "320", "--out", "expected", "-q").exit_code == 0
    return tmp_path


def interrupted(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Run a training that is interrupted after counting. Return its messages."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model_learning, "MergeLearner", interrupt)
        result = invoke("train", *arguments)
    assert result.exit_code == 130
    return result.stderr


def folder_bytes(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize("memory", [[], ["--max-memory", "1G"]])
def test_an_interrupted_training_continues(work: Path, monkeypatch: pytest.MonkeyPatch, memory: list[str]) -> None:
    message = interrupted(monkeypatch, "a.txt", "b.txt", *ARGUMENTS, *memory)
    assert "tok.partial.counts`; the same command with `--resume` continues" in message
    assert Path("tok.partial.counts").exists()
    assert not Path("tok").exists()
    result = invoke("train", "b.txt", "a.txt", *ARGUMENTS, "--resume", "--json", *memory)
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["resumed"]
    assert list(report["stages"]) == ["merge"]
    assert folder_bytes("tok") == folder_bytes("expected")
    assert not Path("tok.partial.counts").exists()


@pytest.mark.parametrize(("pretokens_per_second", "memory"), [(0, []), (1e12, []), (0, ["--max-memory", "1G"])])
def test_counts_that_are_written_in_more_time_than_they_took_are_not_kept(
    work: Path, monkeypatch: pytest.MonkeyPatch, pretokens_per_second: float, memory: list[str]
) -> None:
    monkeypatch.setattr(counts_resume, "FEW_PRETOKENS", 10)
    monkeypatch.setattr(counts_resume, "SAVE_SECONDS", 1 / pretokens_per_second if pretokens_per_second else 1e12)
    Path("tok.partial.counts").write_bytes(b"of an earlier run")
    interrupted(monkeypatch, "a.txt", "b.txt", *ARGUMENTS, *memory)
    assert Path("tok.partial.counts").exists() == bool(pretokens_per_second or memory)
    assert invoke("train", "a.txt", "b.txt", *ARGUMENTS, "--resume", "-q", *memory).exit_code == 0
    assert folder_bytes("tok") == folder_bytes("expected")


def test_nothing_to_resume_is_a_new_training(work: Path) -> None:
    result = invoke("train", "a.txt", "b.txt", *ARGUMENTS, "--resume", "--json")
    assert result.exit_code == 0
    assert not json.loads(result.stdout)["resumed"]
    assert folder_bytes("tok") == folder_bytes("expected")
    assert sorted(path.name for path in work.iterdir()) == ["a.txt", "b.txt", "expected", "tok"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt"], "that run has the input `b.txt`"),
        (["a.txt", "b.txt", "expected/bpejit.json"], "that run does not have the input `expected/bpejit.json`"),
        (["a.txt", "b.txt", "a.txt"], "that run has 2 inputs; expected 3 inputs"),
        (["a.txt", "b.txt", "--pattern", "cl100k"], "the pattern of that run is 'gpt2'; expected 'cl100k'"),
        (["a.txt", "b.txt", "--no-special-tokens"], "the special tokens of that run is"),
        (["a.txt", "b.txt", "--normalize-newlines"], "the normalize newlines of that run is"),
    ],
)
def test_another_training_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    interrupted(monkeypatch, "a.txt", "b.txt", *ARGUMENTS)
    result = invoke("train", *arguments, *ARGUMENTS, "--resume")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "without `--resume`" in result.stderr
    assert Path("tok.partial.counts").exists()


def test_changed_inputs_are_refused__and_counted_again_without_resume(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, "a.txt", "b.txt", *ARGUMENTS)
    Path("b.txt").write_bytes(b"B" + Path("b.txt").read_bytes()[1:])
    result = invoke("train", "a.txt", "b.txt", *ARGUMENTS, "--resume")
    assert "the input `b.txt` has changed since" in result.stderr
    assert invoke("train", "a.txt", "b.txt", *ARGUMENTS, "-q").exit_code == 0
    assert not Path("tok.partial.counts").exists()


def test_modified_inputs_are_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only head and tail of an input are hashed, so its middle may have changed."""
    interrupted(monkeypatch, "a.txt", "b.txt", *ARGUMENTS)
    os.utime("a.txt", ns=(0, 1))
    result = invoke("train", "a.txt", "b.txt", *ARGUMENTS, "--resume")
    assert result.exit_code == 1
    assert (
        "the input `a.txt` was modified since; expected an input that was not: run the command without `--resume`"
        in result.stderr
    )


def test_damaged_counts_are_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, "a.txt", "b.txt", *ARGUMENTS)
    content = bytearray(Path("tok.partial.counts").read_bytes())
    content[-100] ^= 1
    Path("tok.partial.counts").write_bytes(content)
    result = invoke("train", "a.txt", "b.txt", *ARGUMENTS, "--resume")
    assert result.exit_code == 1
    assert "is damaged" in result.stderr


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_killed_training_continues(work: Path) -> None:
    arguments = [*COMMAND, "train", "a.txt", "b.txt", *ARGUMENTS]
    start = time.perf_counter()
    subprocess.run([*arguments, "-q"], env=ENVIRONMENT, check=True)
    seconds = time.perf_counter() - start
    killed = 0
    for share in (0.3, 0.5, 0.7, 0.9):
        process = subprocess.Popen([*arguments, "--overwrite"], env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        time.sleep(share * seconds)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        done = subprocess.run([*arguments, "--resume", "--overwrite", "-q"], env=ENVIRONMENT, check=False)
        assert done.returncode == 0
        assert folder_bytes("tok") == folder_bytes("expected")
        assert not [path for path in work.iterdir() if path.name.startswith(".")]
    assert killed


def test_an_interrupted_training_continues_in_python(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    options = {"vocab_size": 320, "out": work / "tok", "also": [300, 280, 300]}
    with monkeypatch.context() as patch:
        patch.setattr(model_learning, "MergeLearner", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bpejit.train(["a.txt", "b.txt"], **options)
    assert Path("tok.partial.counts").exists()
    with monkeypatch.context() as patch:
        patch.setattr("bpejit.training.train.count_corpus", interrupt)  # counts again otherwise
        tokenizer = bpejit.train(["b.txt", "a.txt"], **options, resume=True)
    assert not Path("tok.partial.counts").exists()
    assert folder_bytes("tok") == folder_bytes("expected")
    assert bpejit.load("tok") == tokenizer
    for size in (300, 280):
        bpejit.train(["a.txt", "b.txt"], vocab_size=size, out=f"alone-{size}")
        assert folder_bytes(f"tok-{size}") == folder_bytes(f"alone-{size}")
    with pytest.raises(OutputError, match="exists"):
        bpejit.train(["a.txt", "b.txt"], **options)
    bpejit.train(["a.txt", "b.txt"], **options, overwrite=True, resume=True)
    texts = iter([Path("a.txt").read_text(), Path("b.txt").read_text()])
    bpejit.train_from_iterator(texts, vocab_size=320, out="texts", also=[300])
    assert bpejit.load("texts-300").vocab == bpejit.load("tok-300").vocab
    assert not list(work.glob("*.partial.counts"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"also": [300]}, "also is .300., and out is None"),
        ({"resume": True}, "resume is True, and out is None"),
        ({"also": [320], "out": "t"}, "also contains 320; expected sizes from 257"),
        ({"also": [256], "out": "t"}, "also contains 256; expected sizes from 257"),
        ({"also": 300, "out": "t"}, "also is 300, an int; expected a list"),
        ({"also": ["x"], "out": "t"}, r"also\[0\] is 'x'"),
        ({"out": "a.txt"}, "a.txt"),
    ],
)
def test_wrong_options_of_saving(work: Path, options: dict[str, Any], message: str) -> None:
    before = sorted(work.iterdir())
    with pytest.raises(bpejit.BpejitError, match=message):
        bpejit.train("a.txt", vocab_size=320, **options)
    assert sorted(work.iterdir()) == before
