"""Comparison of the merge loop with its twin: the merges, and all of its data structures after every merge."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from helpers.learner import FILLER, check_everything, start, tables
from helpers.training import key
from hypothesis import example, given, strategies as st

from bpejit.kernels.constants import DONE, EXHAUSTED, NEED_SPACE
from bpejit.kernels.training import merging, pairs


@given(tables, st.sampled_from([1, 2, 3, 6]))
@example({b"ababab": 1}, 1)
@example({b"aaaaaaa": 1, b"aaa": 2}, 1)
@example({b"babab": 1, b"abba": 3}, 1)
@example({b"aabaabaab": 2**31, b"aab": 2**32 - 1}, 2)
@example({b"aabaabababa": 2, FILLER: 1}, 2)
def test_merge_some__step_by_step(counts: dict[bytes, int], threshold: int) -> None:
    learner = start(counts, threshold)
    words = [(list(word), count) for word, count in sorted(counts.items())]
    tokens = [bytes([byte]) for byte in range(256)]
    check_everything(learner, words, threshold)
    while True:
        expected = twins.training.merge_some(words, tokens, len(tokens) + 1, threshold=threshold)
        status = merging.merge_some(learner.arrays(), np.uint64(learner.state[0]["n_tokens"]) + np.uint64(1))
        if not expected:
            assert status == EXHAUSTED
            break
        assert status == DONE
        merge = len(tokens) - 257
        assert (learner.left[merge], learner.right[merge], learner.counts[merge]) == expected[0]
        check_everything(learner, words, threshold)
    assert learner.state[0]["n_tokens"] == len(tokens)
    for token, string in enumerate(tokens):
        begin, length = int(learner.starts[token]), int(learner.lengths[token])
        assert learner.pool[begin : begin + length].tobytes() == string
        assert int(learner.prefixes[token]) == int.from_bytes(string[:8].ljust(8, b"\0"), "big")


def test_merge_some__one_call_or_many() -> None:
    counts = {b"the theme of then": 3, b"other": 5, b"mother": 2, b"aaaaaaaaa": 1}
    at_once, in_steps = start(counts, 1, 12), start(counts, 1, 12)
    assert merging.merge_some(at_once.arrays(), np.uint64(268)) == DONE
    for target in range(257, 269):
        assert merging.merge_some(in_steps.arrays(), np.uint64(target)) == DONE
    assert at_once.result() == in_steps.result()
    assert len(at_once.result()) == 12


def test_merge_some__target_already_reached() -> None:
    learner = start({b"ab": 1}, 1)
    assert merging.merge_some(learner.arrays(), np.uint64(256)) == DONE
    assert learner.state[0]["n_tokens"] == 256


@pytest.mark.parametrize("scarce", ["pairs", "pool"])
def test_merge_some__needs_space_before_it_changes_anything(scarce: str) -> None:
    learner = start({b"abcabcabd": 2, b"cab": 7}, 1)
    arrays = learner.arrays()
    if scarce == "pairs":
        tight = np.zeros(8, pairs.PAIR)
        pairs.copy_pairs(learner.pairs, np.uint64(1), learner.lengths, learner.state, tight)
        arrays = arrays._replace(pairs=tight)
    else:
        arrays = arrays._replace(pool=arrays.pool[:257].copy())
    before = [array.copy() for array in (arrays.cells, arrays.pairs, arrays.postings, arrays.heads, arrays.state)]
    assert merging.merge_some(arrays, np.uint64(257)) == NEED_SPACE
    for old, new in zip(before, (arrays.cells, arrays.pairs, arrays.postings, arrays.heads, arrays.state), strict=True):
        assert old.tobytes() == new.tobytes()
    assert merging.merge_some(learner.arrays(), np.uint64(257)) == DONE
    assert (learner.left[0], learner.right[0], learner.counts[0]) == (ord("a"), ord("b"), 13)


def test_decrease_count__pair_that_is_not_in_the_table() -> None:
    table = np.zeros(4, pairs.PAIR)
    merging.decrease_count(pairs.pair_key(np.uint64(1), np.uint64(2)), np.uint64(5), table)
    assert not table["key"].any()
    table[pairs.find_pair_slot(table, key((1, 2)))] = (key((1, 2)), 7, 0, 0, 0)
    merging.decrease_count(pairs.pair_key(np.uint64(1), np.uint64(2)), np.uint64(5), table)
    assert table["count"].sum() == 2
