"""Tests of engines without available processes, threads or file descriptors, and with stopped workers."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import pytest
from conftest import data_text
from helpers.cli import COMMAND, ENVIRONMENT

from bpejit.corpus.chunks import Chunk
from bpejit.engines import make_engine, processes
from bpejit.errors import EngineError

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes"), pytest.mark.slow]


@dataclass(frozen=True)
class Job:
    """A job that returns the starts of its chunks, and whose worker may stop itself at the second chunk."""

    stops: bool = False

    def start(self) -> Job:
        return self

    def run(self, chunk: Chunk) -> int:
        if self.stops and chunk.start == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return chunk.start

    def finish(self) -> int:
        return os.getpid()


def chunks(count):
    return [Chunk("none", number, number + 1, number + 1, False) for number in range(count)]


def run(way, engine, job, count=20):
    if way == "map":
        return list(engine.map_chunks(job, chunks(count)))
    done: list[int] = []
    engine.fold_chunks(job, chunks(count), done.append)
    return sorted(done)


@pytest.fixture
def few_files():
    """Allow six more file descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + 6, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("way", ["map", "fold"])
def test_without_file_descriptors(few_files, way):
    engine = make_engine("processes", 8)
    with pytest.raises(EngineError, match=r"cannot start 8 worker processes: Too many open files after \d; .*`ulimit -n`"):
        run(way, engine, Job())
    assert not multiprocessing.active_children()


def test_without_processes(monkeypatch):
    started = []
    context = multiprocessing.get_context("fork")
    start = context.Process.start

    def start_two(process):
        if len(started) == 2:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        started.append(process)
        start(process)

    monkeypatch.setenv("BPEJIT_START_METHOD", "fork")
    monkeypatch.setattr(context.Process, "start", start_two)
    engine = make_engine("processes", 3)
    with pytest.raises(EngineError, match=r"cannot start 3 worker processes: .* after 2; .* use fewer workers .*`ulimit -u`"):
        run("map", engine, Job())
    assert len(started) == 2
    assert not multiprocessing.active_children()


@pytest.fixture
def no_threads(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.parametrize("way", ["map", "fold"])
def test_without_threads(no_threads, way):
    engine = make_engine("threads", 4)
    with pytest.raises(EngineError, match=r"cannot start 4 worker threads: can't start new thread; .* use fewer workers"):
        run(way, engine, Job())
    # Processes need no thread; only the check for stopped processes does.
    engine = make_engine("processes", 2)
    assert run(way, engine, Job()) == list(range(20))


def test_dead_worker_is_not_reported_as_broken_pipe():
    """Commands exit silently on a broken pipe, since it means that the reader of their output is gone."""
    pool = processes._Pool(Job(), 2)
    try:
        os.kill(pool.processes[1].pid, signal.SIGTERM)
        pool.processes[1].join()
        with pytest.raises(EngineError, match=r"worker process 2 of 2 .* \(SIGTERM\)") as found:
            for number in range(1000):
                pool.send(1, chunks(number + 1)[0])
    finally:
        pool.close()
    assert found.value.__context__ is None


def test_stopped_worker_does_not_outlive_engine():
    engine = make_engine("processes", 2)
    results = engine.map_chunks(Job(), chunks(20))
    next(results)
    (child, _) = multiprocessing.active_children()
    os.kill(child.pid, signal.SIGSTOP)
    started_at = time.monotonic()
    results.close()
    assert not multiprocessing.active_children()
    assert time.monotonic() - started_at < 30


def test_command_reports_exceeded_limit(tmp_path):
    (tmp_path / "text.txt").write_bytes(data_text("prose.txt")[:5000])

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))

    command = [*COMMAND, "train", "text.txt", "--vocab-size", "300", "--engine", "processes", "--workers", "20"]
    done = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, timeout=300, preexec_fn=limit, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("bpejit: error: cannot start 20 worker processes: Too many open files after")
    assert "`--workers`" in done.stderr
    assert "`--engine threads`" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
