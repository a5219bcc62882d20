"""Tests of jobs on a Ray cluster of three local nodes: bytes equal to one machine's, with workers and nodes that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import snapshot
from cluster_helpers import LocalCluster, Midway
from conftest import data_text

import bpejit

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.compiled, pytest.mark.filterwarnings("ignore::Warning:ray")]

END = "<|endoftext|>"
SLOW = r"(?<=\s)\w+|\w+|\W"
"""A pattern that runs through the `regex` package, so that there is time to kill something."""

UNIT = {"unit_bytes": 50_000, "chunk_bytes": 20_000}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shards": {"shard_tokens": 100_000, "append_token": END, "val_fraction": 0.2, "seed": 5, "document_index": True},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    cluster = LocalCluster(3)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return bpejit.train([data_text_path()], vocab_size=400, pattern=SLOW)


def data_text_path() -> Path:
    return Path(__file__).parent.parent / "data" / "code.txt"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    text = data_text("prose.txt")
    documents = [text[begin : begin + 3000] for begin in range(0, len(text), 3000)]
    (tmp_path / "in").mkdir()
    for name in ("one", "two"):
        (tmp_path / "in" / f"{name}.txt").write_bytes(END.encode().join(documents))
    return tmp_path


def results(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in snapshot(folder).items() if not name.startswith("in/")}


def clear(folder: Path) -> None:
    for name in results(folder):
        (folder / name).unlink()


@pytest.mark.parametrize("kill", ["node", "worker"])
def test_counting_survives_a_kill(cluster: LocalCluster, work: Path, kill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "in" / "broken.jsonl").write_text('{"text": "from a record"}\n{"no": "text"}\n')
    options: dict[str, Any] = {"pattern": SLOW, "chunk_bytes": 20_000, "sources": {"in/two.txt": 3}}
    inputs = ["in/one.txt", "in/broken.jsonl"]
    expected = bpejit.count(inputs, out="one.counts", **options)
    monkeypatch.setattr("bpejit.training.cluster_counting.PART_BYTES", (60_000, 20_000))
    cluster.fill(3)
    midway = Midway("count", cluster.kill_node if kill == "node" else lambda: cluster.kill_worker("ray::bpejit count part"))
    on_cluster: dict[str, Any] = {"engine": "ray", "ray_address": cluster.address, **options}
    found = bpejit.count(inputs, out="ray.counts", progress=midway, **on_cluster)
    assert midway.acted
    assert found == expected
    assert (work / "ray.counts").read_bytes() == (work / "one.counts").read_bytes()
    assert [entry.name for entry in work.iterdir() if entry.name.startswith(".")] == []
    if kill == "worker":
        sampled = {"vocab_size": 300, "max_bytes": 300_000, "seed": 3, "temporary_folder": work}
        trained = [bpejit.train(inputs, **options, **sampled), bpejit.train(inputs, **on_cluster, **sampled)]
        assert trained[0].sha256 == trained[1].sha256


@pytest.mark.parametrize(("name", "kill"), [("plain", "node"), ("shards", "worker")])
def test_encoding_survives_a_kill(cluster: LocalCluster, work: Path, tokenizer: bpejit.Tokenizer, name: str, kill: str) -> None:
    options = OPTIONS[name] | UNIT
    tokenizer.encode_files("in", "tokens.bin", **options)
    expected = results(work)
    clear(work)
    cluster.fill(3)
    midway = Midway("encode", cluster.kill_node if kill == "node" else lambda: cluster.kill_worker("ray::bpejit encode part"))
    report = tokenizer.encode_files("in", "tokens.bin", engine="ray", ray_address=cluster.address, progress=midway, **options)
    assert midway.acted
    assert results(work) == expected
    assert report.units > report.parts >= 12
    assert report.cluster.startswith(f"the Ray cluster at {cluster.address} (")
