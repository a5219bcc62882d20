"""Tests of data sets at URLs: the bytes of local ones, parts, and runs that are interrupted and resumed."""

# ruff: noqa: F811 - a fixture is imported

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import small
from helpers.cli import snapshot
from helpers.datagen import pairs, write_lines, write_problem
from helpers.s3 import Bucket, bucket  # noqa: F401 - a fixture

import bpejit
from bpejit.errors import CorpusError, OutputError
from bpejit.jobs import url_store
from bpejit.jobs.url_store import UrlStore
from bpejit.t2t.datagen.problems import GenerationReport

UNIT = {"unit_bytes": small(20_000, 1000), "engine": "serial"}
SPLITS: list[dict[str, Any]] = [{"split": "train", "shards": 3}, {"split": "eval"}]


class Storage:
    """A folder of a file system in memory."""

    def __init__(self) -> None:
        import fsspec

        self.file_system = fsspec.filesystem("memory")
        self.name = f"/data-{secrets.token_hex(6)}"
        self.url = f"memory:/{self.name}"

    def files(self) -> dict[str, bytes]:
        """Return the content of all files."""
        names = self.file_system.find(self.name)
        return {name[len(self.name) + 1 :]: self.file_system.cat_file(name) for name in names}

    def put(self, name: str, data: bytes) -> None:
        """Store a file."""
        self.file_system.makedirs(f"{self.name}/{name}".rpartition("/")[0], exist_ok=True)
        self.file_system.pipe_file(f"{self.name}/{name}", data)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self.file_system.rm_file(f"{self.name}/{name}")


@pytest.fixture
def storage() -> Iterator[Storage]:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    made = Storage()
    yield made
    if made.file_system.exists(made.name):
        made.file_system.rm(made.name, recursive=True)


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(url_store, "PART_UNITS", 4)
    for number in range(2):
        some = pairs()[number::2]
        write_lines(tmp_path / f"source{number}.txt", [source for source, _ in some])
        write_lines(tmp_path / f"target{number}.txt", [target for _, target in some])
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    return tmp_path


def problem_of(**settings: Any) -> str:
    splits = [split | {"inputs": f"source{n}.txt", "targets": f"target{n}.txt"} for n, split in enumerate(SPLITS)]
    return str(write_problem(Path("pairs.toml"), splits, **{"name": "pairs", "approx_vocab_size": 300, **settings}))


class Stop:
    """A progress callback that interrupts a stage after some calls."""

    def __init__(self, stage: str, calls: int) -> None:
        self._stage = stage
        self._left = calls

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:
        if stage == self._stage:
            self._left -= 1
            if self._left < 0:
                raise KeyboardInterrupt


def is_clean(work: Path) -> bool:
    return not list((work / "scratch").iterdir())


@pytest.mark.parametrize(
    ("form", "settings"),
    [("tfrecord", {}), ("jsonl", {"vocab_type": "bpe", "packed_length": 64}), ("tfrecord", {"vocab_type": "character"})],
)
def test_files_equal_local_ones(storage: Storage, work: Path, form: str, settings: dict[str, Any]) -> None:
    problem = problem_of(**settings)
    plan = bpejit.generate_data(problem, storage.url, format=form, dry_run=True, **UNIT)
    assert storage.files() == {}
    assert bool(plan.new_vocabularies) == (settings.get("vocab_type") != "character")
    local = bpejit.generate_data(problem, "local", format=form, **UNIT)
    report = bpejit.generate_data(problem, f"{storage.url}/", format=form, **UNIT)
    assert storage.files() == snapshot(Path("local"))
    assert (report.examples, report.ids, report.bytes) == (local.examples, local.ids, local.bytes)
    for found, wanted in ((report.paths, local.paths), (report.vocabularies, local.vocabularies)):
        assert found == tuple(f"{storage.url}/{Path(path).name}" for path in wanted)
    assert report.manifest == f"{storage.url}/pairs.manifest.json"
    assert is_clean(work)


@pytest.mark.slow  # some hundred requests
@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_object_store(bucket: Bucket, work: Path, engine: str) -> None:
    problem = problem_of()
    bpejit.generate_data(problem, "local", **UNIT)
    options: dict[str, Any] = UNIT | {"engine": engine, "workers": 2}
    with pytest.raises(KeyboardInterrupt):
        bpejit.generate_data(problem, f"{bucket.url}/data", **options, progress=Stop("shuffle", 2))
    bpejit.generate_data(problem, f"{bucket.url}/data", **options, resume=True)
    assert {key.removeprefix("data/"): bucket.get(key) for key in bucket.list_keys()} == snapshot(Path("local"))
    with pytest.raises(OutputError, match=r"the bucket `no-such-bucket` does not exist"):
        bpejit.generate_data(problem, "s3://no-such-bucket/data", **UNIT)
    assert is_clean(work)


