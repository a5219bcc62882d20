"""Tests of forking a process whose threads run kernels, and of workers whose parent has failed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys

import pytest
from conftest import DATA
from helpers.cli import ENVIRONMENT

from bpejit.engines import processes
from bpejit.errors import CorpusError

CODE = """
import os, sys, threading, warnings
import bpejit
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the threads
text = open(sys.argv[1], "rb").read()[:60_000]
tokenizer = bpejit.train([sys.argv[1]], vocab_size=400, engine="serial")
expected = tokenizer.encode(text)
ended = threading.Event()
wrong = []
def work():
    while not ended.is_set():
        if tokenizer.encode(text) != expected:
            wrong.append("thread")
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        right = all(tokenizer.encode(text) == expected for _ in range(3)) and tokenizer.decode_bytes(expected) == text
        os._exit(0 if right else 3)
    if tokenizer.encode(text) != expected:
        wrong.append("parent")
    status = os.waitpid(child, 0)[1]
    if status:
        wrong.append(f"child {status}")
ended.set()
for thread in threads:
    thread.join()
print(wrong)
"""


@pytest.mark.compiled
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_results_in_parent_and_child():
    done = subprocess.run(
        [sys.executable, "-c", CODE, DATA / "prose.txt"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


class FailingJob:
    """A job whose workers fail at once."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def start(self) -> None:
        raise self.error


class IdleJob:
    """A job that does nothing."""

    def start(self) -> None:
        """Return no worker."""


@pytest.mark.parametrize("job", [FailingJob(CorpusError("x")), FailingJob(ValueError("x")), IdleJob()])
def test_workers_say_nothing_if_the_parent_has_closed_the_pipe(job, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    ours, theirs = multiprocessing.Pipe()
    theirs.send("not read: the next read of the worker fails with ECONNRESET")
    ours.close()
    processes._serve(theirs, [], job)
    assert theirs.closed
