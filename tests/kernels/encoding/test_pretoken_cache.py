"""Comparison of the cache of pre-tokens with a dict."""

from __future__ import annotations

import threading
import zlib

import numpy as np
import pytest
import twins
from conftest import small
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bpejit.arrays import padded_text
from bpejit.encoding.cache_budget import Budget
from bpejit.encoding.workspace import _FILLING, Workspace
from bpejit.jit import dispatch
from bpejit.kernels.common.keys import hash_bytes, short_key
from bpejit.kernels.constants import SHORT_KEY_BYTES, ZERO
from bpejit.kernels.encoding import long_pretokens, pretoken_cache
from bpejit.kernels.encoding.encoder_arrays import WorkspaceArrays

FILLING = list(_FILLING)
MAX_IDS = 60
_SHORT = np.uint64(SHORT_KEY_BYTES)


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    # These kernels are not part of the package, so no hash shows when one was edited.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def look_up(workspace, text, length, out):
    """Write the ids of a pre-token; return their number, or 0 on a miss."""
    if length > _SHORT:
        record = long_pretokens.find_record(workspace, hash_bytes(text, ZERO, length), length, text, ZERO)
        if record == long_pretokens.NO_RECORD:
            return 0
        return np.int64(long_pretokens.copy_long(workspace, record, length, out, ZERO))
    low, high = short_key(text, ZERO, length)
    home = pretoken_cache.find_home_slot(workspace.slots, low, high)
    slot, found = pretoken_cache.find_cache_slot(workspace, low, high, home)
    return np.int64(pretoken_cache.copy_ids(workspace, slot, out, ZERO)) if found else 0


@dispatch.kernel
def insert(workspace, text, length, ids, n_ids):
    """Insert a pre-token."""
    if length > _SHORT:
        long_pretokens.insert_long(workspace, hash_bytes(text, ZERO, length), length, text, ZERO, ids, ZERO, n_ids)
    else:
        low, high = short_key(text, ZERO, length)
        home = pretoken_cache.find_home_slot(workspace.slots, low, high)
        slot, _ = pretoken_cache.find_cache_slot(workspace, low, high, home)
        pretoken_cache.insert_pretoken(workspace, home, slot, low, high, ids, ZERO, n_ids)


@dispatch.kernel
def mark_seen(workspace, hashed):
    """Call the function of the same name."""
    return long_pretokens.mark_seen(workspace, hashed)


del dispatch.KERNELS[-3:]


def found_in(arrays: WorkspaceArrays, pretoken: bytes) -> list[int] | None:
    text, length = padded_text(pretoken)
    out = np.full(MAX_IDS + pretoken_cache.IDS_PER_COPY, 7, dtype=np.uint32)
    n_ids = int(look_up(arrays, text, np.uint64(length), out))
    return out[:n_ids].tolist() if n_ids else None


def insert_into(arrays: WorkspaceArrays, pretoken: bytes, ids: list[int]) -> None:
    text, length = padded_text(pretoken)
    array = np.full(len(ids) + 2, 9, dtype=np.uint32)
    array[: len(ids)] = ids
    insert(arrays, text, np.uint64(length), array, np.uint64(len(ids)))


