"""Tests of counts files at s3:// URLs."""

# ruff: noqa: F811 - a fixture is imported

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from helpers.cli import invoke
from helpers.s3 import Bucket, bucket  # noqa: F401 - a fixture

import bpejit
from bpejit.errors import CountsError, OptionError, OutputError

pytestmark = pytest.mark.slow


def test_counts_at_urls(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name, text in (("one", b"the first text " * 40), ("two", b"the second text " * 30)):
        (tmp_path / f"{name}.txt").write_bytes(text)
        local = bpejit.count(tmp_path / f"{name}.txt", out=tmp_path / f"{name}.counts")
        found = bpejit.count(tmp_path / f"{name}.txt", out=f"{bucket.url}/{name}.counts", max_memory=1 << 28)
        assert found == local
        assert bucket.get(f"{name}.counts") == (tmp_path / f"{name}.counts").read_bytes()
    paths = [f"{bucket.url}/one.counts", f"{bucket.url}/two.counts"]
    merged = bpejit.merge_counts(paths, f"{bucket.url}/all.counts")
    assert merged == bpejit.merge_counts([tmp_path / "one.counts", paths[1]], tmp_path / "all.counts")
    assert bucket.get("all.counts") == (tmp_path / "all.counts").read_bytes()
    for out in (f"{bucket.url}/all.counts", f"file://{tmp_path}/all.counts"):
        with pytest.raises(OutputError, match="already exists"):
            bpejit.merge_counts(paths, out)
    with pytest.raises(CountsError, match="there is no such file"):
        bpejit.Counts.load(f"{bucket.url}/missing.counts")
    with pytest.raises(OptionError, match="URLs need engine='ray'"):
        bpejit.count(tmp_path / "one.txt", max_memory=1 << 28, temporary_folder=bucket.url)
    done = invoke("train", "--counts", f"{bucket.url}/all.counts", "--vocab-size", "270", "--out", tmp_path / "tok")
    assert done.exit_code == 0, done.output
    assert bpejit.load(tmp_path / "tok").vocab == bpejit.train_from_counts(merged, vocab_size=270).vocab
    del found, merged
    gc.collect()
    assert not list((tmp_path / "tmp").iterdir())
