"""Comparison of the kernels that combine ranges of cells with their twins."""

from __future__ import annotations

import numpy as np
import twins
from helpers.training import key, pair_of
from hypothesis import given, strategies as st

from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.training import combining, merging, pairs
from bpejit.training.cell_ranges import add_sums

pairs_of_ids = st.tuples(st.integers(0, 5), st.integers(0, 5))
counted = st.dictionaries(pairs_of_ids, st.tuples(st.integers(1, 2**40), st.integers(1, 9)), max_size=20)
LENGTHS = np.ones(6, np.uint32)


def pair_table(size: int, found: dict[twins.training.Pair, tuple[int, int, int]]) -> np.ndarray:
    """Return a table of pairs with (count, start, length)."""
    table = np.zeros(size, pairs.PAIR)
    for pair, values in found.items():
        table[pairs.find_pair_slot(table, key(pair))] = (key(pair), *values, 0)
    return table


def contents(table: np.ndarray, *names: str) -> dict[twins.training.Pair, tuple[int, ...]]:
    return {pair_of(found["key"]): tuple(int(found[name]) for name in names) for found in table if found["key"] != 0}


@given(st.sampled_from([np.uint16, np.uint32]), st.data())
def test_add_sums(sum_type: type, data: st.DataObject) -> None:
    limit = int(np.iinfo(sum_type).max)
    sums = st.one_of(st.integers(0, 9), st.integers(limit // 2, limit))
    values = data.draw(st.lists(st.tuples(sums, sums), max_size=40))
    source, added = (np.array([pair[side] for pair in values], sum_type) for side in (0, 1))
    expected = twins.training.add_sums(source.tolist(), added.tolist(), limit)
    add_sums(source, added)
    assert added.tolist() == expected


@given(counted, counted)
def test_add_counted_pairs__growing_from_two_slots(
    one: dict[twins.training.Pair, tuple], other: dict[twins.training.Pair, tuple]
) -> None:
    state = np.zeros(1, merging.STATE)
    state["max_size"] = 2**63
    table = np.zeros(2, pairs.PAIR)
    for found in (one, other):
        source = pair_table(64, {pair: (count, 0, number) for pair, (count, number) in found.items()})
        state["position"] = 0
        while (status := combining.add_counted_pairs(source, state, table)) == NEED_SPACE:
            larger = np.zeros(2 * table.size, pairs.PAIR)
            pairs.copy_pairs(table, np.uint64(0), LENGTHS, state, larger)
            table = larger
        assert status == DONE
    expected = twins.training.add_counted_pairs(one, other)
    assert contents(table, "count", "length") == expected
    assert state[0]["n_pairs"] == len(expected) <= table.size * 3 // 4


@given(
    st.dictionaries(pairs_of_ids, st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=20),
    st.dictionaries(pairs_of_ids, st.integers(1, 9), max_size=20),
)
def test_divide_postings(lists: dict[twins.training.Pair, tuple[int, int]], numbers: dict[twins.training.Pair, int]) -> None:
    table = pair_table(64, {pair: (1, start, length) for pair, (start, length) in lists.items()})
    part = pair_table(64, {pair: (1, at, number) for at, (pair, number) in enumerate(numbers.items())})
    expected, starts = twins.training.divide_postings(lists, numbers)
    cursors = np.zeros(len(numbers), np.uint64)
    combining.divide_postings(table, part, cursors)
    assert contents(table, "start", "length") == expected
    assert cursors.tolist() == [int(pairs.NOT_FOLLOWED) if start is None else start for start in starts.values()]
