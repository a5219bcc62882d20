"""Blocks of sorted pre-tokens as bytes: the content of counts files, and of the runs that counting spills to disk.

A block is a head of four little-endian int64 (number of pre-tokens, their bytes, and the width of a length and of a count in
bytes), followed by the lengths, the counts and the bytes of the pre-tokens. A length or count has the smallest width of 1, 2, 4
and 8 that is enough for all in the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from bpejit.arrays import Array, PretokenTable
from bpejit.counts.table_streams import BLOCK_BYTES, BLOCK_WORDS

HEAD_BYTES = 32

_HEAD = np.dtype("<i8")

_WIDTHS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}

LONGEST_WORD = 2**31
"""No pre-token is longer, since no text of one kernel call is."""


class BlockError(ValueError):
    """Bytes that are not a block; the message is what was found."""


def pack_block(table: PretokenTable) -> bytes:
    """Return a table as a block."""
    lengths, counts = _narrow(np.diff(table.starts)), _narrow(table.counts)
    head = np.array([len(table), table.pool.size, lengths.itemsize, counts.itemsize], dtype=_HEAD)
    return b"".join((head.tobytes(), lengths.tobytes(), counts.tobytes(), table.pool.tobytes()))


def _narrow(values: Array) -> Array:
    most = int(values.max()) if values.size else 0
    width = next(width for width in _WIDTHS if most < 1 << (8 * width))
    return values.astype(_WIDTHS[width])


class BlockReading(Protocol):
    """A function that returns the next `size` bytes of a file, or fewer at its end."""

    def __call__(self, size: int, /) -> bytes:
        """Read."""


def read_block(read: BlockReading) -> PretokenTable | None:
    """Read a block; return None for a block without pre-tokens, which marks the end.

    Raises
    ------
    BlockError
        If the file ends within the block, or its sizes or counts are impossible.
    """
    n, n_bytes, length_width, count_width = np.frombuffer(read_exactly(read, HEAD_BYTES), dtype=_HEAD).tolist()
    if n == 0:
        return None
    if (
        not 0 < n <= BLOCK_WORDS
        or not 0 < n_bytes <= BLOCK_BYTES + LONGEST_WORD
        or not {length_width, count_width} <= {*_WIDTHS}
    ):
        raise BlockError(f"a block of {n} pre-tokens and {n_bytes} bytes")
    body = read_exactly(read, n * (length_width + count_width) + n_bytes)
    lengths = np.frombuffer(body, _WIDTHS[length_width], n)
    counts = np.frombuffer(body, _WIDTHS[count_width], n, n * length_width)
    starts = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    if not lengths.all() or not counts.all() or starts[-1] != n_bytes or int(counts.max()) >= 2**63:
        raise BlockError("a block whose lengths or counts are impossible")
    pool = np.frombuffer(body, np.uint8, n_bytes, n * (length_width + count_width))
    return PretokenTable(pool, starts, counts.astype(np.int64))


def read_exactly(read: BlockReading, size: int) -> bytes:
    """Return `size` bytes.

    Raises
    ------
    BlockError
        If the file ends before.
    """
    data = read(size)
    if len(data) < size:
        raise BlockError(f"the end of the file {size - len(data)} bytes too early")
    return data


def write_stream(write: Callable[[bytes], object], stream: Iterator[PretokenTable]) -> tuple[int, int]:
    """Write a stream, whose blocks are of any size, and the block that marks its end.

    Returns
    -------
    n : int
        Number of pre-tokens.
    n_bytes : int
        Number of their bytes.
    """
    n = n_bytes = 0
    for table in stream:
        write(pack_block(table))
        n += len(table)
        n_bytes += table.pool.size
    write(bytes(HEAD_BYTES))
    return n, n_bytes
