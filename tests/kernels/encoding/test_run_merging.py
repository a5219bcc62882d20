"""Tests of merging all pairs of the lowest rank at once, in repetitive pre-tokens."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import twins
from conftest import small
from helpers.encoding import make_model, naive_rules
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.encoding.encoder_tables import make_tables
from bpejit.jit import dispatch
from bpejit.kernels.encoding import run_merging


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    # The functions below are not kernels of the package, so the cache would not notice an edit.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def merge_runs(text, start, length, tables, scratch, out, n_out):
    """Call the function of the same name."""
    return run_merging.merge_runs(text, start, length, tables, scratch, out, n_out)


@dispatch.kernel
def is_repetitive(text, start, length):
    """Call the function of the same name."""
    return run_merging.is_repetitive(text, start, length)


del dispatch.KERNELS[-2:]


def run(data: bytes, tables) -> list[int] | None:
    """Return the ids of a run, or None if the kernel gives up; check that nothing is written past the output."""
    text, _ = padded_text(b"ab" + data)
    scratch = np.full(2 * len(data) + 3, 0xABCDEF, dtype=np.uint32)
    out = np.full(len(data) + 5, 0xFFFFFFFF, dtype=np.uint32)
    end = int(merge_runs(text, np.uint64(2), np.uint64(len(data)), tables, scratch, out, np.uint64(2)))
    assert (scratch[-3:] == 0xABCDEF).all()
    assert (out[:2] == 0xFFFFFFFF).all()
    assert (out[end:] == 0xFFFFFFFF).all()
    return out[2:end].tolist() if end > 2 else None


@st.composite
def merge_lists(draw):
    """Draw merges of long runs of two bytes, in any order."""
    tokens = [b"a", b"b"]
    merges = []
    for left, right in draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)):
        pair = tokens[left % len(tokens)], tokens[right % len(tokens)]
        if pair not in merges:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    return draw(st.permutations(merges))


@given(
    merge_lists(), st.lists(st.sampled_from([b"a", b"b", b"aaaa", b"ab" * 8, b"a" * 33]), min_size=1, max_size=8).map(b"".join)
)
def test_merge_sweeps(merges, data):
    """The kernel gives up if its twin does, and otherwise matches naive merging."""
    model = make_model(merges)
    table, ids = naive_rules(model)
    found = run(data, make_tables(model, {}))
    assert found == twins.encoding.merge_runs(data, table, ids)
    assert found is None or found == twins.encoding.encode_pretoken(data, table, ids)


@pytest.mark.parametrize("step", [1, 3])
def test_merge_sweeps__ranks_in_training_order(step):
    merges = [(b"a" * n, b"a" * n) for n in (1, 2, 4, 8, 16)] + [(b"aa", b"a")]
    model = make_model(merges, step=step)
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    for length in [*range(1, 70), small(1000, 200), small(1001, 201)]:
        expected = twins.encoding.encode_pretoken(b"a" * length, table, ids)
        assert run(b"a" * length, tables) == expected == twins.encoding.merge_runs(b"a" * length, table, ids)


def test_merge_sweeps__gives_up_on_pair_of_lower_rank():
    model = make_model([(b"aa", b"a"), (b"a", b"a")])
    table, ids = naive_rules(model)
    assert run(b"a" * 40, make_tables(model, {})) is None
    # Each merge makes a pair of lower rank than all others, even if that pair is itself merged at the end of a sweep.
    assert len(twins.encoding.encode_pretoken(b"a" * 40, table, ids)) == 14


def test_merge_sweeps__gives_up_after_many_sweeps():
    chain = bytes(range(60, 130))
    model = make_model([(bytes([left]), bytes([right])) for left, right in pairwise(chain[::2])])
    tables = make_tables(model, {})
    assert run(chain[::2], tables) is not None
    chain = bytes(range(2 * run_merging.MAX_PASSES))
    model = make_model([(bytes([left]), bytes([right])) for left, right in zip(chain[::2], chain[1::2], strict=True)])
    tables = make_tables(model, {})
    table, ids = naive_rules(model)
    # The last sweep finds no more pairs.
    assert run(chain, tables) is None
    assert run(chain[2:], tables) == twins.encoding.encode_pretoken(chain[2:], table, ids)


@given(st.lists(st.sampled_from(b"ab"), min_size=1, max_size=40).map(bytes))
def test_is_repetitive(data):
    text, _ = padded_text(b"aa" + data)
    text[2 + len(data)] = data[-1]
    same = sum(left == right for left, right in pairwise(data))
    assert bool(is_repetitive(text, np.uint64(2), np.uint64(len(data)))) == (same / len(data) >= 0.75)
