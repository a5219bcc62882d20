"""Cells against their twins."""

from __future__ import annotations

import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from training_helpers import BORDER, as_twin, filled, tables

from bpejit.kernels.training import cells


@given(tables)
def test_fill_cells(table: dict[bytes, int]) -> None:
    array, heavy, byte_ids = filled(table)
    assert as_twin(array, heavy) == naive.fill_cells(sorted(table.items()), byte_ids.tolist())


@given(tables, st.lists(st.tuples(st.integers(0, 60), st.integers(2, 3)), max_size=8))
def test_compact_cells(table: dict[bytes, int], wide: list[tuple[int, int]]) -> None:
    array, heavy, _ = filled(table)
    # Put tokens of two and three cells where they fit: cells between the first and the last one are never looked at.
    widths = np.ones(int(BORDER) + 1, np.uint32)
    widths[[500, 501]] = 2, 3
    taken: set[int] = set()
    for at, width in wide:
        span = set(range(at, at + width))
        if at + width <= array.size and not span & taken and not (array[sorted(span)] == BORDER).any():
            array[at : at + width] = array[at] >> cells.HALF << cells.HALF | np.uint64(498 + width)
            if width == 3:
                array[at + 1] = BORDER
            taken |= span
    expected = naive.compact_cells(as_twin(array, heavy), widths.tolist())

    n = cells.compact_cells(array, np.uint64(array.size), widths, BORDER)

    assert as_twin(array[:n], heavy) == expected


def test_compact_cells__leaves_out_what_has_no_pair() -> None:
    array, heavy, _ = filled({b"ab": 5, b"abc": 2})
    widths = np.ones(int(BORDER) + 1, np.uint32)
    widths[300] = 2
    for at in (1, 4):
        array[at : at + 2] = array[at] >> cells.HALF << cells.HALF | np.uint64(300)
    n = cells.compact_cells(array, np.uint64(array.size), widths, BORDER)
    assert as_twin(array[:n], heavy) == [(0, None), (2, 300), (2, ord("c") + 1), (0, None)]
