"""Examples as arrays, and framed records of them.

Protocol buffers take some 5 microseconds for each example, and as long as that again for its objects; the kernels take 0.3. So
the kernels write the records of generated examples, and `tfrecords` is for other records: any layout, floats and bytes.

The lists of a feature are one array: list i is `ids[starts[i]:starts[i + 1]]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, as_array
from bpejit.errors import CorpusError, TokenFileError, shorten
from bpejit.kernels.constants import DONE, NEED_SPACE, TEXT_PADDING
from bpejit.kernels.t2t import record_reading
from bpejit.kernels.t2t.record_writing import FRAME_BYTES, POLYNOMIAL, TAG_1, measure_examples, put_examples
from bpejit.storage.files import StrPath, read_error
from bpejit.t2t.tfrecords import frame_record, parse_example, serialize_example

Lists = tuple[Array, Array]
"""The lists of one feature: integers [ids], and `starts` int64 [n + 1]."""

Examples = Mapping[str, Lists]
"""The lists of each feature, all with the same number of lists."""

MAX_RECORD_BYTES = 1 << 31
"""Protocol buffers read messages that are smaller than this."""

_BLOCK_BYTES = 1 << 22
_LOW_BYTE = np.uint32(0xFF)


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
    starts = np.cumsum([0, *map(len, fields)], dtype=np.int64)
    return np.frombuffer(bytearray(b"".join(fields) + bytes(TEXT_PADDING)), dtype=np.uint8), starts


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
    """Return the ids and the starts of a feature as arrays of integers, or raise CorpusError.

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


def ids_as_uint32(ids: Array) -> Array | None:
    """Return ids as uint32, or None if some are negative or need more bits."""
    if ids.dtype == np.uint32:
        return ids
    if ids.dtype.itemsize <= 2 and ids.dtype.kind == "u":
        return ids.astype(np.uint32)
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) > 0xFFFF_FFFF):
        return None
    return ids.view(np.uint32) if ids.dtype == np.int32 else ids.astype(np.uint32)


