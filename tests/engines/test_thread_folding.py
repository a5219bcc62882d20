"""`ThreadEngine.fold_chunks`: each chunk runs once, also where the calling thread runs most of them, and errors arrive."""

import threading
import time

import pytest

from bpejit.engines.threads import ThreadEngine


class Recorder:
    """A worker that records its chunks, and a job that starts such workers."""

    def __init__(self):
        self.chunks = []

    def start(self):
        return Recorder()

    def run(self, chunk):
        if chunk == "bad":
            raise ValueError("a bad chunk")
        if chunk % 7 == 0:
            time.sleep(0.0005)
        self.chunks.append(chunk)
        return chunk

    def finish(self):
        return self.chunks


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("n_chunks", [0, 1, 3, 200])
def test_each_chunk_runs_once(workers, n_chunks):
    done = []
    results = ThreadEngine(workers).fold_chunks(Recorder(), range(n_chunks), done.append)
    assert len(results) == workers
    assert sorted(done) == sorted(chunk for chunks in results for chunk in chunks) == list(range(n_chunks))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("bad", [0, 1, 50, 99])
def test_errors_end_all_threads(workers, bad):
    chunks = [*range(bad), "bad", *range(bad + 1, 100)]
    before = threading.active_count()
    with pytest.raises(ValueError, match="a bad chunk"):
        ThreadEngine(workers).fold_chunks(Recorder(), chunks, lambda _: None)
    assert threading.active_count() == before
