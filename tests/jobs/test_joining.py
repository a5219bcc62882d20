"""Tests of parts that finish at the same time: they are joined once, and none of them fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import data_text
from helpers.cli import snapshot
from helpers.encoding import make_model

import bpejit
from bpejit.arguments import no_progress
from bpejit.errors import OutputError
from bpejit.jobs.folder_store import COMBINED, FolderStore
from bpejit.jobs.job_folder import held, is_held, remove_folder

PARTS = 4
ROUNDS = 5
PROBLEM = """
kind = "text2self"
vocab_type = "character"
dataset_splits = [{split = "train", shards = 2, targets = "inputs/*.txt"}]
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inputs").mkdir()
    lines = data_text("cjk.txt")[:6000].splitlines(keepends=True)
    for number in range(PARTS):
        (tmp_path / "inputs" / f"{number}.txt").write_bytes(b"".join(lines[number::PARTS]))
    (tmp_path / "problem.toml").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def encode(out: str, *, progress: Any = no_progress, **options: Any) -> Any:
    tokenizer = bpejit.Tokenizer.from_model(make_model([(b"a", b"b"), (b"c", b"d")]))
    return tokenizer.encode_files("inputs/*.txt", f"{out}/tokens.bin", engine="serial", progress=progress, **options)


def generate(out: str, **options: Any) -> Any:
    return bpejit.generate_data("problem.toml", out, engine="serial", **options)


@pytest.mark.parametrize("make", [encode, generate])
def test_parts_that_finish_together_are_joined_once(
    make: Callable[..., Any], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "expected").mkdir()
    make("expected")
    together = threading.Barrier(PARTS)
    find_missing = FolderStore.missing_parts

    def wait(*arguments: Any) -> list[int]:
        together.wait()  # all parts are complete now, and each of them finds this
        found: list[int] = find_missing(*arguments)
        return found

    monkeypatch.setattr(FolderStore, "missing_parts", wait)
    for number in range(ROUNDS):
        out = f"out{number}"
        (work / out).mkdir()
        reports: list[Any] = []
        errors: list[BaseException] = []

        def run(part: int, out: str = out, reports: list[Any] = reports, errors: list[BaseException] = errors) -> None:
            try:
                reports.append(make(out, shard=(part, PARTS)))
            except BaseException as error:
                together.abort()
                errors.append(error)

        threads = [threading.Thread(target=run, args=(part,)) for part in range(PARTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert [report.missing_parts for report in reports] == [0] * PARTS
        assert snapshot(work / out) == snapshot(work / "expected")


def test_part_that_others_joined_is_complete(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode(".", shard="0/2")
    find_missing = FolderStore.missing_parts

    def join(*arguments: Any) -> list[int]:
        monkeypatch.setattr(FolderStore, "missing_parts", find_missing)
        bpejit.combine("tokens.bin")  # as another process may do meanwhile
        return find_missing(*arguments)

    monkeypatch.setattr(FolderStore, "missing_parts", join)
    report = encode(".", shard="1/2")
    assert report.missing_parts == 0
    assert report.path is not None
    assert not list(work.glob(".*"))


@pytest.mark.usefixtures("work")
def test_progress_of_joining() -> None:
    encode(".", shard="0/2")
    told: list[tuple[Any, ...]] = []
    n_tokens = encode(".", shard="1/2", progress=lambda *event: told.append(event)).tokens
    joined = [event for event in told if event[0] == "combine"]
    assert (joined[0], joined[-1]) == (("combine", 0, n_tokens, "tokens"), ("combine", n_tokens, n_tokens, "tokens"))
    assert sorted(joined) == joined


@pytest.mark.usefixtures("work")
def test_parts_that_another_process_joins() -> None:
    encode(".", shard="0/2")
    with held(Path(".tokens.bin.bpejit-job", COMBINED), "joins them"):
        encode(".", shard="1/2")
        with pytest.raises(OutputError, match=r"another process joins the parts of `tokens\.bin`; expected one at a time"):
            bpejit.combine("tokens.bin")
    assert len(bpejit.combine("tokens.bin").paths) == 1


@pytest.mark.parametrize("make", [encode, generate])
def test_whole_job_is_resumed_after_its_last_part_was_killed_while_it_joined(make: Callable[..., Any], work: Path) -> None:
    (work / "expected").mkdir()
    (work / "parts").mkdir()
    expected = make("expected")

    def stop(stage: str, *_: Any) -> None:
        if stage in ("combine", "shuffle"):
            raise KeyboardInterrupt

    for part in range(PARTS - 1):
        make("parts", shard=(part, PARTS))
    with pytest.raises(KeyboardInterrupt):
        make("parts", shard=(PARTS - 1, PARTS), progress=stop)
    found = make("parts", resume=True)
    assert (found.missing_parts, found.units, found.kept_units) == (0, found.units, found.units)
    assert len(found.paths) == len(expected.paths)
    assert snapshot(work / "parts") == snapshot(work / "expected")


def test_look_at_a_lock_does_not_prevent_taking_it(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            is_held(folder)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            with held(folder, "works here"):
                assert is_held(folder)
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_folder_is_removed_beside_a_process_that_locks_it(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def lock() -> None:
        try:
            for _ in range(50):
                with held(tmp_path / "job" / "part", "works here"):
                    pass
                remove_folder(tmp_path / "job")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=lock)
    thread.start()
    while thread.is_alive():
        remove_folder(tmp_path / "job")
    thread.join()
    assert not errors
    assert not (tmp_path / "job").exists()


FEW_FILES = """
import os, resource, sys
from pathlib import Path
from bpejit.jobs.job_folder import remove_folder

folder = Path(sys.argv[1])
used = max(map(int, os.listdir("/proc/self/fd")))  # that of the list itself, which is free again
resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, used + 1))
print(remove_folder(folder))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the open files")
def test_folders_are_removed_with_a_single_descriptor(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    (folder / "part-0-of-1" / "rows").mkdir(parents=True)
    (folder / "manifest.json").write_bytes(b"{}")
    (folder / "part-0-of-1" / "rows" / "0").write_bytes(b"1234")
    (tmp_path / "kept").mkdir()
    (folder / "part-0-of-1" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept" / "file").touch()
    done = subprocess.run([sys.executable, "-c", FEW_FILES, folder], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 6
    assert not folder.exists()
    assert (tmp_path / "kept" / "file").exists()
