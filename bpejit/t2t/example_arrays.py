"""Examples as arrays, and framed records of them.

Protocol buffers take some 5 microseconds for each example, and as long as that again for its objects; the kernels take 0.3. So
the kernels write records, and read those of the same layout; protocol buffers read others.

The lists of a feature are one array: list i is `ids[starts[i]:starts[i + 1]]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpejit.arrays import Array, as_array, lengths_of, starts_of
from bpejit.errors import CorpusError, TokenFileError, shorten
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.kernels.t2t import record_reading
from bpejit.kernels.t2t.record_writing import FRAME_BYTES, SIZE_BYTES, TAG_1, put_examples
from bpejit.t2t.tfrecords import crc_tables, find_records, order_records, parse_example

Lists = tuple[Array, Array]
"""The lists of one feature: integers [ids], and `starts` int64 [n + 1]."""

Examples = Mapping[str, Lists]
"""The lists of each feature, all with the same number of lists."""

_VARINT_BYTES = 10
"""The most bytes of an integer in a record."""

MAX_RECORD_BYTES = 1 << 31
"""Protocol buffers read messages that are smaller than this."""


def _key_fields(names: list[str]) -> tuple[Array, Array]:
    """Return the field of each name in an entry, padded, and where each starts."""
    fields = []
    for name in names:
        data = name.encode()
        size, varint = len(data), bytearray()
        while size >= 0x80:
            varint.append(size & 0x7F | 0x80)
            size >>= 7
        fields.append(bytes([int(TAG_1)]) + bytes([*varint, size]) + data)
    starts = starts_of(lengths_of(fields))
    return np.frombuffer(bytearray(b"".join(fields) + bytes(TEXT_PADDING)), np.uint8), starts


def _sorted_names(features: Examples) -> list[str]:
    """Return the names in the order of protocol buffers, which is that of their bytes."""
    if not isinstance(features, Mapping) or not features:
        raise CorpusError(
            f"the features are {shorten(features)}; expected a dict from names to pairs of arrays, `ids` and `starts`: give at "
            "least one feature"
        )
    try:
        return sorted(features, key=str.encode)
    except (TypeError, UnicodeEncodeError) as cause:
        raise CorpusError(
            f"the names of the features are {shorten(list(features))}; expected text: choose other names"
        ) from cause


def checked_lists(name: str, lists: Any, n_lists: int | None) -> Lists:
    """Return the ids and the starts of a feature as arrays of integers below 2^63, or raise CorpusError.

    Parameters
    ----------
    name : str
    lists : pair of arrays
    n_lists : int, optional
        The number of lists of the other features.
    """
    try:
        ids, starts = (np.asarray(part) for part in lists)
        starts = as_array(starts, np.int64, "starts")
    except (TypeError, ValueError) as cause:
        raise CorpusError(
            f"the feature {shorten(name)} is {shorten(lists)}: {cause}; expected two arrays, `ids` and `starts`: give both"
        ) from cause
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise CorpusError(
            f"the feature {shorten(name)} has ids of type {ids.dtype} and shape {ids.shape}; expected integers in one "
            "dimension: convert them"
        )
    if ids.dtype == np.uint64 and ids.size and int(ids.max()) >= 1 << 63:
        raise CorpusError(
            f"the feature {shorten(name)} is {shorten(ids.tolist())}; expected integers below 2^63: leave out larger ones"
        )
    if not starts.size or starts[0] != 0 or starts[-1] != ids.size or (starts[1:] < starts[:-1]).any():
        raise CorpusError(
            f"the feature {shorten(name)} has the starts {shorten(starts.tolist())}; expected numbers from 0 to "
            f"{ids.size:,}, the number of its ids, that never fall: compute them again"
        )
    if n_lists is not None and starts.size - 1 != n_lists:
        raise CorpusError(
            f"the feature {shorten(name)} has {starts.size - 1:,} lists; expected {n_lists:,}, as the other features: give one "
            "list for each example"
        )
    return ids, starts


def write_examples(features: Examples) -> tuple[Array, Array]:
    """Return the framed records of examples, as protocol buffers write them.

    Parameters
    ----------
    features : mapping of str to (ids, starts)
        For each feature integers of any type, and int64 [n + 1]. Lists must not be empty.

    Returns
    -------
    data : uint8 [bytes]
        Part of a TFRecord file. TEXT_PADDING bytes follow in the same memory.
    starts : int64 [n + 1]
        Record i is `data[starts[i]:starts[i + 1]]`.

    Raises
    ------
    CorpusError
        If a list is empty, or an array has the wrong type or size.
    """
    names = _sorted_names(features)
    checked: list[Lists] = []
    n_lists = None
    for name in names:
        checked.append(checked_lists(name, features[name], n_lists))
        own = checked[-1][1]
        n_lists = own.size - 1
        empty = np.flatnonzero(own[1:] == own[:-1])
        if empty.size:
            raise CorpusError(
                f"the feature {shorten(name)} of example {empty[0]:,} is empty; expected at least one element: leave out this "
                "example"
            )
    assert n_lists is not None
    ids = np.concatenate([part for part, _ in checked], dtype=np.int64, casting="unsafe")
    offsets = np.cumsum([0, *(part.size for part, _ in checked[:-1])])
    starts = np.concatenate([own + offset for (_, own), offset in zip(checked, offsets, strict=True)])
    keys, key_starts = _key_fields(names)
    most = n_lists * (FRAME_BYTES + SIZE_BYTES + keys.size + 4 * SIZE_BYTES * len(names)) + ids.size * _VARINT_BYTES
    data = np.empty(most + TEXT_PADDING, np.uint8)  # memory that is not written to is not taken from the system
    record_starts = np.zeros(n_lists + 1, np.int64)
    put_examples(ids, starts, keys, key_starts, crc_tables(), np.zeros(len(names), np.uint64), record_starts, data)
    if n_lists and int(np.diff(record_starts).max()) - FRAME_BYTES >= MAX_RECORD_BYTES:
        longest = int(np.diff(record_starts).argmax())
        raise CorpusError(
            f"example {longest:,} has {record_starts[longest + 1] - record_starts[longest]:,} bytes; expected less than "
            f"{MAX_RECORD_BYTES:,}, the limit of protocol buffers: divide it"
        )
    return data[: record_starts[-1]], record_starts


def read_examples(
    data: Array | bytes,
    starts: Array | None = None,
    *,
    names: Sequence[str] | None = None,
) -> dict[str, Lists]:
    """Return the features of framed records of examples.

    Parameters
    ----------
    data : uint8 [bytes]
    starts : int64 [n + 1], optional
        From `read_record_blocks`, which has checked the records, or from `write_examples`. By default they are found and
        checked.
    names : sequence of str, optional
        The features of the result. By default, all that the examples have.

    Returns
    -------
    dict of str to (ids, starts)
        Both int64, in the order of the names as bytes. A feature that an example lacks is an empty list.

    Raises
    ------
    TokenFileError
        If a record is damaged, is not an Example, or has floats or bytes.

    Notes
    -----
    Records of another layout than those of `write_examples`, such as unpacked lists, are read by protocol buffers, thirty times
    slower.
    """
    data = as_array(np.frombuffer(data, np.uint8), np.uint8, "data")
    starts = find_records(data) if starts is None else as_array(starts, np.int64, "starts")
    n = starts.size - 1
    if not n and names is None:
        return {}
    given = names
    # The names of the first record: if others have other names, they are found below.
    names = sorted(_parse(data, starts, 0) if names is None else names, key=str.encode)
    keys, key_starts = _key_fields(names)
    bounds = np.zeros(len(names) * n * 2, np.int64)
    counts = np.zeros(len(names) * n, np.int64)
    if record_reading.find_lists(data, starts, keys, key_starts, bounds, counts) >= 0:
        return _read_any(data, starts, given)
    features = {}
    for number, name in enumerate(names):
        own = slice(number * n, (number + 1) * n)
        list_starts = starts_of(counts[own])
        ids = np.empty(int(list_starts[-1]), np.int64)
        if record_reading.decode_varints(data, bounds[2 * own.start : 2 * own.stop], ids) >= 0:
            return _read_any(data, starts, given)
        features[name] = ids, list_starts
    return features


def _parse(data: Array, starts: Array, number: int) -> dict[str, list[Any]]:
    try:
        return parse_example(data[starts[number] + 12 : starts[number + 1] - 4].tobytes())
    except TokenFileError as cause:
        raise TokenFileError(f"record {number:,} at byte {starts[number]:,}: {cause}") from cause


def _read_any(data: Array, starts: Array, names: Sequence[str] | None) -> dict[str, Lists]:
    """Read examples by protocol buffers."""
    examples = [_parse(data, starts, number) for number in range(starts.size - 1)]
    features = {}
    found = {name for example in examples for name in example}
    for name in sorted(found if names is None else names, key=str.encode):
        lists = [example.get(name, []) for example in examples]
        for number, values in enumerate(lists):
            if values and not isinstance(values[0], int):
                raise TokenFileError(
                    f"the feature {shorten(name)} of record {number:,} is {shorten(values)}; expected integers: read the file "
                    "with `read_records` and `parse_example`"
                )
        ids = np.array([value for values in lists for value in values], np.int64)
        features[name] = ids, starts_of(lengths_of(lists))
    return features


def warm_records() -> None:
    """Call the kernels of this module, without protocol buffers, so that `bpejit.warmup` compiles them."""
    data, starts = write_examples({"a": (np.ones(2, np.int64), np.arange(3))})
    read_examples(data, find_records(data), names=["a"])
    order_records(data, starts, starts[:0])
