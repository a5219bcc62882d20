"""Tests of counting as a job: bytes equal to those of counting at once, after interrupts, with every engine, and at URLs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import data_text
from helpers.cli import invoke
from helpers.counting import UNIT_BYTES, small_units

import bpejit
from bpejit.counting import counting_plan
from bpejit.counting.spilling import Run, merge_some_runs
from bpejit.errors import CorpusError, OptionError, OutputError
from bpejit.jobs.job_folder import CHECKPOINT, read_record
from bpejit.jobs.job_plan import open_store

pytestmark = pytest.mark.compiled

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "weights": {"sources": {"two.txt": 3}},
    "sample": {"max_bytes": 90_000, "seed": 3},
    "records": {"text_field": "text", "input_format": "auto"},
    "newlines": {"normalize_newlines": True},
    "superwords": {"superwords": "super"},
    "memory": {"max_memory": 1 << 30},
    "shard": {"shard": "1/2"},
}


class Stopping:
    """Interrupts a job at a report of counting, and keeps its remarks."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.messages: list[str] = []

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        if stage == "count":
            self.at -= 1
            if not self.at:
                raise KeyboardInterrupt

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    small_units(monkeypatch)
    text = data_text("prose.txt")
    Path("one.txt").write_bytes(text[:200_000].replace(b"\n", b"\r\n"))
    Path("two.txt").write_bytes(text[200_000:260_000])
    lines = [b'{"text": "record %d of a few"}' % number if number % 7 else b"{}" for number in range(3000)]
    Path("three.jsonl").write_bytes(b"\n".join(lines))
    return tmp_path


def inputs(name: str) -> list[str]:
    return ["one.txt"] if name == "weights" else ["one.txt", "two.txt", "three.jsonl"]


