"""Tests of the memory budget that all encoder caches share, which never affects ids."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from conftest import small
from helpers.encoding import make_model

import bpejit
from bpejit import process_memory as budgets
from bpejit.arrays import padded_text
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.workspace import LEAST_CACHE_BYTES, Workspace
from bpejit.kernels.encoding import pretoken_cache
from bpejit.process_memory import Budget, Pool, Share

BASE = 1 << 17


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(make_model([(b"1", b"2"), (b"12", b"3"), (b" ", b"1")], ["<|s|>"]))


@pytest.fixture
def restored() -> Iterator[None]:
    before = budgets.process_budget.limit
    yield
    budgets.process_budget.limit = before


def words(n: int, seed: int = 0) -> bytes:
    """Return a text of many distinct words, short and long."""
    return b" ".join(b"%d" % (number * 7919 + seed) * (1 + number % 7 // 3) for number in range(n))


def cache_bytes_of(workspace: Workspace) -> int:
    """Return the size in bytes of the cache of a workspace."""
    arrays = workspace.arrays
    return arrays.slots.nbytes + arrays.long_index.nbytes + arrays.arena.nbytes


def make(encoder: Encoder, budget: Budget, n: int) -> list[Workspace]:
    """Return new workspaces of an encoder that has no released ones of their size."""
    encoder._seeded = {}
    return [encoder.new_workspace(cache_bytes=BASE, text_bytes=1 << 12, budget=budget) for _ in range(n)]


def encode_each(encoder: Encoder, workspace: Workspace, texts: list[bytes]) -> list[list[int]]:
    return [encoder.encode(text, workspace).tolist() for text in texts]


@pytest.mark.compiled  # filling a cache in plain Python takes minutes
@pytest.mark.parametrize("text_bytes", [1 << 12, 1 << 6])
def test_cache_grows_for_texts_one_by_one(encoder: Encoder, text_bytes: int) -> None:
    encoder._seeded = {}
    workspace = encoder.new_workspace(cache_bytes=BASE, text_bytes=text_bytes, budget=Budget(1 << 26))
    size = workspace.arrays.slots.size
    texts = [words(3, number) for number in range(0, 40_000, 2)]
    expected = encode_each(encoder, encoder.new_workspace(), texts)
    assert encode_each(encoder, workspace, texts) == expected
    assert workspace.arrays.slots.size > size
    assert workspace.share.n_bytes == cache_bytes_of(workspace)


@pytest.mark.compiled
@pytest.mark.parametrize("reason", ["budget", "system"])
def test_texts_one_by_one_without_memory_for_a_larger_cache(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    (workspace,) = make(encoder, Budget(BASE if reason == "budget" else 1 << 26), 1)
    size = workspace.arrays.slots.size
    texts = [words(3, number) for number in range(0, 40_000, 2)]
    expected = encode_each(encoder, encoder.new_workspace(), texts)
    if reason == "system":

        def fail(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr("bpejit.encoding.workspace.huge_page_zeros", fail)
    assert encode_each(encoder, workspace, texts) == expected
    assert (workspace.arrays.slots.size, workspace.share.n_bytes) == (size, cache_bytes_of(workspace))
    progress = workspace.progress
    assert 0 < progress[pretoken_cache.CLEARS] <= progress[pretoken_cache.CLEARS_SEEN] + 1
    if progress[pretoken_cache.CLEARS] + progress[pretoken_cache.LONG_CLEARS] == progress[pretoken_cache.CLEARS_SEEN]:
        assert encoder.short_call(workspace, encoder.splitter).run(b"1 2") >= 0  # the prepared call is used again


@pytest.mark.compiled  # filling a cache in plain Python takes minutes
def test_budget_is_reserved_and_released(encoder: Encoder) -> None:
    budget = Budget(64 << 20)
    workspaces = make(encoder, budget, 3)
    assert encoder._seeded_share is not None
    seeds = encoder._seeded_share.n_bytes
    before = sum(map(cache_bytes_of, workspaces))
    assert budget.used == seeds + before
    for workspace in workspaces:
        encoder.encode(words(20_000), workspace)
        assert workspace.share.n_bytes == cache_bytes_of(workspace)
    assert sum(map(cache_bytes_of, workspaces)) > before
    assert budget.used == seeds + sum(map(cache_bytes_of, workspaces))
    del workspace, workspaces[1:]
    gc.collect()
    assert budget.used == seeds + cache_bytes_of(workspaces[0])
    workspaces[0].shrink_cache()
    assert budget.used == seeds + BASE
    assert encoder.encode(b"123 123", workspaces[0]).size > 0


@pytest.mark.parametrize("limit", [0, 1, LEAST_CACHE_BYTES, 3 * LEAST_CACHE_BYTES, 1 << 20])
def test_ids_do_not_depend_on_the_budget(encoder: Encoder, limit: int) -> None:
    texts = [words(small(30_000, 100), seed) for seed in range(2)]
    expected = [encoder.encode(text).tolist() for text in texts]
    budget = Budget(limit)
    workspaces = make(encoder, budget, 4)
    for _ in range(2):
        for number, workspace in enumerate(workspaces):
            assert encoder.encode(texts[number % 2], workspace).tolist() == expected[number % 2]
            padded, size = padded_text(texts[0])
            assert encoder.encode_chunk(padded, size, size, True, workspace).tolist() == expected[0]
    # Each cache has the minimum size, however small the budget.
    assert budget.used <= limit + LEAST_CACHE_BYTES * len(workspaces)


@pytest.mark.compiled  # filling a cache in plain Python takes minutes
def test_active_caches_share_evenly(encoder: Encoder) -> None:
    """The first cache uses nearly the whole budget until a second one needs its share."""
    budget = Budget(4 << 20)
    first, second = make(encoder, budget, 2)
    text = words(200_000)
    expected = encoder.encode(text, first).tolist()
    assert cache_bytes_of(first) > budget.fair_share
    for _ in range(6):
        assert encoder.encode(text, second).tolist() == expected
        assert encoder.encode(text, first).tolist() == expected
    assert budget.used <= budget.limit
    assert cache_bytes_of(second) > 2 * BASE


@pytest.mark.compiled  # filling a cache in plain Python takes minutes
def test_arena_grows_only_for_records_written() -> None:
    """Records that were overwritten before the ring could grow are dropped and no longer count."""
    workspace = Workspace(cache_bytes=BASE, cache_limit=None, text_bytes=1000, budget=Budget(1 << 26))
    size = workspace.arrays.arena.nbytes
    workspace.progress[pretoken_cache.ARENA_WRITTEN] = 3 * size
    workspace.grow_cache()
    grown = workspace.arrays.arena.nbytes
    assert 4 * size <= grown <= 8 * size
    for _ in range(3):
        workspace.grow_cache()
        assert workspace.arrays.arena.nbytes == grown
    workspace.progress[pretoken_cache.ARENA_WRITTEN] += grown
    workspace.grow_cache()
    assert workspace.arrays.arena.nbytes > grown


def test_a_cleared_table_and_a_full_ring_grow_without_memory_for_both(encoder: Encoder) -> None:
    """The larger ones begin empty, and the memory of the smaller ones counts no longer."""
    (workspace,) = make(encoder, budget := Budget(1 << 26), 1)
    sizes = {name: getattr(workspace.arrays, name).nbytes for name in ("slots", "long_index", "arena")}
    fields = pretoken_cache.CLEARS, pretoken_cache.LONG_CLEARS
    workspace.progress[list(fields)] = 1
    size = sizes["arena"] - pretoken_cache.ARENA_SLACK
    workspace.progress[pretoken_cache.ARENA_WRITTEN] = size + 1
    budget._limit = budget.used + sizes["slots"] + sizes["long_index"] + 3 * size // 4
    workspace.grow_cache()
    arrays = workspace.arrays
    assert arrays.slots.nbytes == 2 * sizes["slots"]
    assert arrays.long_index.nbytes == 2 * sizes["long_index"]
    assert not arrays.slots.any()
    assert not arrays.long_index.any()
    assert arrays.arena.nbytes - pretoken_cache.ARENA_SLACK == size + 3 * (size // 4)
    assert workspace.progress[list(fields)].tolist() == [0, 0]
    assert workspace.share.n_bytes == cache_bytes_of(workspace)
    assert budget.used <= budget.limit
    text = words(small(3_000, 100))
    assert encoder.encode(text, workspace).tolist() == encoder.encode(text).tolist()


def test_fair_share_is_of_caches_alone() -> None:
    """Reserved memory is not shared, and memory that is given back at once does not count as exceeding the fair share."""
    budget = Budget(96)
    seeds = budget.reserve(16)
    first, second = budget.open_share(10, 10), budget.open_share(10, 10)
    assert budget.fair_share == 40
    assert first.take(50)
    assert budget.used == 86
    assert not second.take(45, 14)
    assert not budget.has_starved_cache, "it would have more than its fair share"
    assert not second.take(45, 15)
    assert budget.has_starved_cache
    del seeds
    assert budget.used == 70
    assert budget.fair_share == 48
    del first
    assert budget.used == 10
    assert budget.fair_share == 96


@pytest.mark.parametrize("n_events", range(5))
def test_interrupted_initialization_is_silent(monkeypatch: pytest.MonkeyPatch, n_events: int) -> None:
    """A signal may end `__init__` before any line; deleting the object then raises nothing."""
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    events = []

    def interrupt(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is not Share.__init__.__code__:
            return None
        if len(events) == n_events:
            raise KeyboardInterrupt
        events.append(event)
        return interrupt

    own = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            Share(Budget(96), 10)
    finally:
        sys.settrace(own)
    gc.collect()
    assert raised == []


def test_idle_caches_shrink(encoder: Encoder) -> None:
    budget = Budget(4 << 20)
    idle, busy = make(encoder, budget, 2)
    pool = Pool([idle])
    budget.add_pool(pool)
    text = words(200_000)
    encoder.encode(text, idle)
    assert cache_bytes_of(idle) > budget.fair_share
    encoder.encode(text, busy)
    assert cache_bytes_of(busy) > 2 * BASE
    assert cache_bytes_of(idle) == BASE
    assert pool == [idle]


@pytest.mark.compiled  # filling a cache in plain Python takes minutes
def test_threads(encoder: Encoder) -> None:
    """Sixteen threads stay within the budget at all times and return equal ids."""
    budget = Budget(16 * BASE + (2 << 20))
    text = words(30_000)
    expected = encoder.encode(text).tolist()
    workspaces = make(encoder, budget, 16)
    most: list[int] = []
    failed: list[int] = []

    def run(workspace: Workspace) -> None:
        for _ in range(3):
            if encoder.encode(text, workspace).tolist() != expected:
                failed.append(1)
            most.append(budget.used)

    threads = [threading.Thread(target=run, args=(workspace,)) for workspace in workspaces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert max(most) <= budget.limit
    assert encoder._seeded_share is not None
    assert budget.used == encoder._seeded_share.n_bytes + sum(map(cache_bytes_of, workspaces))


def test_tokenizers_share_process_budget(restored: None) -> None:
    bpejit.set_encoding_cache_budget(np.int64(8 << 20))
    assert bpejit.get_encoding_cache_budget() == 8 << 20
    models = [make_model([(b"1", b"%d" % number)], ["<|s|>"]) for number in range(5)]
    tokenizers = [bpejit.Tokenizer.from_model(model) for model in models]
    text = words(small(100_000, 100))
    found = [tokenizer.encode_array(text).tolist() for tokenizer in tokenizers]
    caches = sum(cache_bytes_of(tokenizer._codec._workspaces[0]) for tokenizer in tokenizers)
    assert caches <= 8 << 20
    bpejit.set_encoding_cache_budget(0)
    assert {cache_bytes_of(tokenizer._codec._workspaces[0]) for tokenizer in tokenizers} == {LEAST_CACHE_BYTES}
    assert [tokenizer.encode_array(text).tolist() for tokenizer in tokenizers] == found
    assert {cache_bytes_of(tokenizer._codec._workspaces[0]) for tokenizer in tokenizers} == {LEAST_CACHE_BYTES}


@pytest.mark.parametrize("wrong", [-1, "1000", 1.5, None, True])
def test_budget_must_be_a_number(wrong: object) -> None:
    with pytest.raises(bpejit.BpejitError, match="n_bytes is"):
        bpejit.set_encoding_cache_budget(wrong)  # type: ignore[arg-type]


def test_environment_variable_sets_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(budgets.VARIABLE, raising=False)
    assert Budget().limit == budgets.DEFAULT_BYTES
    monkeypatch.setenv(budgets.VARIABLE, "1000000")
    assert Budget().limit == 1_000_000
    for wrong in ("1G", "-1", "1.5", "9" * 30):
        monkeypatch.setenv(budgets.VARIABLE, wrong)
        with pytest.raises(bpejit.OptionError, match=r"BPEJIT_ENCODING_CACHE_BYTES is .*; expected a number of bytes"):
            _ = Budget().limit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_budget_after_fork() -> None:
    budget = Budget(1 << 20)
    with budget._lock:
        budget.after_fork()
        assert budget.used == 0


MEASURED = """
    import sys, threading
    sys.path.insert(0, {tests!r})
    from helpers.encoding import make_model
    import bpejit
    bpejit.set_encoding_cache_budget({limit})
    tokenizers = [bpejit.Tokenizer.from_model(make_model([(b"1", b"%d" % n)], ["<|s|>"])) for n in range(3)]
    texts = [" ".join(str(number * 7919 + n) for number in range(250_000)) for n in range(4)]
    def run(tokenizer, text):
        for _ in tokenizer.encode_array(text[:100]), tokenizer.encode_array(text):
            pass
    def peak():  # ru_maxrss of getrusage is inherited from the parent, which may be larger
        lines = open("/proc/self/status", encoding="ascii").read().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    before = peak()
    threads = [threading.Thread(target=run, args=(t, text)) for t in tokenizers for text in texts]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_a_process(request: pytest.FixtureRequest) -> None:
    """Twelve workspaces of three tokenizers stay within the budget; each alone would take over a hundred megabytes."""
    grown = []
    for limit in (4 << 20, 256 << 20):
        code = textwrap.dedent(MEASURED).format(tests=str(request.config.rootpath / "tests"), limit=limit)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        grown.append(int(done.stdout) << 10)
    # Besides its cache, each has its text and ids, some 15 MB, and the fixed arrays of a workspace.
    assert grown[0] < (4 << 20) + 12 * (15 << 20)
    assert grown[1] > grown[0] + (64 << 20)
