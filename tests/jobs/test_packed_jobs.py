"""Tests of encoding jobs with rows of a fixed length."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from helpers.cli import invoke
from helpers.token_files import END, byte_tokenizer, write_sentences

import bpejit

PACK = 64
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shards": {"shard_tokens": 700},
    "exact": {"shard_tokens": 700, "shard_exact": True},
    "validation": {"val_fraction": 0.3, "seed": 2, "shard_tokens": 500},
}


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return byte_tokenizer()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    write_sentences(path)
    return path


def encode(tokenizer: bpejit.Tokenizer, corpus: Path, out: Path, **options: Any) -> Any:
    given = {"format": "parquet", "append_token": END, "unit_bytes": 900, "chunk_bytes": 300, "engine": "serial"}
    return tokenizer.encode_files(corpus, out, **given, **options)


@pytest.mark.parametrize(
    "options", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("plain", "exact"))) for name in OPTIONS]
)
def test_rows_of_shards_parts_and_resumed_runs(tokenizer: bpejit.Tokenizer, corpus: Path, tmp_path: Path, options: str) -> None:
    chosen = OPTIONS[options]
    folders = {name: tmp_path / name for name in ("plain", "whole", "parts", "resumed")}
    for folder in folders.values():
        folder.mkdir()
    plain = encode(tokenizer, corpus, folders["plain"] / "o.parquet", **chosen)
    report = encode(tokenizer, corpus, folders["whole"] / "o.parquet", pack=PACK, **chosen)
    parts = [encode(tokenizer, corpus, folders["parts"] / "o.parquet", pack=PACK, shard=(k, 3), **chosen) for k in (1, 0, 2)]
    for calls in (3, 8, 20):
        left = iter(range(calls))

        def stop(*_: Any, left: Any = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            encode(tokenizer, corpus, folders["resumed"] / "o.parquet", pack=PACK, resume=True, progress=stop, **chosen)
    resumed = encode(tokenizer, corpus, folders["resumed"] / "o.parquet", pack=PACK, resume=True, **chosen)
    again = encode(tokenizer, corpus, folders["resumed"] / "o.parquet", pack=PACK, resume=True, **chosen)
    written = {name: {path.name: path.read_bytes() for path in folder.iterdir()} for name, folder in folders.items()}
    assert written["whole"] == written["parts"] == written["resumed"]
    left_out = total = 0
    outputs = []
    for path in sorted(folders["plain"].glob("*.parquet")):
        ids = list(chain(*pq.read_table(path)["input_ids"].to_pylist()))
        n_rows = len(ids) // PACK
        rows = pq.read_table(folders["whole"] / path.name)
        assert rows["input_ids"].to_pylist() == [ids[k * PACK : (k + 1) * PACK] for k in range(n_rows)]
        assert all(sum(lengths) == PACK for lengths in rows["document_lengths"].to_pylist())
        left_out += len(ids) - n_rows * PACK
        total += n_rows * PACK
        outputs.append((path.name, n_rows * PACK, n_rows, len(ids) - n_rows * PACK))
    for found in (report, parts[-1], resumed, again):
        assert (found.tokens, found.left_out, found.documents) == (total, left_out, plain.documents)
    assert plain.tokens == total + left_out
    manifest = json.loads((folders["whole"] / "o.parquet.manifest.json").read_text())
    assert (manifest["tokens"], manifest["left_out"], manifest["documents"]) == (total, left_out, plain.documents)
    listed = [(one["path"], one["tokens"], one["rows"], one["left_out"]) for one in manifest["outputs"]]
    assert sorted(listed) == outputs


def test_fewer_ids_than_a_row(tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc")
    report = tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "o.parquet", format="parquet", pack=8)
    assert (report.tokens, report.left_out) == (0, 3)
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 0


@pytest.mark.compiled
def test_the_summary_counts_rows(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("train", "corpus.jsonl", "--vocab-size", "260", "-q").exit_code == 0
    arguments = ["encode", "corpus.jsonl", "--format", "parquet", "--pack", "100"]
    found = json.loads(invoke(*arguments, "--out", "a.parquet", "--json").stdout)
    rows = pq.read_table("a.parquet").num_rows
    assert (found["tokens"], 0 < found["left_out"] < 100) == (rows * 100, True)
    message = invoke(*arguments, "--out", "b.parquet").stderr
    assert f"{found['tokens']:,} tokens" in message
    assert f"{found['left_out']} ids that do not fill a row left out" in message
