"""Merges in several parts, compared with those of `merge_some` alone: all arrays after every merge."""

from __future__ import annotations

import numpy as np
import pytest
import twins
from conftest import data_text, small
from helpers.learner import FILLER, check_everything, read_positions, start, tables, words
from helpers.training import pair_of, table_of
from hypothesis import example, given, strategies as st

from bpejit.kernels.constants import DONE, EXHAUSTED, SHARED
from bpejit.kernels.training import merging, shared_merging
from bpejit.training import merge_learner
from bpejit.training.train_options import MergeSettings

SETTINGS = ("shared", "slot", "ids", "position")
"""Fields of the state that only shared merges use, or several ranges of cells."""


def start_shared(counts: dict[bytes, int], threshold: int, workers: int, least_postings: int) -> merge_learner.MergeLearner:
    """Return a learner at the start of a phase that merges in parts."""
    table = table_of(counts)
    settings = MergeSettings(min_frequency=threshold)
    learner = merge_learner.MergeLearner(table, 100, settings, workers=workers, least_cells=1, least_postings=least_postings)
    learner.start_phase(0)
    return learner


def merge_one(learner: merge_learner.MergeLearner) -> tuple[int, bool]:
    """Make the next merge. Return the status, and whether it was made in parts."""
    status = merging.merge_some(learner.arrays(), learner.status["n_tokens"] + np.uint64(1))
    if status != SHARED:
        return status, False
    assert learner.shared_merges is not None
    learner.shared_merges.merge(learner.arrays())
    return DONE, True


def check_equal(shared: merge_learner.MergeLearner, alone: merge_learner.MergeLearner) -> None:
    """Compare all arrays; garbage in cells that are never read is equal, too. The order of pairs in the table is free."""
    assert shared.ranges.cells.tobytes() == alone.ranges.cells.tobytes()
    for name in merging.STATE.names:
        assert name in SETTINGS or shared.status[name] == alone.status[name], name
    assert lists_of(shared) == lists_of(alone)
    assert not any(shared_sums.tobytes().strip(b"\0") for shared_sums in (shared.before_sums, shared.after_sums))


def lists_of(learner: merge_learner.MergeLearner) -> dict[int, tuple[int, list[int]]]:
    """Return count and posting list of each pair by its key."""
    found = learner.pairs[learner.pairs["count"] > 0].tolist()
    return {key: (count, learner.postings[start : start + length].tolist()) for key, count, start, length, _ in found}


@given(
    counts=tables,
    threshold=st.sampled_from([2, 3, 6]),
    workers=st.integers(2, 5),
    least_postings=st.sampled_from([1, 2, 3]),
    has_filler=st.booleans(),
)
@example({b"ababab": 1, b"abab": 1, b"ba": 1}, 2, 2, 1, False)
@example({b"aaaaaaa": 1, b"aaa": 2, b"aa": 5}, 2, 3, 1, True)
@example({b"aabaabaab": 2**31, b"aab": 2**32 - 1}, 2, 2, 1, True)
def test_shared_merges__step_by_step(
    counts: dict[bytes, int], threshold: int, workers: int, least_postings: int, has_filler: bool
) -> None:
    counts = {**counts, FILLER: 1} if has_filler else counts
    shared, alone = start_shared(counts, threshold, workers, least_postings), start(counts, threshold)
    words = [(list(word), count) for word, count in sorted(counts.items())]
    tokens = [bytes([byte]) for byte in range(256)]
    try:
        status = DONE
        while status == DONE:
            status, _ = merge_one(shared)
            assert merging.merge_some(alone.arrays(), alone.status["n_tokens"] + np.uint64(1)) == status
            check_equal(shared, alone)
            twins.training.merge_some(words, tokens, len(tokens) + 1, threshold=threshold)
            check_everything(shared, words, threshold)
        assert status == EXHAUSTED
        parts = shared.shared_merges._parts if shared.shared_merges else ()
        assert not any(sums[name].any() for sums in parts[:3:2] for name in ("weight", "cursor"))
    finally:
        shared.ranges.close()


@given(tables, st.integers(2, 4), st.booleans())
@example({b"aaaaa": 1, b"aaa": 2, b"aab": 5}, 2, True)
@example({b"ababab": 1, b"abab": 2, b"bab": 5}, 3, False)
def test_stages_of_shared_merges(counts: dict[bytes, int], workers: int, has_filler: bool) -> None:
    learner = start_shared({**counts, FILLER: 1} if has_filler else counts, 2, workers, 1)
    words = read_positions(learner)
    try:
        while merging.merge_some(learner.arrays(), learner.status["n_tokens"] + np.uint64(1)) == SHARED:
            check_stages(learner, words)
            words = read_positions(learner)
    finally:
        learner.ranges.close()


