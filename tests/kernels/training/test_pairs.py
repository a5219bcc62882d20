"""Comparison of the kernels that count and list pairs with their twins."""

from __future__ import annotations

import numpy as np
import twins
from helpers.training import BOUNDARY, as_twin, cell_types, filled, key, pair_of, tables
from hypothesis import given, strategies as st

from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.training import combining, merging, pairs

ONES = np.ones(int(BOUNDARY) + 1, np.uint32)
"""Lengths of tokens of one byte."""


def contents(table: np.ndarray, *names: str) -> dict[twins.training.Pair, tuple[int, ...]]:
    return {pair_of(found["key"]): tuple(int(found[name]) for name in names) for found in table if found["key"] != 0}


def new_state(**settings: int) -> np.ndarray:
    state = np.zeros(1, merging.STATE)
    for name, value in {"max_size": 2**63, "boundary": int(BOUNDARY), **settings}.items():
        state[0][name] = value
    return state


def new_sums(size: int, array: np.ndarray, weights: np.ndarray, sum_type: type = np.uint32) -> np.ndarray:
    sums = np.zeros(size, sum_type)
    pairs.bound_counts(array, np.uint64(array.size), weights, BOUNDARY, np.uint64(np.iinfo(sum_type).max), sums)
    return sums


def slot_of_pair(size: int):
    return lambda pair: int(pairs.hash_pair(key(pair))) & (size - 1)


sum_types = st.sampled_from([np.uint16, np.uint32])
sizes = st.sampled_from([8, 16, 1024])  # at least one byte of bits


@given(st.integers(0, 2**32 - 2), st.integers(0, 2**32 - 2))
def test_pair_key__is_unique_and_ordered(left: int, right: int) -> None:
    value = int(key((left, right)))
    assert value > 0
    assert divmod(value - 1, 1 << 32) == (left, right)


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15), st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_find_pair_slot(held: set[twins.training.Pair], wanted: twins.training.Pair) -> None:
    table = np.zeros(16, pairs.PAIR)  # the last test of a full table is that one slot is left
    for pair in held:
        slot = pairs.find_pair_slot(table, key(pair))
        assert table[slot]["key"] == 0
        table[slot]["key"] = key(pair)
    found = table[pairs.find_pair_slot(table, key(wanted))]["key"]
    assert found == (key(wanted) if wanted in held else 0)


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15), st.sampled_from([2, 64]))
def test_mark_pair(held: set[twins.training.Pair], size: int) -> None:
    marks = np.zeros(size, np.uint8)
    for pair in held:
        pairs.mark_pair(key(pair), marks)
    bits = {int(pairs.hash_pair(key(pair))) % (8 * size) for pair in held}
    assert set(np.flatnonzero(np.unpackbits(marks, bitorder="little")).tolist()) == bits
    for pair in ((left, right) for left in range(10) for right in range(10)):
        assert pairs.mark_of(key(pair), marks) == (int(pairs.hash_pair(key(pair))) % (8 * size) in bits)


@given(tables, cell_types, sizes, sum_types)
def test_bound_counts(table: dict[bytes, int], cell_type: type, size: int, sum_type: type) -> None:
    array, weights, _ = filled(table, cell_type)
    sums = new_sums(size, array, weights, sum_type)
    expected = twins.training.bound_counts(as_twin(array, weights), slot_of_pair(size), np.iinfo(sum_type).max)
    assert {slot: total for slot, total in enumerate(sums.tolist()) if total} == expected


many = st.just({b"abcabcabca" * number: number for number in range(1, 20)})
"""Several batches of positions."""


