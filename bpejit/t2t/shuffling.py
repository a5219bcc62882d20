"""Shuffle the records of a shard within a memory bound.

Record i of shard s has a key, a hash of the seed, of s and of i, and the records are written in the order of their keys. If
they do not fit into memory, they are first divided by the highest bits of their keys into buckets, in temporary files, and each
bucket is sorted by itself. So the order depends neither on the bound nor on the files that the records come from.

    records ──► key ──► in memory ──────────────► sorted ──► written
                   └──► buckets by high bits ──► in memory or divided again ...
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, random_numbers
from bpejit.errors import TokenFileError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.storage.files import StrPath, read_error, write_error
from bpejit.t2t.tfrecords import find_records, order_records, read_record_blocks

WriteRecords = Callable[[Array, Array], object]
"""Receives framed records, uint8 [bytes], and where each starts and the last one ends. Both are valid until the next call."""

DEFAULT_MEMORY = 1 << 28

_RECORD_BYTES = 48
"""Memory for each record in memory besides its data: its start, its key, its place in the order, and those of a bucket."""

_LARGEST_BLOCK = 1 << 22
_SMALLEST_BLOCK = 1 << 12
_MOST_BUCKET_BITS = 8
_KEY_BITS = 64
_GATHERED = 1 << 12


def shuffle_records(
    sources: Sequence[StrPath],
    write: WriteRecords,
    *,
    seed: int,
    shard: int,
    max_memory: int = DEFAULT_MEMORY,
    scratch: StrPath | None = None,
) -> int:
    """Write the records of a shard in a random order.

    Parameters
    ----------
    sources : sequence of paths
        TFRecord files, which together contain the unshuffled shard.
    write : callable
        Called with blocks of framed records.
    seed, shard : int
        They determine the order, together with the number of records.
    max_memory : int
        Bytes of memory, apart from what `write` takes. A single record may take more.
    scratch : path, optional
        The folder of temporary files, whose size is that of the shard; by default that of the first source. The files have no
        names, so nothing remains of them after any error.

    Returns
    -------
    int
        The number of records.

    Raises
    ------
    OutputError
        If a temporary file cannot be written.
    TokenFileError
        If a source cannot be read, or is damaged.
    """
    seed = arguments.whole_number("seed", seed)
    shard = arguments.whole_number("shard", shard, least=0)
    max_memory = arguments.whole_number("max_memory", max_memory, least=1)
    paths = [Path(arguments.path("sources", path)) for path in sources]
    if not paths:
        return 0
    folder = Path(scratch) if scratch is not None else paths[0].resolve().parent
    shuffler = _Shuffler(write, max_memory, folder)
    shuffler.sort(_records_of(paths, seed, shard, shuffler.block_bytes), _KEY_BITS)
    return shuffler.n_written


_Extent = tuple[int, int, int, int]
"""The position of some records in a file, their size, the index of the first one, and their number."""


class _Records(NamedTuple):
    """Records: their size, their number (0 if it is not known), and what yields them in blocks with their keys.

    A block is data, which are valid until the next one, starts and keys.
    """

    n_bytes: int
    n_records: int
    blocks: Callable[[], Iterator[tuple[Array, Array, Array]]]


def _records_of(paths: list[Path], seed: int, shard: int, block_bytes: int) -> _Records:
    """Return the records of files, with the keys of those of a shard."""

    def blocks() -> Iterator[tuple[Array, Array, Array]]:
        first = 0
        for path in paths:
            for data, starts in read_record_blocks(path, block_bytes=block_bytes):
                n = starts.size - 1
                yield data, starts, random_numbers((seed, shard), n, first=first)
                first += n

    try:
        n_bytes = sum(path.stat().st_size for path in paths)
    except OSError as cause:
        raise read_error(cause.filename, cause, error=TokenFileError, what="TFRecord file") from cause
    return _Records(n_bytes, 0, blocks)


def _read_extents(files: Sequence[BinaryIO], extents: list[_Extent]) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the records in a temporary file, and their keys in another one, in the blocks that were written there."""
    records, keys = files
    for at, n_bytes, first, n_records in extents:
        data = np.empty(n_bytes + TEXT_PADDING, np.uint8)
        found = np.empty(n_records, np.uint64)
        for file, position, out in ((records, at, data[:n_bytes]), (keys, 8 * first, found.view(np.uint8))):
            file.seek(position)
            _read_exactly(file, out.data)
        yield data, find_records(data[:n_bytes], source="a temporary file", first_byte=at), found


