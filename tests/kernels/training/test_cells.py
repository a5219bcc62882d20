"""Comparison of the kernels on cells with their twins."""

from __future__ import annotations

import numpy as np
import twins
from helpers.training import BOUNDARY, as_twin, cell_types, filled, tables, with_token
from hypothesis import given, strategies as st

from bpejit.kernels.training import cells


@given(tables, cell_types, st.lists(st.tuples(st.integers(0, 60), st.integers(2, 3)), max_size=8))
def test_compact_cells(table: dict[bytes, int], cell_type: type, wide: list[tuple[int, int]]) -> None:
    array, weights, _ = filled(table, cell_type)
    # Insert tokens of two and three cells where they fit. Cells between the first and the last one are never read.
    widths = np.ones(int(BOUNDARY) + 1, np.uint32)
    widths[[500, 501]] = 2, 3
    taken: set[int] = set()
    for at, width in wide:
        span = set(range(at, at + width))
        if at + width <= array.size and not span & taken and not (array[sorted(span)] == BOUNDARY).any():
            array[at : at + width] = with_token(array[at], 498 + width)
            if width == 3:
                array[at + 1] = BOUNDARY
            taken |= span
    expected = twins.training.compact_cells(as_twin(array, weights), widths.tolist())

    n = cells.compact_cells(array, np.uint64(array.size), widths, BOUNDARY)

    assert as_twin(array[:n], weights) == expected


def test_compact_cells__omits_pretokens_of_one_token() -> None:
    array, weights, _ = filled({b"ab": 5, b"abc": 2})
    widths = np.ones(int(BOUNDARY) + 1, np.uint32)
    widths[300] = 2
    for at in (1, 4):
        array[at : at + 2] = with_token(array[at], 300)
    n = cells.compact_cells(array, np.uint64(array.size), widths, BOUNDARY)
    assert as_twin(array[:n], weights) == [(0, None), (2, 300), (2, ord("c") + 1), (0, None)]


@given(st.sets(st.integers(1, 2**62), min_size=1, max_size=20))
def test_find_weight(counts: set[int]) -> None:
    weights = np.array([0, *sorted(counts)], np.uint64)
    assert [int(cells.find_weight(weights, weight)) for weight in weights] == list(range(weights.size))
