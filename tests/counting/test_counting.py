"""Growth, order and merging of the pre-token counter."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from helpers.splitting import cached_splitter
from helpers.strategies import awkward_bytes, special_tokens
from helpers.training import table_of
from hypothesis import given, strategies as st

from bpejit.arrays import PretokenTable, padded_text
from bpejit.counting import hash_tables, pretoken_counter as counting
from bpejit.counting.hash_tables import HashTables
from bpejit.counting.pretoken_counter import PretokenCounter, _stride, add_up
from bpejit.counting.table_streams import sort_table

words = st.lists(st.binary(min_size=1, max_size=30), max_size=200)


def count(pretokens: list[bytes], counter: PretokenCounter | None = None) -> PretokenTable:
    counter = counter or PretokenCounter(slots=512, arena_bytes=64)
    add(pretokens, counter)
    return sort_table(counter.table())


def add(pretokens: list[bytes], counter: PretokenCounter) -> None:
    text, _ = padded_text(b"".join(pretokens))
    ends = np.cumsum([len(word) for word in pretokens], dtype=np.int64).astype(np.uint32)
    counter.add_spans(text, 0, ends, len(ends))


@given(words)
def test_counts_equal_a_counter__in_order_of_bytes(pretokens: list[bytes]) -> None:
    table = count(pretokens)
    assert table.to_counts() == Counter(pretokens)
    assert list(table.to_counts()) == sorted(set(pretokens))


def test_growth_from_the_smallest_table() -> None:
    pretokens = [b"%d" % number for number in range(3000)] + [b"a long pre-token %d" % number for number in range(300)]
    assert count(pretokens).to_counts() == Counter(pretokens)


def test_counting_continues_after_a_table_is_returned() -> None:
    counter = PretokenCounter()
    count([b"a", b"b"], counter)
    assert count([b"b", b"c"], counter).to_counts() == {b"a": 1, b"b": 2, b"c": 1}


@given(st.lists(words, min_size=1, max_size=4))
def test_merged_tables_equal_one_table(parts: list[list[bytes]]) -> None:
    whole = count([word for part in parts for word in part])
    assert sort_table(add_up([count(part) for part in parts], 1).pack()) == whole
    assert sort_table(add_up([count(part) for part in reversed(parts)], 1).pack()) == whole


@pytest.mark.parametrize("threads", [1, 3])
@given(parts=st.lists(st.tuples(words, st.integers(1, 3)), min_size=1, max_size=4))
def test_added_counters_equal_one_table(threads: int, parts: list[tuple[list[bytes], int]]) -> None:
    expected: Counter[bytes] = Counter()
    counters = []
    for pretokens, weight in parts:
        counter = PretokenCounter(slots=512, arena_bytes=64)
        count(pretokens, counter)
        counter.weight = weight
        counters.append(counter)
        expected.update({word: weight * number for word, number in Counter(pretokens).items()})
    with mock.patch.object(counting, "PART_SLOTS", 64), mock.patch.object(hash_tables, "LEAST_WORDS", 64):
        tables = add_up(counters, threads)
        assert isinstance(tables, HashTables)
    assert tables.n_total == expected.total()
    assert len(tables) == len(expected)
    assert tables.pack().to_counts() == expected
    assert all(len(counter.table()) == 0 for counter in counters)


def test_parts_are_processed_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "PART_SLOTS", 64)
    counters = [PretokenCounter(slots=512, arena_bytes=64) for _ in range(4)]
    for counter, n_words in zip(counters, (100, 300, 1000, 3000), strict=True):
        add([b"%d" % number for number in range(n_words)], counter)
    assert np.bincount(add_up(counters, 4).pack().counts).tolist() == [0, 2000, 700, 200, 100]


def test_counters_of_other_processes_are_added_up_as_tables() -> None:
    counters = [PretokenCounter(), PretokenCounter()]
    count([b"a", b"b"], counters[0])
    count([b"b", b"c"], counters[1])
    sent = [pickle.loads(pickle.dumps(counter)) for counter in counters]
    assert all(isinstance(one, PretokenTable) for one in sent)
    assert add_up(sent, 2).pack().to_counts() == {b"a": 1, b"b": 2, b"c": 1}


def test_counts_beyond_32_bits_add_up() -> None:
    table = table_of({b"a": 1 << 40, b"a rather long pre-token": 3 << 33})
    assert add_up([table, table], 1).pack().to_counts() == {b"a": 1 << 41, b"a rather long pre-token": 3 << 34}


def test_slots_must_be_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        PretokenCounter(slots=1000)


@pytest.mark.parametrize("pattern", ["gpt2", r"(?<=\s)\w+|\w+|\W"], ids=["automaton", "regex"])
@given(texts=st.lists(awkward_bytes(6), max_size=8), tokens=special_tokens())
def test_no_pretoken_crosses_the_border_of_a_document(pattern: str, texts: list[bytes], tokens: list[bytes]) -> None:
    splitter = cached_splitter(pattern, tuple(tokens))
    together, apart = PretokenCounter(), PretokenCounter()
    text, _ = padded_text(b"".join(texts))
    stops = np.cumsum([len(data) for data in texts], dtype=np.int64)
    together.add_text(splitter, text, stops, sum(map(len, texts)), True)
    for data in texts:
        text, n_bytes = padded_text(data)
        apart.add_text(splitter, text, np.full(1, n_bytes), n_bytes, True)
    assert together.table() == apart.table()


TESTS = str(Path(__file__).parents[1])
"""The folder of the helpers, for other processes."""

STEPS = """
    from bpejit.counting import pretoken_counter as counting
    from helpers.training import table_of
    from bpejit.kernels.counting import interning

    counting.INITIAL_SLOTS = 512
    find, steps = interning.find_slot, 0

    def counted(table, low, high, word, *others):
        global steps
        found = find(table, low, high, word, *others)
        steps += (int(found) - int(word)) // 4 % (table.size // 4) + 1
        return found

    def made(first):
        counter = counting.PretokenCounter(slots=512)
        counter.add_table(table_of({b"%d" % number: 1 for number in range(first, first + 5000)}))
        return counter.table()

    tables = [made(10_000 * number) for number in range(4)]
    interning.find_slot = counted
    for n in (1, 2, 4):
        steps = 0
        assert len(counting.add_up(tables[:n], 1)) == 5000 * n
        print(steps / (5000 * n))