def _read_exactly(file: BinaryIO, out: memoryview) -> None:
    while out.nbytes:
        n_read = file.readinto(out)  # type: ignore[attr-defined]
        if not n_read:
            raise TokenFileError(f"a temporary file lacks {out.nbytes:,} bytes; expected those written: check the disk")
        out = out[n_read:]


def _write_fully(file: BinaryIO, data: memoryview) -> None:
    data = data.cast("B")
    while data.nbytes:
        data = data[file.write(data) :]


class _Shuffler:
    """Sorts records by their keys."""

    def __init__(self, write: WriteRecords, max_memory: int, folder: Path) -> None:
        self._write = write
        self._folder = folder
        self.block_bytes = min(max(max_memory // 16, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        # Blocks that are read, scanned and gathered are in memory besides the records that are sorted.
        self._budget = max(max_memory - 4 * self.block_bytes, 1)
        self.n_written = 0

    def sort(self, records: _Records, bits: int) -> None:
        """Write records in the order of their keys, which differ in the lowest `bits` bits only."""
        if not self._sort_in_memory(records):
            with ExitStack() as opened:
                n_bits = min(self._bucket_bits(records), bits)
                for bucket in self._divide(records, bits - n_bits, n_bits, opened):
                    if bucket.n_records:
                        self.sort(bucket, bits - n_bits)

    def _sort_in_memory(self, records: _Records) -> bool:
        """Sort records in memory, or return False if they need more than the budget."""
        if records.n_bytes > self._budget and records.n_records != 1:  # one cannot be divided
            return False
        # Memory that is not written to is not taken from the system, so it may be more than what the budget leaves.
        data = np.empty(records.n_bytes + TEXT_PADDING, np.uint8)
        starts = [np.zeros(1, np.int64)]
        keys = [np.zeros(0, np.uint64)]
        n = at = 0
        for block, block_starts, block_keys in records.blocks():
            n += block_keys.size
            if n > 1 and records.n_bytes + n * _RECORD_BYTES > self._budget:
                return False
            size = int(block_starts[-1])
            data[at : at + size] = block[:size]
            starts.append(block_starts[1:] + at)
            keys.append(block_keys)
            at += size
        self._write_in_order(data, np.concatenate(starts), np.argsort(np.concatenate(keys)))
        return True

    def _write_in_order(self, data: Array, starts: Array, order: Array) -> None:
        """Write records in some order, in blocks."""
        for first in range(0, order.size, _GATHERED):
            chosen = order[first : first + _GATHERED]
            ends = np.cumsum(starts[chosen + 1] - starts[chosen])
            begin = 0
            while begin < chosen.size:
                done = int(ends[begin - 1]) if begin else 0
                stop = max(int(np.searchsorted(ends, done + self.block_bytes, side="right")), begin + 1)
                self._write(*order_records(data, starts, chosen[begin:stop]))
                begin = stop
        self.n_written += int(order.size)

    def _bucket_bits(self, records: _Records) -> int:
        """Return the number of bits by which records are divided, so that half of the budget suffices for a bucket."""
        needed = 2 * (records.n_bytes + records.n_records * _RECORD_BYTES) // self._budget
        return min(max(needed.bit_length(), 1), _MOST_BUCKET_BITS)

    def _divide(self, records: _Records, shift: int, n_bits: int, opened: ExitStack) -> list[_Records]:
        """Divide records by `n_bits` bits of their keys."""
        extents: list[list[_Extent]] = [[] for _ in range(1 << n_bits)]
        try:
            # Without buffers, which would be flushed again after an error.
            temporary = [tempfile.TemporaryFile(dir=self._folder, buffering=0) for _ in range(2)]  # noqa: SIM115
            files: Any = [opened.enter_context(file) for file in temporary]
            at = first = 0
            for data, starts, keys in records.blocks():
                numbers = (keys >> np.uint64(shift) & np.uint64(len(extents) - 1)).astype(np.uint16)
                order = np.argsort(numbers, kind="stable")
                ordered, places = order_records(data, starts, order)
                _write_fully(files[0], ordered.data)
                _write_fully(files[1], keys[order].data)
                borders = np.searchsorted(numbers[order], np.arange(len(extents) + 1))
                for some, (begin, end) in zip(extents, pairwise(borders.tolist()), strict=True):
                    if begin < end:
                        place = int(places[begin])
                        some.append((at + place, int(places[end]) - place, first + begin, end - begin))
                at += int(places[-1])
                first += keys.size
        except OSError as cause:
            raise write_error(str(self._folder / "temporary file"), cause) from cause
        return [
            _Records(sum(one[1] for one in some), sum(one[3] for one in some), partial(_read_extents, files, some))
            for some in extents
        ]
