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
from pathlib import Path
from typing import BinaryIO

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
    shuffler.sort(_Sources(paths, seed, shard, shuffler.block_bytes), _KEY_BITS)
    return shuffler.n_written


class _Sources:
    """The records of files, with their keys."""

    def __init__(self, paths: list[Path], seed: int, shard: int, block_bytes: int) -> None:
        self._paths = paths
        self._seed, self._shard = seed, shard
        self._block_bytes = block_bytes
        self.n_bytes = 0
        self.n_records = 0  # not known
        path = paths[0]
        try:
            for path in paths:
                self.n_bytes += path.stat().st_size
        except OSError as cause:
            raise read_error(path, cause, error=TokenFileError, what="TFRecord file") from cause

    def blocks(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield data, which are valid until the next block, starts and keys."""
        first = 0
        for path in self._paths:
            for data, starts in read_record_blocks(path, block_bytes=self._block_bytes):
                n = starts.size - 1
                yield data, starts, random_numbers((self._seed, self._shard), n, first=first)
                first += n


class _Bucket:
    """Records in temporary files, with their keys. Blocks of records are adjacent, in the order of their arrival."""

    def __init__(self, records: BinaryIO, keys: BinaryIO) -> None:
        self._files = records, keys
        self._extents: list[tuple[int, int, int, int]] = []
        self.n_bytes = 0
        self.n_records = 0

    def add(self, at: int, n_bytes: int, first: int, n_records: int) -> None:
        """Add an extent of records, and of their keys."""
        self._extents.append((at, n_bytes, first, n_records))
        self.n_bytes += n_bytes
        self.n_records += n_records

    def blocks(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield data, starts and keys."""
        records, keys = self._files
        for at, n_bytes, first, n_records in self._extents:
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

    def sort(self, records: _Sources | _Bucket, bits: int) -> None:
        """Write records in the order of their keys, which differ in the lowest `bits` bits only."""
        if not self._sort_in_memory(records):
            with ExitStack() as opened:
                n_bits = min(self._bucket_bits(records), bits)
                for bucket in self._divide(records, bits - n_bits, n_bits, opened):
                    if bucket.n_records:
                        self.sort(bucket, bits - n_bits)

    def _sort_in_memory(self, records: _Sources | _Bucket) -> bool:
        """Sort records in memory, or return False if they need more than the budget."""
        # If the number of records is unknown: what fits the budget, and no more than the length and checksums of each allow.
        capacity = records.n_records or min((self._budget - records.n_bytes) // _RECORD_BYTES, records.n_bytes // 16)
        is_one = records.n_records == 1  # which cannot be divided
        if (capacity <= 0 and records.n_bytes) or (not is_one and records.n_bytes + capacity * _RECORD_BYTES > self._budget):
            return False
        # Memory that is not written to is not taken from the system, so the number of records need not be known.
        data = np.empty(records.n_bytes + TEXT_PADDING, np.uint8)
        starts = np.empty(max(capacity, 0) + 1, np.int64)
        keys = np.empty(max(capacity, 0), np.uint64)
        n = at = 0
        starts[0] = 0
        for block, block_starts, block_keys in records.blocks():
            if n + block_keys.size > keys.size:
                return False
            size = int(block_starts[-1])
            data[at : at + size] = block[:size]
            starts[n + 1 : n + block_keys.size + 1] = block_starts[1:] + at
            keys[n : n + block_keys.size] = block_keys
            n += block_keys.size
            at += size
        self._write_in_order(data, starts[: n + 1], np.argsort(keys[:n]))
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

    def _bucket_bits(self, records: _Sources | _Bucket) -> int:
        """Return the number of bits by which records are divided, so that half of the budget suffices for a bucket."""
        needed = 2 * (records.n_bytes + records.n_records * _RECORD_BYTES) // self._budget
        return min(max(needed.bit_length(), 1), _MOST_BUCKET_BITS)

    def _temporary_file(self) -> BinaryIO:
        """Return a file without a buffer, which would be flushed again after an error."""
        return tempfile.TemporaryFile(dir=self._folder, buffering=0)  # type: ignore[return-value]

    def _divide(self, records: _Sources | _Bucket, shift: int, n_bits: int, opened: ExitStack) -> list[_Bucket]:
        """Divide records by `n_bits` bits of their keys."""
        try:
            files = [opened.enter_context(self._temporary_file()) for _ in range(2)]
            buckets = [_Bucket(files[0], files[1]) for _ in range(1 << n_bits)]
            at = first = 0
            for data, starts, keys in records.blocks():
                numbers = (keys >> np.uint64(shift) & np.uint64(len(buckets) - 1)).astype(np.uint16)
                order = np.argsort(numbers, kind="stable")
                ordered, sizes = order_records(data, starts, order)
                _write_fully(files[0], ordered.data)
                _write_fully(files[1], keys[order].data)
                borders = np.searchsorted(numbers[order], np.arange(len(buckets) + 1))
                places = sizes[borders]
                for number in np.flatnonzero(np.diff(borders)).tolist():
                    begin, end = int(borders[number]), int(borders[number + 1])
                    place = int(places[number])
                    buckets[number].add(at + place, int(places[number + 1]) - place, first + begin, end - begin)
                at += int(sizes[-1])
                first += keys.size
        except OSError as cause:
            raise write_error(str(self._folder / "temporary file"), cause) from cause
        return buckets
