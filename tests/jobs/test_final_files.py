"""Tests of token files that several threads write at the end of a job."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import snapshot
from helpers.token_files import END, byte_tokenizer, write_sentences

import bpejit
from bpejit.errors import OutputError
from bpejit.jobs import final_files
from bpejit.jobs.final_files import FinalFiles
from bpejit.storage.files import OutputFile

OPTIONS: dict[str, dict[str, Any]] = {
    "bin": {"format": "bin", "shard_tokens": 700},
    "arrow": {"format": "arrow", "val_fraction": 0.3, "seed": 1},
    "shards": {"format": "parquet", "shard_tokens": 700, "val_fraction": 0.3, "seed": 2},
    "rows": {"format": "arrow", "pack": 64, "shard_tokens": 700, "shard_exact": True},
}


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return byte_tokenizer()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    write_sentences(path)
    return path


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write files in threads, however small they are; the result has the names of the threads that began one."""
    names: list[str] = []
    plain: Callable[..., Any] = FinalFiles._place

    def place(self: FinalFiles, *arguments: Any) -> Any:
        names.append(threading.current_thread().name)
        time.sleep(0.002)  # so that a file waits for a thread
        return plain(self, *arguments)

    monkeypatch.setattr(final_files, "BLOCK_TOKENS", 64)
    monkeypatch.setattr(final_files, "count_cpus", lambda: 4)
    monkeypatch.setattr(FinalFiles, "_place", place)
    return names


def encode(tokenizer: bpejit.Tokenizer, corpus: Path, folder: Path, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    given = {"append_token": END, "unit_bytes": 900, "chunk_bytes": 300, "engine": "serial"}
    return tokenizer.encode_files(corpus, folder / "tokens", **given, **options)


def _no_thread(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


def stopping(calls: int) -> Callable[..., None]:
    left = iter(range(calls))

    def stop(*_: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("parquet", "shards"))) for name in OPTIONS]
)
def test_same_files_as_by_one_thread(
    tokenizer: bpejit.Tokenizer, corpus: Path, tmp_path: Path, writers: list[str], name: str
) -> None:
    options = OPTIONS[name]
    several = encode(tokenizer, corpus, tmp_path / "several", **options)
    assert any("ThreadPool" in writer for writer in writers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", _no_thread)
        writers.clear()
        one = encode(tokenizer, corpus, tmp_path / "one", **options)
        assert set(writers) == {"MainThread"}
    assert several.tokens == one.tokens
    assert several.left_out == one.left_out
    for calls in (3, 8, 20):
        with suppress(KeyboardInterrupt):
            encode(tokenizer, corpus, tmp_path / "resumed", resume=True, progress=stopping(calls), **options)
    encode(tokenizer, corpus, tmp_path / "resumed", resume=True, **options)
    for part in (1, 0, 2):
        encode(tokenizer, corpus, tmp_path / "parts", shard=(part, 3), **options)
    expected = snapshot(tmp_path / "one")
    for folder in ("several", "resumed", "parts"):
        assert snapshot(tmp_path / folder) == expected, folder


@pytest.mark.parametrize("late", [False, True])
def test_error_of_another_thread(
    tokenizer: bpejit.Tokenizer, corpus: Path, tmp_path: Path, writers: list[str], monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    plain: Callable[..., int] = OutputFile.write

    def full(self: OutputFile, data: Any) -> int:
        if threading.current_thread() is not threading.main_thread() and (not late or len(data) > 100):
            raise OutputError(f"cannot write `{self.path}`: the disk is full ({errno.ENOSPC})")
        return plain(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(OutputFile, "write", full)
        with pytest.raises(OutputError, match="disk is full"):
            encode(tokenizer, corpus, tmp_path / "out", **OPTIONS["shards"])
    assert writers
    assert not list((tmp_path / "out").glob("tokens*"))
    encode(tokenizer, corpus, tmp_path / "out", **OPTIONS["shards"], resume=True)
    encode(tokenizer, corpus, tmp_path / "plain", **OPTIONS["shards"])
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "plain")
