"""Check and read framed records of tf.train.Example with lists of integers, laid out as in `record_writing`."""

from __future__ import annotations

import numpy as np

from bpejit.jit.dispatch import inline, kernel
from bpejit.jit.memory import load_u64
from bpejit.kernels.constants import DONE, EIGHT, FOUR, LOW_HALF, ONE, SEVEN, SIXTEEN, TWELVE, TWO, ZERO
from bpejit.kernels.t2t.record_writing import TAG_1, TAG_INT64_LIST, TAG_VALUE, copy_words, masked_crc

INCOMPLETE, WRONG_LENGTH, WRONG_DATA = 4, 5, 6
"""Statuses of `scan_records`: the data end within a record; the checksum of its length, or of its data, is wrong."""

_LOW_BITS, _HIGH_BIT = np.uint64(0x7F), np.uint64(0x80)
_LAST_SHIFT = np.uint64(63)
_NO_SIZE = np.uint64(1 << 62)
"""Larger than any size, and smaller than half of the range, so that adding an index does not wrap around."""


@inline
def _is_masked_crc(data, at, expected):
    """Return True if a checksum is stored at an index."""
    found = ZERO
    for offset in range(FOUR):
        offset = np.uint64(offset)
        found |= np.uint64(data[at + offset]) << EIGHT * offset
    return found == expected & LOW_HALF


@kernel
def scan_records(data, stop, tables, starts, status):
    """Find framed records, and check their checksums.

    Parameters
    ----------
    data : uint8[:], in
    stop : int
        End of the data.
    tables : uint32[8 * 256], in
        As in `masked_crc`.
    starts : int64[:], out
        Where each record starts, and after the last one where it ends. At least one element, and one for each 16 bytes.
    status : int64[1], out
        DONE; INCOMPLETE, WRONG_LENGTH or WRONG_DATA, for the record after the last complete one.

    Returns
    -------
    int
        The number of complete records.

    Notes
    -----
    0.5 ns per byte. Nothing past `stop` is read.
    """
    at, end = ZERO, np.uint64(stop)
    n = ZERO
    starts[0] = 0
    status[0] = DONE
    while at < end:
        if at + TWELVE > end:
            status[0] = INCOMPLETE
            break
        if not _is_masked_crc(data, at + EIGHT, masked_crc(data, at, at + EIGHT, tables)):
            status[0] = WRONG_LENGTH
            break
        length = load_u64(data, at)
        if at + SIXTEEN > end or length > end - at - SIXTEEN:
            status[0] = INCOMPLETE
            break
        if not _is_masked_crc(data, at + TWELVE + length, masked_crc(data, at + TWELVE, at + TWELVE + length, tables)):
            status[0] = WRONG_DATA
            break
        at += length + SIXTEEN
        n += ONE
        starts[n] = np.int64(at)
    return np.int64(n)


@inline
def _open_message(data, at, stop, tag, to_stop):
    """Read a tag and a size. Return the index after them and the end of the message, or twice `_NO_SIZE`.

    The message must end at `stop` if `to_stop` is true, and otherwise at most there.
    """
    if at >= stop or np.uint64(data[at]) != tag:
        return _NO_SIZE, _NO_SIZE
    at += ONE
    size, shift = ZERO, ZERO
    while at < stop and shift < _LAST_SHIFT:
        byte = np.uint64(data[at])
        at += ONE
        size |= (byte & _LOW_BITS) << shift
        shift += SEVEN
        if byte < _HIGH_BIT:
            if size < _NO_SIZE and (at + size == stop or (not to_stop and at + size < stop)):
                return at, at + size
            return _NO_SIZE, _NO_SIZE
    return _NO_SIZE, _NO_SIZE


@inline
def _same_bytes(data, at, stop, keys, start, end):
    """Return True if `data[at:stop]` begins with `keys[start:end]`."""
    if end - start > stop - at:
        return False
    for offset in range(end - start):
        offset = np.uint64(offset)
        if data[at + offset] != keys[start + offset]:
            return False
    return True


