"""Tests of `bpejit encode` as a job: options, progress, interrupts and messages."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import data_text, small
from helpers.cli import COMMAND, ENVIRONMENT, MODULE, invoke, snapshot

import bpejit

END = "<|endoftext|>"
TEXT = data_text("cjk.txt")[-small(60_000, 3000) :]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_bytes(TEXT)
    (tmp_path / "corpus" / "b.txt").write_bytes(TEXT[: len(TEXT) // 2])
    tokens = {byte: bytes([byte]) for byte in range(256)}
    bpejit.Tokenizer.from_model(bpejit.Model(tokens=tokens, merges=[], special_tokens={END: 256}, unicode="16.0")).save(
        "tokenizer"
    )
    return tmp_path


def test_options_reach_the_library(work: Path) -> None:
    options = ["--append-token", END, "--shard-tokens", "2k", "--val-fraction", "20%", "--seed", "7", "--document-index"]
    result = invoke("encode", "corpus", "--out", "t.bin", *options)
    assert result.exit_code == 0, result.stderr
    assert " files (bin, uint16), described by `t.bin.manifest.json`" in result.stderr
    assert "documents; peak memory " in result.stderr
    assert "time: plan " in result.stderr
    found = {path.name: path.read_bytes() for path in work.glob("t-*")}
    tokenizer = bpejit.load("tokenizer")
    tokenizer.encode_files(
        "corpus", "u.bin", append_token=END, shard_tokens=2000, val_fraction=0.2, seed=7, document_index=True
    )
    assert {f"t{path.name[1:]}": path.read_bytes() for path in work.glob("u-*")} == found
    result = invoke("encode", "corpus", "--out-dir", "out")
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in (work / "out").iterdir()} >= {"a.txt.bin", "b.txt.bin", "manifest.json"}


def test_parts_and_combine(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = invoke("encode", "corpus", "--out", "t.bin", "--shard", "0/2", "--json")
    assert json.loads(first.stdout)["missing_parts"] == 1
    assert json.loads(first.stdout)["outputs"] == []
    result = invoke("combine", "t.bin")
    assert result.exit_code == 1
    assert (
        "1 of the 2 parts of `t.bin` is not complete: 1; expected all of them: run each of these with `--shard I/2`"
        in result.stderr
    )
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = invoke("encode", "corpus", "--out", "t.bin", "--shard", "auto")
    assert result.exit_code == 0, result.stderr
    assert (work / "t.bin").stat().st_size == 2 * (len(TEXT) + len(TEXT) // 2) - 2 * 12 * (TEXT + TEXT[: len(TEXT) // 2]).count(
        END.encode()
    )
    result = invoke("combine", "t.bin", "--json")
    assert json.loads(result.stdout)["outputs"] == ["t.bin"]
    assert invoke("encode", "corpus", "--out", "t.bin", "--shard", "auto", "--resume").exit_code == 0


def test_dry_run_writes_nothing(work: Path) -> None:
    before = snapshot(work)
    result = invoke("encode", "corpus", "--out", "t.bin", "--dry-run")
    assert result.exit_code == 0
    assert result.stderr.startswith("would encode ")
    assert " in 1 unit to `t.bin` (bin, uint16); expected: " in result.stderr
    fields = json.loads(invoke("encode", "corpus", "--out", "t.bin", "--dry-run", "--json").stdout)
    assert (fields["dry_run"], fields["bytes"], fields["units"]) == (True, len(TEXT) + len(TEXT) // 2, 1)
    assert fields["parts"] == 1
    assert snapshot(work) == before


def test_resume_of_a_complete_output(work: Path) -> None:
    assert invoke("encode", "corpus", "--out", "t.bin").exit_code == 0
    result = invoke("encode", "corpus", "--out", "t.bin", "--resume")
    assert result.exit_code == 0
    assert "nothing is left to do" in result.stderr
    result = invoke("encode", "corpus", "--out", "t.bin")
    assert result.exit_code == 1
    assert "already exists" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "neither `--out` nor `--out-dir` is given; expected one of them"),
        (["--out", "a", "--out-dir", "b"], "`--out` and `--out-dir` are both given"),
        (["--out", "a", "--shard", "5/5"], "--shard is '5/5'"),
        (["--out", "a", "--val-fraction", "1.5"], "expected a number from 0 up to 1"),
        (["--out", "a", "--append-token", "x"], "--append-token is 'x'"),
    ],
)
def test_wrong_options(work: Path, arguments: list[str], message: str) -> None:
    result = invoke("encode", "corpus", *arguments)
    assert result.exit_code in (1, 2)
    assert message in result.stderr.replace("Error: Invalid value for '--val-fraction': ", "")


def test_lines_of_progress(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MODULE}.progress.LINE_SECONDS", 0.0)
    result = invoke("encode", "corpus", "--out", "t.bin")
    lines = [line for line in result.stderr.splitlines() if line.startswith("encode: ")]
    assert lines
    assert all(" MB/s" in line or "bytes/s" in line or "kB/s" in line for line in lines)
    assert "tokens/s" in lines[-1]
    assert " left" in lines[-1]
    events = [json.loads(line) for line in invoke("encode", "corpus", "--out", "u.bin", "--log-json").stderr.splitlines()]
    kinds = [event["event"] for event in events]
    assert set(kinds) >= {"progress", "summary"}
    last = [event for event in events if event["event"] == "progress"][-1]
    assert (last["stage"], last["done"], last["unit"]) == ("encode", last["total"], "bytes")
    assert last["tokens"] > 0
    assert events[-1]["outputs"] == ["u.bin"]
    failed = invoke("encode", "corpus", "--out", "u.bin", "--log-json")
    assert json.loads(failed.stderr.splitlines()[-1])["event"] == "error"
    assert invoke("encode", "corpus", "--out", "v.bin", "--quiet").stderr == ""


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupted_command_tells_how_to_continue(work: Path) -> None:
    with (work / "large.txt").open("wb") as file:
        for _ in range(64):
            file.write(TEXT * 40)
    arguments = ["encode", "large.txt", "--out", "t.bin", "--engine", "serial"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        deadline = time.monotonic() + 120
        while not (work / ".t.bin.bpejit-job" / "part-0-of-1" / "checkpoint.json").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    if process.returncode == 0:
        pytest.skip("the command was faster")
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "bpejit: interrupted"
    assert re.search(r"kept \d of 3 units \(\d+\.\d MB of input\)", errors)
    assert "continue with: bpejit encode large.txt --out t.bin --engine serial --resume" in errors
    assert not os.path.lexists("t.bin")
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert "continue it with `--resume`, or start again with `--overwrite`" in result.stderr
    result = invoke(*arguments, "--resume")
    assert result.exit_code == 0
    assert re.search(r"resuming the job after \d of 3 units", result.stderr)
    bpejit.open_tokens("t.bin").verify()


def test_summaries_of_parts_and_of_resumed_jobs(work: Path) -> None:
    (work / "small.txt").write_bytes(TEXT[:2000])
    summaries = {}
    for part in range(2):
        result = invoke("encode", "small.txt", "--out", "t.bin", "--shard", f"{part}/2", "--resume")
        assert result.exit_code == 0, result.stderr
        summaries[part] = result.stderr
    assert re.search(r"encoded part 0/2, 2\.0 kB into .* in .*/s\); 1 of the parts of `t\.bin` is missing", summaries[0])
    assert "part 1 of 2 has no units: the input has 1, which belong to other parts" in summaries[1]
    assert re.search(r"part 1/2 has no units; joined all parts, 2\.0 kB into [\d,]+ tokens", summaries[1])
    whole = invoke("encode", "small.txt", "--out", "u.bin")
    assert re.search(r"encoded 2\.0 kB into .* tokens \(.*\) in .*/s\); wrote", whole.stderr)
    again = invoke("encode", "small.txt", "--out", "u.bin", "--resume")
    assert re.search(r"encoded 2\.0 kB into .* tokens \(.*\), all of it in an earlier run; wrote", again.stderr)


def test_hint_names_the_command_of_the_unfinished_job(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = ["encode", "corpus", "--out", "t.bin", "--shard", "0/2", "--append-token", END]
    monkeypatch.setattr(sys, "argv", ["bpejit", *began])
    assert invoke(*began).exit_code == 0
    other = ["encode", "corpus", "--out", "t.bin", "--shard", "0/2", "--resume"]
    monkeypatch.setattr(sys, "argv", ["bpejit", *other])
    errors = invoke(*other).stderr
    assert f"but it has `--append-token '{END}'`, and this one has not; expected the same job in all parts: " in errors
    assert f"continue it with `bpejit {' '.join(began[:-1])} '{END}' --resume`" in errors
    assert errors.count("continue") == 1
