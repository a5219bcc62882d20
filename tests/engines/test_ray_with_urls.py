"""Tests of jobs on a Ray cluster with inputs and outputs at s3:// URLs."""

# ruff: noqa: F811 - a fixture is imported

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import DATA, data_text
from helpers.cluster import LocalCluster, Midway
from helpers.counting import small_units
from helpers.datagen import write_problem
from helpers.s3 import Bucket, bucket  # noqa: F401 - a fixture

import bpejit
from bpejit.errors import OutputError
from bpejit.jobs.job_plan import open_store

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.compiled, pytest.mark.filterwarnings("ignore::Warning:ray")]

END = "<|endoftext|>"
SLOW = r"(?<=\s)\w+|\w+|\W"
OPTIONS: dict[str, Any] = {
    "shard_tokens": 100_000,
    "append_token": END,
    "val_fraction": 0.2,
    "seed": 5,
    "document_index": True,
    "unit_bytes": 50_000,
    "chunk_bytes": 20_000,
}


def test_outputs_at_a_url(cluster: LocalCluster, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tokenizer = bpejit.train(DATA / "code.txt", vocab_size=400, pattern=SLOW)
    text = data_text("prose.txt")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_bytes(text)
    (tmp_path / "in" / "two.txt").write_bytes(text)
    (tmp_path / "out").mkdir()
    tokenizer.encode_files("in", "out/tokens.bin", **OPTIONS)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    midway = Midway("encode", lambda: cluster.kill_worker("ray::bpejit encode part"))
    report = tokenizer.encode_files("in", f"{bucket.url}/tokens.bin", engine="ray", progress=midway, **OPTIONS)
    assert midway.acted
    assert {key: bucket.get(key) for key in bucket.list_keys()} == expected
    assert sorted(map(str, report.paths)) == sorted(f"{bucket.url}/{name}" for name in expected if name.endswith(".bin"))


def test_counting_at_urls(cluster: LocalCluster, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs, parts and the counts file are at URLs; a worker is killed while it counts, and the driver is interrupted."""
    small_units(monkeypatch)
    urls = [bucket.put(f"in/{name}.txt", data_text("prose.txt")) for name in ("one", "two")]
    options: dict[str, Any] = {"pattern": SLOW, "chunk_bytes": 20_000}
    expected = bpejit.count(urls, out=tmp_path / "one.counts", **options)
    midway = Midway("count", lambda: cluster.kill_worker("ray::bpejit count part"))
    out = f"{bucket.url}/deep/ray.counts"
    found = bpejit.count(urls, out=out, engine="ray", progress=midway, **options)
    assert midway.acted
    assert found == expected
    assert bucket.get("deep/ray.counts") == (tmp_path / "one.counts").read_bytes()
    with pytest.raises(OutputError, match="already exists"):
        bpejit.count(urls, out=out, engine="ray")
    trained = bpejit.train(urls, vocab_size=400, engine="ray", temporary_folder=bucket.url, max_memory=1 << 30, **options)
    assert trained.sha256 == bpejit.train(urls, vocab_size=400, **options).sha256

    def stop(stage: str, done: int, total: int | None, unit: str) -> None:
        if stage == "count" and done:
            raise KeyboardInterrupt

    more = f"{bucket.url}/more.counts"
    with pytest.raises(KeyboardInterrupt):
        bpejit.count(urls, out=more, engine="ray", progress=stop, **options)
    kept = open_store(more, per_input=False).kept()
    assert kept is not None
    assert kept.units
    with pytest.raises(OutputError, match=r"finished parts of an unfinished job; .*continue it with `resume=True`"):
        bpejit.count(urls, out=more, engine="ray", **options)
    bpejit.count(urls, out=more, resume=True, **options)  # without the cluster
    assert bucket.get("more.counts") == (tmp_path / "one.counts").read_bytes()
    bucket.file_system.rm_file(f"{bucket.name}/more.counts")
    with pytest.raises(OutputError, match="the bucket `bucket-missing` does not exist"):
        bpejit.count(urls, out="s3://bucket-missing/more.counts", engine="ray")
    assert bucket.list_keys() == ["deep/ray.counts", "in/one.txt", "in/two.txt"]


def test_data_set_at_a_url(cluster: LocalCluster, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs and outputs are at URLs; a worker is killed while it generates a part."""
    monkeypatch.chdir(tmp_path)
    names = {"inputs": "prose", "targets": "cjk"}
    lines = {name: [line for line in data_text(f"{name}.txt").split(b"\n") if line.strip()] for name in names.values()}
    count = min(map(len, lines.values()))
    urls = {
        side: bucket.put(f"in/{name}.txt", b"".join(b"%s\n" % line for line in lines[name][:count]))
        for side, name in names.items()
    }
    problem = write_problem(tmp_path / "p.toml", [{"split": "train", "shards": 3, **urls}], name="pairs", approx_vocab_size=300)
    options: dict[str, Any] = {"unit_bytes": 30_000}
    bpejit.generate_data(problem, "local", **options)
    expected = {f"data/{path.name}": path.read_bytes() for path in (tmp_path / "local").iterdir()}
    part = Midway("encode", lambda: cluster.kill_worker("ray::bpejit datagen part"))
    cluster.fill(3)
    plan = bpejit.generate_data(problem, f"{bucket.url}/data", engine="ray", dry_run=True, **options)
    assert plan.parts > 3
    assert "3 nodes, 3 processors" in plan.cluster
    bpejit.generate_data(problem, f"{bucket.url}/data", engine="ray", progress=part, **options)
    assert part.acted
    assert {key: bucket.get(key) for key in bucket.list_keys() if key.startswith("data/")} == expected
