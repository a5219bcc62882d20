"""Helpers of the tests of the training kernels: tables of pre-tokens, their cells, and keys of pairs."""

from __future__ import annotations

import naive
import numpy as np
from hypothesis import strategies as st

from bpejit.arrays import PretokenTable
from bpejit.kernels.training import cells, pairs

BOUNDARY = np.uint64(1000)

# Counts around the largest that fits into half a cell, and some that mean "does not occur".
counts = st.one_of(st.integers(-1, 5), st.sampled_from([2**31 - 1, 2**31, 2**32, 2**40]))
tables = st.dictionaries(st.text("abc", max_size=8).map(str.encode), counts, max_size=8)


def filled(table: dict[bytes, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells of a table, the heavy weights, and the byte ids, which are one more than the byte."""
    arrays = PretokenTable.from_counts(table)
    array = np.zeros(arrays.pool.size + len(arrays) + 1, np.uint64)
    heavy = np.zeros(1 + np.count_nonzero(arrays.counts >= 2**31), np.uint64)
    byte_ids = np.arange(1, 257, dtype=np.uint64)
    n = cells.fill_cells(arrays.pool, arrays.starts, arrays.counts, byte_ids, BOUNDARY, np.uint64(0), array, heavy)
    return array[:n], heavy, byte_ids


def as_twin(array: np.ndarray, heavy: np.ndarray, boundary: int = int(BOUNDARY)) -> list[naive.Cell]:
    """Return cells in the form of the twins."""
    found: list[naive.Cell] = []
    for cell in array:
        token = int(cell & cells.LOW_HALF)
        weight = int(cells.weight_of(cell, heavy))
        found.append((weight, None if token == boundary else token))
    return found


def key(pair: naive.Pair) -> np.uint64:
    return pairs.pair_key(np.uint64(pair[0]), np.uint64(pair[1]))


def pair_of(value: np.uint64) -> naive.Pair:
    """Return the pair with a key."""
    return divmod(int(value) - 1, 1 << 32)
