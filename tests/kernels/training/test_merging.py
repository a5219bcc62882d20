"""Comparison of the merge loop with its twin: the merges, and all of its data structures after every merge."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from training_helpers import as_twin, key, pair_of

from bpejit.arrays import PretokenTable
from bpejit.kernels.constants import DONE, EXHAUSTED, NEED_SPACE
from bpejit.kernels.training import merging, pairs
from bpejit.training import merge_learner
from bpejit.training.merge_settings import MergeSettings

# Runs and alternations, in which occurrences overlap or are adjacent: see the docstring of merging.py.
words = st.one_of(
    st.text("ab", min_size=2, max_size=12),
    st.text("abc", min_size=2, max_size=12),
    st.integers(2, 12).map(lambda n: "a" * n),
    st.tuples(st.sampled_from(["ab", "aab", "aba"]), st.integers(1, 5)).map(lambda part: part[0] * part[1] + "a"),
).map(str.encode)
tables = st.dictionaries(words, st.one_of(st.integers(1, 3), st.just(2**31)), min_size=1, max_size=6)


def start(counts: dict[bytes, int], threshold: int, n_merges: int = 100) -> merge_learner.MergeLearner:
    """Return a learner at the start of a phase with a threshold."""
    table = PretokenTable.from_counts(counts)
    learner = merge_learner.MergeLearner(table, n_merges, MergeSettings(min_frequency=threshold))
    learner.start_phase(0)
    return learner


def read_words(learner: merge_learner.MergeLearner) -> list[tuple[list[int], int]]:
    """Return the tokens of each pre-token, read from the cells."""
    cells = as_twin(learner.ranges.cells, learner.ranges.weights, int(learner.boundary))
    found: list[tuple[list[int], int]] = []
    word: list[int] = []
    at, weight = 1, 0
    while at < len(cells):
        token = cells[at][1]
        if token is None:
            found.append((word, weight))
            word = []
            at += 1
        else:
            word, weight = [*word, token], cells[at][0]
            width = int(learner.tokens.widths[token])
            assert cells[at + width - 1] == cells[at], "a token has its id in its last cell"
            at += width
    return found


def positions_in(learner: merge_learner.MergeLearner) -> dict[naive.Pair, list[int]]:
    """Return the positions of each pair, read from the cells."""
    cells = as_twin(learner.ranges.cells, learner.ranges.weights, int(learner.boundary))
    found: dict[naive.Pair, list[int]] = {}
    at = 1
    while at < len(cells):
        left = cells[at][1]
        after = at + (1 if left is None else int(learner.tokens.widths[left]))
        if left is not None and cells[after][1] is not None:
            found.setdefault((left, cells[after][1]), []).append(at)
        at = after
    return found


def check_everything(learner: merge_learner.MergeLearner, words: list[tuple[list[int], int]], threshold: int) -> None:
    """Compare cells, counts and posting lists with the words."""
    assert read_words(learner) == words
    counts = naive.count_adjacent(words)
    followed = {pair_of(pair["key"]): pair for pair in learner.pairs[learner.pairs["count"] > 0]}
    assert {pair: int(followed[pair]["count"]) for pair in followed} == {pair: counts.get(pair, 0) for pair in followed}
    assert {pair for pair, count in counts.items() if count >= threshold} <= set(followed)
    assert all(pairs.mark_of(pair["key"], learner.marks) for pair in learner.pairs[learner.pairs["key"] != 0])
    positions = positions_in(learner)
    for pair, slot in followed.items():
        first, length = int(slot["start"]), int(slot["length"])
        listed = learner.postings[first : first + length].tolist()
        assert listed == sorted(set(listed))
        assert set(positions[pair]) <= set(listed)
    for neighbors in (learner.before, learner.after):
        assert not neighbors.sums["weight"].any()
        assert not neighbors.sums["cursor"].any()


@given(tables, st.sampled_from([1, 2, 3, 6]))
@example({b"ababab": 1}, 1)
@example({b"aaaaaaa": 1, b"aaa": 2}, 1)
@example({b"babab": 1, b"abba": 3}, 1)
@example({b"aabaabaab": 2**31, b"aab": 2**32 - 1}, 2)
def test_merge_some__step_by_step(counts: dict[bytes, int], threshold: int) -> None:
    learner = start(counts, threshold)
    words = [(list(word), count) for word, count in sorted(counts.items())]
    tokens = [bytes([byte]) for byte in range(256)]
    check_everything(learner, words, threshold)
    while True:
        expected = naive.merge_some(words, tokens, len(tokens) + 1, threshold=threshold)
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
        begin, length = int(learner.tokens.starts[token]), int(learner.tokens.lengths[token])
        assert learner.tokens.pool[begin : begin + length].tobytes() == string
        assert int(learner.tokens.prefixes[token]) == int.from_bytes(string[:8].ljust(8, b"\0"), "big")


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
        pairs.copy_pairs(learner.pairs, np.uint64(1), learner.tokens.lengths, learner.state, tight)
        arrays = arrays._replace(pairs=tight)
    else:
        arrays = arrays._replace(tokens=arrays.tokens._replace(pool=arrays.tokens.pool[:257].copy()))
    before = [array.copy() for array in (arrays.cells, arrays.pairs, arrays.postings, arrays.heads, arrays.state)]
    assert merging.merge_some(arrays, np.uint64(257)) == NEED_SPACE
    for old, new in zip(before, (arrays.cells, arrays.pairs, arrays.postings, arrays.heads, arrays.state), strict=True):
        assert old.tobytes() == new.tobytes()
    assert merging.merge_some(learner.arrays(), np.uint64(257)) == DONE
    assert (learner.left[0], learner.right[0], learner.counts[0]) == (ord("a"), ord("b"), 13)


def test_decrease_count__pair_that_is_not_in_the_table() -> None:
    table = np.zeros(4, pairs.PAIR)
    merging.decrease_count(np.uint64(1), np.uint64(2), np.uint64(5), table)
    assert not table["key"].any()
    table[pairs.find_pair_slot(table, key((1, 2)))] = (key((1, 2)), 7, 0, 0, 0)
    merging.decrease_count(np.uint64(1), np.uint64(2), np.uint64(5), table)
    assert table["count"].sum() == 2
