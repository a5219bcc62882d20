"""Tests of unfinished jobs whose files or inputs are not what they were: refused, or completed with the right bytes."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpejit
from bpejit.corpus.fingerprints import check_times, checksum, modified_times
from bpejit.errors import CorpusError, OutputError
from bpejit.jobs.job_folder import sealed, unsealed
from bpejit.jobs.job_plan import open_store

pytest.importorskip("pyarrow", reason="the extra `data` is not installed")

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.faults import job_files
from tests.faults.job_files import END, Interrupt, Shared

JOB = Path("out/.t.bin.bpejit-job")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    return job_files.prepare(tmp_path_factory.mktemp("jobs"))


@pytest.fixture
def work(shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in shared.folder.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy2)(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    shutil.rmtree("out", ignore_errors=True)
    return tmp_path


@pytest.mark.parametrize("number", range(24))
def test_damaged_files(shared: Shared, number: int) -> None:
    assert job_files.attempt(shared, random.Random(number), number) in ("equal", "refused", "finished before the fault")


def interrupt(name: str, calls: int | None = None, **options: Any) -> None:
    calls = calls or {"data set": 4, "shards": 14}.get(name, 9)
    with pytest.raises(KeyboardInterrupt):
        job_files.run(name, progress=Interrupt("encode", calls), **options)


def expect_output(shared: Shared, name: str) -> None:
    assert job_files.read_files(Path("out")) == shared.expected[name]


def flip(path: Path, place: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3 if place is None else place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("plain", "part-0-of-1/000000.ids"),
        ("npy", "part-0-of-1/000000.ids"),
        ("npy", "part-0-of-1/000000.ends"),
        ("shards", "part-0-of-1/closed.jsonl"),
        ("columns", "part-0-of-1/*.rows"),
        ("plain", "part-0-of-1/checkpoint.json"),
        ("plain", "manifest.json"),
        ("data set", "part-0-of-1/*train*0*"),
    ],
)
def test_flipped_bit_is_refused(shared: Shared, work: Path, name: str, pattern: str) -> None:
    interrupt(name)
    (job,) = (path for path in Path("out").glob(".*") if path.is_dir())
    flip(next(iter(sorted(job.glob(pattern)))))
    with pytest.raises(OutputError, match=r"is damaged: its bytes are not those .* `resume=True`|manifest cannot be read"):
        job_files.run(name, resume=True)
    job_files.run(name, overwrite=True)
    expect_output(shared, name)


def test_shorter_file_is_refused(shared: Shared, work: Path) -> None:
    interrupt("plain")
    path = JOB / "part-0-of-1" / "000000.ids"
    checkpoint = unsealed((JOB / "part-0-of-1" / "checkpoint.json").read_bytes())
    assert checkpoint is not None
    size = 2 * checkpoint["totals"]["tokens"]
    os.truncate(path, size - 1)
    with pytest.raises(OutputError, match=f"it has {size - 1} bytes, fewer than the {size} of the last checkpoint"):
        job_files.run("plain", resume=True)


def test_removed_part_is_encoded_again(shared: Shared, work: Path) -> None:
    interrupt("plain")
    flip(JOB / "part-0-of-1" / "000000.ids")
    shutil.rmtree(JOB / "part-0-of-1")
    job_files.run("plain", resume=True)
    expect_output(shared, "plain")


@pytest.mark.parametrize("name", ["plain", "data set"])
def test_part_with_the_content_of_another_is_refused(shared: Shared, work: Path, name: str) -> None:
    for part in (0, 1):
        job_files.run(name, shard=(part, 3))
    job = JOB if name == "plain" else next(path for path in Path("out").glob(".*") if path.is_dir())
    shutil.rmtree(job / "part-1-of-3")
    shutil.copytree(job / "part-0-of-3", job / "part-1-of-3")
    with pytest.raises(OutputError, match=r"belongs to part 0 of 3 \(\d+ units from number 0 on\), and not to part 1 of 3"):
        job_files.run(name, shard=(2, 3))
    with pytest.raises(OutputError, match="belongs to part 0 of 3"):
        job_files.run(name, shard=(1, 3), resume=True)
    with pytest.raises(OutputError, match="belongs to part 0 of 3"):
        job_files.combine(name)
    shutil.rmtree(job / "part-1-of-3")
    job_files.run(name, shard=(1, 3), resume=True)
    expect_output(shared, name)


def test_part_of_another_job_is_refused(work: Path) -> None:
    job_files.run("plain", shard=(0, 2))
    shutil.copytree(JOB / "part-0-of-2", "part")
    shutil.rmtree("out")
    job_files.run("plain", shard=(1, 2), append_token=END)
    shutil.copytree("part", JOB / "part-0-of-2")
    with pytest.raises(OutputError, match="belongs to another job, and not to this job"):
        job_files.combine("plain")


@pytest.mark.parametrize(
    ("name", "pattern", "outcome"),
    [
        ("shards", "final/*/*.json", "equal"),
        ("shards", "combined/*.ids", "equal"),
        ("shards", "combined/*.ends", "equal"),
        ("shards", "combined/closed.jsonl", "equal"),
        ("shards", "token_lengths.npy", "damaged"),
        ("columns", "columns.schema", "damaged"),
        ("columns", "part-1-of-2/*.rows", "damaged"),
        ("parquet", "final/*/*.parquet", "equal"),
    ],
)
def test_damaged_joined_files(shared: Shared, work: Path, name: str, pattern: str, outcome: str) -> None:
    """Files between the joining of the parts and their final names."""
    job_files.run(name, shard=(0, 2))
    with pytest.raises(KeyboardInterrupt), job_files.interrupting_exchange(True):
        job_files.run(name, shard=(1, 2))
    (job,) = (path for path in Path("out").glob(".*") if path.is_dir())
    flip(min(job.glob(pattern)), -1)
    if outcome == "damaged":
        with pytest.raises(OutputError, match="is damaged: its bytes are not those that were written"):
            job_files.combine(name)
        return
    job_files.combine(name)
    expect_output(shared, name)


def test_header_of_a_spool_is_written_again(shared: Shared, work: Path) -> None:
    with pytest.raises(KeyboardInterrupt), job_files.interrupting_exchange(True):
        job_files.run("npy")
    flip(Path("out/.t.npy.bpejit-job/part-0-of-1/000000.ids"), 80)
    job_files.run("npy", resume=True)
    expect_output(shared, "npy")


def without_fingerprints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the hashes of head and tail, which are all of the small inputs here."""
    monkeypatch.setattr("bpejit.jobs.file_encoding.identify_inputs", lambda sources: [{"path": one.path} for one in sources])
    monkeypatch.setattr("bpejit.t2t.datagen.problems.identify_inputs", lambda sources: [{"path": one.path} for one in sources])