@pytest.mark.parametrize(("stage", "calls"), [("encode", 0), ("encode", 9), ("shuffle", 0), ("shuffle", 2), ("shuffle", 4)])
def test_interrupted_remotely_and_resumed(storage: Storage, work: Path, stage: str, calls: int) -> None:
    problem = problem_of()
    bpejit.generate_data(problem, "local", **UNIT)
    with pytest.raises(KeyboardInterrupt):
        bpejit.generate_data(problem, storage.url, **UNIT, progress=Stop(stage, calls))
    assert is_clean(work)
    kept = {name for name in storage.files() if name.startswith(".pairs.bpejit-job/")}
    assert bool(kept) == bool(calls or stage == "shuffle")
    if kept:
        with pytest.raises(OutputError, match=r"keeps \d+ finished parts of an unfinished job; .*`resume=True`"):
            bpejit.generate_data(problem, storage.url, **UNIT)
        with pytest.raises(OutputError, match="seed"):
            bpejit.generate_data(problem, storage.url, **UNIT, seed=9, resume=True)
    plan = bpejit.generate_data(problem, storage.url, **UNIT, resume=True, dry_run=True)
    report = bpejit.generate_data(problem, storage.url, **UNIT, resume=True)
    assert plan.kept_units == report.kept_units
    assert (report.kept_units > 0) == bool(kept)
    assert storage.files() == snapshot(Path("local"))
    again = bpejit.generate_data(problem, storage.url, **UNIT, resume=True)
    assert (again.examples, again.paths, again.kept_units) == (report.examples, report.paths, report.units)
    with pytest.raises(OutputError, match=rf"cannot write `{storage.url}/pairs-.*`: it already exists"):
        bpejit.generate_data(problem, storage.url, **UNIT)
    assert storage.files() == snapshot(Path("local"))


@pytest.mark.parametrize("calls", [1, 3])
def test_replacing_a_remote_data_set(storage: Storage, work: Path, calls: int) -> None:
    """Shards that the new data set lacks are removed, also if a run was interrupted while it stored shards."""
    problem = problem_of()
    splits = [{"split": "train", "shards": 5, "inputs": "source0.txt", "targets": "target0.txt"}]
    other = str(write_problem(Path("other.toml"), splits, name="pairs", approx_vocab_size=300))
    bpejit.generate_data(other, storage.url, **UNIT)
    with pytest.raises(KeyboardInterrupt):
        bpejit.generate_data(problem, storage.url, **UNIT, overwrite=True, progress=Stop("store", calls))
    bpejit.generate_data(problem, storage.url, **UNIT, resume=True)
    (work / "local").mkdir()
    (work / "local" / "vocab.pairs.300.subwords").write_bytes(storage.files()["vocab.pairs.300.subwords"])
    bpejit.generate_data(problem, "local", **UNIT)
    assert storage.files() == snapshot(Path("local"))


def test_remote_parts(storage: Storage, work: Path) -> None:
    problem = problem_of()
    whole = bpejit.generate_data(problem, "local", **UNIT)
    with pytest.raises(OutputError, match=r"there are no parts of `memory://.*/pairs`.* FOLDER/NAME"):
        bpejit.combine(f"{storage.url}/pairs")
    bpejit.generate_data(problem, storage.url, **UNIT, shard=(2, 3))
    with pytest.raises(OutputError, match=r'2 of the 3 parts of `.*/pairs` are not complete: 0, 1; .*`shard="I/3"`'):
        bpejit.combine(f"{storage.url}/pairs")
    bpejit.generate_data(problem, storage.url, **UNIT, shard=(0, 3))
    with pytest.raises(OutputError, match="is a finished part"):
        bpejit.generate_data(problem, storage.url, **UNIT, shard=(0, 3))
    with pytest.raises(KeyboardInterrupt):
        bpejit.generate_data(problem, storage.url, **UNIT, shard=(1, 3), progress=Stop("shuffle", 1))
    found = bpejit.combine(f"{storage.url}/pairs")
    assert isinstance(found, GenerationReport)
    assert storage.files() == snapshot(Path("local"))
    assert (found.examples, found.ids, found.bytes) == (whole.examples, whole.ids, whole.bytes)
    again = bpejit.combine(f"{storage.url}/pairs")
    assert isinstance(again, GenerationReport)
    assert (again.examples, again.paths) == (found.examples, found.paths)


