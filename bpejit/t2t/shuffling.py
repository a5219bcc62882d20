"""Shuffle the records of a shard within a memory bound.

Record i of shard s has a key, a hash of the seed, of s and of i, and the records are written in the order of their keys. If
they do not fit into memory, those whose keys are in the lower half of all keys are written first, and then the others; each
half is divided in the same way, and all records are read for each range of keys. So the order depends neither on the bound nor
on the files that the records come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, random_numbers
from bpejit.errors import TokenFileError
from bpejit.kernels.constants import TEXT_PADDING
from bpejit.storage.files import StrPath, read_error
from bpejit.t2t.tfrecords import order_records, read_record_blocks

WriteRecords = Callable[[Array, Array], object]
"""Receives framed records, uint8 [bytes], and where each starts and the last one ends. Both are valid until the next call."""

DEFAULT_MEMORY = 1 << 28

_RECORD_BYTES = 48
"""Memory for each record in memory besides its data: its start, its key, and its place in the order."""

_LARGEST_BLOCK = 1 << 22
_SMALLEST_BLOCK = 1 << 12
_LAST_KEY = (1 << 64) - 1
_GATHERED = 1 << 12

_Keyed = tuple[Array, Array, Array]
"""Records, where each starts and the last one ends, and their keys. Those of a block are valid until the next one."""


def shuffle_records(
    sources: Sequence[StrPath], write: WriteRecords, *, seed: int, shard: int, max_memory: int = DEFAULT_MEMORY
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
        Bytes of memory, apart from what `write` takes. A single record may take more. If the records take n times as much, they
        are read some 3 n times.

    Returns
    -------
    int
        The number of records.

    Raises
    ------
    TokenFileError
        If a source cannot be read, or is damaged.
    """
    seed = arguments.whole_number("seed", seed)
    shard = arguments.whole_number("shard", shard, least=0)
    max_memory = arguments.whole_number("max_memory", max_memory, least=1)
    paths = [Path(arguments.path("sources", path)) for path in sources]
    try:
        n_bytes = sum(path.stat().st_size for path in paths)
    except OSError as cause:
        raise read_error(cause.filename, cause, error=TokenFileError, what="TFRecord file") from cause
    block_bytes = min(max(max_memory // 16, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    # Blocks that are read, scanned and gathered are in memory besides the records that are sorted.
    budget = max(max_memory - 4 * block_bytes, _SMALLEST_BLOCK)
    n_written = 0
    waiting = [(0, _LAST_KEY)]  # ranges of keys, the lowest one last
    while waiting:
        low, high = waiting.pop()
        found = _records_between(low, high, _blocks_of(paths, seed, shard, block_bytes), n_bytes, budget)
        if found is None:
            middle = (low + high) // 2
            waiting += [(middle + 1, high), (low, middle)]
            continue
        data, starts, keys = found
        _write_in_order(write, data, starts, np.argsort(keys), block_bytes)
        n_written += keys.size
    return n_written


def _blocks_of(paths: list[Path], seed: int, shard: int, block_bytes: int) -> Iterator[_Keyed]:
    """Yield the records of files in blocks, with the keys of those of a shard."""
    first = 0
    for path in paths:
        for data, starts in read_record_blocks(path, block_bytes=block_bytes):
            n = starts.size - 1
            yield data, starts, random_numbers((seed, shard), n, first=first)
            first += n


def _records_between(low: int, high: int, blocks: Iterator[_Keyed], n_bytes: int, budget: int) -> _Keyed | None:
    """Return the records of blocks, `n_bytes` in all, whose keys are in a range; None if they need more than the budget."""
    # Memory that is not written to is not taken from the system, so it may be more than what the budget leaves.
    data = np.empty(min(n_bytes, budget) + TEXT_PADDING, np.uint8)
    starts = [np.zeros(1, np.int64)]
    keys = [np.zeros(0, np.uint64)]
    n = at = 0
    for block, block_starts, block_keys in blocks:
        some, some_starts, some_keys = block, block_starts, block_keys
        chosen = np.flatnonzero((block_keys >= np.uint64(low)) & (block_keys <= np.uint64(high)))
        if chosen.size < block_keys.size:
            some, some_starts = order_records(block, block_starts, chosen)
            some_keys = block_keys[chosen]
        n += chosen.size
        size = int(some_starts[-1])
        stop = at + size
        if n > 1 and low < high and stop + n * _RECORD_BYTES > budget:
            return None
        if stop + TEXT_PADDING > data.size:  # a record that is larger than the budget
            data = np.concatenate([data[:at], np.empty(size + TEXT_PADDING, np.uint8)])
        data[at:stop] = some[:size]
        starts.append(some_starts[1:] + at)
        keys.append(some_keys)
        at = stop
    return data, np.concatenate(starts), np.concatenate(keys)


def _write_in_order(write: WriteRecords, data: Array, starts: Array, order: Array, block_bytes: int) -> None:
    """Write records in some order, in blocks."""
    for first in range(0, order.size, _GATHERED):
        chosen = order[first : first + _GATHERED]
        ends = np.cumsum(starts[chosen + 1] - starts[chosen])
        begin = 0
        while begin < chosen.size:
            done = int(ends[begin - 1]) if begin else 0
            fitting = np.searchsorted(ends, done + block_bytes, side="right")
            stop = max(int(fitting), begin + 1)
            write(*order_records(data, starts, chosen[begin:stop]))
            begin = stop
