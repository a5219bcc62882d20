"""A merge learner at the start of a phase, and a check of its arrays against words in plain Python."""

from __future__ import annotations

from collections.abc import Callable

import twins
from hypothesis import strategies as st

from bpejit.arrays import MergeTable, PretokenTable
from bpejit.kernels.training import pairs
from bpejit.training import merge_learner
from bpejit.training.train_options import MergeSettings
from helpers.training import as_twin, pair_of, table_of

# Runs and alternations, in which occurrences overlap or are adjacent: see the docstring of merging.py.
words = st.one_of(
    st.text("ab", min_size=2, max_size=12),
    st.text("abc", min_size=2, max_size=12),
    st.integers(2, 12).map(lambda n: "a" * n),
    st.tuples(st.sampled_from(["ab", "aab", "aba"]), st.integers(1, 5)).map(lambda part: part[0] * part[1] + "a"),
).map(str.encode)
tables = st.dictionaries(words, st.one_of(st.integers(1, 3), st.just(2**31)), min_size=1, max_size=6)


FILLER = bytes(range(120, 250))
"""A word whose pairs occur once: with it, pairs are in few cache lines, and the ids of neighbors are stored."""


def learn_merges(
    table: PretokenTable,
    n_merges: int,
    settings: MergeSettings | None = None,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> MergeTable:
    """Return the merges of a table; `progress` is called with the number of merges so far, and of all."""
    learner = merge_learner.MergeLearner(table, n_merges, settings, workers=workers)
    return learner.run(None if progress is None else lambda done: progress(done, n_merges))


def start(counts: dict[bytes, int], threshold: int, n_merges: int = 100) -> merge_learner.MergeLearner:
    """Return a learner at the start of a phase with a threshold."""
    table = table_of(counts)
    learner = merge_learner.MergeLearner(table, n_merges, MergeSettings(min_frequency=threshold))
    learner.start_phase(0)
    return learner


def read_positions(learner: merge_learner.MergeLearner) -> list[tuple[list[tuple[int, int]], int]]:
    """Return the tokens of each pre-token with their positions, read from the cells, and its weight."""
    cells = as_twin(learner.ranges.cells, learner.ranges.weights, int(learner.boundary))
    found: list[tuple[list[tuple[int, int]], int]] = []
    word: list[tuple[int, int]] = []
    at, weight = 1, 0
    while at < len(cells):
        token = cells[at][1]
        if token is None:
            found.append((word, weight))
            word = []
            at += 1
        else:
            word, weight = [*word, (at, token)], cells[at][0]
            width = int(learner.widths[token])
            assert cells[at + width - 1] == cells[at], "a token has its id in its last cell"
            at += width
    return found


def read_words(learner: merge_learner.MergeLearner) -> list[tuple[list[int], int]]:
    """Return the tokens of each pre-token, read from the cells."""
    return [([token for _, token in word], weight) for word, weight in read_positions(learner)]


def positions_in(learner: merge_learner.MergeLearner) -> dict[twins.training.Pair, list[int]]:
    """Return the positions of each pair, read from the cells."""
    cells = as_twin(learner.ranges.cells, learner.ranges.weights, int(learner.boundary))
    found: dict[twins.training.Pair, list[int]] = {}
    at = 1
    while at < len(cells):
        left = cells[at][1]
        after = at + (1 if left is None else int(learner.widths[left]))
        if left is not None and cells[after][1] is not None:
            found.setdefault((left, cells[after][1]), []).append(at)
        at = after
    return found


def check_everything(learner: merge_learner.MergeLearner, words: list[tuple[list[int], int]], threshold: int) -> None:
    """Compare cells, counts and posting lists with the words."""
    assert read_words(learner) == words
    counts = twins.training.count_adjacent(words)
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
    for sums in (learner.before_sums, learner.after_sums):
        assert not sums["weight"].any()
        assert not sums["cursor"].any()