@given(st.one_of(tables, many), cell_types, sizes, st.sampled_from([1, 2, 4, 10, 2**31, 2**32 - 1]))
def test_select_positions(table: dict[bytes, int], cell_type: type, size: int, threshold: int) -> None:
    array, weights, _ = filled(table, cell_type)
    selected = np.full(-(-array.size // 64), 12345, np.uint64)
    reaching = np.packbits(new_sums(size, array, weights) >= threshold, bitorder="little")
    n_selected = pairs.select_positions(array, np.uint64(array.size), BOUNDARY, reaching, selected)
    cells = as_twin(array, weights)
    sums = twins.training.bound_counts(cells, slot_of_pair(size), 2**32 - 1)
    expected = twins.training.select_positions(cells, sums, slot_of_pair(size), threshold)
    assert np.flatnonzero(np.unpackbits(selected.view(np.uint8), bitorder="little")).tolist() == expected
    assert n_selected == len(expected)


def as_bits(positions: list[int], size: int) -> np.ndarray:
    """Return a bit for each of `size` cells, 1 at the positions."""
    bits = np.zeros(-(-size // 64) * 64, np.uint8)
    bits[positions] = 1
    return np.packbits(bits, bitorder="little").view(np.uint64)


@given(st.sets(st.integers(0, 999)), st.integers(0, 15))
def test_list_positions(positions: set[int], word: int) -> None:
    batch = np.zeros(pairs.BATCH_POSITIONS, np.uint32)
    n = int(pairs.list_positions(as_bits(sorted(positions), 1000), np.uint64(word), batch))
    stop = 64 * (word + int(pairs.BATCH_WORDS))
    assert batch[:n].tolist() == [position for position in sorted(positions) if 64 * word <= position < stop]


def counted(
    array: np.ndarray, weights: np.ndarray, positions: list[int], slots: int, state: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return a table of the pairs at the positions, their numbers, and how often the table was enlarged."""
    selected, numbers = as_bits(positions, array.size), np.zeros(len(positions), np.uint32)
    batch = np.zeros(pairs.BATCH_POSITIONS, np.uint32)
    for name in ("position", "n_pairs", "n_postings"):
        state[0][name] = 0
    table = np.zeros(slots, pairs.PAIR)
    growths = 0
    while (status := pairs.count_pairs(array, selected, weights, BOUNDARY, batch, numbers, state, table)) == NEED_SPACE:
        larger = np.zeros(2 * table.size, pairs.PAIR)
        pairs.copy_pairs(table, np.uint64(1), ONES, state, larger)
        table = larger
        growths += 1
    assert status == DONE
    return table, numbers, growths


@given(st.one_of(tables, many), cell_types, st.data())
def test_count_pairs__growing_from_two_slots(table: dict[bytes, int], cell_type: type, data: st.DataObject) -> None:
    array, weights, _ = filled(table, cell_type)
    cells = as_twin(array, weights)
    everywhere = [at for at, _, _ in twins.training.positions_of_pairs(cells)]
    omitted = data.draw(st.sets(st.integers(0, 99)))
    positions = [at for at in everywhere if at not in omitted]
    expected = twins.training.count_pairs(cells, positions)
    state = new_state()
    found, numbers, growths = counted(array, weights, positions, 2, state)
    assert contents(found, "count", "length") == expected
    assert state[0]["n_pairs"] == len(expected)
    assert numbers.tolist() == twins.training.number_pairs(cells, positions)
    assert contents(found, "start") == {pair: (number,) for number, pair in enumerate(expected)}
    assert growths > 0 or len(expected) < 2


@given(
    st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.integers(0, 9), max_size=15),
    st.integers(0, 9),
    st.sampled_from([2, 4, 5, 2**63]),
)
def test_copy_pairs(counts: dict[twins.training.Pair, int], least: int, max_bytes: int) -> None:
    table = np.zeros(16, pairs.PAIR)
    for number, (pair, count) in enumerate(counts.items()):
        table[pairs.find_pair_slot(table, key(pair))] = (key(pair), count, 3 * number, number, 7)
    copy, state, lengths = np.zeros(64, pairs.PAIR), new_state(max_size=max_bytes), np.array([1, 1, 2, 2, 3, 9], np.uint32)
    pairs.copy_pairs(table, np.uint64(least), lengths, state, copy)
    selected = twins.training.copy_pairs(counts, least, lengths.tolist(), max_bytes)
    assert contents(copy, "count", "start", "length", "next") == {
        pair: (count, 3 * number, number, 0) for number, (pair, count) in enumerate(counts.items()) if pair in selected
    }
    assert state[0]["n_pairs"] == len(selected)


@given(st.one_of(tables, many), cell_types, st.integers(1, 4), st.sampled_from([0, 2**31]))
def test_plan_and_write_postings(table: dict[bytes, int], cell_type: type, least: int, first: int) -> None:
    array, weights, _ = filled(table, cell_type)
    cells = as_twin(array, weights)
    positions = [at for at, _, _ in twins.training.positions_of_pairs(cells)]
    state = new_state()
    everything, of_positions, _ = counted(array, weights, positions, 64, state)
    found = np.zeros(64, pairs.PAIR)
    pairs.copy_pairs(everything, np.uint64(least), ONES, state, found)
    in_order = [pair_of(slot["key"]) for slot in found if slot["key"] != 0]
    numbers = contents(found, "length")

    combining.plan_postings(found, state)

    starts, n_postings, longest = twins.training.plan_postings([numbers[pair][0] for pair in in_order])
    assert contents(found, "start", "length") == {pair: (start, 0) for pair, start in zip(in_order, starts, strict=True)}
    assert (state[0]["n_postings"], state[0]["longest"]) == (n_postings, longest)

    postings = np.zeros(n_postings + 1, np.uint32)
    batch = np.zeros(pairs.BATCH_POSITIONS, np.uint32)
    cursors = np.zeros(np.count_nonzero(everything["key"]), np.uint64)
    combining.divide_postings(found, everything, cursors)
    combining.write_postings(
        as_bits(positions, array.size), np.uint64(first), of_positions, batch, cursors, np.uint64(n_postings), postings
    )
    lists = {
        pair: (postings[start : start + length].astype(np.int64) - first).tolist()
        for pair, (start, length) in contents(found, "start", "length").items()
    }
    assert lists == twins.training.write_postings(cells, positions, set(in_order))
