"""Tests of TFRecord files: read back by the package `tfrecord`, with checksums by the package `crc32c`."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest
import twins
from helpers.published_records import example_records, frame_record, masked_checksum, serialize_example
from helpers.t2t import pack_examples
from hypothesis import given, strategies as st

from bpejit.errors import TokenFileError
from bpejit.t2t import tfrecords
from bpejit.t2t.tfrecords import complete_records, parse_example, read_records

reader = pytest.importorskip("tfrecord.reader")

integers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20)


def write(path, examples):
    with path.open("wb") as file:
        for record in example_records(examples):
            file.write(record)


def test_read_back_by_tfrecord(tmp_path):
    path = tmp_path / "records"
    generator = np.random.default_rng(0)
    examples = [
        {"inputs": generator.integers(1, 9000, n), "targets": generator.integers(1, 2**40, m).tolist()}
        for n, m in generator.integers(1, 40, (50, 2))
    ]
    write(path, examples)
    found = list(reader.tfrecord_loader(str(path), None, {"inputs": "int", "targets": "int"}))
    assert len(found) == len(examples)
    for ours, theirs in zip(examples, found, strict=True):
        assert theirs["inputs"].tolist() == ours["inputs"].tolist()
        assert theirs["targets"].tolist() == ours["targets"]
    assert [parse_example(data)["targets"] for data in read_records(path)] == [example["targets"] for example in examples]


def test_kinds_of_features(tmp_path):
    path = tmp_path / "records"
    features = {"text": ["é"], "floats": [0.5, -2.0], "bytes": [b"\xff", "é"], "label": np.array([3], np.int8)}
    write(path, [features])
    (found,) = reader.tfrecord_loader(str(path), None)
    assert bytes(found["text"]) == "é".encode()
    assert found["floats"].tolist() == [0.5, -2.0]
    assert found["label"].tolist() == [3]
    (data,) = read_records(path)
    expected = {"bytes": [b"\xff", "é".encode()], "floats": [0.5, -2.0], "label": [3], "text": ["é".encode()]}
    assert parse_example(data) == expected
    assert list(parse_example(data)) == sorted(features)
    assert serialize_example(dict(reversed(features.items()))) == data


@given(st.binary(max_size=200))
def test_checksums(data):
    record = frame_record(data)
    assert struct.pack("<I", masked_checksum(data)) == twins.records.masked_crc(data)
    assert complete_records(np.frombuffer(record, np.uint8), len(record))[0].tolist() == [0, len(record)]


@given(integers, integers)
def test_round_trip(inputs, targets):
    assert parse_example(serialize_example({"targets": targets, "inputs": inputs})) == {"inputs": inputs, "targets": targets}


def test_features_are_in_the_order_of_their_names():
    names = ["targets", "inputs_position", "inputs", "", "é", "z", "\U00010000", "\uffff"]
    data = serialize_example({name: [1] for name in names})
    parts = [serialize_example({name: [1]})[2:] for name in sorted(names)]
    assert data == bytes([0x0A, sum(map(len, parts))]) + b"".join(parts)
    example = tfrecords._message_class().FromString(data)
    assert sorted(example.features.feature) == sorted(names)
    distinct = serialize_example({"targets": [1, 2], "inputs": [3]})  # neither name begins with the other
    assert tfrecords._message_class().FromString(distinct).SerializeToString(deterministic=True) == distinct


def test_known_record():
    data = serialize_example({"a": [1, 300]})
    assert data == bytes([0x0A, 0x0E, 0x0A, 0x0C, 0x0A, 1, ord("a"), 0x12, 7, 0x1A, 5, 0x0A, 3, 1, 0xAC, 2])
    assert masked_checksum(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_packed_examples(tmp_path):
    examples = [{"inputs": [2, 3, 1], "targets": [4, 1]}, {"inputs": [5, 1], "targets": [6, 7, 1]}]
    write(tmp_path / "packed", pack_examples(examples, True, packed_length=10))
    (data,) = read_records(tmp_path / "packed")
    assert parse_example(data) == {
        "inputs": [2, 3, 1, 0, 0, 5, 1],
        "inputs_position": [0, 1, 2, 0, 0, 0, 1],
        "inputs_segmentation": [1, 1, 1, 0, 0, 2, 2],
        "targets": [4, 1, 0, 0, 6, 7, 1],
        "targets_position": [0, 1, 0, 0, 0, 1, 2],
        "targets_segmentation": [1, 1, 0, 0, 2, 2, 2],
    }


def test_damaged_files(tmp_path):
    path = tmp_path / "records"
    write(path, [{"a": [1, 2, 3]}, {"a": [4]}])
    whole = path.read_bytes()
    second = len(frame_record(serialize_example({"a": [1, 2, 3]})))
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size in (0, second):
            assert len(list(read_records(path))) == bool(size)
            continue
        with pytest.raises(
            TokenFileError, match=f"record {int(size > second)} at byte {second if size > second else 0} is truncated"
        ):
            list(read_records(path))
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(TokenFileError, match="has a wrong checksum"):
            list(read_records(path))
    path.write_bytes(frame_record(b"\xff"))
    with pytest.raises(TokenFileError, match="is not an Example"):
        parse_example(next(read_records(path)))
    length = struct.pack("<Q", 2**63)
    path.write_bytes(length + struct.pack("<I", masked_checksum(length)) + b"abc")
    with pytest.raises(TokenFileError, match="is truncated"):
        list(read_records(path))
    with pytest.raises(TokenFileError, match="there is no such file"):
        list(read_records(tmp_path / "missing"))


def test_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    tfrecords._message_class.cache_clear()
    try:
        with pytest.raises(TokenFileError, match=r"needs the package `google`.*pip install 'bpejit\[t2t\]'"):
            parse_example(b"")
    finally:
        tfrecords._message_class.cache_clear()