def check_stages(learner: merge_learner.MergeLearner, words: list[tuple[list[tuple[int, int]], int]]) -> None:
    """Merge a pair in parts, in this thread, and compare each kernel with its twin."""
    shared, arrays = learner.shared_merges, learner.arrays()
    assert shared is not None
    slot = arrays.pairs[int(learner.status["slot"])]
    pair, first, length = pair_of(slot["key"]), int(slot["start"]), int(slot["length"])
    merged = int(learner.status["n_tokens"]) - 1
    postings = arrays.postings[first : first + length].copy()
    n_parts = min(len(learner.ranges), length)
    bounds = shared._divide(postings, n_parts)
    parts, found = [], [np.zeros(3, np.uint64) for _ in range(n_parts)]
    for part in range(n_parts):
        listed = set(postings[int(bounds[part]) : int(bounds[part + 1])].tolist())
        parts.append(twins.training.replace_in_part([w for w in words if listed & {at for at, _ in w[0]}], pair, merged))
    assert len({at for part in parts for at, *_ in part}) == sum(map(len, parts)), "a pre-token is in one part"
    own = [shared._arrays_of(arrays, part) for part in range(n_parts)]
    expected = {side: twins.training.update_shared(parts, side) for side in ("before", "after")}

    def sums_of(part: int, side: str) -> dict[int, tuple[int, int]]:
        sums = getattr(own[part], f"{side}_sums")[: int(learner.boundary)].tolist()
        return {token: entry for token, entry in enumerate(sums) if any(entry)}

    for part in range(n_parts):
        shared_merging.replace_in_part(own[part], bounds[part], bounds[part + 1], found[part])
        assert found[part][0] == len(parts[part])
        for side in ("before", "after"):
            assert sums_of(part, side) == {token: entry[:2] for token, entry in expected[side][part].items()}

    has_lists = shared_merging.update_shared(arrays, *shared._parts._replace(found=np.concatenate(found)))
    lists = {pair_of(entry["key"]): int(entry["start"]) for entry in learner.pairs[learner.pairs["count"] > 0]}
    befores = {left: first for (left, right), first in lists.items() if right == merged}
    afters = {right: first for (left, right), first in lists.items() if left == merged}
    assert bool(has_lists) == bool(befores or afters)
    for part in range(n_parts):
        starts = []
        for side, firsts in (("before", befores), ("after", afters)):
            offsets = expected[side][part]
            starts.append({token: firsts[token] + offsets[token][2] for token in offsets if token in firsts})
            places = {token: cursor for token, (_, cursor) in sums_of(part, side).items() if cursor != merging.NO_LIST}
            assert places == starts[-1]
        shared_merging.finish_part(own[part], bounds[part], found[part], np.uint64(part), has_lists)
        written = twins.training.finish_part(parts[part], *starts)
        assert {at: int(arrays.postings[at]) for at in written} == written
        assert not sums_of(part, "before")
        assert not sums_of(part, "after")


@pytest.mark.parametrize("least_postings", [1, small(300, 20)])
def test_shared_merges__real_text(least_postings: int) -> None:
    text = data_text("cjk.txt").decode()[: small(20_000, 1000)]
    counts: dict[bytes, int] = {}
    for sentence in text.split("\n"):
        counts[sentence.encode()] = counts.get(sentence.encode(), 0) + 1
    shared, alone = start_shared(counts, 2, 3, least_postings), start(counts, 2)
    n_shared = 0
    for _ in range(small(50, 10)):
        status, is_shared = merge_one(shared)
        assert status == DONE == merging.merge_some(alone.arrays(), alone.status["n_tokens"] + np.uint64(1))
        n_shared += is_shared
        check_equal(shared, alone)
    shared.ranges.close()
    assert n_shared > 0


@given(st.dictionaries(words, st.integers(1, 3), min_size=1, max_size=20), st.integers(1, 40))
def test_find_cuts(counts: dict[bytes, int], number: int) -> None:
    ranges = start(counts, 1).ranges
    cuts = ranges.find_cuts(number)
    assert cuts.dtype == np.uint32
    assert cuts[0] == 0
    assert (np.diff(cuts.astype(np.int64)) > 0).all()
    assert len(cuts) <= number
    assert all(ranges.cells[cut - 1] == ranges.boundary for cut in cuts[1:])