def test_exchanged_and_damaged_remote_parts(storage: Storage, work: Path) -> None:
    problem = problem_of()
    for part in (0, 1):
        bpejit.generate_data(problem, storage.url, **UNIT, shard=(part, 3))
    names = [f".pairs.bpejit-job/part-{part}-of-3.tar" for part in (0, 1)]
    data = [storage.files()[name] for name in names]
    storage.put(names[1], data[0])
    with pytest.raises(OutputError, match=r"part-1-of-3.tar.* belongs to part 0 of 3"):
        bpejit.generate_data(problem, storage.url, **UNIT, shard=(2, 3))
    flipped = bytearray(data[1])
    flipped[data[1].index(b"pairs-unshuffled-train-00000") + 1000] ^= 1
    storage.put(names[1], bytes(flipped))
    with pytest.raises(OutputError, match=r"part-1-of-3.tar/pairs.* is damaged: .*: remove `.*part-1-of-3.tar`"):
        bpejit.combine(f"{storage.url}/pairs")
    storage.put(names[1], data[1])
    bpejit.combine(f"{storage.url}/pairs")
    bpejit.generate_data(problem, "local", **UNIT)
    assert storage.files() == snapshot(Path("local"))
    assert is_clean(work)


def test_broken_remote_part(storage: Storage, work: Path) -> None:
    problem = problem_of()
    for part in (0, 1):
        bpejit.generate_data(problem, storage.url, **UNIT, shard=(part, 3))
    name = ".pairs.bpejit-job/part-0-of-3.tar"
    data = storage.files()[name]
    storage.put(name, data[: data.find(b"pairs-unshuffled-train-00000")] + b"x" * 512)
    with pytest.raises(OutputError, match=r"part-0-of-3.tar/pairs.* is damaged: .*: remove `.*part-0-of-3.tar`"):
        bpejit.generate_data(problem, storage.url, **UNIT, shard=(2, 3))
    storage.remove(name)
    bpejit.generate_data(problem, storage.url, **UNIT, shard=(0, 3))
    bpejit.generate_data(problem, "local", **UNIT)
    assert storage.files() == snapshot(Path("local"))
    assert is_clean(work)


def test_remote_vocabularies(storage: Storage, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing vocabulary is used; one that another process stores in the meantime has to be equal."""
    name = "vocab.pairs.300.subwords"
    bpejit.generate_data(problem_of(file_byte_budget=2000), "other", **UNIT)
    storage.put(name, (work / "other" / name).read_bytes())
    bpejit.generate_data(problem_of(), storage.url, **UNIT)
    (work / "local").mkdir()
    (work / "local" / name).write_bytes((work / "other" / name).read_bytes())
    bpejit.generate_data(problem_of(), "local", **UNIT)
    assert storage.files() == snapshot(Path("local"))
    monkeypatch.setattr(UrlStore, "list_files", lambda _, url: [])
    with pytest.raises(OutputError, match=rf"stored a different vocabulary `.*/{name}`"):
        monkeypatch.setattr("bpejit.t2t.datagen.problems.fetch_vocabularies", lambda *_: None)
        bpejit.generate_data(problem_of(), storage.url, **UNIT, overwrite=True)


def test_errors_leave_nothing_at_a_url(storage: Storage, work: Path) -> None:
    write_lines(work / "target1.txt", ["too", "short"])
    with pytest.raises(CorpusError, match="ends after line 2"):
        bpejit.generate_data(problem_of(), storage.url, **UNIT)
    assert storage.files() == {}
    write_lines(work / "target1.txt", [target for _, target in pairs()[1::2]])
    storage.put("pairs-train-00000-of-00003", b"something")
    with pytest.raises(OutputError, match="already exists"):
        bpejit.generate_data(problem_of(), storage.url, **UNIT)
    assert set(storage.files()) == {"pairs-train-00000-of-00003"}
    for name in ("source0.txt", "source1.txt"):
        write_lines(work / name, [""])
    for name in ("target0.txt", "target1.txt"):
        write_lines(work / name, ["a"])
    with pytest.raises(CorpusError, match=r"all of the 2 samples were skipped"):
        bpejit.generate_data(problem_of(vocab_type="character"), storage.url, **UNIT, overwrite=True)
    assert set(storage.files()) == {"pairs-train-00000-of-00003"}
    assert is_clean(work)
