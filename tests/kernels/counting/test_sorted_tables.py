"""Comparison of sorting tables, and of merging sorted ones for outputs of any size, with their twins."""

from __future__ import annotations

import numpy as np
import twins
from conftest import small
from helpers.training import table_of
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, PretokenTable
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.counting import sorted_tables

words = st.one_of(
    st.text(alphabet="ab\0", min_size=1, max_size=20).map(str.encode),
    st.binary(min_size=1, max_size=40),
    st.sampled_from([b"a" * n for n in (1, 7, 8, 9, 15, 16, 17, 100)]),
)
tables = st.dictionaries(words, st.integers(1, 2**61), max_size=50)


def merged(a: PretokenTable, b: PretokenTable, most: int, most_bytes: int) -> list[tuple[bytes, int]]:
    """Return what the kernel writes with outputs of a given size, until a table ends, and the rest of the other table."""
    state = np.zeros(4, np.int64)
    pool, starts, counts = np.zeros(most_bytes + 8, np.uint8), np.zeros(most + 1, np.int64), np.zeros(most, np.int64)
    found: list[tuple[bytes, int]] = []
    status = NEED_SPACE
    while status != DONE:
        status = sorted_tables.merge_sorted(a.pool, a.starts, a.counts, b.pool, b.starts, b.counts, state, pool, starts, counts)
        n, n_bytes = state[sorted_tables.MERGED], state[sorted_tables.MERGED_BYTES]
        block = ByteStrings(pool[:n_bytes].copy(), starts[: n + 1].copy())
        found += zip(block, counts[:n].tolist(), strict=True)
        state[sorted_tables.MERGED] = state[sorted_tables.MERGED_BYTES] = 0
    assert state[sorted_tables.AT_LEFT] == len(a) or state[sorted_tables.AT_RIGHT] == len(b)
    for table, at in ((a, sorted_tables.AT_LEFT), (b, sorted_tables.AT_RIGHT)):
        found += list(table.to_counts().items())[state[at] :]
    return found


@given(tables, tables, st.integers(1, 60), st.integers(100, 300))
def test_merging_equals_the_twin(left: dict[bytes, int], right: dict[bytes, int], most: int, most_bytes: int) -> None:
    expected = twins.counting.merge_sorted(sorted(left.items()), sorted(right.items()))
    a, b = table_of(left), table_of(right)
    assert merged(a, b, most, most_bytes) == expected
    assert merged(b, a, most, most_bytes) == expected


@given(st.dictionaries(words, st.integers(1, 9), max_size=small(300, 60)))
def test_order_by_bytes(counts: dict[bytes, int]) -> None:
    strings = list(counts)
    pool, starts, numbers = (
        np.array(list(part), dtype)
        for part, dtype in zip(twins.counting.unpack_table(counts), (np.uint8, np.int64, np.int64), strict=True)
    )
    padded = np.concatenate([pool, np.zeros(8, np.uint8)])
    prefixes = np.zeros(len(strings), np.uint64)
    sorted_tables.make_prefixes(padded, starts, prefixes)
    assert prefixes.tolist() == twins.counting.make_prefixes(strings)

    order = np.argsort(prefixes)
    sorted_tables.sort_runs(padded, starts, prefixes, order)
    assert order.tolist() == twins.counting.sort_runs(strings)

    out = np.zeros_like(pool), np.zeros_like(starts), np.zeros_like(numbers)
    sorted_tables.gather(padded, starts, numbers, order, *out)
    assert (list(ByteStrings(out[0], out[1])), out[2].tolist()) == twins.counting.gather(
        strings, list(counts.values()), order.tolist()
    )
