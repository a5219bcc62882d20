"""Tests that engines, worker counts and chunk sizes do not change results, and that failures of workers are reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from conftest import data_text, small

import bpejit
from bpejit.corpus.chunks import Chunk, Chunker
from bpejit.corpus.sources import find_sources
from bpejit.counting.count_job import CountedChunk, CountJob
from bpejit.counting.header import CountSettings
from bpejit.counting.pretoken_counter import add_up
from bpejit.counting.table_streams import sort_table
from bpejit.engines import make_engine, start_method
from bpejit.errors import EngineError, PatternError
from bpejit.jobs.encode_job import EncodedChunk
from bpejit.splitting import Splitter
from bpejit.splitting.unicode_versions import installed_unicode

SPECIAL = b"<|endoftext|>"
FALLBACK = r"(?<=\s)\w+|\w+|\W"
"""A pattern that runs through the `regex` package."""

spreads = [("serial", 1), ("threads", 1), ("threads", 2), ("threads", 7), ("processes", 1), ("processes", 2), ("processes", 7)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    size = small(300_000, 6_000)
    path.write_bytes(b"".join(data_text(name)[:size] for name in ("prose.txt", "cjk.txt", "code.txt")))
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus: Path) -> bpejit.Tokenizer:
    return bpejit.train([corpus], vocab_size=small(1000, 280), engine="serial")


def count(corpus: Path, engine: str, workers: int, pattern: str, chunk_bytes: int) -> object:
    job = CountJob.of_settings(CountSettings(pattern, installed_unicode(), (SPECIAL.decode(),), False))
    chunks = Chunker(Splitter(pattern, [SPECIAL]), chunk_bytes=chunk_bytes).chunks(find_sources(corpus))
    seen: list[CountedChunk] = []
    spread = make_engine(engine, workers)
    table = sort_table(add_up(spread.fold_chunks(job, chunks, seen.append), workers).pack())
    assert sum(chunk.n_bytes for chunk in seen) == sum(chunk.n_read for chunk in seen) == corpus.stat().st_size
    return table


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["gpt2", FALLBACK], ids=["automaton", "regex"])
@pytest.mark.parametrize(("engine", "workers"), spreads)
def test_counting_agrees(engine: str, workers: int, pattern: str, corpus: Path) -> None:
    expected = count(corpus, "serial", 1, pattern, 1 << 30)
    assert count(corpus, engine, workers, pattern, small(20_000, 3_000)) == expected


@pytest.mark.parametrize("chunk_bytes", small([997, 64_000], [2_000]))
def test_counting_agrees_for_any_chunk_size(chunk_bytes: int, corpus: Path) -> None:
    assert count(corpus, "threads", 3, "cl100k", chunk_bytes) == count(corpus, "serial", 1, "cl100k", 1 << 30)


@pytest.mark.parametrize(("engine", "workers"), spreads)
def test_encoding_agrees(engine: str, workers: int, corpus: Path, tokenizer: bpejit.Tokenizer, tmp_path: Path) -> None:
    out = tmp_path / "tokens.bin"
    report = tokenizer.encode_files([corpus, corpus], out, engine=engine, workers=workers, chunk_bytes=small(30_000, 3_000))
    expected = tokenizer.encode_array(corpus.read_bytes())
    ids = bpejit.open_tokens(out).ids
    assert ids.tolist() == expected.tolist() * 2
    assert (report.tokens, report.bytes) == (2 * expected.size, 2 * corpus.stat().st_size)


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods_agree(
    method: str, corpus: Path, tokenizer: bpejit.Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BPEJIT_START_METHOD", method)
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    assert count(corpus, "processes", 2, "gpt2", 50_000) == count(corpus, "serial", 1, "gpt2", 1 << 30)
    tokenizer.encode_files([corpus], tmp_path / "a.bin", engine="processes", workers=2, chunk_bytes=50_000)
    tokenizer.encode_files([corpus], tmp_path / "b.bin", engine="serial")
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()


THREADS = """
import sys, threading
from bpejit.engines import start_method

