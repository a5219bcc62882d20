"""Tests of shuffling: the same order in any memory and from any division of a shard, and nothing left over."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bpejit.arrays import random_numbers
from bpejit.errors import BpejitError, OutputError, TokenFileError
from bpejit.t2t.example_arrays import write_examples
from bpejit.t2t.shuffling import shuffle_records


def hashed_plainly(numbers):
    """Return the hash of numbers, as SplitMix64 is published."""
    state = 0
    for number in numbers:
        state = (state + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return state


@given(st.lists(st.integers(-(2**70), 2**70), max_size=3), st.integers(0, 50), st.integers(0, 50))
def test_random_numbers(numbers, first, count):
    expected = [hashed_plainly([*numbers, index]) for index in range(first, first + count)]
    assert random_numbers(numbers, count, first=first).tolist() == expected


def records(n, *, longest=40):
    """Return `n` different records of several sizes."""
    sizes = np.random.default_rng(n).integers(1, longest + 1, n)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    data, starts = write_examples({"a": (np.arange(starts[-1]), starts)})
    return [data[a:b].tobytes() for a, b in pairwise(starts)]


def names_in(folder):
    return [path.name for path in folder.iterdir()]


def shuffled(sources, **options):
    found = []

    def write(data, starts):
        assert starts[0] == 0
        assert starts[-1] == data.size
        found.extend(data[a:b].tobytes() for a, b in pairwise(starts))

    assert shuffle_records(sources, write, **{"seed": 1, "shard": 0, **options}) == len(found)
    return found


def expected(shard_records, seed, shard):
    keys = [hashed_plainly([seed, shard, index]) for index in range(len(shard_records))]
    return [record for _, record in sorted(zip(keys, shard_records, strict=True))]


@pytest.mark.parametrize("max_memory", [1, 50_000, 100_000, 1 << 20])
def test_order_does_not_depend_on_memory(tmp_path, max_memory):
    found = records(1500)
    path = tmp_path / "shard"
    path.write_bytes(b"".join(found))
    assert shuffled([path], max_memory=max_memory, seed=7, shard=3) == expected(found, 7, 3)
    assert names_in(tmp_path) == ["shard"]


@given(st.lists(st.integers(0, 60), max_size=4), st.integers(1, 90_000), st.integers(0, 5))
def test_order_does_not_depend_on_files(tmp_path_factory, cuts, max_memory, seed):
    folder = tmp_path_factory.mktemp("shard")
    found = records(60, longest=200)
    paths = []
    borders = [0, *sorted(cuts), len(found)]
    for number, (start, end) in enumerate(pairwise(borders)):
        paths.append(folder / str(number))
        paths[-1].write_bytes(b"".join(found[start:end]))
    assert shuffled(paths, max_memory=max_memory, seed=seed) == expected(found, seed, 0)


def test_seeds_and_shards_give_other_orders(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(b"".join(records(50)))
    orders = [shuffled([path], seed=seed, shard=shard) for seed in (0, 1) for shard in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("max_memory", [1, 1 << 28])
def test_few_records(tmp_path, n, max_memory):
    path = tmp_path / "shard"
    path.write_bytes(b"".join(records(n)))
    assert sorted(shuffled([path], max_memory=max_memory)) == sorted(records(n))
    assert shuffled([]) == []


def test_records_larger_than_the_bound(tmp_path):
    found = records(20, longest=20_000)
    path = tmp_path / "shard"
    path.write_bytes(b"".join(found))
    assert shuffled([path], max_memory=100) == expected(found, 1, 0)


def test_damaged_sources(tmp_path):
    path = tmp_path / "shard"
    data = bytearray(b"".join(records(40)))
    data[-1] ^= 1
    path.write_bytes(data)
    for max_memory in (1, 1 << 28):
        with pytest.raises(TokenFileError, match=r"shard`: record 39 at byte .* has a wrong checksum of its data"):
            shuffled([path], max_memory=max_memory)
        assert names_in(tmp_path) == ["shard"]
    with pytest.raises(TokenFileError, match="there is no such file"):
        shuffled([tmp_path / "missing"])


def test_failing_outputs(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(b"".join(records(400)))

    def fail(data, starts):
        raise OutputError("the disk is full")

    with pytest.raises(OutputError, match="the disk is full"):
        shuffle_records([path], fail, seed=0, shard=0, max_memory=1)
    assert names_in(tmp_path) == ["shard"]


@pytest.mark.parametrize("wrong", [{"seed": "a"}, {"shard": -1}, {"max_memory": 0}])
def test_wrong_options(tmp_path, wrong):
    with pytest.raises(BpejitError, match="expected a whole number"):
        shuffle_records([tmp_path], print, **{"seed": 0, "shard": 0, **wrong})
