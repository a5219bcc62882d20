"""Merge learning from the hash tables of workers, and their packed form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from conftest import data_text, small
from helpers.learner import learn_merges
from helpers.training import table_of
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.counting import hash_tables
from bpejit.counting.hash_tables import HashTables
from bpejit.counting.pretoken_counter import PretokenCounter, add_up
from bpejit.process_memory import release
from bpejit.splitting import Splitter
from bpejit.training.merge_learner import MergeLearner

counts = st.one_of(st.integers(1, 4), st.sampled_from([2**16 - 1, 2**16, 2**33]))
words = st.one_of(st.text("ab", min_size=1, max_size=20).map(str.encode), st.binary(min_size=1, max_size=3))


def added(parts: list[dict[bytes, int]], threads: int) -> HashTables:
    """Return the sum of tables, each of which a worker has counted."""
    counters = []
    for part in parts:
        counters.append(PretokenCounter(slots=512, arena_bytes=64))
        counters[-1].add_table(table_of(part))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_tables, "LEAST_WORDS", 256)
        found = add_up(counters, threads)
    assert isinstance(found, HashTables)
    return found


@given(st.lists(st.dictionaries(words, counts, max_size=20), min_size=1, max_size=5), st.integers(1, 5), st.integers(1, 5))
def test_merges_and_packed_tables(parts: list[dict[bytes, int]], threads: int, workers: int) -> None:
    total: Counter[bytes] = Counter()
    for part in parts:
        total.update(part)
    merges = MergeLearner(added(parts, threads), 50, workers=workers, least_cells=1).run()
    assert merges == learn_merges(table_of(total), 50)
    assert added(parts, threads).pack().to_counts() == total


def test_workers_do_not_matter() -> None:
    size = small(200_000, 2000)
    text, n_bytes = padded_text(data_text("cjk.txt")[:size] + data_text("prose.txt")[:size])
    counter = PretokenCounter()
    counter.add_text(Splitter("gpt2"), text, np.full(1, n_bytes), n_bytes, True)
    table = counter.table().to_counts()
    names, n_merges = sorted(table), small(2000, 40)
    expected = learn_merges(table_of(table), n_merges)
    for workers in range(1, 6):
        # Every third pre-token is in two tables.
        parts = [
            {name: table[name] - (n % 3 == 0) * (table[name] // 2) for n, name in enumerate(names) if n % workers == part}
            for part in range(workers)
        ]
        for n, name in enumerate(names):
            if n % 3 == 0 and table[name] > 1:
                other = parts[(n + 1) % workers]
                other[name] = other.get(name, 0) + table[name] // 2
        learner = MergeLearner(added(parts, workers), n_merges, workers=workers, least_cells=1)
        assert len(learner.ranges) == workers
        assert learner.run() == expected


def test_release() -> None:
    array = np.ones(1 << 16, np.uint64)
    release(array[1000:60_000])
    release(array[:1])
    assert (array[:1000] == 1).all()
    assert (array[60_000:] == 1).all()
    array[:] = 2
    assert (array == 2).all()
