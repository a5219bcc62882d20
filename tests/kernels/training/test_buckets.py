"""Comparison of the buckets, the heap and the comparisons of pairs with twins and with sorting."""

from __future__ import annotations

from functools import cmp_to_key
from typing import NamedTuple

import numpy as np
import pytest
import twins
from conftest import small
from helpers.training import key, pair_of
from hypothesis import given, strategies as st

from bpejit.arrays import Array
from bpejit.kernels.training import buckets, merging, pairs

# Edge cases of comparisons: tokens with equal first 8 bytes, prefixes of each other, and tokens that differ by zero bytes.
token_bytes = st.one_of(
    st.text("a\0b", max_size=11).map(str.encode),
    st.text("\0\xff", max_size=3).map(lambda text: b"commonly" + text.encode("latin-1")),
)
token_lists = st.lists(token_bytes, min_size=1, max_size=8, unique=True)


class Tokens(NamedTuple):
    """The arrays of `MergeArrays` about tokens."""

    lengths: Array
    widths: Array
    prefixes: Array
    starts: Array
    pool: Array


def new_tokens(strings: list[bytes]) -> Tokens:
    lengths = [len(string) for string in strings]
    return Tokens(
        lengths=np.array(lengths, np.uint32),
        widths=np.ones(len(strings), np.uint32),
        prefixes=np.array([int.from_bytes(string[:8].ljust(8, b"\0"), "big") for string in strings], np.uint64),
        starts=np.cumsum([0, *lengths[:-1]]).astype(np.uint64),
        pool=np.frombuffer(b"".join(strings), np.uint8).copy(),
    )


def new_arrays(counts: dict[twins.training.Pair, int], threshold: int, rule: str, tokens: Tokens) -> merging.MergeArrays:
    table = np.zeros(64, pairs.PAIR)
    for pair, count in counts.items():
        slot = pairs.find_pair_slot(table, key(pair))
        table[slot]["key"], table[slot]["count"] = key(pair), count
    state = np.zeros(1, merging.STATE)
    state[0]["threshold"], state[0]["rule"] = threshold, buckets.COMPARISONS[rule]
    none = np.zeros(0, np.uint32)
    nothing = np.zeros(0, merging.NEIGHBOR)
    return merging.MergeArrays(
        cells=np.zeros(0, np.uint32),
        weights=np.zeros(0, np.uint64),
        pairs=table,
        marks=np.zeros(table.size // 2, np.uint8),
        followed=none,
        postings=none,
        heads=np.full(buckets.N_BUCKETS, 12345, np.uint32),
        heap=np.zeros(table.size, buckets.CANDIDATE),
        **tokens._asdict(),
        sizes=tokens.lengths,
        before_sums=nothing,
        before_seen=none,
        after_sums=nothing,
        after_seen=none,
        left=np.zeros(0, np.int32),
        right=np.zeros(0, np.int32),
        counts=np.zeros(0, np.int64),
        state=state,
    )


@given(st.one_of(st.integers(0, 2000), st.integers(0, 2**63 - 1), st.integers(0, 62).map(lambda bits: 2**bits)))
def test_bucket_of(count: int) -> None:
    bucket = int(buckets.bucket_of(np.uint64(count)))
    assert bucket == twins.training.bucket_of(count)
    assert bucket < buckets.N_BUCKETS
    assert int(buckets.bucket_of(np.uint64(count + 1))) in (bucket, bucket + 1)


def test_bucket_of__is_exact_for_small_counts() -> None:
    assert [int(buckets.bucket_of(np.uint64(count))) for count in range(256)] == list(range(256))


@given(token_lists)
def test_compare_tokens(strings: list[bytes]) -> None:
    tokens = new_tokens(strings)
    for a, left in enumerate(strings):
        for b, right in enumerate(strings):
            expected = (left > right) - (left < right)
            assert buckets.compare_tokens(np.uint64(a), np.uint64(b), tokens) == expected, (left, right)


@pytest.mark.parametrize("rule", buckets.COMPARISONS)
@given(strings=token_lists, data=st.data())
def test_comes_first__sorts_like_the_twin(rule: str, strings: list[bytes], data: st.DataObject) -> None:
    tokens = new_tokens(strings)
    ids = st.integers(0, len(strings) - 1)
    counts = data.draw(st.dictionaries(st.tuples(ids, ids), st.integers(1, 2), max_size=10))

    def compare(a: twins.training.Pair, b: twins.training.Pair) -> int:
        arguments = [(np.uint64(counts[pair]), key(pair)) for pair in (a, b)]
        first = buckets.comes_first(*arguments[0], *arguments[1], buckets.COMPARISONS[rule], tokens)
        second = buckets.comes_first(*arguments[1], *arguments[0], buckets.COMPARISONS[rule], tokens)
        assert first != second or a == b
        return -1 if first else 1

    expected = sorted(counts, key=lambda pair: (counts[pair], twins.training.tie_key(pair, strings, rule)), reverse=True)
    assert sorted(counts, key=cmp_to_key(compare)) == expected


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 1000)), max_size=40, unique_by=lambda entry: entry[1]))
def test_heap(entries: list[tuple[int, int]]) -> None:
    heap, tokens = np.zeros(40, buckets.CANDIDATE), new_tokens([b""])
    for size, (count, value) in enumerate(entries):
        buckets.push_candidate(heap, np.uint64(size), np.uint64(count), np.uint64(value), buckets.SMALLEST_IDS, tokens)
    popped = []
    for size in range(len(entries), 0, -1):
        popped.append((int(heap[0]["count"]), int(heap[0]["key"])))
        buckets.pop_candidate(heap, np.uint64(size), buckets.SMALLEST_IDS, tokens)
    assert popped == sorted(entries, key=lambda entry: (-entry[0], entry[1]))


