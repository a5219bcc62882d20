"""Comparison of `expand_merges` with its twin."""

from __future__ import annotations

import numpy as np
import twins
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings
from bpejit.kernels.training.merge_expansion import expand_merges


@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True)), max_size=10))
def test_expand_merges(shares: list[tuple[float, float]]) -> None:
    left = [int(share * (256 + number)) for number, (share, _) in enumerate(shares)]
    right = [int(share * (256 + number)) for number, (_, share) in enumerate(shares)]
    expected = twins.training.expand_merges(left, right)
    starts, sides = np.zeros(256 + len(left) + 1, np.int64), (np.array(left, np.int32), np.array(right, np.int32))
    size = expand_merges(*sides, starts, np.zeros(0, np.uint8))
    assert size == sum(map(len, expected))
    pool = np.zeros(size, np.uint8)
    assert expand_merges(*sides, starts, pool) == size
    assert list(ByteStrings(pool, starts)) == expected