"""


@pytest.mark.slow
def test_merging_tables_takes_linear_time() -> None:
    """Count probes, with the kernels as plain Python: the number per pre-token does not grow with the number of tables."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": TESTS}
    command = [sys.executable, "-c", textwrap.dedent(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    each = [float(line) for line in done.stdout.split()]
    assert len(each) == 3
    assert max(each) < 6, each


LOOKUPS = """
    from bpejit.counting import pretoken_counter as counting
    from helpers.training import table_of
    from bpejit.kernels.counting import common_pretokens

    find, lookups, steps = common_pretokens.find_pretoken, 0, 0

    def counted(addresses, index, table, arena, word, hashed):
        global lookups, steps
        place = find(addresses, index, table, arena, word, hashed)
        lookups += 1
        steps += (int(place) - (int(hashed) >> 32)) % index.size + 1
        return place

    def made(number):
        counter = counting.PretokenCounter(slots=512)
        words = [b"%d" % word for word in range(500)] + [b"%d %d" % (number, word) for word in range(1000)]
        counter.add_table(table_of(dict.fromkeys(words, 1)))
        return counter

    common_pretokens.find_pretoken = counted
    counting.PART_SLOTS = 1024
    for n in (2, 4, 8, 16):
        lookups = steps = 0
        assert len(counting.add_up([made(number) for number in range(n)], 1)) == 500 + 1000 * n
        print(lookups / (1500 * n), steps / lookups)
"""


@pytest.mark.slow
def test_adding_up_tables_takes_linear_time() -> None:
    """Count lookups, with the kernels as plain Python: one for each pre-token of each table, however many tables there are."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": TESTS}
    command = [sys.executable, "-c", textwrap.dedent(LOOKUPS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    each = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(each) == 4
    assert all(lookups == 1 and steps < 2 for lookups, steps in each), each


@given(st.integers(0, 5000))
def test_stride_visits_every_index_once(n: int) -> None:
    stride = _stride(n)
    assert sorted(i * stride % n for i in range(n)) == list(range(n))
