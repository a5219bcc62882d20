"""TFRecord files as TensorFlow writes and reads them: by the packages `protobuf` and `crc32c`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
from twins.records import sized

from bpejit.t2t import tfrecords


def masked_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of data, as in the description of the format."""
    found = crc32c.crc32c(data)
    return (((found >> 15) | (found << 17) & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def frame_record(data: bytes) -> bytes:
    """Return the bytes of a record in a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_checksum(length)) + data + struct.pack("<I", masked_checksum(data))


def serialize_example(features: Mapping[str, Any]) -> bytes:
    """Return an Example, with the features in the order of their names.

    The order of a deterministic serialization is that of the implementation: some versions of protocol buffers write `inputs`
    after `inputs_position`. So each feature is serialized by itself.
    """
    entries = b""
    for name in sorted(features):
        values = list(features[name])
        message = type(tfrecords._message_class()().features)()
        feature = message.feature[name]
        if isinstance(values[0], (int, np.integer)):
            feature.int64_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.bytes_list.value.extend(value.encode() if isinstance(value, str) else value for value in values)
        entries += message.SerializeToString()
    return sized(0x0A, entries)


def example_records(examples: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the record of each example; written one after the other, they are a TFRecord file."""
    for features in examples:
        yield frame_record(serialize_example(features))


def published_data(path: Path) -> Iterator[bytes]:
    """Yield the data of each record of a TFRecord file, after comparing the checksums."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        found = data[at + 12 : at + 12 + size]
        assert data[at : at + 16 + size] == frame_record(found)
        yield found
        at += 16 + size
