"""TFRecord files of tf.train.Example, without TensorFlow.

A record is its length, the checksum of the length, the data and its checksum:

    length    uint64, little-endian
    checksum  uint32, masked CRC-32C of the 8 bytes of the length
    data      an Example: a map from the name of each feature to a list of int64, float32 or bytes
    checksum  uint32, masked CRC-32C of the data
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, starts_of
from bpejit.errors import CorpusError, TokenFileError, shorten
from bpejit.extras import import_extra
from bpejit.kernels.constants import DONE, TEXT_PADDING
from bpejit.kernels.t2t import record_reading
from bpejit.kernels.t2t.record_writing import FRAME_BYTES, POLYNOMIAL
from bpejit.storage.files import StrPath, read_error

_BLOCK_BYTES = 1 << 22
_LOW_BYTE = np.uint32(0xFF)
_WORD = 0xFFFFFFFF


@lru_cache(maxsize=1)
def crc_tables() -> Array:
    """Return the tables of `masked_crc`: uint32 [8 * 256]."""
    register: Array = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = register >> 1 ^ np.where(register & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    tables = [register]
    for _ in range(7):
        tables.append(tables[-1] >> 8 ^ register[tables[-1] & _LOW_BYTE])
    return np.concatenate(tables)


def order_records(data: Array, starts: Array, order: Array) -> tuple[Array, Array]:
    """Return some of several records, in another order.

    Parameters
    ----------
    data : uint8 [bytes]
        Framed records, followed by TEXT_PADDING bytes of the same memory, as those of `write_examples`.
    starts : int64 [n + 1]
    order : int64 [m]
        The numbers of the records, from 0 to n - 1, which is not checked.

    Returns
    -------
    data : uint8 [bytes]
    starts : int64 [m + 1]
    """
    new = starts_of(np.diff(starts)[order])
    out = np.empty(int(new[-1]) + TEXT_PADDING, np.uint8)
    record_reading.gather_records(data, starts, order, out)
    return out[: new[-1]], new


def complete_records(data: Array, stop: int) -> tuple[Array, int]:
    """Return where the complete records in `data[:stop]` start and the last one ends, and a status of `scan_records`."""
    starts = np.empty(stop // FRAME_BYTES + 1, np.int64)  # memory that is not written to is not taken from the system
    status = np.zeros(1, np.int64)
    n = record_reading.scan_records(data, stop, crc_tables(), starts, status)
    return starts[: n + 1].copy(), int(status[0])


_FOUND = {
    record_reading.INCOMPLETE: "is truncated",
    record_reading.WRONG_LENGTH: "has a wrong checksum of its length",
    record_reading.WRONG_DATA: "has a wrong checksum of its data",
}


def read_record_blocks(path: StrPath, *, block_bytes: int = _BLOCK_BYTES) -> Iterator[tuple[Array, Array]]:
    """Yield the framed records of a TFRecord file in blocks, after checking all checksums.

    Parameters
    ----------
    path : path
    block_bytes : int
        Size of a block, except for a longer record.

    Yields
    ------
    data : uint8 [bytes]
        With TEXT_PADDING bytes after the last record. Valid until the next block.
    starts : int64 [n + 1]

    Raises
    ------
    TokenFileError
        If the file cannot be read, a checksum is wrong, or the last record is incomplete.
    """
    path = arguments.path("path", path, error=TokenFileError)
    try:
        with Path(path).open("rb", buffering=0) as file:
            buffer = np.empty(max(block_bytes, FRAME_BYTES) + TEXT_PADDING, np.uint8)
            filled = first_byte = first_record = 0
            while True:
                n_read = file.readinto(buffer[filled : buffer.size - TEXT_PADDING].data)
                filled += n_read or 0
                starts, status = complete_records(buffer, filled)
                end = int(starts[-1])
                if status not in (DONE, record_reading.INCOMPLETE) or (not n_read and filled > end):
                    raise TokenFileError(
                        f"`{path}`: record {first_record + starts.size - 1:,} at byte {first_byte + end:,} {_FOUND[status]}; "
                        "expected complete TFRecord data without compression: write it again"
                    )
                if end:
                    yield buffer, starts
                if not n_read:
                    return
                buffer[: filled - end] = buffer[end:filled].copy()
                filled -= end
                first_byte += end
                first_record += starts.size - 1
                if filled == buffer.size - TEXT_PADDING:
                    buffer = np.concatenate([buffer, np.empty_like(buffer)])
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="TFRecord file") from cause


_SCHEMA = """
name: "example.proto" package: "tensorflow" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type {
  name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 type: TYPE_MESSAGE type_name: ".tensorflow.BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 type: TYPE_MESSAGE type_name: ".tensorflow.FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".tensorflow.Int64List" oneof_index: 0 }
}
message_type {
  name: "Features"
  field {
    name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".tensorflow.Features.FeatureEntry"
  }
  nested_type {
    name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".tensorflow.Feature" }
  }
}
message_type { name: "Example" field { name: "features" number: 1 type: TYPE_MESSAGE type_name: ".tensorflow.Features" } }
"""


def _protobuf(module: str) -> Any:
    return import_extra(f"google.protobuf.{module}", "a TFRecord file", extra="t2t", error=TokenFileError)


@lru_cache(maxsize=1)
def _message_class() -> Any:
    """Return the class of an Example, in a pool of its own: TensorFlow may be loaded in the same process."""
    file = _protobuf("descriptor_pb2").FileDescriptorProto()
    pool = _protobuf("descriptor_pool").DescriptorPool()
    pool.Add(_protobuf("text_format").Parse(_SCHEMA, file))
    return _protobuf("message_factory").GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


def parse_example(data: bytes) -> dict[str, list[Any]]:
    """Return the features of an Example.

    Raises
    ------
    TokenFileError
        If it is not an Example, or the package `protobuf` is not installed.
    """
    try:
        example = _message_class().FromString(data)
    except _protobuf("message").DecodeError as cause:
        raise TokenFileError(
            f"a record is not an Example: {cause}; expected `tf.train.Example`: read files with such records"
        ) from cause
    found = example.features.feature
    return {name: list(getattr(found[name], found[name].WhichOneof("kind") or "int64_list").value) for name in sorted(found)}


def serialize_example(features: Mapping[str, Sequence[Any]]) -> bytes:
    """Return an Example. As published, the first value of a list tells its type: whole numbers, floats, or texts and bytes.

    Raises
    ------
    CorpusError
        If a list is empty, or has a value of another type.
    """
    example: Any = _message_class()()
    try:
        for name, values in features.items():
            first = values[0]
            kind = "bytes"
            if isinstance(first, (int, np.integer)):
                kind = "int64"
            elif isinstance(first, float):
                kind = "float"
            given = [bytes(text, "utf-8") for text in values] if isinstance(first, str) else values
            getattr(example.features.feature[name], f"{kind}_list").value.extend(given)
    except (ArithmeticError, LookupError, TypeError, ValueError) as cause:
        raise CorpusError(
            f"the feature {shorten(name)} is {shorten(values)}: {cause}; expected whole numbers, floats or texts, one or more "
            "of one kind: correct it, or leave out this example"
        ) from cause
    return example.SerializeToString(deterministic=True)  # type: ignore[no-any-return]


def frame_record(data: bytes) -> bytes:
    """Return the record with some data. Its checksum takes 60 ns for each byte; that of `write_examples` takes 0.5 ns."""
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
    table = crc_tables()[:256].tolist()
    crc = ~reduce(lambda crc, byte: table[(crc ^ byte) & 0xFF] ^ crc >> 8, data, _WORD) & _WORD
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & _WORD)


def record_contents(data: Array, starts: Array) -> Iterator[bytes]:
    """Yield the data of each of several records."""
    for start, end in pairwise(starts.tolist()):
        yield data[start + 12 : end - 4].tobytes()


def read_records(path: StrPath) -> Iterator[bytes]:
    """Yield the data of each record of a TFRecord file.

    Raises
    ------
    TokenFileError
        If the file cannot be read, is truncated, or a checksum is wrong.
    """
    for data, starts in read_record_blocks(path):
        yield from record_contents(data, starts)
