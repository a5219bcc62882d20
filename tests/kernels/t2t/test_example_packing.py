"""Comparison of the kernels of packing with their twins."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import twins
from hypothesis import given, strategies as st

from bpejit.kernels.t2t import example_packing

sizes = st.integers(0, 12)


@given(
    st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(st.booleans(), *[sizes] * n), max_size=40)),
    st.integers(1, 20),
    st.integers(0, 3),
    st.integers(1, 5),
)
def test_assign_packs(rows, packed_length, spacing, queue_size):
    alone = [row[0] for row in rows]
    found = [row[1:] for row in rows]
    n_features = len(found[0]) if found else 1
    packs, complete = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    n_packs = example_packing.assign_packs(
        np.array(found, np.int64).T.reshape(-1).copy(), np.array(alone, np.uint8), packed_length, spacing,
        np.zeros(queue_size, np.int64), np.zeros(n_features * queue_size, np.int64), packs, complete,
    )  # fmt: skip
    expected = twins.records.assign_packs(found, alone, packed_length, spacing, queue_size)
    assert (packs.tolist(), complete[:n_packs].tolist()) == expected


members = st.lists(st.lists(st.integers(1, 99), max_size=5), min_size=1, max_size=6)


@given(st.lists(members, max_size=6), st.integers(0, 3), st.randoms())
def test_fill_packs(packs, spacing, random):
    plain = [twins.records.fill_packs(own, spacing) for own in packs]
    lists = [(member, number) for number, own in enumerate(packs) for member in own]
    stored = list(range(len(lists)))
    random.shuffle(stored)  # where in `ids` each list is
    by_place = sorted(range(len(lists)), key=stored.__getitem__)
    ids = [value for index in by_place for value in lists[index][0]]
    begins = list(accumulate((len(lists[index][0]) for index in by_place), initial=0))[:-1]
    starts = list(accumulate((len(values) for values, _, _ in plain), initial=0))
    outs = [np.zeros(starts[-1], dtype) for dtype in (np.int64, np.uint32, np.uint32)]
    example_packing.fill_packs(
        np.array(ids, np.int64), np.array(begins, np.int64), np.array([len(lists[index][0]) for index in by_place], np.int64),
        np.array(stored, np.int64), np.array([number for _, number in lists], np.int64), np.array(starts, np.int64), spacing,
        *outs,
    )  # fmt: skip
    for number, out in enumerate(outs):
        assert out.tolist() == [value for pack in plain for value in pack[number]]