def write_examples(features: Examples) -> tuple[Array, Array]:
    """Return the framed records of examples, as `tfrecords.frame_record` and `serialize_example` write them.

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

    Notes
    -----
    Ids of uint32 are not copied if there is one feature. Negative ids, and ids from 2^32 on, are written by protocol buffers,
    thirty times slower.
    """
    names = _sorted_names(features)
    checked: list[Lists] = []
    n_lists = None
    for name in names:
        checked.append(checked_lists(name, features[name], n_lists))
        n_lists = checked[-1][1].size - 1
    assert n_lists is not None
    narrow = [ids_as_uint32(ids) for ids, _ in checked]
    if any(ids is None for ids in narrow):
        return _write_any(names, checked, n_lists)
    ids = as_array(np.concatenate(narrow) if len(names) > 1 else narrow[0], np.uint32, "ids")  # type: ignore[arg-type]
    offsets = np.cumsum([0, *(part.size for part, _ in checked[:-1])])
    starts = np.concatenate([own + offset for (_, own), offset in zip(checked, offsets, strict=True)])
    keys, key_starts = _key_fields(names)
    packed = np.zeros(len(names) * n_lists, dtype=np.int64)
    record_starts = np.zeros(n_lists + 1, dtype=np.int64)
    empty = measure_examples(ids, starts, key_starts, packed, record_starts)
    if empty >= 0:
        raise _empty_list(names[empty // n_lists], empty % n_lists)
    if n_lists and int(np.diff(record_starts).max()) - FRAME_BYTES >= MAX_RECORD_BYTES:
        longest = int(np.diff(record_starts).argmax())
        raise CorpusError(
            f"example {longest:,} has {record_starts[longest + 1] - record_starts[longest]:,} bytes; expected less than "
            f"{MAX_RECORD_BYTES:,}, the limit of protocol buffers: divide it"
        )
    data = np.empty(int(record_starts[-1]) + TEXT_PADDING, dtype=np.uint8)
    put_examples(ids, starts, keys, key_starts, packed, record_starts, crc_tables(), data)
    return data[: record_starts[-1]], record_starts


def _write_any(names: list[str], checked: list[Lists], n_lists: int) -> tuple[Array, Array]:
    """Write examples by protocol buffers."""
    records = []
    for index in range(n_lists):
        example = {}
        for name, (ids, starts) in zip(names, checked, strict=True):
            example[name] = ids[starts[index] : starts[index + 1]].tolist()
            if not example[name]:
                raise _empty_list(name, index)
        records.append(frame_record(serialize_example(example)))
    starts = np.cumsum([0, *map(len, records)], dtype=np.int64)
    data = np.frombuffer(bytearray(b"".join([*records, bytes(TEXT_PADDING)])), dtype=np.uint8)
    return data[: starts[-1]], starts


def _empty_list(name: str, index: int) -> CorpusError:
    return CorpusError(
        f"the feature {shorten(name)} of example {index:,} is empty; expected at least one element: leave out this example"
    )


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
    new = np.zeros(order.size + 1, dtype=np.int64)
    np.cumsum(np.diff(starts)[order], out=new[1:])
    out = np.empty(int(new[-1]) + TEXT_PADDING, dtype=np.uint8)
    record_reading.gather_records(data, starts, order, out)
    return out[: new[-1]], new


def find_records(data: Array, *, source: str = "the data", first_byte: int = 0, first_record: int = 0) -> Array:
    """Return where each record starts and the last one ends, after checking all checksums.

    Parameters
    ----------
    data : uint8 [bytes]
        Complete records.
    source : str
        Noun or path for messages.
    first_byte, first_record : int
        Position of the data in its source, and the number of its first record, for messages.

    Returns
    -------
    int64 [n + 1]

    Raises
    ------
    TokenFileError
        If a checksum is wrong, or the last record is incomplete.
    """
    data = as_array(data, np.uint8, "data")
    starts, status = _scan(data, data.size)
    if status != DONE:
        raise _damage(status, source, first_byte + int(starts[-1]), first_record + starts.size - 1)
    return starts


def _scan(data: Array, stop: int) -> tuple[Array, int]:
    """Return the starts of complete records and the end of the last one, and a status of `scan_records`."""
    starts = np.empty(stop // 64 + 2, dtype=np.int64)
    state = np.zeros(2, dtype=np.int64)
    while True:
        status = record_reading.scan_records(data, stop, crc_tables(), starts, state)
        if status != NEED_SPACE:
            return starts[: int(state[record_reading.N_RECORDS]) + 1].copy(), status
        starts = np.concatenate([starts, np.empty_like(starts)])


_FOUND = {
    record_reading.INCOMPLETE: "is truncated",
    record_reading.WRONG_LENGTH: "has a wrong checksum of its length",
    record_reading.WRONG_DATA: "has a wrong checksum of its data",
}


def _damage(status: int, source: str, position: int, number: int) -> TokenFileError:
    return TokenFileError(
        f"{source}: record {number:,} at byte {position:,} {_FOUND[status]}; expected complete TFRecord data without "
        "compression: write it again"
    )


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
            buffer = np.empty(max(block_bytes, FRAME_BYTES) + TEXT_PADDING, dtype=np.uint8)
            filled = first_byte = first_record = 0
            while True:
                n_read = file.readinto(buffer[filled : buffer.size - TEXT_PADDING].data)
                filled += n_read or 0
                starts, status = _scan(buffer, filled)
                end = int(starts[-1])
                if status not in (DONE, record_reading.INCOMPLETE) or (not n_read and filled > end):
                    raise _damage(status, f"`{path}`", first_byte + end, first_record + starts.size - 1)
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
    data = as_array(np.frombuffer(data, dtype=np.uint8), np.uint8, "data")
    starts = find_records(data) if starts is None else as_array(starts, np.int64, "starts")
    n = starts.size - 1
    if not n and names is None:
        return {}
    given = names
    # The names of the first record: if others have other names, they are found below.
    names = sorted(_parse(data, starts, 0) if names is None else names, key=str.encode)
    keys, key_starts = _key_fields(names)
    bounds = np.zeros(len(names) * n * 2, dtype=np.int64)
    counts = np.zeros(len(names) * n, dtype=np.int64)
    if record_reading.find_lists(data, starts, keys, key_starts, bounds, counts) >= 0:
        return _read_any(data, starts, given)
    features = {}
    for number, name in enumerate(names):
        own = slice(number * n, (number + 1) * n)
        list_starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(counts[own], out=list_starts[1:])
        ids = np.empty(int(list_starts[-1]), dtype=np.int64)
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
                    "with `bpejit.t2t.tfrecords`"
                )
        ids = np.array([value for values in lists for value in values], dtype=np.int64)
        features[name] = ids, np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return features


def warm_records() -> None:
    """Call the kernels of this module, without protocol buffers, so that `bpejit.warmup` compiles them."""
    data, starts = write_examples({"a": (np.ones(2, dtype=np.uint32), np.arange(3))})
    find_records(data)
    keys, key_starts = _key_fields(["a"])
    bounds, counts = np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64)
    record_reading.find_lists(data, starts, keys, key_starts, bounds, counts)
    record_reading.decode_varints(data, bounds, np.zeros(2, dtype=np.int64))
    record_reading.gather_records(data, starts, starts[:0], np.zeros(TEXT_PADDING, dtype=np.uint8))
