"""Comparison of the kernels that read hash tables with their twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import twins
from helpers.training import BOUNDARY, as_twin, byte_pair_counts, cell_types, hash_table, slot_contents
from hypothesis import given, strategies as st

from bpejit.kernels.counting import interning, slots
from bpejit.kernels.training import byte_pairs

counts = st.one_of(st.integers(1, 5), st.sampled_from([2**16 - 1, 2**16, 2**31, 2**40]))
tables = st.dictionaries(
    st.one_of(st.binary(min_size=1, max_size=20), st.binary(min_size=14, max_size=17)), counts, max_size=30
)


@given(tables, st.integers(0, 10), st.integers(1, 4), cell_types)
def test_measuring_and_filling(table: dict[bytes, int], moved: int, n_ranges: int, cell_type: type) -> None:
    array, arena = hash_table(table)
    array[2::4][np.flatnonzero(array[2::4])[:moved]] = interning.MOVED
    weights = np.array([0, *twins.training.measure_slots(slot_contents(array, arena))[1]], np.uint64)
    byte_ids = np.roll(np.arange(256, dtype=np.uint64), -1)
    bounds = [64 * number // n_ranges * 4 for number in range(n_ranges + 1)]
    for begin, end in pairwise(bounds):
        part = array[begin:end]
        expected = slot_contents(part, arena)
        sizes, occurs = np.zeros(1, slots.SLOT_SIZES), np.zeros(slots.SMALL_COUNTS, np.uint8)
        large = np.zeros(part.size // 4, np.uint64)
        slots.measure_slots(part, sizes, occurs, large)
        small = np.flatnonzero(occurs).tolist()
        assert (
            sizes[0].tolist(),
            small + sorted(set(large[: int(sizes[0]["large"])].tolist())),
        ) == twins.training.measure_slots(expected)

        n_cells = int(sizes[0]["units"] + sizes[0]["with_pairs"])
        cells = np.full(n_cells + 1, 12345, cell_type)
        pairs = np.zeros(byte_pairs.N_BYTE_PAIRS, byte_pairs.BYTE_PAIR)
        assert n_cells == slots.fill_cells_from_slots(
            part, part.view(np.uint8), arena, byte_ids, BOUNDARY, weights, cells, pairs
        )
        assert cells[n_cells] == 12345
        twin = twins.training.fill_cells_from_slots(expected, byte_ids.tolist())
        assert as_twin(cells[:n_cells], weights) == twin
        assert byte_pair_counts(pairs) == twins.training.count_byte_pairs([twins.training.BOUNDARY, *twin])
