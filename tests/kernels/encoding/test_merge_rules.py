"""Tests of the hash table of merge rules."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from hypothesis import given, strategies as st

from bpejit.formats.ranked_merges import make_rule_tables
from bpejit.kernels.constants import DONE, NEED_SPACE
from bpejit.kernels.encoding import merge_rules
from bpejit.kernels.encoding.merge_rules import RuleTables

tokens = st.integers(0, 30) | st.integers(0, merge_rules.MAX_TOKENS - 1)
pairs = st.tuples(tokens, tokens)


def build(ranks: dict[tuple[int, int], int], n_slots: int, n_sets: int) -> tuple[int, RuleTables]:
    """Build the table of some pairs and their ranks."""
    words = [left << 43 | right << 22 | rank + 1 for (left, right), rank in ranks.items()]
    rules = np.array(words, dtype=np.uint64)
    merges, displacements = np.zeros(n_slots, np.uint64), np.full(n_sets, 9, np.uint8)
    scratch = np.zeros(n_sets, np.int32), np.zeros(rules.size, np.int32)
    tables = RuleTables(merges, displacements, np.zeros(0, np.uint32), np.zeros(0, np.uint32))
    return merge_rules.build_merges(rules, merges, displacements, *scratch), tables


def find(tables: RuleTables, left: int, right: int) -> int:
    return int(merge_rules.find_rank(tables, np.uint64(left), np.uint64(right)))


@given(st.dictionaries(pairs, st.integers(0, 1 << 21), max_size=40), st.lists(pairs, max_size=20), st.sampled_from([16, 64]))
def test_build_merges(ranks, others, n_sets):
    status, tables = build(ranks, 256, n_sets)
    assert status == DONE
    assert np.count_nonzero(tables.merges != merge_rules.NO_RULE) == len(ranks)
    expected = twins.encoding.build_merges([(*pair, rank) for pair, rank in ranks.items()])
    for pair in [*ranks, *others, (0, 0)]:
        assert find(tables, *pair) == expected.get(pair, int(merge_rules.NO_RANK))


@pytest.mark.parametrize(("n", "n_slots", "n_sets"), [(17, 16, 4), (65, 1024, 1)])
def test_build_merges__needs_space(n, n_slots, n_sets):
    """More pairs than slots, and more in a set than it may have."""
    assert build({(i, 1000 - i): i for i in range(n)}, n_slots, n_sets)[0] == NEED_SPACE


rows = st.lists(st.tuples(st.integers(250, 270), st.integers(250, 270), st.integers(0, 30)), max_size=30)


@given(rows)
def test_make_rules(pairs_and_ranks):
    """Include duplicate pairs, shared ranks, and pairs of bytes."""
    given_rules = [(left, right, 256 + rank, rank) for left, right, rank in pairs_and_ranks]
    expected = twins.encoding.make_rule_tables(given_rules)
    columns = np.array(given_rules, dtype=np.int32).reshape(-1, 4)
    left, right, made, ranks = (np.ascontiguousarray(column) for column in columns.T)
    tables = make_rule_tables((left, right, made, ranks), np.full(1 << 16, merge_rules.NO_RANK, dtype=np.uint32))
    for first in range(248, 273):
        for second in range(248, 273):
            rank, token = expected.get((first, second), (int(merge_rules.NO_RANK), None))
            assert find(tables, first, second) == rank
            assert token is None or tables.merged[rank] == token
            if first < 256 and second < 256:
                assert tables.byte_pairs[first << 8 | second] == rank