def change_the_middle(path: str) -> None:
    data = bytearray(Path(path).read_bytes())
    data[200:204] = b"ZZZZ"
    Path(path).write_bytes(data)


@pytest.mark.parametrize(("name", "path"), [("plain", "a.txt"), ("columns", "c.jsonl"), ("data set", "source.txt")])
def test_changed_input_is_refused(shared: Shared, work: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str) -> None:
    without_fingerprints(monkeypatch)
    interrupt(name)
    data = Path(path).read_bytes()
    os.utime(path, ns=(0, 12345))  # the same text with another time
    kept = open_store("out/pairs" if name == "data set" else job_files.JOBS[name]["out"], per_input=False).kept()
    assert kept is not None
    change_the_middle(path)
    changed = (
        r"the text of \d+ finished units? in .* has changed: of the inputs, `[^`]*" + re.escape(path) + "` was modified last"
    )
    with pytest.raises(OutputError, match=changed):
        job_files.run(name, resume=True)
    Path(path).write_bytes(data)
    job_files.run(name, resume=True)
    found = job_files.read_files(Path("out"))  # without the manifests, which lack the hashes
    assert {file: data for file, data in found.items() if "manifest" not in file} == {
        file: data for file, data in shared.expected[name].items() if "manifest" not in file
    }


