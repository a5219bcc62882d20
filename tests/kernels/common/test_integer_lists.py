"""Lists of integers from arrays: equal to those of NumPy, without leaks."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import twins
from helpers.leaks import growth
from hypothesis import given, strategies as st

from bpejit.arrays import EncodedBatch
from bpejit.kernels.common import integer_lists
from bpejit.kernels.common.integer_lists import list_of, lists_of

numbers = st.integers(0, 300) | st.integers(0, (1 << 32) - 1) | st.sampled_from([(1 << 18) - 1, 1 << 18, (1 << 18) + 1])


@given(parts=st.lists(st.lists(numbers, max_size=8), max_size=12), few=st.sampled_from([0, 64]))
def test_make_lists(parts, few):
    starts = np.cumsum([0, *map(len, parts)])
    ids = np.array([number for part in parts for number in part], dtype=np.uint32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integer_lists, "_FEW", few)
        for _ in range(2):  # the second time, the integers are known
            assert lists_of(ids, starts) == twins.python_objects.make_lists(ids.tolist(), starts.tolist()) == parts
            assert list_of(ids) == ids.tolist()
    assert all(type(number) is int for number in list_of(ids))


def test_list_of__views():
    ids = np.arange(1_000, dtype=np.uint32)
    assert list_of(ids[100:900]) == list(range(100, 900))
    assert list_of(ids[:0]) == []
    assert list_of(ids[10:11]) == [10]


@pytest.mark.compiled
def test_lists_of__references():
    """Each item is one reference, and lists that are freed leave nothing."""
    ids = np.array([70_000] * 100 + [300_000] * 100, dtype=np.uint32)
    starts = np.array([0, 0, 150, 200])
    first = lists_of(ids, starts)
    if first[1][0] is not first[1][1]:
        pytest.skip("integers are not kept in this mode")
    before = sys.getrefcount(first[1][0])
    some = [lists_of(ids, starts) for _ in range(50)]
    during = sys.getrefcount(first[1][0])
    del some
    after = sys.getrefcount(first[1][0])
    assert (during, after) == (before + 50 * 100, before)
    assert growth(lambda: lists_of(ids, starts), 1_000)[0] < 100


@pytest.mark.compiled
def test_lists_of__without_memory():
    memory = pytest.importorskip("_testcapi")
    integer_lists.integers()[261_000:261_200] = 0  # as if these were new: their references are lost
    ids = np.arange(261_000, 261_200, dtype=np.uint32)
    starts = np.array([0, 100, 200])
    make = integer_lists._maker()
    if make is None:
        pytest.skip("no builtin functions in this mode")
    addresses = np.array([ids.ctypes.data, ids.size, starts.ctypes.data, starts.size])
    failed = 0
    for count in range(250):
        found = None
        memory.set_nomemory(count, count + 1)
        try:
            found = make(addresses)
        except MemoryError:
            failed += 1
        finally:
            memory.remove_mem_hooks()
        assert found in (None, [list(range(261_000, 261_100)), list(range(261_100, 261_200))])
    assert failed > 3


def test_tolist__starts_that_were_changed():
    batch = EncodedBatch(np.arange(100, dtype=np.uint32), np.array([0, 50, 100]))
    assert batch.tolist() == [list(range(50)), list(range(50, 100))]
    batch.starts[1] = 1 << 40
    with pytest.raises(ValueError, match="starts must"):
        batch.tolist()
