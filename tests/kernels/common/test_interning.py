"""Interning against its twins: the same counts, whatever the sizes and however often the tables grow."""

from __future__ import annotations

import naive
import numpy as np
from conftest import small
from hypothesis import given
from hypothesis import strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.kernels.common import interning, keys
from bpejit.kernels.common.keys import equal_bytes
from bpejit.kernels.constants import DONE, NEED_SPACE, SPECIAL_FLAG, TEXT_PADDING

# Few distinct bytes make equal keys and shared prefixes likely; lengths stand on both sides of every border of the keys.
pretokens = st.one_of(
    st.text(alphabet="ab\0", min_size=1, max_size=18).map(str.encode),
    st.binary(min_size=1, max_size=40),
    st.sampled_from([b"a" * n for n in (1, 7, 8, 9, 14, 15, 16, 17, 23, 24, 25, 100)]),
)


def make_table(slots: int = 1024) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(4 * slots, np.uint64), np.zeros(1 << 16, np.uint8), np.zeros(3, np.int64)


def scratch() -> np.ndarray:
    return np.zeros(keys.BATCH_WORDS * keys.BATCH, np.uint64)


def contents(table: np.ndarray, arena: np.ndarray) -> dict[bytes, int]:
    n, n_bytes = interning.measure_table(table)
    pool, starts, counts = np.zeros(n_bytes, np.uint8), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    interning.unpack_table(table, arena, pool, starts, counts)
    return dict(zip(ByteStrings(pool, starts), counts.tolist(), strict=True))


@given(st.lists(st.tuples(pretokens, st.booleans()), max_size=300), st.integers(0, 20))
def test_count_spans(spans: list[tuple[bytes, bool]], first: int) -> None:
    data = b"x" * first + b"".join(pretoken for pretoken, _ in spans)
    ends, position = [], first
    for pretoken, special in spans:
        position += len(pretoken)
        ends.append(position | (SPECIAL_FLAG if special else 0))
    expected: dict[bytes, int] = {}
    naive.count_spans(data, first, ends, expected)

    text, _ = padded_text(data)
    table, arena, state = make_table()
    status = interning.count_spans(text, first, np.array(ends, np.uint32), len(ends), table, arena, state, scratch())

    assert status == DONE
    assert state[interning.NEXT] == len(ends)
    assert contents(table, arena) == expected
    assert interning.measure_table(table) == naive.measure_table(expected)


def test_count_spans__stops_at_a_full_table_and_goes_on_after_rehash() -> None:
    words = [b"%d" % number for number in range(2000)]
    text, _ = padded_text(b"".join(words))
    ends = np.cumsum([len(word) for word in words]).astype(np.uint32)
    table, arena, state = make_table(512)
    calls = 0
    while interning.count_spans(text, 0, ends, len(words), table, arena, state, scratch()) == NEED_SPACE:
        calls += 1
        larger = np.zeros(2 * table.size, np.uint64)
        interning.rehash(table, larger)
        assert contents(larger, arena) == naive.rehash(contents(table, arena))
        table = larger
    assert calls >= 2
    assert contents(table, arena) == dict.fromkeys(words, 1)


def test_count_spans__stops_at_a_full_arena_without_losing_a_span() -> None:
    words = [b"%020d" % number for number in range(50)]
    text, _ = padded_text(b"".join(words) * 2)
    ends = np.arange(20, 20 * 101, 20, dtype=np.uint32)
    table, _, state = make_table()
    arena = np.zeros(100, np.uint8)
    while interning.count_spans(text, 0, ends, len(ends), table, arena, state, scratch()) == NEED_SPACE:
        arena = np.concatenate([arena, np.zeros(100, np.uint8)])
    assert contents(table, arena) == dict.fromkeys(words, 2)


def test_count_spans__equal_hashes_are_not_equal_pretokens() -> None:
    """Other bytes lie behind the hash and the length of this one, as if another pre-token had the same hash."""
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
        naive.add_pretokens(list(counts), list(counts.values()), expected)
        packed = ByteStrings.from_list(list(counts))
        pool = np.concatenate([packed.pool, np.zeros(TEXT_PADDING, np.uint8)])
        state[interning.NEXT] = 0
        added = np.array(list(counts.values()), np.int64)
        assert interning.add_pretokens(pool, packed.starts, added, stride, table, arena, state) == DONE
    assert contents(table, arena) == expected


@given(st.dictionaries(pretokens, st.integers(1, 9), max_size=small(300, 60)))
def test_order_by_bytes(counts: dict[bytes, int]) -> None:
    words = list(counts)
    pool, starts, numbers = (
        np.array(list(part), dtype)
        for part, dtype in zip(naive.unpack_table(counts), (np.uint8, np.int64, np.int64), strict=True)
    )
    padded = np.concatenate([pool, np.zeros(8, np.uint8)])
    prefixes = np.zeros(len(words), np.uint64)
    interning.make_prefixes(padded, starts, prefixes)
    assert prefixes.tolist() == naive.make_prefixes(words)

    order = np.argsort(prefixes)
    interning.sort_runs(padded, starts, prefixes, order)
    assert order.tolist() == naive.sort_runs(words)

    out = np.zeros_like(pool), np.zeros_like(starts), np.zeros_like(numbers)
    interning.gather(padded, starts, numbers, order, *out)
    assert (list(ByteStrings(out[0], out[1])), out[2].tolist()) == naive.gather(words, list(counts.values()), order.tolist())


@given(st.binary(max_size=40), st.data())
def test_equal_bytes__sees_each_byte_and_nothing_past_the_end(data: bytes, draw: st.DataObject) -> None:
    a, _ = padded_text(data)
    b, _ = padded_text(b"..." + data)
    b[3 + len(data) :] = 0xFF
    assert equal_bytes(a, np.uint64(0), b, np.uint64(3), np.uint64(len(data)))
    if data:
        b[3 + draw.draw(st.integers(0, len(data) - 1))] ^= 0x40
        assert not equal_bytes(a, np.uint64(0), b, np.uint64(3), np.uint64(len(data)))
