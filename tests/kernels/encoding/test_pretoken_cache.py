"""Comparison of the cache of pre-tokens with a dict."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
import twins
from conftest import small
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bpejit.arrays import padded_text
from bpejit.encoding.workspace import _FILLING, Workspace
from bpejit.jit import dispatch
from bpejit.kernels.common.keys import hash_bytes, short_key
from bpejit.kernels.constants import SHORT_KEY_BYTES, ZERO
from bpejit.kernels.encoding import long_pretokens, pretoken_cache, recurring_sentences
from bpejit.kernels.encoding.encoder_arrays import WorkspaceArrays
from bpejit.process_memory import Budget

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
def mark_seen(workspace, hashed, n_bytes):
    """Call the function of the same name."""
    return recurring_sentences.mark_seen(workspace, hashed, n_bytes)


@dispatch.kernel
def mark_all(workspace, hashes):
    """Mark sentences of 52 bytes; return how many are cached."""
    cached = 0
    for i in range(hashes.size):
        cached += not recurring_sentences.mark_seen(workspace, hashes[i], np.uint64(52))
    return cached


del dispatch.KERNELS[-4:]


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
    """A set of bits, of which 16 more are set until it is cleared, or one hash in 32 is recorded, if few recurred."""
    arrays = make_workspace().arrays._replace(seen_once=np.zeros(4, dtype=np.uint64))
    seen: set[int] = set()
    n_seen = recurred = 0
    records_all = True
    for hashed in hashes:
        bit = (hashed >> 32) % 256
        is_recorded = records_all or hashed < 1 << 59
        known = is_recorded and bit in seen
        assert bool(mark_seen(arrays, np.uint64(hashed), np.uint64(52))) != known
        if is_recorded:
            recurred = recurred + 1 if known else recurred if records_all else max(recurred - 1, 0)
        if is_recorded and not known:
            if n_seen == 16:
                records_all = not records_all or recurred >= 4
                if records_all:
                    seen.clear()
                n_seen = recurred = 0
            seen.add(bit)
            n_seen += 1
        assert arrays.progress[pretoken_cache.N_SEEN] == n_seen
        assert arrays.progress[pretoken_cache.SENTENCE_SHARE] == (0 if records_all else -1)
        assert len(seen) == sum(int(word).bit_count() for word in arrays.seen_once)


def marked(arrays: WorkspaceArrays, hashes: Sequence[int]) -> tuple[int, int]:
    """Mark hashes as seen; return how many are cached, and the share after them."""
    cached = int(mark_all(arrays, np.array(hashes, np.uint64)))
    return cached, int(arrays.progress[pretoken_cache.SENTENCE_SHARE])


@pytest.mark.compiled  # a third of a million hashes
@pytest.mark.parametrize("share", [8, 3, -1])
def test_sentences_of_a_text_that_occurs_again_are_cached(share):
    """As many as fit into the arena from the second time on, but none of other texts before and after it."""
    random = np.random.default_rng(1)
    arrays = make_workspace().arrays._replace(seen_once=np.zeros(recurring_sentences.SEEN_WORDS, np.uint64))
    text, *others = (random.integers(0, 1 << 64, 300_000, np.uint64) for _ in range(3))
    few = len(text) // 8  # other sentences may share their bits
    # Each of 52 bytes takes 100.
    arrays.progress[pretoken_cache.SENTENCE_LIMIT] = 100 * len(text) * max(share, 0) // 6
    cached, found = marked(arrays, text)
    assert cached < few
    assert found == -1
    cached, found = marked(arrays, text)
    assert abs(cached - len(text) * max(share, 0) // 8) < few
    assert found == share
    for other in others:
        cached, found = marked(arrays, other)
        assert cached < few
        assert found == -1


def test_share_of_sentences_falls_with_each_lap_of_the_arena():
    """The share says how many eighths of the sentences that are not recorded are cached."""
    arrays = make_workspace().arrays
    progress = arrays.progress
    progress[pretoken_cache.SENTENCE_SHARE] = recurring_sentences.MOST_EIGHTHS
    progress[pretoken_cache.N_RECURRED] = recurring_sentences.ENOUGH_RECURRED
    recorded, *eighths = (number << 56 | 1 << 32 for number in (0, *range(8, 16)))
    for laps, share in enumerate([8, 7, 6, 5, 4, 3, 2, 1, 1, 1]):
        progress[pretoken_cache.ARENA_WRITTEN] = laps * arrays.arena.size
        marked(arrays, [recorded])
        assert marked(arrays, eighths) == (share, share)
    lead = int(progress[pretoken_cache.N_RECURRED])
    new = [1 << 32 | number << 38 for number in range(1, lead + 1)]
    assert marked(arrays, new[:-1])[1] == 1
    assert marked(arrays, new[-1:])[1] == -1


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
