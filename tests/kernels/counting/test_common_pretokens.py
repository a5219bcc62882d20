"""Comparison of the kernel that adds up the counts of several hash tables with its twin."""

from __future__ import annotations

import numpy as np
import twins
from helpers.training import hash_table, slot_contents
from hypothesis import given, strategies as st

from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.counting import common_pretokens

words = st.one_of(st.text("ab", min_size=1, max_size=18).map(str.encode), st.binary(min_size=1, max_size=3))
tables = st.lists(
    st.tuples(st.dictionaries(words, st.integers(1, 2**40), max_size=20), st.sampled_from([32, 64, 256])),
    min_size=1,
    max_size=6,
)


@given(tables, st.sampled_from([1, 2, 8, 32]), st.sampled_from([2, 8, 256]))
def test_move_common(given_tables: list[tuple[dict[bytes, int], int]], n_parts: int, index_size: int) -> None:
    arrays = [hash_table(counts, slots) for counts, slots in given_tables]
    addresses = addresses_of(tuple(array for pair in arrays for array in pair))
    least = np.uint64(min(slots for _, slots in given_tables))
    for part in reversed(range(n_parts)):
        index = np.empty(index_size, np.uint64)
        while True:
            status = common_pretokens.move_common(addresses, np.uint64(part), np.uint64(n_parts), least, index)
            if status == DONE:
                break
            assert status == NEED_SPACE
            index = np.empty(2 * index.size, np.uint64)
    expected = [dict(counts) for counts, _ in given_tables]
    twins.counting.move_common(expected)
    assert [slot_contents(*found) for found in arrays] == expected


def test_long_pretokens_with_one_key() -> None:
    # Two different pre-tokens of more than 15 bytes with one hash: the bytes are compared as well.
    arrays = [hash_table({b"a" * 20: 3}), hash_table({b"a" * 20: 4})]
    arrays[1][1][:20] = ord("b")
    index = np.empty(8, np.uint64)
    addresses = addresses_of(tuple(array for pair in arrays for array in pair))
    assert common_pretokens.move_common(addresses, np.uint64(0), np.uint64(1), np.uint64(64), index) == DONE
    assert [slot_contents(*found) for found in arrays] == [{b"a" * 20: 3}, {b"b" * 20: 4}]
