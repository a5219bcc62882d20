"""Comparison of the kernels of records with their twins."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
import twins
from hypothesis import given, strategies as st

from bpejit.kernels.constants import DONE
from bpejit.kernels.t2t import record_reading, record_writing
from bpejit.t2t.example_arrays import _key_fields
from bpejit.t2t.tfrecords import crc_tables

STATUS = {
    "done": DONE,
    "incomplete": record_reading.INCOMPLETE,
    "wrong length": record_reading.WRONG_LENGTH,
    "wrong data": record_reading.WRONG_DATA,
}

borders = [value + step for bits in range(0, 63, 7) for value in [1 << bits] for step in (-1, 0)] + [
    2**31 - 1,
    2**32 - 1,
    2**32,
]
values = st.one_of(st.sampled_from(borders), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1), st.integers(0, 300))
lists = st.lists(values, min_size=1, max_size=40)
names = st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=4)


@st.composite
def examples(draw):
    features = sorted(draw(names), key=str.encode)
    return [{name: draw(lists) for name in features} for _ in range(draw(st.integers(1, 6)))]


def flat(found, dtype):
    """Return the lists of all features as one array, and their starts."""
    ids, starts = [], []
    for name in found[0]:
        own = [example[name] for example in found]
        starts += accumulate(map(len, own), initial=len(ids))
        ids += [value for values in own for value in values]
    return np.array(ids, dtype), np.array(starts, np.int64)


def written(found):
    ids, starts = flat(found, np.int64)
    keys, key_starts = _key_fields(list(found[0]))
    packed = np.zeros(len(found[0]), np.uint64)
    record_starts = np.zeros(len(found) + 1, np.int64)
    data = np.full(sum(map(len, twins.records.put_examples(found))) + 8, 0xAA, np.uint8)
    record_writing.put_examples(ids, starts, keys, key_starts, crc_tables(), packed, record_starts, data)
    return data, record_starts


@given(examples())
def test_put_examples(found):
    data, record_starts = written(found)
    records = twins.records.put_examples(found)
    assert np.diff(record_starts).tolist() == [len(record) for record in records]
    assert data[:-8].tobytes() == b"".join(records)


def scanned(data, starts):
    status = np.zeros(1, np.int64)
    n = record_reading.scan_records(data, data.size, crc_tables(), starts, status)
    return starts[: n + 1].tolist(), status[0]


@given(examples(), st.data())
def test_scan_records(found, data):
    records = b"".join(twins.records.put_examples(found))
    damaged = bytearray(records[: data.draw(st.integers(0, len(records)))])
    for _ in range(data.draw(st.integers(0, 2))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.sampled_from([1, 0x10, 0x80]))
    starts, expected = twins.records.scan_records(bytes(damaged))
    array = np.frombuffer(damaged, np.uint8)
    assert scanned(array, np.zeros(len(starts) + 1, np.int64)) == (starts, STATUS[expected])


def test_huge_lengths():
    for length in (2**63, 2**64 - 1, 2**64 - 16, 2**32, 1):
        head = length.to_bytes(8, "little")
        data = np.frombuffer(bytearray(head + twins.records.masked_crc(head) + b"abcd"), np.uint8)
        assert scanned(data, np.zeros(4, np.int64)) == ([0], record_reading.INCOMPLETE)


def lists_of(data, starts, features):
    keys, key_starts = _key_fields(features)
    n = starts.size - 1
    bounds, counts = np.zeros(2 * len(features) * n, np.int64), np.zeros(len(features) * n, np.int64)
    return record_reading.find_lists(data, starts, keys, key_starts, bounds, counts), bounds, counts


@given(examples())
def test_find_lists_and_decode_varints(found):
    data, starts = written(found)
    status, bounds, counts = lists_of(data, starts, list(found[0]))
    assert status == -1
    own = bounds.reshape(len(found[0]), -1, 2)
    for number, (name, rows) in enumerate(zip(found[0], own, strict=True)):
        out = np.zeros(sum(len(example[name]) for example in found), np.int64)
        assert record_reading.decode_varints(data, rows.reshape(-1).copy(), out) == -1
        assert out.tolist() == [value for example in found for value in example[name]]
        assert counts[number * len(found) :][: len(found)].tolist() == [len(example[name]) for example in found]
    for i, (start, end) in enumerate(pairwise(starts.tolist())):
        plain = twins.records.find_lists(data[start:end].tobytes(), list(found[0]))
        assert (own[:, i] - start).tolist() == [list(pair) for pair in plain]


def test_other_layouts():
    data, starts = written([{"a": [1], "b": [2]}])
    for features in (["a"], ["b"], ["a", "c"], ["a", "b", "c"], ["b", "a"], ["ab", "b"], []):
        assert lists_of(data, starts, features)[0] == 0, features
    for position in range(12, data.size - 12):  # no byte of a record may lead outside of it
        for value in (0, 0x0A, 0x7F, 0x80, 0xFF):
            changed = data.copy()
            changed[position] = value
            lists_of(changed, starts, ["a", "b"])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_wide_varints(numbers):
    data = b"".join(twins.records.varint(number % 2**64) for number in numbers)
    array = np.frombuffer(bytearray(data + bytes(8)), np.uint8)
    out = np.zeros(len(numbers), np.int64)
    assert record_reading.decode_varints(array, np.array([0, len(data)]), out) == -1
    assert out.tolist() == numbers == twins.records.decode_varints(data)


@pytest.mark.parametrize(("data", "status"), [(b"\xff" * 9 + b"\x7f", -1), (b"\xff" * 10 + b"\x01", 0)])
def test_long_varints(data, status):
    array = np.frombuffer(bytearray(data + bytes(8)), np.uint8)
    out = np.zeros(1, np.int64)
    assert record_reading.decode_varints(array, np.array([0, len(data)]), out) == status
    assert status == 0 or out.tolist() == twins.records.decode_varints(data)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8), st.data())
def test_gather_records(records, data):
    order = data.draw(st.lists(st.integers(0, len(records) - 1), max_size=12))
    source = np.frombuffer(bytearray(b"".join(records) + bytes(8)), np.uint8)
    expected = twins.records.gather_records(records, order)
    out = np.zeros(len(expected) + 8, np.uint8)
    starts = np.array([0, *accumulate(map(len, records))], np.int64)
    record_reading.gather_records(source, starts, np.array(order, np.int64), out)
    assert out[:-8].tobytes() == expected
