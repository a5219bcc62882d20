"""Comparison of the kernels on cells with their twins."""

from __future__ import annotations

import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from training_helpers import BOUNDARY, as_twin, filled, tables

from bpejit.kernels.training import cells


@given(tables)
def test_fill_cells(table: dict[bytes, int]) -> None:
    array, heavy, byte_ids = filled(table)
    assert as_twin(array, heavy) == naive.fill_cells(sorted(table.items()), byte_ids.tolist())


@given(tables, st.lists(st.tuples(st.integers(0, 60), st.integers(2, 3)), max_size=8))
def test_compact_cells(table: dict[bytes, int], wide: list[tuple[int, int]]) -> None:
    array, heavy, _ = filled(table)
    # Insert tokens of two and three cells where they fit. Cells between the first and the last one are never read.
    widths = np.ones(int(BOUNDARY) + 1, np.uint32)
    widths[[500, 501]] = 2, 3
    taken: set[int] = set()
    for at, width in wide:
        span = set(range(at, at + width))
        if at + width <= array.size and not span & taken and not (array[sorted(span)] == BOUNDARY).any():
            array[at : at + width] = array[at] >> cells.HALF << cells.HALF | np.uint64(498 + width)
            if width == 3:
                array[at + 1] = BOUNDARY
            taken |= span
    expected = naive.compact_cells(as_twin(array, heavy), widths.tolist())

    n = cells.compact_cells(array, np.uint64(array.size), widths, BOUNDARY)

    assert as_twin(array[:n], heavy) == expected


def test_compact_cells__omits_pretokens_of_one_token() -> None:
    array, heavy, _ = filled({b"ab": 5, b"abc": 2})
    widths = np.ones(int(BOUNDARY) + 1, np.uint32)
    widths[300] = 2
    for at in (1, 4):
        array[at : at + 2] = array[at] >> cells.HALF << cells.HALF | np.uint64(300)
    n = cells.compact_cells(array, np.uint64(array.size), widths, BOUNDARY)
    assert as_twin(array[:n], heavy) == [(0, None), (2, 300), (2, ord("c") + 1), (0, None)]