ids = st.integers(0, 3)
pair_counts = st.dictionaries(
    st.tuples(ids, ids), st.one_of(st.integers(0, 4), st.integers(250, 270), st.integers(2**40, 2**40 + 3)), max_size=16
)


@given(pair_counts, st.sampled_from([1, 2, 255, 2**40]))
def test_bucket_pairs(counts: dict[twins.training.Pair, int], threshold: int) -> None:
    arrays = new_arrays(counts, threshold, "smallest-ids", new_tokens([b"a", b"b", b"c", b"d"]))
    buckets.bucket_pairs(arrays)
    found: dict[int, set[twins.training.Pair]] = {}
    for bucket, entry in enumerate(arrays.heads.tolist()):
        while entry:
            found.setdefault(bucket, set()).add(pair_of(arrays.pairs[entry - 1]["key"]))
            entry = int(arrays.pairs[entry - 1]["next"])
    assert found == twins.training.bucket_pairs(counts, threshold)
    assert all(pairs.mark_of(key(pair), arrays.marks) for pair in counts)


@pytest.mark.parametrize("rule", buckets.COMPARISONS)
@given(counts=pair_counts, threshold=st.sampled_from([1, 2, 255]), data=st.data())
def test_next_pair__while_counts_fall(
    rule: str, counts: dict[twins.training.Pair, int], threshold: int, data: st.DataObject
) -> None:
    strings = [b"b", b"a", b"ab", b"a\0"]
    arrays = new_arrays(counts, threshold, rule, new_tokens(strings))
    buckets.bucket_pairs(arrays)
    live = {pair: count for pair, count in counts.items() if count >= threshold}
    steps = st.lists(st.tuples(st.integers(0, 15), st.integers(1, 300)), max_size=3)
    while True:
        slot = next_pair(arrays)
        if slot == pairs.NO_SLOT:
            break
        found = pair_of(arrays.pairs[slot]["key"])
        assert found == max(live, key=lambda pair: (live[pair], twins.training.tie_key(pair, strings, rule)))
        del live[found]
        for number, fall in data.draw(steps):
            if number < len(live):
                pair = sorted(live)[number]
                live[pair] = max(0, live[pair] - fall)
                arrays.pairs[pairs.find_pair_slot(arrays.pairs, key(pair))]["count"] = live[pair]
        live = {pair: count for pair, count in live.items() if count >= threshold}
    assert not live


def next_pair(arrays: merging.MergeArrays) -> np.uint64:
    return np.uint64(buckets.next_pair(arrays))


def test_next_pair__many_ties() -> None:
    """Many pairs with one count are returned in the order of the comparison."""
    n = small(3000, 60)
    table = np.zeros(8192, pairs.PAIR)
    arrays = new_arrays({}, 2, "smallest-ids", new_tokens([b""]))._replace(pairs=table, heap=np.zeros(8192, buckets.CANDIDATE))
    wanted = [(left * 7919 % 104729, left) for left in range(n)]
    for pair in wanted:
        slot = pairs.find_pair_slot(table, key(pair))
        table[slot]["key"], table[slot]["count"] = key(pair), 2
    buckets.bucket_pairs(arrays)
    found = [pair_of(table[next_pair(arrays)]["key"]) for _ in range(n)]
    assert found == sorted(wanted)
    assert next_pair(arrays) == pairs.NO_SLOT
