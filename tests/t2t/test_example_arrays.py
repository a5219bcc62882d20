"""Tests of records of arrays: equal to those of protocol buffers, and read back by the package `tfrecord`."""

from __future__ import annotations

import struct
from itertools import accumulate

import numpy as np
import pytest
from helpers.published_records import example_records, frame_record
from hypothesis import given, strategies as st

from bpejit.errors import CorpusError, TokenFileError
from bpejit.t2t import example_arrays
from bpejit.t2t.example_arrays import read_examples, write_examples
from bpejit.t2t.tfrecords import order_records, read_record_blocks, read_records

small = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20)
wide = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5)


def arrays(examples, dtype=np.int64):
    """Return examples as lists of features."""
    return {
        name: (
            np.array([value for example in examples for value in example[name]], dtype),
            np.array([0, *accumulate(len(example[name]) for example in examples)]),
        )
        for name in examples[0]
    }


def as_lists(features):
    """Return the lists of each feature."""
    return {name: [part.tolist() for part in np.split(ids, starts[1:-1])] for name, (ids, starts) in features.items()}


@given(st.lists(st.tuples(small, small), min_size=1, max_size=8), st.data())
def test_equals_protocol_buffers(pairs, data):
    examples = [{"targets": a, "inputs": b} for a, b in pairs]
    if data.draw(st.booleans()):
        examples[-1]["targets"] = data.draw(wide)
    expected = list(example_records(examples))
    found, starts = write_examples(arrays(examples))
    assert found.tobytes() == b"".join(expected)
    assert starts.tolist() == [0, *accumulate(map(len, expected))]
    back = read_examples(found, starts, ["targets", "inputs"])
    assert list(back) == ["inputs", "targets"]
    assert as_lists(back) == {name: [example[name] for example in examples] for name in back}


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_types_of_ids(dtype):
    limits = np.iinfo(dtype)
    examples = [{"ids": [0, min(limits.max, 2**63 - 1)]}, {"ids": [min(limits.max, 2**31 - 1), max(limits.min, -5), 7]}]
    found, _ = write_examples(arrays(examples, dtype))
    assert found.tobytes() == b"".join(example_records(examples))


def test_many_features_and_long_names():
    names = [f"{'n' * (i * 5)}é{i}" for i in range(60)] + ["", "日本", "\U00010000", "\uffff"]
    examples = [{name: [len(name) * k, 300, 2**31 - 1] for name in names} for k in range(3)]
    found, starts = write_examples(arrays(examples))
    assert found.tobytes() == b"".join(example_records(examples))
    assert as_lists(read_examples(found, starts, names)) == {
        name: [example[name] for example in examples] for name in sorted(names, key=str.encode)
    }


@pytest.mark.parametrize("big", [0, 2**40])
def test_order_records(big):
    examples = [{"a": list(range(k + 1)), "b": [k + big]} for k in range(20)]
    records = list(example_records(examples))
    data, starts = write_examples(arrays(examples))
    for order in ([], [19], [3, 3, 0], list(range(19, -1, -1))):
        found, new = order_records(data, starts, np.array(order, np.int64))
        assert found.tobytes() == b"".join(records[number] for number in order)
        assert new.tolist() == [0, *accumulate(len(records[number]) for number in order)]


def test_sizes():
    found, starts = write_examples({"a": (np.zeros(0, np.int32), np.zeros(1, np.int64))})
    assert found.size == 0
    assert starts.tolist() == [0]
    huge = {"a": (np.arange(300_000), np.array([0, 1, 299_999, 300_000]))}
    found, starts = write_examples(huge)
    expected = [{"a": [0]}, {"a": list(range(1, 299_999))}, {"a": [299_999]}]
    assert found.tobytes() == b"".join(example_records(expected))
    assert read_examples(found, starts, ["a"])["a"][0].tolist() == list(range(300_000))


def test_read_back_by_tfrecord(tmp_path):
    reader = pytest.importorskip("tfrecord.reader")
    examples = [{"inputs": [k + 1] * (k + 1), "targets": [2**31 - 1 - k]} for k in range(50)]
    (tmp_path / "file").write_bytes(write_examples(arrays(examples))[0])
    found = list(reader.tfrecord_loader(str(tmp_path / "file"), None, {"inputs": "int", "targets": "int"}))
    assert [{name: values.tolist() for name, values in example.items()} for example in found] == examples


def test_examples_with_other_features():
    data, starts = write_examples(arrays([{"a": [1], "b": [2]}]))
    for names in (["a"], ["a", "c"], ["a", "b", "c"]):
        with pytest.raises(CorpusError, match=r"an example does not have the features .*, or has others; .* format tfrecord"):
            read_examples(data, starts, names)


def test_damage_at_each_byte(tmp_path):
    data, starts = write_examples(arrays([{"a": [1, 2, 3]}, {"a": [400]}]))
    whole = data.tobytes()
    path = tmp_path / "records"

    def check(damaged, found):
        path.write_bytes(damaged)
        for read in (
            lambda: list(read_record_blocks(path)),
            lambda: list(read_records(path)),
        ):
            with pytest.raises(TokenFileError, match=found):
                read()

    for position in range(len(whole)):
        number = int(position >= starts[1])
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        part = "length" if position - starts[number] < 12 else "data"
        check(bytes(damaged), f"record {number} at byte {starts[number]} has a wrong checksum of its {part}")
        if position not in starts:
            check(whole[:position], f"record {number} at byte {starts[number]} is truncated")


@pytest.mark.parametrize("block_bytes", [1, 40, 100, 1 << 20])
def test_blocks_of_a_file(tmp_path, block_bytes):
    examples = [{"a": list(range(1, k * k % 37 + 2))} for k in range(60)]
    data, _ = write_examples(arrays(examples))
    path = tmp_path / "records"
    path.write_bytes(data)
    found = []
    for block, starts in read_record_blocks(path, block_bytes=block_bytes):
        found += as_lists(read_examples(block, starts, ["a"]))["a"]
    assert found == [example["a"] for example in examples]
    path.write_bytes(data.tobytes() + b"x")
    with pytest.raises(TokenFileError, match=rf"`.*records`: record 60 at byte {data.size:,} is truncated"):
        list(read_record_blocks(path, block_bytes=block_bytes))


def test_file_errors(tmp_path):
    with pytest.raises(TokenFileError, match="there is no such file"):
        list(read_record_blocks(tmp_path / "missing"))
    length = struct.pack("<Q", 2**63)
    (tmp_path / "huge").write_bytes(frame_record(length)[:0] + length + struct.pack("<I", example_arrays.TEXT_PADDING))
    with pytest.raises(TokenFileError, match="record 0 at byte 0 has a wrong checksum of its length"):
        list(read_record_blocks(tmp_path / "huge"))


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ({}, "the features are"),
        ({1: ([1], [0, 1])}, "the features are"),
        ({"\ud800": ([1], [0, 1])}, "the features are"),
    ],
)
def test_wrong_features(features, found):
    with pytest.raises(CorpusError, match=found):
        write_examples(features)


def test_records_have_a_largest_size(monkeypatch):
    monkeypatch.setattr(example_arrays, "MAX_RECORD_BYTES", 20)
    with pytest.raises(CorpusError, match="example 1 has 36 bytes; expected less than 20"):
        write_examples(arrays([{"a": [1]}, {"a": list(range(7))}]))
