"""TFRecord files of tf.train.Example, with the packages `protobuf` and `google-crc32c` instead of TensorFlow.

A record is its length, the checksum of the length, the data and its checksum:

    length    uint64, little-endian
    checksum  uint32, masked CRC-32C of the 8 bytes of the length
    data      an Example: a map from the name of each feature to a list of int64, float32 or bytes
    checksum  uint32, masked CRC-32C of the data
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.errors import BpejitError, CorpusError, OutputError, TokenFileError, shorten
from bpejit.extras import import_extra
from bpejit.storage.files import StrPath, read_error

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")

_MASK = 0xA282EAD8
"""Added to a rotated checksum, since the CRC of data that contain their own CRC is a constant."""


def _extra(module: str, error: type[BpejitError]) -> Any:
    return import_extra(module, "a TFRecord file", extra="t2t", error=error)


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
message_type { name: "EncodedExample" field { name: "features" number: 1 type: TYPE_BYTES } }
"""
"""The messages. Fields of EncodedExample have the same bytes as those of Example, from Features that are already encoded."""


@lru_cache(maxsize=1)
def _message_classes() -> dict[str, Any]:
    """Return the classes of messages, in a pool of their own: TensorFlow may be loaded in the same process."""
    file = _extra("google.protobuf.descriptor_pb2", OutputError).FileDescriptorProto()
    pool = _extra("google.protobuf.descriptor_pool", OutputError).DescriptorPool()
    pool.Add(_extra("google.protobuf.text_format", OutputError).Parse(_SCHEMA, file))
    factory = _extra("google.protobuf.message_factory", OutputError)
    names = ("Example", "Features", "EncodedExample")
    return {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"tensorflow.{name}")) for name in names}


def serialize_example(features: Mapping[str, Any]) -> bytes:
    """Return an Example, with the features in the order of their names.

    The order of a deterministic serialization is that of the implementation: some versions of protocol buffers write `inputs`
    after `inputs_position`. So each feature is serialized by itself.

    Parameters
    ----------
    features : dict of str to a list or array
        Integers, floats, or str or bytes; the first element decides, as in `to_example` of Tensor2Tensor.

    Raises
    ------
    CorpusError
        (a ValueError) If a feature is empty, or has elements of another type.
    OutputError
        If a package is not installed.
    """
    classes = _message_classes()
    entries = []
    for name in sorted(features):
        values = features[name]
        message = classes["Features"]()
        target = message.feature
        listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if not listed:
            raise CorpusError(f"the feature {shorten(name)} is empty; expected at least one element: leave out this example")
        first = listed[0]
        try:
            if isinstance(first, (int, np.integer)):
                target[name].int64_list.value.extend(listed)
            elif isinstance(first, (float, np.floating)):
                target[name].float_list.value.extend(listed)
            else:
                data = [value.encode() if isinstance(value, str) else value for value in listed]
                target[name].bytes_list.value.extend(data)
        except (TypeError, ValueError) as cause:
            raise CorpusError(
                f"the feature {shorten(name)} is {shorten(listed)}: {cause}; expected integers below 2^63, floats, or text: "
                "give elements of one type"
            ) from cause
        entries.append(message.SerializeToString())
    return classes["EncodedExample"](features=b"".join(entries)).SerializeToString()  # type: ignore[no-any-return]


def parse_example(data: bytes) -> dict[str, list[Any]]:
    """Return the features of an Example.

    Raises
    ------
    TokenFileError
        If it is not an Example.
    """
    try:
        example = _message_classes()["Example"].FromString(data)
    except _extra("google.protobuf.message", TokenFileError).DecodeError as cause:
        raise TokenFileError(
            f"a record is not an Example: {cause}; expected `tf.train.Example`: read files with such records"
        ) from cause
    found = example.features.feature
    return {name: list(getattr(found[name], found[name].WhichOneof("kind") or "int64_list").value) for name in sorted(found)}


@lru_cache(maxsize=1)
def _crc32c() -> Callable[[bytes], int]:
    return _extra("google_crc32c", OutputError).value  # type: ignore[no-any-return]


def masked_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of data."""
    checksum = _crc32c()(data)
    return ((checksum >> 15 | checksum << 17) + _MASK) & 0xFFFFFFFF


def frame_record(data: bytes) -> bytes:
    """Return the bytes of a record in a TFRecord file."""
    length = _LENGTH.pack(len(data))
    return b"".join((length, _CHECKSUM.pack(masked_checksum(length)), data, _CHECKSUM.pack(masked_checksum(data))))


def example_records(examples: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the record of each example; written one after the other, they are a TFRecord file."""
    for features in examples:
        yield frame_record(serialize_example(features))


def read_records(path: StrPath) -> Iterator[bytes]:
    """Yield the data of each record of a TFRecord file.

    Raises
    ------
    TokenFileError
        If the file cannot be read, is truncated, or a checksum is wrong.
    """
    try:
        with Path(path).open("rb") as file:
            total = os.fstat(file.fileno()).st_size
            position = 0
            while head := file.read(_LENGTH.size):
                length = _checked(head, file.read(_CHECKSUM.size), _LENGTH.size, path, position)
                (size,) = _LENGTH.unpack(length)
                yield _checked(file.read(min(size, total)), file.read(_CHECKSUM.size), size, path, position)
                position += _LENGTH.size + size + 2 * _CHECKSUM.size
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="TFRecord file") from cause


def _checked(data: bytes, checksum: bytes, size: int, path: StrPath, position: int) -> bytes:
    if len(data) == size and len(checksum) == _CHECKSUM.size and masked_checksum(data) == _CHECKSUM.unpack(checksum)[0]:
        return data
    found = "is truncated" if len(checksum) < _CHECKSUM.size else "has a wrong checksum"
    raise TokenFileError(
        f"`{path}`: the record at byte {position} {found}; expected a complete TFRecord file without compression: "
        "write it again"
    )
