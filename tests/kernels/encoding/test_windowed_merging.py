"""Comparison of merging long pre-tokens (tree of minima, one window, overlapping windows) with naive merging."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import twins
from conftest import small
from helpers.encoding import ALPHABET, make_model, merge_lists, naive_rules
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.encoding.encoder_tables import make_tables
from bpejit.jit import dispatch
from bpejit.kernels.encoding import windowed_merging
from bpejit.kernels.encoding.encoder_arrays import EncoderTables
from bpejit.kernels.encoding.merge_rules import NO_RANK
from bpejit.kernels.encoding.windowed_merging import FANOUT, LIST_START

fragments = st.lists(st.sampled_from([*ALPHABET, b"aaaaaaaa", b"ab"]), min_size=1, max_size=small(200, 60)).map(b"".join)


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    # This kernel is not part of the package, so no hash shows when it was edited.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def build_and_update(scratch, base, length, positions, ranks):
    """Build the tree over `scratch[base:base + length]`, then change ranks one by one; return the number of levels."""
    levels = windowed_merging._build_tree(scratch, base, length)
    for i in range(positions.size):
        scratch[base + positions[i]] = ranks[i]
        windowed_merging._update_minima(scratch, levels, positions[i])
    return np.int64(levels)


del dispatch.KERNELS[-1:]


@given(
    st.lists(st.integers(0, 50) | st.just(int(NO_RANK)), min_size=1, max_size=small(700, 300)),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 50) | st.just(int(NO_RANK))), max_size=40),
)
def test_tree_has_the_minima_after_every_change(ranks, changes):
    base = 16
    scratch = np.full(base + 2 * len(ranks) + windowed_merging.SCRATCH_EXTRA, 0xABCDEF, dtype=np.uint32)
    scratch[base : base + len(ranks)] = ranks
    positions = np.array([position % len(ranks) for position, _ in changes], dtype=np.uint64)
    n_levels = int(
        build_and_update(
            scratch, np.uint64(base), np.uint64(len(ranks)), positions, np.array([rank for _, rank in changes], dtype=np.uint32)
        )
    )
    for position, (_, rank) in zip(positions.tolist(), changes, strict=True):
        ranks[position] = rank
    expected = twins.encoding.build_minima(ranks)
    assert n_levels == len(expected)
    for start, level in zip(scratch[:n_levels].tolist(), expected, strict=True):
        padded = level + [int(NO_RANK)] * (-len(level) % FANOUT)
        assert scratch[start : start + len(padded)].tolist() == padded


def merge(data: bytes, tables: EncoderTables, *, window: int) -> list[int]:
    """Call `merge_long` in the middle of a text and of an output; return the ids."""
    text, _ = padded_text(b"ab " + data + b"ab")
    scratch = np.full(windowed_merging.SCRATCH_WORDS * len(data) + windowed_merging.SCRATCH_EXTRA, 0xABCDEF, dtype=np.uint32)
    out = np.full(2 + len(data) + 20, 0xFFFFFFFF, dtype=np.uint32)
    end = int(
        windowed_merging.merge_long(
            text, np.uint64(3), np.uint64(len(data)), tables, scratch, out, np.uint64(2), np.uint64(window)
        )
    )
    assert (out[:2] == 0xFFFFFFFF).all()
    assert (out[end:] == 0xFFFFFFFF).all()
    return out[2:end].tolist()


@given(merge_lists(), fragments, st.integers(1, 70))
def test_merge_long__any_window(merges, data, window):
    """Ranks have any order, so that windows often disagree and are enlarged."""
    model = make_model(merges)
    table, ids = naive_rules(model)
    assert merge(data, make_tables(model, {}), window=window) == twins.encoding.merge_long(data, table, ids)


@given(merge_lists(), fragments)
def test_merge_window(merges, data):
    model = make_model(merges)
    table, _ = naive_rules(model)
    text, length = padded_text(data)
    scratch = np.zeros(windowed_merging.SCRATCH_WORDS * length + windowed_merging.SCRATCH_EXTRA, dtype=np.uint32)
    windowed_merging.merge_window(text, np.uint64(0), np.uint64(length), make_tables(model, {}), scratch)
    tokens, at, before = [], 0, int(windowed_merging.END_OF_LIST)
    while at != windowed_merging.END_OF_LIST:
        token, back, after = scratch[LIST_START + 3 * at :][:3].tolist()
        assert back == before
        tokens.append(token)
        before, at = at, after
    assert tokens == twins.encoding.merge_window(data, table)


@pytest.mark.parametrize("window", [4, windowed_merging.WINDOW])
def test_merge_long__runs(window):
    """All positions have one rank: the leftmost must win, across all window boundaries."""
    model = make_model([(b"a" * n, b"a" * n) for n in (1, 2, 4, 8)] + [(b"aa", b"a")])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    for length in [*range(1, 40), small(1000, 100), small(1001, 101)]:
        assert merge(b"a" * length, tables, window=window) == twins.encoding.merge_long(b"a" * length, table, ids)


def test_merge_long__token_longer_than_window():
    merges = [(b"a" * n, b"a" * n) for n in (1, 2, 4, 8, 16, 32)]
    model = make_model(merges)
    table, ids = naive_rules(model)
    data = b"a" * 100
    assert merge(data, make_tables(model, {}), window=4) == twins.encoding.merge_long(data, table, ids)


def test_merge_long__change_that_propagates_far():
    """Each pair has a lower rank than the one before it: the last byte determines how the first is merged."""
    chain = bytes(range(60, 120))
    merges = [(bytes([left]), bytes([right])) for left, right in pairwise(chain)][::-1]
    model = make_model(merges)
    table, ids = naive_rules(model)
    for length in range(2, len(chain)):
        data = chain[:length]
        assert merge(data, make_tables(model, {}), window=4) == twins.encoding.merge_long(data, table, ids)
