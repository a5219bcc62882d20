"""Tests of the perfect hash table of last merges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import twins
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.encoding import last_merges, token_derivations
from bpejit.kernels.encoding.merge_rules import FREE, MAX_TOKENS, NO_RANK

tokens = st.integers(0, 30) | st.integers(0, MAX_TOKENS - 1)
pairs = st.tuples(tokens, tokens)


class Tables(NamedTuple):
    """The fields of `EncoderTables` that a lookup reads."""

    last_merges: NDArray[np.uint64]
    displacements: NDArray[np.uint8]


def build(merges: dict[tuple[int, int], int], n_slots: int, n_sets: int) -> tuple[int, Tables]:
    """Build the table of some pairs and their ranks, between tokens without a last merge."""
    words = [left << 43 | right << 22 | rank + 1 for (left, right), rank in merges.items()]
    splits = np.array([0, int(token_derivations.UNREACHABLE), *words, 0], dtype=np.uint64)
    tables = Tables(last_merges=np.zeros(n_slots, np.uint64), displacements=np.full(n_sets, 9, np.uint8))
    scratch = np.zeros(n_sets, np.int32), np.zeros(splits.size, np.int32)
    return last_merges.build_last_merges(splits, tables.last_merges, tables.displacements, *scratch), tables


def find(tables: Tables, left: int, right: int) -> int:
    pair = np.uint64(left), np.uint64(right)
    return int(last_merges.rank_at(tables, last_merges.merge_place(tables, *pair), *pair))


@given(st.dictionaries(pairs, st.integers(0, 1 << 21), max_size=40), st.lists(pairs, max_size=20), st.sampled_from([16, 64]))
def test_build_last_merges(merges, others, n_sets):
    status, tables = build(merges, 256, n_sets)
    assert status == DONE
    assert np.count_nonzero(tables.last_merges != FREE) == len(merges)
    ranks = twins.encoding.build_last_merges([None, *((*pair, rank) for pair, rank in merges.items()), None])
    for pair in [*merges, *others, (0, 0)]:
        assert find(tables, *pair) == ranks.get(pair, int(NO_RANK))


@pytest.mark.parametrize(("n", "n_slots", "n_sets"), [(17, 16, 4), (65, 1024, 1)])
def test_build_last_merges__needs_space(n, n_slots, n_sets):
    """More pairs than slots, and more in a set than it may have."""
    assert build({(i, 1000 - i): i for i in range(n)}, n_slots, n_sets)[0] == NEED_SPACE
