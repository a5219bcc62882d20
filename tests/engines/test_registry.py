"""Tests of the registry of engines, of the automatic choice, and of a third-party engine, as in CONTRIBUTING.md."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from conftest import data_text, small
from helpers.cli import ENVIRONMENT, invoke

import bpejit
from bpejit import engines
from bpejit.corpus.chunks import Chunk
from bpejit.engines import SERIAL_BYTES, Job, choose_engine, make_engine
from bpejit.errors import ArgumentTypeError, EngineError


class RotatingEngine:
    """An engine with several workers in the calling thread; chunks are assigned in rotation."""

    started: ClassVar[list[int]] = []

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.started.append(workers)

    def map_chunks(self, job: Job, chunks: Iterable[Chunk]) -> Iterator[Any]:
        workers = [job.start() for _ in range(self.workers)]
        for number, chunk in enumerate(chunks):
            yield workers[number % self.workers].run(chunk)

    def fold_chunks(self, job: Job, chunks: Iterable[Chunk], done: Callable[[int], None]) -> list[Any]:
        workers = [job.start() for _ in range(self.workers)]
        for number, chunk in enumerate(chunks):
            done(workers[number % self.workers].run(chunk))
        return [worker.finish() for worker in workers]


@pytest.fixture
def rotating() -> Iterator[str]:
    RotatingEngine.started.clear()
    engines.register("rotating", RotatingEngine, description="several workers in one thread")
    yield "rotating"
    engines.unregister("rotating")


def test_registered_engine_matches_serial(rotating: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes(data_text("prose.txt")[: small(200_000, 4000)] + data_text("cjk.txt")[: small(100_000, 2000)])
    options: dict[str, Any] = {"vocab_size": small(800, 280), "chunk_bytes": small(10_000, 1000)}
    tokenizer = bpejit.train(corpus, engine=rotating, workers=3, **options)
    expected = bpejit.train(corpus, engine="serial", **options)
    assert tokenizer.sha256 == expected.sha256
    tokenizer.encode_files(corpus, tmp_path / "a.bin", engine=rotating, workers=3, chunk_bytes=small(10_000, 1000))
    expected.encode_files(corpus, tmp_path / "b.bin", engine="serial")
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()
    assert RotatingEngine.started == [3, 3]


def test_commands_accept_registered_engine(rotating: str, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_bytes(data_text("prose.txt")[:2000])
    arguments = ["train", tmp_path / "corpus.txt", "--vocab-size", "270", "--engine", "rotating", "--workers", "2"]
    assert invoke(*arguments, "--out", tmp_path / "tokenizer").exit_code == 0
    assert RotatingEngine.started == [2]
    engines.unregister("rotating")
    refused = invoke(*arguments, "--out", tmp_path / "other")
    engines.register("rotating", RotatingEngine)
    assert refused.exit_code == 2
    assert "'rotating' is not one of 'auto', 'serial', 'threads', 'processes'" in refused.stderr


def test_engine_by_location() -> None:
    engines.register("other", "bpejit.engines:SerialEngine")
    try:
        assert engines.engine_names() == ("serial", "threads", "processes", "other")
        assert make_engine("other", 4).workers == 1
    finally:
        engines.unregister("other")
    assert engines.engine_names() == ("serial", "threads", "processes")


@pytest.mark.parametrize(
    ("name", "engine", "error", "message"),
    [
        ("auto", RotatingEngine, EngineError, "the engine 'auto' already exists"),
        ("serial", RotatingEngine, EngineError, "the engine 'serial' already exists"),
        ("a b", RotatingEngine, EngineError, "name of the engine is 'a b'; expected letters"),
        (7, RotatingEngine, EngineError, "name of the engine is 7"),
        ("new", 7, ArgumentTypeError, "engine is 7; expected a class"),
        ("new", "module", ArgumentTypeError, "engine is 'module'; expected a class"),
    ],
)
def test_register__invalid_arguments(name: Any, engine: Any, error: type[Exception], message: str) -> None:
    before = engines.engine_names()
    with pytest.raises(error, match=message):
        engines.register(name, engine)
    assert engines.engine_names() == before


def test_unregister__unknown_name() -> None:
    with pytest.raises(EngineError, match="the engine 'missing' is not known"):
        engines.unregister("missing")


def test_every_engine_has_a_description() -> None:
    assert all(engines.engine_descriptions().values())


@pytest.mark.parametrize(
    ("workers", "input_bytes", "releases_gil", "returns_arrays", "start_method", "chosen"),
    [
        (1, None, True, True, "fork", "serial"),
        (1, None, False, False, "fork", "serial"),
        (4, SERIAL_BYTES - 1, False, False, "fork", "serial"),
        (4, SERIAL_BYTES, True, True, "fork", "threads"),
        (4, None, True, True, "spawn", "threads"),
        (4, None, False, True, "fork", "processes"),
        (4, None, False, False, "spawn", "processes"),
        (4, None, True, False, "fork", "processes"),
        (4, None, True, False, "spawn", "threads"),
    ],
)
def test_choose_engine(
    workers: int,
    input_bytes: int | None,
    releases_gil: bool,
    returns_arrays: bool,
    start_method: str,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BPEJIT_START_METHOD", start_method)
    work = {"input_bytes": input_bytes, "releases_gil": releases_gil, "returns_arrays": returns_arrays}
    assert choose_engine(workers, **work) == chosen
    made = {"serial": "SerialEngine", "threads": "ThreadEngine", "processes": "ProcessEngine"}[chosen]
    assert type(make_engine("auto", workers, **work)).__name__ == made


def test_listing_engines_imports_no_heavy_modules() -> None:
    code = "import sys, bpejit.engines; bpejit.engines.engine_descriptions(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=60)
    assert {"numpy", "numba", "multiprocessing", "concurrent.futures"}.isdisjoint(done.stdout.split())
