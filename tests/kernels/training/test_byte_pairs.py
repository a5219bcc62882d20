"""Comparison of the kernels of the first phase with their twins."""

from __future__ import annotations

import numpy as np
import twins
from helpers.training import BOUNDARY, as_twin, byte_pair_counts, cell_types, filled, filled_with_pairs, tables
from hypothesis import given, strategies as st

from bpejit.kernels.training import byte_pairs, pairs

bytes_tables = st.dictionaries(st.binary(max_size=9), st.one_of(st.integers(-1, 5), st.just(2**40)), max_size=8)


@given(st.one_of(tables, bytes_tables), cell_types)
def test_fill_cells(table: dict[bytes, int], cell_type: type) -> None:
    array, weights, byte_ids, found = filled_with_pairs(table, cell_type)
    cells = as_twin(array, weights)
    assert cells == twins.training.fill_cells(sorted(table.items()), byte_ids.tolist())
    assert byte_pair_counts(found) == twins.training.count_byte_pairs(cells)


@given(st.one_of(tables, bytes_tables), cell_types, st.data())
def test_write_byte_postings(table: dict[bytes, int], cell_type: type, data: st.DataObject) -> None:
    array, weights, _ = filled(table, cell_type)
    cells = as_twin(array, weights)
    counts = twins.training.count_byte_pairs(cells)
    listed = {pair for pair in sorted(counts) if data.draw(st.booleans())}
    cursors = np.full(byte_pairs.N_BYTE_PAIRS + 1, pairs.NOT_FOLLOWED, np.uint64)
    starts, n_postings = {}, 0
    for left, right in sorted(listed):
        starts[left, right] = cursors[left << 8 | right] = n_postings
        n_postings += counts[left, right][1]
    postings = np.full(n_postings + 3, 12345, np.uint32)

    byte_pairs.write_byte_postings(array, np.uint64(100), BOUNDARY, cursors, np.uint64(n_postings + 1), postings)

    found = {pair: postings[starts[pair] : starts[pair] + counts[pair][1]].tolist() for pair in listed}
    expected = twins.training.write_byte_postings(cells, listed)
    assert found == {pair: [100 + at for at in positions] for pair, positions in expected.items()}
    assert postings[[n_postings, n_postings + 2]].tolist() == [12345, 12345]
