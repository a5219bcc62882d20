"""Tests of jobs on a Ray cluster with inputs and outputs at s3:// URLs."""

# ruff: noqa: F811 - a fixture is imported

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster_helpers import LocalCluster, Midway
from conftest import DATA, data_text
from s3_helpers import Bucket, bucket  # noqa: F401 - a fixture

import bpejit

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


def test_outputs_at_a_url(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes get the address of the server and the credentials from the environment."""
    monkeypatch.chdir(tmp_path)
    tokenizer = bpejit.train(DATA / "code.txt", vocab_size=400, pattern=SLOW)
    text = data_text("prose.txt")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_bytes(text)
    (tmp_path / "in" / "two.txt").write_bytes(text)
    (tmp_path / "out").mkdir()
    tokenizer.encode_files("in", "out/tokens.bin", **OPTIONS)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    cluster = LocalCluster(3)
    try:
        midway = Midway("encode", lambda: cluster.kill_worker("ray::bpejit encode part"))
        report = tokenizer.encode_files(
            "in", f"{bucket.url}/tokens.bin", engine="ray", ray_address=cluster.address, progress=midway, **OPTIONS
        )
    finally:
        cluster.close()
    assert midway.acted
    assert {key: bucket.get(key) for key in bucket.list_keys()} == expected
    assert sorted(map(str, report.paths)) == sorted(f"{bucket.url}/{name}" for name in expected if name.endswith(".bin"))
