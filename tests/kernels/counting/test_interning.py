"""Comparison of interning with its twins, for tables of any size and any number of enlargements."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import twins
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.jit import dispatch
from bpejit.kernels.common import keys
from bpejit.kernels.constants import DONE, NEED_SPACE, SPECIAL_FLAG, TEXT_PADDING
from bpejit.kernels.counting import interning

# Few distinct bytes make equal keys and shared prefixes likely. Lengths are on both sides of every limit of the keys.
pretokens = st.one_of(
    st.text(alphabet="ab\0", min_size=1, max_size=18).map(str.encode),
    st.binary(min_size=1, max_size=40),
    st.sampled_from([b"a" * n for n in (1, 7, 8, 9, 14, 15, 16, 17, 23, 24, 25, 100)]),
)


@pytest.fixture(autouse=True)
def _no_kernel_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    # The cache does not detect edits of the kernels in this file.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def find(table, low, high, word, text, start, arena):
    return interning.find_slot(table, low, high, word, text, start, arena)


@dispatch.kernel
def add(table, arena, state, low, high, word, text, start, count):
    return interning._add(table, arena, state, low, high, word, text, start, count)


del dispatch.KERNELS[-2:]


def make_table(slots: int = 1024) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(4 * slots, np.uint64), np.zeros(1 << 16, np.uint8), np.zeros(3, np.int64)


def scratch() -> np.ndarray:
    return np.zeros(keys.BATCH_WORDS * keys.BATCH, np.uint64)


def contents(table: np.ndarray, arena: np.ndarray) -> dict[bytes, int]:
    n, n_bytes = interning.measure_table(table)
    pool, starts, counts = np.zeros(n_bytes, np.uint8), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    interning.unpack_table(table, arena, 0, pool, starts, counts)
    return dict(zip(ByteStrings(pool, starts), counts.tolist(), strict=True))


def slots_of(table: np.ndarray, arena: np.ndarray) -> list[bytes | None]:
    """Return the pre-token in each slot."""
    used = iter(contents(table, arena))
    return [next(used) if count else None for count in table[2::4].tolist()]


@given(st.lists(st.tuples(pretokens, st.booleans()), max_size=300), st.integers(0, 20))
def test_count_spans(spans: list[tuple[bytes, bool]], first: int) -> None:
    data = b"x" * first + b"".join(pretoken for pretoken, _ in spans)
    ends, position = [], first
    for pretoken, special in spans:
        position += len(pretoken)
        ends.append(position | (SPECIAL_FLAG if special else 0))
    expected: dict[bytes, int] = {}
    twins.counting.count_spans(data, first, ends, expected)

    text, _ = padded_text(data)
    table, arena, state = make_table()
    status = interning.count_spans(text, first, np.array(ends, np.uint32), len(ends), table, arena, state, scratch())

    assert status == DONE
    assert state[interning.NEXT] == len(ends)
    assert contents(table, arena) == expected
    assert interning.measure_table(table) == twins.counting.measure_table(expected)


def test_count_spans__full_table() -> None:
    words = [b"%d" % number for number in range(2000)]
    text, _ = padded_text(b"".join(words))
    ends = np.cumsum([len(word) for word in words]).astype(np.uint32)
    table, arena, state = make_table(512)
    calls = 0
    while interning.count_spans(text, 0, ends, len(words), table, arena, state, scratch()) == NEED_SPACE:
        calls += 1
        larger = np.zeros(2 * table.size, np.uint64)
        interning.rehash(table, larger)
        assert slots_of(larger, arena) == twins.counting.rehash(slots_of(table, arena), larger.size // 4)
        table = larger
    assert calls >= 2
    assert contents(table, arena) == dict.fromkeys(words, 1)


def test_count_spans__full_arena() -> None:
    words = [b"%020d" % number for number in range(50)]
    text, _ = padded_text(b"".join(words) * 2)
    ends = np.arange(20, 20 * 101, 20, dtype=np.uint32)
    table, _, state = make_table()
    arena = np.zeros(100, np.uint8)
    while interning.count_spans(text, 0, ends, len(ends), table, arena, state, scratch()) == NEED_SPACE:
        arena = np.concatenate([arena, np.zeros(100, np.uint8)])
    assert contents(table, arena) == dict.fromkeys(words, 2)


def test_count_spans__equal_hashes_are_not_equal_pretokens() -> None:
    """Overwrite the bytes in the arena, as if another pre-token had the same hash and length."""
    text, _ = padded_text(b"ab" * 20)
    ends = np.array([40], np.uint32)
    table, arena, state = make_table()
    interning.count_spans(text, 0, ends, 1, table, arena, state, scratch())
    arena[:40] = ord("c")
    state[interning.NEXT] = 0
    interning.count_spans(text, 0, ends, 1, table, arena, state, scratch())
    assert contents(table, arena) == {b"c" * 40: 1, b"ab" * 20: 1}


@given(
    st.dictionaries(pretokens, st.integers(1, 1 << 40), max_size=50),
    st.dictionaries(pretokens, st.integers(1, 9), max_size=50),
    st.sampled_from([1, 5, 7, 11]),
)
def test_add_pretokens(first: dict[bytes, int], second: dict[bytes, int], stride: int) -> None:
    expected: dict[bytes, int] = {}
    table, arena, state = make_table()
    for counts in (first, second):
        twins.counting.add_pretokens(list(counts), list(counts.values()), expected)
        packed = ByteStrings.from_list(list(counts))
        pool = np.concatenate([packed.pool, np.zeros(TEXT_PADDING, np.uint8)])
        state[interning.NEXT] = 0
        added = np.array(list(counts.values()), np.int64)
        assert interning.add_pretokens(pool, packed.starts, added, stride, table, arena, state) == DONE
    assert contents(table, arena) == expected


@given(st.dictionaries(pretokens, st.integers(1, 1 << 40), max_size=60), st.integers(0, 60), st.integers(1, 5))
def test_measuring_and_unpacking_ranges(counts: dict[bytes, int], moved: int, n_ranges: int) -> None:
    packed = ByteStrings.from_list(list(counts))
    pool = np.concatenate([packed.pool, np.zeros(TEXT_PADDING, np.uint8)])
    table, arena, state = make_table()
    interning.add_pretokens(pool, packed.starts, np.array(list(counts.values()), np.int64), 1, table, arena, state)
    expected = dict(list(contents(table, arena).items())[moved:])
    table[2::4][np.flatnonzero(table[2::4])[:moved]] = interning.MOVED
    assert contents(table, arena) == expected
    assert interning.measure_table(table) == twins.counting.measure_table(expected)

    unpacked: dict[bytes, int] = {}
    for begin, end in pairwise(table.size // 4 * part // n_ranges * 4 for part in range(n_ranges + 1)):
        n, n_bytes = interning.measure_table(table[begin:end])
        pool, starts, numbers = np.zeros(n_bytes, np.uint8), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
        interning.unpack_table(table[begin:end], arena, 1000, pool, starts, numbers)
        assert starts[0] == 1000
        unpacked |= zip(ByteStrings(pool, starts - 1000), numbers.tolist(), strict=True)
    assert unpacked == expected


class Sized:
    """A table of 8 slots, filled by the kernel, and its twin."""

    def __init__(self) -> None:
        self.table, self.arena, self.state = make_table(8)
        self.slots: list[bytes | None] = [None] * 8
        self.counts = [0] * 8

    def add(self, pretoken: bytes, home: int, count: int) -> None:
        text, _ = padded_text(b"??" + pretoken)
        low, high, _ = twins.characters.make_key(pretoken)
        key = np.uint64(low), np.uint64(high), np.uint64(4 * home)
        slot = twins.counting.find_word(self.slots, pretoken, home)
        assert find(self.table, *key, text, np.uint64(2), self.arena) == 4 * slot
        assert add(self.table, self.arena, self.state, *key, text, np.uint64(2), np.uint64(count))
        self.slots[slot] = pretoken
        self.counts[slot] += count


@given(st.lists(st.tuples(pretokens, st.integers(0, 7), st.integers(1, 1 << 40)), max_size=30))
def test_find_and_add__probe_linearly_around_the_end(entries: list[tuple[bytes, int, int]]) -> None:
    """The home slots are given, so that many collide."""
    homes: dict[bytes, int] = {}
    tables = Sized()
    for pretoken, home, count in entries:
        if len(homes) < 7 or pretoken in homes:
            tables.add(pretoken, homes.setdefault(pretoken, home), count)
    assert slots_of(tables.table, tables.arena) == tables.slots
    assert tables.table[2::4].tolist() == tables.counts
    assert tables.state[interning.USED] == len(homes)
    assert tables.state[interning.ARENA_USED] == sum(len(pretoken) for pretoken in homes if len(pretoken) > 15)


@given(st.sets(pretokens, max_size=15), st.sampled_from([16, 32, 64]))
def test_rehash(words: set[bytes], larger_size: int) -> None:
    table, arena, state = make_table(16)
    packed = ByteStrings.from_list(sorted(words))
    pool = np.concatenate([packed.pool, np.zeros(TEXT_PADDING, np.uint8)])
    interning.add_pretokens(pool, packed.starts, np.ones(len(words), np.int64), 1, table, arena, state)
    larger = np.zeros(4 * larger_size, np.uint64)
    interning.rehash(table, larger)
    assert slots_of(larger, arena) == twins.counting.rehash(slots_of(table, arena), larger_size)


def test_add__full_arena() -> None:
    table, _, state = make_table(8)
    arena = np.zeros(47, np.uint8)
    text, _ = padded_text(b"a" * 20 + b"b" * 20)
    for start, added in ((0, True), (20, False), (0, True)):
        low, high, _ = twins.characters.make_key(bytes(text[start : start + 20]))
        key = np.uint64(low), np.uint64(high), np.uint64(0)
        assert add(table, arena, state, *key, text, np.uint64(start), np.uint64(1)) == added
    assert contents(table, arena) == {b"a" * 20: 2}