@kernel
def find_lists(data, starts, keys, key_starts, bounds, counts):
    """Find the lists of the features of records, laid out as `put_examples` writes them.

    Parameters
    ----------
    data : uint8[:], in
    starts : int64[n + 1], in
        From `scan_records`.
    keys, key_starts
        As in `put_examples`.
    bounds : int64[features * n * 2], out
        The start and the end of the varints of each list, feature by feature.
    counts : int64[features * n], out
        The number of varints in each list.

    Returns
    -------
    int
        -1; or the number of the first record with another layout: other features or another order, several fields for one list,
        an empty list, or no Example. Other arrays are then incomplete.

    Notes
    -----
    Some 20 ns per list and 0.1 ns per byte.
    """
    n = np.uint64(starts.size - 1)
    n_features = np.uint64(key_starts.size - 1)
    for i in range(n):
        i = np.uint64(i)
        stop = np.uint64(starts[i + ONE]) - FOUR
        at, _ = _open_message(data, np.uint64(starts[i]) + TWELVE, stop, TAG_1, True)
        if at == _NO_SIZE:
            return np.int64(i)
        for feature in range(n_features):
            feature = np.uint64(feature)
            key, key_end = np.uint64(key_starts[feature]), np.uint64(key_starts[feature + ONE])
            at, entry_end = _open_message(data, at, stop, TAG_1, False)
            if at == _NO_SIZE or not _same_bytes(data, at, entry_end, keys, key, key_end):
                return np.int64(i)
            at, _ = _open_message(data, at + (key_end - key), entry_end, TAG_VALUE, True)
            at, _ = _open_message(data, at, entry_end, TAG_INT64_LIST, True)
            at, _ = _open_message(data, at, entry_end, TAG_1, True)
            if at >= entry_end or np.uint64(data[entry_end - ONE]) >= _HIGH_BIT:  # also after _NO_SIZE
                return np.int64(i)
            count = ZERO
            for index in range(at, entry_end):
                count += ONE if data[index] < 0x80 else ZERO
            number = feature * n + i
            bounds[number * TWO] = np.int64(at)
            bounds[number * TWO + ONE] = np.int64(entry_end)
            counts[number] = np.int64(count)
            at = entry_end
        if at != stop:
            return np.int64(i)
    return -1


@kernel
def decode_varints(data, bounds, out):
    """Decode the lists of one feature.

    Parameters
    ----------
    data : uint8[:], in
    bounds : int64[n * 2], in
        The rows of `find_lists` for this feature.
    out : int64[:], out
        As many elements as the lists have in all.

    Returns
    -------
    int
        -1; or the number of the first list with a varint of more than ten bytes.

    Notes
    -----
    Some 1 ns per byte. The bits of a varint beyond 64 are ignored, as by protocol buffers.
    """
    written = ZERO
    for i in range(np.uint64(bounds.size) // TWO):
        i = np.uint64(i)
        at, stop = np.uint64(bounds[i * TWO]), np.uint64(bounds[i * TWO + ONE])
        while at < stop:
            value, shift = ZERO, ZERO
            while True:
                byte = np.uint64(data[at])
                at += ONE
                if shift > _LAST_SHIFT:
                    return np.int64(i)
                value |= (byte & _LOW_BITS) << shift
                shift += SEVEN
                if byte < _HIGH_BIT:
                    break
            out[written] = np.int64(value)
            written += ONE
    return -1


@kernel
def gather_records(data, starts, order, out):
    """Copy records in another order.

    Parameters
    ----------
    data : uint8[:], in
        Readable 8 bytes past the last record.
    starts : int64[records + 1], in
    order : int64[n], in
        The numbers of the records to copy.
    out : uint8[:], out
        At least the size of these records plus 8; the bytes after them are overwritten.

    Notes
    -----
    As fast as memory, and 10 ns per record. NumPy can copy them only through an index for each byte.
    """
    at = ZERO
    for index in order:
        start, end = np.uint64(starts[np.uint64(index)]), np.uint64(starts[np.uint64(index) + ONE])
        copy_words(data, start, end, out, at)
        at += end - start