sys.platform = "linux"
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
alone = start_method()
thread.start()
print(alone, start_method())
stop.set()
"""


def test_start_method__forks_only_without_other_threads() -> None:
    # In a process of its own, since libraries that other tests use leave threads behind.
    environment = {name: value for name, value in os.environ.items() if name != "BPEJIT_START_METHOD"}
    ran = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("fork spawn\n", "")


def test_start_method__unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BPEJIT_START_METHOD", "telepathy")
    with pytest.raises(EngineError, match="BPEJIT_START_METHOD is 'telepathy'; expected one of"):
        start_method()


# ---- failures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailingJob:
    """A job whose worker fails at the second chunk in a given way."""

    how: str
    result: object = 1

    def start(self) -> FailingJob:
        return self

    def run(self, chunk: Chunk) -> object:
        if chunk.start:
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "terminated":
                os.kill(os.getpid(), signal.SIGTERM)
            if self.how == "exits":
                os._exit(3)
            if self.how == "raises":
                raise PatternError("raised by the library")
            raise ZeroDivisionError("a bug")
        return self.result

    def finish(self) -> None:
        return None


def endless_chunks() -> Iterable[Chunk]:
    return (Chunk("none", number, number + 1, number + 1, False) for number in range(1_000_000))


@pytest.mark.parametrize("way", ["map", "fold"])
@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("killed", EngineError, r"worker process \d of 2 \(pid \d+\) was killed by signal 9 \(SIGKILL\) .* out of memory"),
        (
            "terminated",
            EngineError,
            r"worker process \d of 2 .* was killed by signal 15 \(SIGTERM\) .* terminated by a user or a job scheduler",
        ),
        ("exits", EngineError, r"worker process \d of 2 .* ended with exit code 3"),
        ("raises", PatternError, "raised by the library"),
        ("bug", EngineError, "a worker failed with ZeroDivisionError"),
    ],
)
def test_failing_worker_process(how: str, error: type[Exception], message: str, way: str) -> None:
    engine = make_engine("processes", 2)
    before = time.monotonic()
    with pytest.raises(error, match=message):
        if way == "map":
            list(engine.map_chunks(FailingJob(how), endless_chunks()))
        else:
            engine.fold_chunks(FailingJob(how), endless_chunks(), lambda _: None)
    assert time.monotonic() - before < 60, "noticed at once, not when all chunks are handed out"


@pytest.mark.parametrize("way", ["map", "fold"])
def test_failing_worker_thread(way: str) -> None:
    engine = make_engine("threads", 2)
    with pytest.raises(PatternError, match="raised by the library"):
        if way == "map":
            list(engine.map_chunks(FailingJob("raises"), endless_chunks()))
        else:
            engine.fold_chunks(FailingJob("raises"), endless_chunks(), lambda _: None)


def test_dead_worker_preserves_old_token_file(
    tokenizer: bpejit.Tokenizer, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "tokens.bin"
    tokenizer.encode_files([corpus], out)
    before = out.read_bytes()
    monkeypatch.setenv("BPEJIT_START_METHOD", "fork")  # spawned workers would not be patched
    failing = FailingJob("killed", EncodedChunk(1, np.zeros(1, np.uint16), np.zeros(0, np.int64)))
    monkeypatch.setattr("bpejit.jobs.file_encoding.encode_job", lambda *_: failing)
    with pytest.raises(EngineError, match="signal 9"):
        tokenizer.encode_files([corpus], out, engine="processes", workers=2, chunk_bytes=1000, overwrite=True)
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens.bin", "tokens.bin.json", "tokens.bin.manifest.json"]


# ---- errors ------------------------------------------------------------------------------------------------------------


def test_make_engine__invalid_arguments() -> None:
    with pytest.raises(EngineError, match="'cluster'; expected one of 'auto', 'serial', 'threads', 'processes'"):
        make_engine("cluster", 1)
    with pytest.raises(EngineError, match="workers is 0; expected at least 1"):
        make_engine("serial", 0)