@pytest.mark.parametrize("engine", ["serial", "threads", pytest.param("processes", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_job_has_the_bytes_of_counting_at_once(work: Path, name: str, engine: str) -> None:
    options = OPTIONS[name] | {"engine": engine, "workers": 2, "chunk_bytes": 7000}
    bpejit.count(inputs(name), out="once.counts", **options)
    before = set(work.iterdir())
    counts = bpejit.count(inputs(name), out="job.counts", resume=True, **options)
    assert Path("job.counts").read_bytes() == Path("once.counts").read_bytes()
    assert len(counts) > 1000
    assert set(work.iterdir()) - before == {work / "job.counts"}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_job_goes_on_after_an_interrupt(work: Path, name: str) -> None:
    options = OPTIONS[name] | {"engine": "serial", "chunk_bytes": 10_000}
    bpejit.count(inputs(name), out="once.counts", **options)
    store = open_store("job.counts", per_input=False)
    kept = []
    for at in (4, 15, 14, 9):
        with suppress(KeyboardInterrupt):
            bpejit.count(inputs(name), out="job.counts", resume=True, progress=Stopping(at), **options)
        kept.append(found.read if (found := store.kept()) else 0)
    assert kept[0] == 0
    assert 0 < kept[1] < kept[2] or Path("job.counts").exists()
    last = Stopping(10**6)
    bpejit.count(inputs(name), out="job.counts", resume=True, progress=last, **options)
    assert Path("job.counts").read_bytes() == Path("once.counts").read_bytes()
    assert any(text.startswith(("resuming the job after", "nothing is left to do")) for text in last.messages)
    assert not Path(store.folder).exists()


def interrupt(at: int = 15, **options: Any) -> Path:
    """Interrupt a job after some units; return the folder of its only part."""
    with pytest.raises(KeyboardInterrupt):
        bpejit.count("one.txt", out="job.counts", resume=True, engine="serial", progress=Stopping(at), **COUNTING | options)
    [part] = Path(open_store("job.counts", per_input=False).folder).glob("part-*")
    assert [*part.glob("*.run")]
    return part


COUNTING: dict[str, Any] = {"chunk_bytes": 10_000}


def runs_of(part: Path) -> list[str]:
    """Return the names of the runs in the checkpoint of a part."""
    return [name for name, *_ in (read_record(part / CHECKPOINT) or {})["runs"]]


def test_runs_from_after_the_checkpoint_are_removed(work: Path) -> None:
    part = interrupt()
    known = runs_of(part)
    (part / "0123456789abcdef.run").write_bytes(b"half")
    part = interrupt(at=14)
    assert known == runs_of(part)[: len(known)]
    assert len(known) < len(runs_of(part))
    assert not (part / "0123456789abcdef.run").exists()


def test_a_damaged_run_is_refused(work: Path) -> None:
    part = interrupt()
    path = part / runs_of(part)[0]
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(OutputError, match=r"\.run`, which an earlier run left, is damaged"):
        bpejit.count("one.txt", out="job.counts", resume=True, **COUNTING)
    shutil.rmtree(part)  # as the message says
    counts = bpejit.count("one.txt", out="job.counts", resume=True, **COUNTING)
    assert counts == bpejit.count("one.txt")


def test_counting_at_once_does_not_hide_an_unfinished_job(work: Path) -> None:
    part = interrupt()
    with pytest.raises(OutputError, match=r"keeps 3 finished units of an unfinished job; .*continue it with `resume=True`"):
        bpejit.count("one.txt", out="job.counts")
    counts = bpejit.count("one.txt", out="job.counts", overwrite=True)
    assert counts == bpejit.count("one.txt")
    assert not part.parent.exists()


def test_a_changed_input_is_counted_again(work: Path) -> None:
    """A change in the middle of a file, which its hash of head and tail does not show, is seen by the modification time."""
    interrupt()
    path = Path("one.txt")
    data = bytearray(path.read_bytes())
    data[80_000:80_010] = b"QQQQQQQQQQ"
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    resumed = Stopping(10**6)
    counts = bpejit.count("one.txt", out="job.counts", resume=True, progress=resumed, **COUNTING)
    assert "an input has another modification time: beginning again" in resumed.messages
    assert counts == bpejit.count("one.txt")


def test_another_job_is_refused(work: Path) -> None:
    interrupt()
    with pytest.raises(OutputError, match=r"has `normalize_newlines=.*|no `normalize_newlines=`.*expected the same job"):
        bpejit.count("one.txt", out="job.counts", resume=True, normalize_newlines=True)
    with pytest.raises(OutputError, match=r"its input 'one.txt' had 2\d+ bytes, and now has"):
        Path("one.txt").write_bytes(Path("one.txt").read_bytes() + b"more")
        bpejit.count("one.txt", out="job.counts", resume=True)
    counts = bpejit.count("one.txt", out="job.counts", resume=True, overwrite=True, normalize_newlines=True)
    assert counts == bpejit.count("one.txt", normalize_newlines=True)


def test_complete_counts_are_kept(work: Path) -> None:
    bpejit.count("one.txt", out="job.counts")  # not as a job: the file describes itself
    before = Path("job.counts").stat()
    again = Stopping(1)
    bpejit.count("one.txt", out="job.counts", resume=True, progress=again)
    assert Path("job.counts").stat() == before
    assert again.messages == ["nothing is left to do: `job.counts` describes the complete output of this job"]
    with pytest.raises(OutputError, match="already exists"):
        bpejit.count("two.txt", out="job.counts", resume=True)
    assert Path("job.counts").stat() == before
    counts = bpejit.count("two.txt", out="job.counts", resume=True, overwrite=True)
    assert counts == bpejit.count("two.txt")


def test_counts_without_large_records_tell_the_limit(work: Path) -> None:
    options: dict[str, Any] = {"out": "job.counts", "skip_large_records": True}
    counts = bpejit.count("three.jsonl", max_record=10_000, **options)
    assert counts.inputs[0]["read_as"] == {"format": "jsonl", "max_record": 10_000}
    with pytest.raises(OutputError, match="already exists"):
        bpejit.count("three.jsonl", max_record=9_000, resume=True, **options)
    assert bpejit.count("three.jsonl", max_record=10_000, resume=True, **options) == counts


def test_a_broken_counts_file_is_not_taken_for_complete(work: Path) -> None:
    bpejit.count("one.txt", out="job.counts")
    Path("job.counts").write_bytes(Path("job.counts").read_bytes()[:100])
    with pytest.raises(OutputError, match="already exists"):
        bpejit.count("one.txt", out="job.counts", resume=True)


def test_an_input_is_not_the_output(work: Path) -> None:
    before = Path("one.txt").read_bytes()
    with pytest.raises(OutputError, match="one of the inputs"):
        bpejit.count("one.txt", out="one.txt", resume=True, overwrite=True)
    assert Path("one.txt").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "there is no `out=`"),
        ({"out": "job.counts", "temporary_folder": "."}, "temporary_folder is given"),
        ({"out": "job.counts", "max_memory": 1000}, "max_memory is 1000; expected at least"),
    ],
)
def test_options_that_a_job_does_not_take(work: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(OptionError, match=expected):
        bpejit.count("one.txt", resume=True, **options)
    assert not Path("job.counts").exists()


def test_inputs_that_are_read_once(work: Path) -> None:
    with pytest.raises(OptionError, match="can be read only once; expected files, since a job that is resumed"):
        bpejit.count(iter(["a text"]), out="job.counts", resume=True)


def test_no_text(work: Path) -> None:
    Path("none.jsonl").write_bytes(b"{}\n" * 10)
    with pytest.raises(CorpusError, match="none of the 10 records has a text"):
        bpejit.count("none.jsonl", out="job.counts", resume=True)
    assert not Path(open_store("job.counts", per_input=False).folder).exists()
    Path("empty.txt").touch()
    assert len(bpejit.count("empty.txt", out="job.counts", resume=True)) == 0


def test_many_runs_are_merged_in_workers(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting_plan, "GROUP_BYTES", UNIT_BYTES)
    monkeypatch.setattr(counting_plan, "MOST_RUNS", 3)
    merged: list[int] = []

    def noting(folder: str, runs: list[Run]) -> Run:
        merged.append(len(runs))
        return merge_some_runs(folder, runs)

    monkeypatch.setattr(counting_plan, "merge_some_runs", noting)
    counts = bpejit.count("one.txt", out="job.counts", resume=True, engine="serial")
    assert len(merged) > 4
    assert max(merged) == 3
    assert counts == bpejit.count("one.txt")


def test_memory_is_bounded_by_runs(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that would grow too large is written before its checkpoint is due."""
    Path("one.txt").write_bytes(data_text("prose.txt"))
    found: list[int] = []
    sink = counting_plan.CountingSink.write

    def noting(self: Any, result: Any) -> tuple[int, int]:
        found.append(len(result.runs))
        return sink(self, result)

    monkeypatch.setattr(counting_plan.CountingSink, "write", noting)
    monkeypatch.setattr("bpejit.counting.counting_plan.spill_settings", lambda *_: counting_plan.SpillSettings("", 1 << 20))
    monkeypatch.setattr(counting_plan, "GROUP_BYTES", 1 << 30)
    counts = bpejit.count("one.txt", out="job.counts", resume=True, engine="serial", max_memory=1 << 30)
    assert max(found) > 1
    assert counts == bpejit.count("one.txt")


@pytest.fixture
def url() -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    yield "memory://counting-jobs/job.counts"
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/counting-jobs", recursive=True)


def test_counting_at_a_url_goes_on(work: Path, url: str) -> None:
    """A part at a URL is kept when it is complete; the units of a job there have their numbers from `plan_counting_units`."""
    texts = [f"part-{number}.txt" for number in range(20)]
    for number, name in enumerate(texts):
        Path(name).write_bytes(data_text("prose.txt")[number * 30_000 : number * 30_000 + 40_000])
    bpejit.count(texts, out="once.counts")
    options: dict[str, Any] = {"out": url, "resume": True, "chunk_bytes": 10_000}
    with pytest.raises(KeyboardInterrupt):
        bpejit.count(texts, progress=Stopping(60), **options)
    kept = open_store(url, per_input=False).kept()
    assert kept is not None
    assert 0 < kept.units < 40
    found = bpejit.count(texts, progress=Stopping(10**6), **options)
    assert found == bpejit.Counts.load("once.counts")
    import fsspec

    assert fsspec.filesystem("memory").cat_file("/counting-jobs/job.counts") == Path("once.counts").read_bytes()
    assert fsspec.filesystem("memory").find("/counting-jobs") == ["/counting-jobs/job.counts"]
    again = Stopping(1)
    assert bpejit.count(texts, progress=again, **options) == found
    with pytest.raises(OutputError, match="already exists"):
        bpejit.count("one.txt", **options)
    assert bpejit.count("one.txt", overwrite=True, **options) == bpejit.count("one.txt")


def test_combine_names_the_command(work: Path) -> None:
    interrupt()
    with pytest.raises(
        OutputError, match="is an unfinished job that counts pre-tokens; expected parts that `shard` has divided"
    ):
        bpejit.combine("job.counts")


def test_command(work: Path) -> None:
    invoke("count", "one.txt", "--out", "once.counts")
    interrupt()
    refused = invoke("count", "one.txt", "--out", "job.counts", "--resume", "--normalize-newlines")
    assert "expected the same job to resume it" in refused.stderr
    assert "kept 3 of 11 units" in refused.stderr
    done = invoke("count", "one.txt", "--out", "job.counts", "--resume")
    assert "resuming the job after 3 of 11 units" in done.stderr
    assert "earlier run" not in done.stderr
    again = invoke("count", "one.txt", "--out", "job.counts", "--resume")
    assert "kB, all of it in an earlier run, in " in again.stderr
    assert Path("job.counts").read_bytes() == Path("once.counts").read_bytes()
