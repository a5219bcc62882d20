"""The merge loop against its twin: not only the merges, but all that it keeps up to date, after every step."""

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

# Runs and alternations, where places overlap and touch: the cases that the notes of merging.py name.
words = st.one_of(
    st.text("ab", min_size=2, max_size=12),
    st.text("abc", min_size=2, max_size=12),
    st.integers(2, 12).map(lambda n: "a" * n),
    st.tuples(st.sampled_from(["ab", "aab", "aba"]), st.integers(1, 5)).map(lambda part: part[0] * part[1] + "a"),
).map(str.encode)
tables = st.dictionaries(words, st.one_of(st.integers(1, 3), st.just(2**31)), min_size=1, max_size=6)


def start(counts: dict[bytes, int], threshold: int, n_merges: int = 100) -> merge_learner.Learning:
    """A trainer at the beginning of a phase that follows the pairs that occur `threshold` times."""
    table = PretokenTable.from_counts(counts)
    trainer = merge_learner.Learning(table, n_merges, min_frequency=threshold)
    trainer.start_phase(0)
    return trainer


def read_words(trainer: merge_learner.Learning) -> list[tuple[list[int], int]]:
    """The tokens of each pre-token, as the cells have them."""
    cells = as_twin(trainer.cells, trainer.heavy, int(trainer.border))
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
            width = int(trainer.tokens.widths[token])
            assert cells[at + width - 1] == cells[at], "a token has its id in its last cell"
            at += width
    return found


def places_in(trainer: merge_learner.Learning) -> dict[naive.Pair, list[int]]:
    """Where each pair stands now."""
    cells = as_twin(trainer.cells, trainer.heavy, int(trainer.border))
    found: dict[naive.Pair, list[int]] = {}
    at = 1
    while at < len(cells):
        left = cells[at][1]
        after = at + (1 if left is None else int(trainer.tokens.widths[left]))
        if left is not None and cells[after][1] is not None:
            found.setdefault((left, cells[after][1]), []).append(at)
        at = after
    return found


def check_everything(trainer: merge_learner.Learning, words: list[tuple[list[int], int]], threshold: int) -> None:
    """Cells, counts and posting lists agree with the words, counted anew."""
    assert read_words(trainer) == words
    counts = naive.count_adjacent(words)
    followed = {pair_of(pair["key"]): pair for pair in trainer.pairs[trainer.pairs["count"] > 0]}
    assert {pair: int(followed[pair]["count"]) for pair in followed} == {pair: counts.get(pair, 0) for pair in followed}
    assert {pair for pair, count in counts.items() if count >= threshold} <= set(followed)
    places = places_in(trainer)
    for pair, slot in followed.items():
        first, length = int(slot["start"]), int(slot["length"])
        listed = trainer.postings[first : first + length].tolist()
        assert listed == sorted(set(listed))
        assert set(places[pair]) <= set(listed)
    for neighbours in (trainer.before, trainer.after):
        assert not neighbours.sums["weight"].any()
        assert not neighbours.sums["cursor"].any()


@given(tables, st.sampled_from([1, 2, 3, 6]))
@example({b"ababab": 1}, 1)
@example({b"aaaaaaa": 1, b"aaa": 2}, 1)
@example({b"babab": 1, b"abba": 3}, 1)
@example({b"aabaabaab": 2**31, b"aab": 2**32 - 1}, 2)
def test_merge_some__step_by_step(counts: dict[bytes, int], threshold: int) -> None:
    trainer = start(counts, threshold)
    words = [(list(word), count) for word, count in sorted(counts.items())]
    tokens = [bytes([byte]) for byte in range(256)]
    check_everything(trainer, words, threshold)
    while True:
        expected = naive.merge_some(words, tokens, len(tokens) + 1, threshold=threshold)
        status = merging.merge_some(trainer.work(), np.uint64(trainer.state[0]["n_tokens"]) + np.uint64(1))
        if not expected:
            assert status == EXHAUSTED
            break
        assert status == DONE
        merge = len(tokens) - 257
        assert (trainer.left[merge], trainer.right[merge], trainer.counts[merge]) == expected[0]
        check_everything(trainer, words, threshold)
    assert trainer.state[0]["n_tokens"] == len(tokens)
    for token, string in enumerate(tokens):
        begin, length = int(trainer.tokens.starts[token]), int(trainer.tokens.lengths[token])
        assert trainer.tokens.pool[begin : begin + length].tobytes() == string
        assert int(trainer.tokens.prefixes[token]) == int.from_bytes(string[:8].ljust(8, b"\0"), "big")


def test_merge_some__in_one_call_or_in_many() -> None:
    counts = {b"the theme of then": 3, b"other": 5, b"mother": 2, b"aaaaaaaaa": 1}
    at_once, in_steps = start(counts, 1, 12), start(counts, 1, 12)
    assert merging.merge_some(at_once.work(), np.uint64(268)) == DONE
    for target in range(257, 269):
        assert merging.merge_some(in_steps.work(), np.uint64(target)) == DONE
    assert at_once.result() == in_steps.result()
    assert len(at_once.result()) == 12


def test_merge_some__already_there() -> None:
    trainer = start({b"ab": 1}, 1)
    assert merging.merge_some(trainer.work(), np.uint64(256)) == DONE
    assert trainer.state[0]["n_tokens"] == 256


@pytest.mark.parametrize("scarce", ["pairs", "pool"])
def test_merge_some__asks_for_space_before_it_changes_anything(scarce: str) -> None:
    trainer = start({b"abcabcabd": 2, b"cab": 7}, 1)
    work = trainer.work()
    if scarce == "pairs":
        tight = np.zeros(8, pairs.PAIR)
        pairs.copy_pairs(trainer.pairs, np.uint64(1), trainer.state, tight)
        work = work._replace(pairs=tight)
    else:
        work = work._replace(tokens=work.tokens._replace(pool=work.tokens.pool[:257].copy()))
    before = [array.copy() for array in (work.cells, work.pairs, work.postings, work.heads, work.state)]
    assert merging.merge_some(work, np.uint64(257)) == NEED_SPACE
    for old, new in zip(before, (work.cells, work.pairs, work.postings, work.heads, work.state), strict=True):
        assert old.tobytes() == new.tobytes()
    assert merging.merge_some(trainer.work(), np.uint64(257)) == DONE
    assert (trainer.left[0], trainer.right[0], trainer.counts[0]) == (ord("a"), ord("b"), 13)


def test_lower_count__of_a_pair_that_is_not_followed() -> None:
    table = np.zeros(4, pairs.PAIR)
    merging.lower_count(np.uint64(1), np.uint64(2), np.uint64(5), table)
    assert not table["key"].any()
    table[pairs.find_slot(table, key((1, 2)))] = (key((1, 2)), 7, 0, 0, 0)
    merging.lower_count(np.uint64(1), np.uint64(2), np.uint64(5), table)
    assert table["count"].sum() == 2
