"""Counting in bounded memory: runs on disk, their merging, and what remains of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import small
from helpers.cli import COMMAND, ENVIRONMENT

import bpejit
from bpejit.arrays import padded_text
from bpejit.counting import spilling
from bpejit.counting.spilling import SpilledRuns, SpillingCounter, SpillSettings, spill_settings
from bpejit.errors import OptionError, OutputError
from bpejit.storage.files import scratch_folder
from bpejit.storage.temporary import hidden, remove_leftovers


def numbered(n: int) -> list[bytes]:
    return [b"%d" % (number * number % 9973) for number in range(n)] + [
        b"a pre-token of many bytes %d" % i for i in range(n // 3)
    ]


def add(counter: SpillingCounter, words: list[bytes]) -> None:
    text, _ = padded_text(b"".join(words))
    ends = np.cumsum([len(word) for word in words], dtype=np.int64).astype(np.uint32)
    counter.add_spans(text, 0, ends, len(ends))


@pytest.mark.parametrize("most_runs", [2, 3, 64])
def test_spilled_counts_equal_a_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_runs: int) -> None:
    monkeypatch.setattr(spilling, "MOST_RUNS", most_runs)
    counters = [SpillingCounter(SpillSettings(str(tmp_path), 60_000), slots=512, arena_bytes=64) for _ in range(2)]
    words = numbered(small(9000, 1500))
    half = len(words) // 2
    for counter, some in zip(counters, (words[:half], words[half:]), strict=True):
        for begin in range(0, len(some), 500):
            add(counter, some[begin : begin + 500])
        counter.spill()
        counter.spill()  # nothing is left
    runs = SpilledRuns(str(tmp_path), [run for counter in counters for run in counter.runs])
    assert len(list(tmp_path.iterdir())) > (3 if small(True, False) else 1)
    assert runs.n_pretokens == len(words)
    table = runs.read_table()
    assert list(table.to_counts().items()) == sorted(Counter(words).items())
    assert len(list(tmp_path.iterdir())) <= most_runs
    assert b"".join(block.pool.tobytes() for block in runs.blocks()) == table.pool.tobytes()


def test_a_pretoken_larger_than_the_limit_is_counted(tmp_path: Path) -> None:
    counter = SpillingCounter(SpillSettings(str(tmp_path), 40_000), slots=512, arena_bytes=64)
    words = [b"a" * 100_000, b"b", b"a" * 100_000, b"c" * 100_001]
    add(counter, words)
    counter.spill()
    assert SpilledRuns(str(tmp_path), counter.runs).read_table().to_counts() == Counter(words)


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    counter = SpillingCounter(SpillSettings(str(tmp_path / "missing"), 40_000))
    add(counter, [b"a"])
    with pytest.raises(OutputError, match="temporary_folder="):
        counter.spill()


def test_damaged_runs_are_noticed(tmp_path: Path) -> None:
    counter = SpillingCounter(SpillSettings(str(tmp_path), 40_000))
    add(counter, [b"a"])
    counter.spill()
    path = Path(counter.runs[0].path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OutputError, match="cannot read the temporary file"):
        SpilledRuns(str(tmp_path), counter.runs).read_table()


def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="max_memory is 1000; expected at least"):
        spill_settings(str(tmp_path), 1000, 2)
    (tmp_path / "a.txt").write_bytes(b"low lower")
    with pytest.raises(OptionError, match="max_memory"):
        bpejit.count(tmp_path / "a.txt", max_memory=1000, temporary_folder=tmp_path)
    with pytest.raises(OptionError, match="temporary_folder"):
        bpejit.count(tmp_path / "a.txt", max_memory=1 << 30, temporary_folder=tmp_path / "missing")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_scratch_folders_are_removed__also_those_of_ended_processes(tmp_path: Path) -> None:
    ended = hidden(tmp_path / "counting", "scratch")
    ended.mkdir()
    (ended / "lock").touch()
    (ended / "some.run").write_bytes(b"x")
    empty = hidden(tmp_path / "counting", "scratch")
    empty.mkdir()
    foreign = tmp_path / f".counting.bpejit-{'1' * 12}-{'2' * 12}.scratch"
    foreign.mkdir()
    with scratch_folder(tmp_path, "counting") as folder:
        (folder / "some.run").write_bytes(b"x")
        if os.name == "posix":
            assert not ended.exists()
        assert not empty.exists()
        remove_leftovers(tmp_path)
        assert folder.is_dir()  # its process runs
        with pytest.raises(KeyError), scratch_folder(tmp_path, "counting") as other:
            raise KeyError
        assert not other.exists()
    assert not folder.exists()
    assert foreign.is_dir()


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform != "linux", reason="removes leftovers by the locks of this boot")
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_killed_runs_leave_nothing_after_the_next(tmp_path: Path, engine: str) -> None:
    rest = b"".join(b" %x" % (number * 2654435761 % 2**32) for number in range(900_000))
    (tmp_path / "a.txt").write_bytes(rest)
    command = [*COMMAND, "count", "a.txt", "--max-memory", "210M", "--workers", "2", "--engine", engine, "--overwrite", "-q"]
    options = {"cwd": tmp_path, "env": ENVIRONMENT, "check": False}
    seen = 0
    for n_runs in (1, 3):
        process = subprocess.Popen([*command, "--out", "b.counts"], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE)
        while len(list(tmp_path.glob(".*.scratch/*.run"))) < n_runs and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=60)  # until the workers notice, end, and so close the pipe
        found = [path for path in tmp_path.iterdir() if path.suffix == ".scratch"]
        assert len(found) <= 1
        seen += len(found)
    assert seen
    assert subprocess.run([*command, "--out", "b.counts"], **options).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.counts"]
    assert subprocess.run([*COMMAND, "count", "a.txt", "--out", "c.counts", "-q"], **options).returncode == 0
    assert (tmp_path / "b.counts").read_bytes() == (tmp_path / "c.counts").read_bytes()