def test_changed_input_of_a_complete_part(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_fingerprints(monkeypatch)
    job_files.run("plain", shard=(0, 2))
    change_the_middle("a.txt")
    with pytest.raises(OutputError, match="has changed"):
        job_files.run("plain", shard=(0, 2), resume=True)


def test_touched_inputs_keep_their_units(shared: Shared, work: Path) -> None:
    interrupt("plain", 14)
    kept = open_store("out/t.bin", per_input=False).kept()
    assert kept is not None
    for path in ("a.txt", "b.txt"):
        os.utime(path, ns=(0, 12345))
    report = bpejit.load("tokenizer").encode_files(**(job_files.JOBS["plain"] | {"resume": True, "engine": "threads"}))
    assert report.kept_units == kept.units > 1
    expect_output(shared, "plain")


@pytest.mark.parametrize("part", [None, (0, 2)])
def test_job_of_another_version_is_refused(work: Path, part: tuple[int, int] | None) -> None:
    options = {} if part is None else {"shard": part}
    interrupt("plain", **options)
    fields = unsealed((JOB / "manifest.json").read_bytes())
    assert fields is not None
    del fields["folder_version"]
    (JOB / "manifest.json").write_text(json.dumps(fields))
    with pytest.raises(OutputError, match=r"keeps .* but it was begun by another version of bpejit"):
        job_files.run("plain", resume=True, **options)
    with pytest.raises(OutputError, match=r"was written by another version of bpejit; expected parts of this version"):
        job_files.combine("plain")


def test_message_names_the_option(work: Path) -> None:
    interrupt("plain", append_token=END)
    with pytest.raises(OutputError) as caught:
        job_files.run("plain", resume=True)
    message = str(caught.value)
    assert f'but it has `append_token="{END}"`, and this one has not; expected the same job to resume it: ' in message
    assert message.endswith("give the same inputs and options, or start again with `overwrite=True`")


def test_small_compressed_files_are_kept(work: Path) -> None:
    text = Path("a.txt").read_text()
    for number in range(5):
        rows = [json.dumps({"text": f"{number} {text[start : start + 500]}"}) for start in range(0, 10_000, 500)]
        (work / f"{number}.jsonl").write_text("\n".join(rows))
        (work / f"{number}.jsonl.gz").write_bytes(gzip.compress((work / f"{number}.jsonl").read_bytes()))
    options: dict[str, Any] = {"val_fraction": 0.3, "seed": 1, "unit_bytes": 100_000, "engine": "serial", "chunk_bytes": 3000}
    tokenizer = bpejit.load("tokenizer")
    tokenizer.encode_files([f"{number}.jsonl" for number in range(5)], "plain.bin", **options)
    compressed = [f"{number}.jsonl.gz" for number in range(5)]
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode_files(compressed, "t.bin", progress=Interrupt("encode", 14), **options)
    report = tokenizer.encode_files(compressed, "t.bin", resume=True, **options)
    assert report.units == 5
    assert 1 <= report.kept_units <= 3
    assert 0 < report.new_bytes < report.bytes
    for name in ("", "-val"):  # what is drawn does not depend on the units
        assert (work / f"t{name}.bin").read_bytes() == (work / f"plain{name}.bin").read_bytes()
    for part in range(3):  # a part begins where a group of files begins
        report = tokenizer.encode_files(compressed, "u.bin", shard=(part, 3), **options)
        assert report.part == f"{part}/3"
    assert (work / "u.bin").read_bytes() == (work / "t.bin").read_bytes()


# ---- helpers


def test_checksum() -> None:
    draw = np.random.default_rng(1)
    data = draw.integers(0, 256, 3_000_001).astype(np.uint8)
    found = checksum(data, np.arange(3))
    assert len(found) == 32
    assert checksum(data.copy(), np.arange(3)) == found
    assert checksum(data[:-1], np.arange(3)) != found
    swapped = data.copy()
    swapped[:16] = np.roll(data[:16], 8)
    assert checksum(swapped, np.arange(3)) != found
    for place in (0, 7, 1_500_000, 2_999_999, 3_000_000):
        changed = data.copy()
        changed[place] ^= 128
        assert checksum(changed, np.arange(3)) != found
    assert checksum() != checksum(data[:0]) != checksum(data[:0], data[:0])


def test_records_have_hashes() -> None:
    fields: dict[str, Any] = {"a": 1, "b": [None, 0.1, "\u20ac"]}
    data = sealed(fields)
    assert unsealed(data) == unsealed(data, strict=True) == fields
    assert unsealed(sealed({}), strict=True) == {}
    assert unsealed(data.replace(b"1", b"2", 1)) is None
    assert unsealed(b'{"a": 1}') == {"a": 1}
    assert unsealed(b'{"a": 1}', strict=True) is None
    assert unsealed(b"[]") is unsealed(b"{") is None


def test_other_modification_time_on_a_node(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x")
    times = modified_times([str(path), str(tmp_path / "missing"), "s3://bucket/a"])
    assert list(times.values()) == [path.stat().st_mtime_ns, None, None]
    check_times(times)
    os.utime(path, ns=(0, 1))
    with pytest.raises(CorpusError, match=r"`.*a\.txt` is another file on the node .*: use a folder that they share"):
        check_times(times)