def ids_of(pretoken: bytes) -> list[int]:
    """Return ids that depend on all bytes: one for up to three bytes, so that some fill a slot and some need a record."""
    seed = zlib.crc32(pretoken) % ((1 << 30) - MAX_IDS)
    return [seed + i for i in range(min(-(-len(pretoken) // 3), MAX_IDS))]


pretokens = st.binary(min_size=1, max_size=60) | st.integers(1, 200).map(lambda size: b"a" * size)


class CacheMachine(RuleBasedStateMachine):
    """A workspace and its twin under any sequence of lookups, insertions, growth and shrinking."""

    @initialize(cache_bytes=st.sampled_from([1 << 14, 20_000, 1 << 16]), limit=st.sampled_from([0, 60_000, 1 << 20]))
    def make(self, cache_bytes: int, limit: int) -> None:
        self.workspace = Workspace(cache_bytes=cache_bytes, cache_limit=limit, text_bytes=16, budget=Budget(1 << 20))
        arrays = self.workspace.arrays
        self.twin = twins.encoding.PretokenCache(
            arrays.slots.size // pretoken_cache.SLOT_WORDS,
            arrays.long_index.size // long_pretokens.ENTRY_WORDS,
            arrays.arena.size - pretoken_cache.ARENA_SLACK,
            pretoken_cache.ARENA_SLACK,
        )
        self.n_inserted = 0

    def visit(self, pretoken: bytes) -> None:
        """Look a pre-token up, and insert it on a miss, as encoding does."""
        found = found_in(self.workspace.arrays, pretoken)
        assert found == self.twin.find(pretoken)
        if found is None:
            insert_into(self.workspace.arrays, pretoken, ids_of(pretoken))
            self.twin.insert(pretoken, ids_of(pretoken))

    @rule(some=st.lists(pretokens, max_size=10))
    def visit_any(self, some: list[bytes]) -> None:
        for pretoken in some:
            self.visit(pretoken)

    @rule(n=st.integers(1, small(400, 100)), size=st.sampled_from([0, 10, 25]))
    def visit_many(self, n: int, size: int) -> None:
        """Fill the slots with distinct pre-tokens, or the arena with records."""
        for number in range(self.n_inserted, self.n_inserted + n):
            self.visit(b"%d" % number + b"x" * size)
        self.n_inserted += n

    @rule()
    def grow(self) -> None:
        self.workspace.grow_cache()
        arrays = self.workspace.arrays
        n_slots = arrays.slots.size // pretoken_cache.SLOT_WORDS
        if n_slots > self.twin.n_slots:
            self.twin.short = twins.encoding.move_slots(self.twin.short)
            self.twin.n_slots = n_slots
            self.twin.clears = 0
        n_entries = arrays.long_index.size // long_pretokens.ENTRY_WORDS
        if n_entries > self.twin.n_entries:
            self.twin.long = twins.encoding.move_entries(self.twin.long)
            self.twin.n_entries = n_entries
            self.twin.long_clears = 0
        ring_bytes = arrays.arena.size - pretoken_cache.ARENA_SLACK
        if ring_bytes > self.twin.ring_bytes:
            written = int(self.workspace.progress[pretoken_cache.ARENA_WRITTEN])
            if self.twin.written > self.twin.ring_bytes:
                assert written > self.twin.written + ring_bytes, "no record of the old ring may seem to exist"
                self.twin.written = written
            self.twin.ring_bytes = ring_bytes

    @rule()
    def shrink(self) -> None:
        self.workspace.shrink_cache()
        arrays = self.workspace.arrays
        self.twin.clear()
        self.twin.n_slots = arrays.slots.size // pretoken_cache.SLOT_WORDS
        self.twin.n_entries = arrays.long_index.size // long_pretokens.ENTRY_WORDS
        self.twin.ring_bytes = arrays.arena.size - pretoken_cache.ARENA_SLACK

    @rule()
    def look_up_all(self) -> None:
        for pretoken in [*self.twin.short, *self.twin.long]:
            assert found_in(self.workspace.arrays, pretoken) == self.twin.find(pretoken)

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "twin"):
            assert self.workspace.progress[FILLING].tolist() == self.twin.filling


CacheMachine.TestCase.settings = settings(stateful_step_count=small(20, 8))
TestCache = CacheMachine.TestCase


def make_workspace(cache_bytes: int = 1 << 14) -> Workspace:
    return Workspace(cache_bytes=cache_bytes, cache_limit=0, text_bytes=16, budget=Budget(1 << 20))


def test_slots_are_cleared_when_three_quarters_are_used():
    arrays = make_workspace().arrays
    n_slots = arrays.slots.size // pretoken_cache.SLOT_WORDS
    for number in range(3 * n_slots // 4):
        insert_into(arrays, b"%d" % number, [number])
    assert found_in(arrays, b"0") == [0]
    insert_into(arrays, b"x", [5])
    assert found_in(arrays, b"0") is None
    assert found_in(arrays, b"x") == [5]
    assert arrays.progress[pretoken_cache.USED_SLOTS] == arrays.progress[pretoken_cache.CLEARS] == 1


def test_index_is_cleared_when_three_quarters_are_used():
    arrays = make_workspace(1 << 16).arrays
    n_entries = arrays.long_index.size // long_pretokens.ENTRY_WORDS
    for number in range(3 * n_entries // 4):
        insert_into(arrays, b"%020d" % number, [number])
    assert found_in(arrays, b"%020d" % 0) == [0]
    insert_into(arrays, b"x" * 20, [5])
    assert found_in(arrays, b"%020d" % 0) is None
    assert found_in(arrays, b"x" * 20) == [5]
    assert arrays.progress[pretoken_cache.USED_LONG] == arrays.progress[pretoken_cache.LONG_CLEARS] == 1


def test_oldest_record_is_overwritten_first():
    """The entries of long pre-tokens remain, and are reused when these are inserted again."""
    workspace = make_workspace()
    workspace.arrays = workspace.arrays._replace(arena=np.zeros(400 + pretoken_cache.ARENA_SLACK, dtype=np.uint8))
    arrays = workspace.arrays
    some = [bytes([97 + number]) * 84 for number in range(4)]  # each record has 8 + 84 + 8 bytes: four fill the ring
    for number, pretoken in enumerate(some):
        insert_into(arrays, pretoken, [number, number])
    assert [found_in(arrays, pretoken) for pretoken in some] == [[number] * 2 for number in range(4)]
    insert_into(arrays, b"z" * 84, [9])
    assert [found_in(arrays, pretoken) for pretoken in some] == [None, [1, 1], [2, 2], [3, 3]]
    insert_into(arrays, some[0], [8])
    assert [found_in(arrays, pretoken) for pretoken in some] == [[8], None, [2, 2], [3, 3]]
    assert arrays.progress[pretoken_cache.USED_LONG] == 5


def test_record_larger_than_quarter_of_arena_is_not_inserted():
    arrays = make_workspace().arrays
    largest = arrays.arena.size // 4 - 16
    insert_into(arrays, b"a" * (largest + 1), [1])
    assert arrays.progress[pretoken_cache.USED_LONG] == 0
    insert_into(arrays, b"a" * largest, [1])
    assert found_in(arrays, b"a" * largest) == [1]


@given(st.lists(pretokens, unique=True, min_size=1, max_size=40), st.integers(1, MAX_IDS))
def test_ids_of_every_count(some, n_ids):
    """Up to four ids are stored in the slot and more in a record; the lookup writes exactly these."""
    arrays = make_workspace(1 << 16).arrays
    for number, pretoken in enumerate(some):
        insert_into(arrays, pretoken, [number] * n_ids)
    for number, pretoken in enumerate(some):
        assert found_in(arrays, pretoken) == [number] * n_ids


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 30).map(lambda bit: bit << 32), max_size=500))
def test_mark_seen(hashes):
    """A set of bits, cleared after 16 of them are set, and unused for a while if less than a quarter of the bits recurred."""
    arrays = make_workspace().arrays._replace(seen_once=np.zeros(4, dtype=np.uint64))
    seen: set[int] = set()
    recurred = unrecorded = 0
    for hashed in hashes:
        bit = (hashed >> 32) % 256
        known = bit in seen and not unrecorded
        assert bool(mark_seen(arrays, np.uint64(hashed))) != known
        if unrecorded:
            unrecorded -= 1
        elif known:
            recurred += 1
        elif len(seen) == 16:
            unrecorded = 0 if recurred >= 4 else 7 * 16
            seen.clear()
            recurred = 0
        else:
            seen.add(bit)
        assert arrays.progress[pretoken_cache.N_SEEN] == len(seen) - unrecorded
        assert len(seen) == sum(int(word).bit_count() for word in arrays.seen_once)


def test_threads_do_not_share_a_cache():
    """Two threads insert different ids for the same pre-tokens, each into its own workspace."""
    some = [b"%d" % number + b"x" * (number % 30) for number in range(300)]
    wrong: list[bytes] = []

    def run(arrays: WorkspaceArrays, offset: int) -> None:
        for _ in range(small(20, 2)):
            for number, pretoken in enumerate(some):
                found = found_in(arrays, pretoken)
                if found is None:
                    insert_into(arrays, pretoken, [offset + number] * (1 + number % 8))
                elif found != [offset + number] * (1 + number % 8):
                    wrong.append(pretoken)

    workspaces = [make_workspace() for _ in range(2)]
    threads = [
        threading.Thread(target=run, args=(workspace.arrays, 1000 * number)) for number, workspace in enumerate(workspaces)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all(found_in(workspace.arrays, some[-1]) is not None for workspace in workspaces)
