"""Count pre-tokens in bounded memory: full tables are written to disk as sorted runs, which are merged at the end."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bpejit.arrays import PretokenTable
from bpejit.counting.pretoken_counter import INITIAL_ARENA_BYTES, INITIAL_SLOTS, PretokenCounter
from bpejit.counting.table_streams import BLOCK_WORDS, BlockError, merge_streams, read_block, write_stream
from bpejit.errors import OptionError, OutputError
from bpejit.kernels.common import keys
from bpejit.kernels.counting import interning
from bpejit.storage.files import write_error
from bpejit.storage.remote import RemoteFile, is_remote, remote_file_system

MOST_RUNS = 64
"""Runs that are merged in one pass. Each takes about a megabyte of memory; more are first merged to fewer."""

RANGE_BYTES = 2 << 20
"""Bytes of each request for a run at a URL: with 30 ms for a request, some 60 MB/s."""

PROCESS_BYTES = 128 << 20
"""Memory of a process with everything imported, and of merging."""

WORKER_BYTES = 24 << 20
"""Memory of a worker besides its table: text, the buffers of the splitter, and what forking copies."""

LEAST_TABLE_BYTES = 8 << 20


@dataclass(frozen=True)
class SpillSettings:
    """How a worker bounds its memory.

    Parameters
    ----------
    folder : str
        Where runs are written.
    table_bytes : int
        Maximum memory of the table of one worker, sorting included.
    """

    folder: str
    table_bytes: int


@dataclass(frozen=True)
class Run:
    """A sorted run on disk.

    Parameters
    ----------
    path : str
        On a cluster, it may be a URL.
    n, n_bytes, n_pretokens : int
        Number of distinct pre-tokens, of their bytes, and the sum of their counts.
    """

    path: str
    n: int
    n_bytes: int
    n_pretokens: int


def least_memory(workers: int) -> int:
    """Return the smallest `max_memory` for a number of workers."""
    return PROCESS_BYTES + workers * (WORKER_BYTES + LEAST_TABLE_BYTES)


def spill_settings(folder: Path, max_memory: int, workers: int) -> SpillSettings:
    """Return the settings that divide `max_memory` bytes among workers.

    Raises
    ------
    OptionError
        If that is too little.
    """
    least = least_memory(workers)
    if max_memory < least:
        raise OptionError(
            f"max_memory is {max_memory}; expected at least {least} for {workers} worker{'s' if workers > 1 else ''}: give "
            "more, or use fewer workers (`workers=`)"
        )
    return SpillSettings(str(folder), (max_memory - PROCESS_BYTES) // workers - WORKER_BYTES)


class SpillingCounter(PretokenCounter):
    """Hash table of pre-tokens that is written to disk and emptied instead of growing beyond a limit.

    Parameters
    ----------
    settings : SpillSettings
    slots, arena_bytes : int
        Initial sizes (see `PretokenCounter`).

    Attributes
    ----------
    runs : list of Run
        The runs written so far.
    """

    def __init__(self, settings: SpillSettings, *, slots: int = INITIAL_SLOTS, arena_bytes: int = INITIAL_ARENA_BYTES) -> None:
        super().__init__(slots=slots, arena_bytes=arena_bytes)
        self._settings = settings
        self.runs: list[Run] = []

    def _grow(self, longest: int) -> None:
        if self._state[interning.USED] and self._bytes_after_growth(longest) > self._settings.table_bytes:
            self.spill()
        else:
            super()._grow(longest)

    def _bytes_after_growth(self, longest: int) -> int:
        """Return an upper bound of the memory for the table, and for sorting it, after `PretokenCounter._grow`.

        At most three quarters of the slots of 32 bytes are in use. Unpacking a table needs 16 bytes and the bytes of the
        pre-token for each, on average about 10 for those that are not in the arena; sorting needs 16 bytes more, but the table
        has been freed then.
        """
        slots, arena = self._table.size // 4, self._arena.size
        if (self._state[interning.USED] + keys.BATCH) * 4 > slots * 3:
            slots *= 2
        else:
            arena = max(2 * arena, int(self._state[interning.ARENA_USED]) + longest)
        return 52 * slots + 2 * arena

    def spill(self) -> None:
        """Write the table to a run, and empty it."""
        if not self._state[interning.USED]:
            return
        self.runs.append(write_run(self._settings.folder, self.take_sorted(BLOCK_WORDS)))


def write_run(folder: str, stream: Iterator[PretokenTable]) -> Run:
    """Write a stream to a new file of a folder.

    Raises
    ------
    OutputError
        If it cannot be written, for example because the disk is full.
    """
    path = Path(folder) / f"{os.urandom(8).hex()}.run"
    n_pretokens = 0

    def counted() -> Iterator[PretokenTable]:
        nonlocal n_pretokens
        for table in stream:
            n_pretokens += int(table.counts.sum())
            yield table

    try:
        with path.open("xb") as file:
            n, n_bytes = write_stream(file.write, counted())
    except OSError as cause:
        if isinstance(cause, OutputError):
            raise
        error = write_error(str(path), cause)
        raise OutputError(f"{error}, for example with `temporary_folder=`") from cause
    return Run(str(path), n, n_bytes, n_pretokens)


def read_run(path: str) -> Iterator[PretokenTable]:
    """Yield the blocks of a run.

    Raises
    ------
    OutputError
        If it cannot be read.
    """
    try:
        with _open_run(path) as file:
            while (table := read_block(file.read)) is not None:
                yield table
    except (OSError, BlockError) as cause:
        raise OutputError(
            f"cannot read the temporary file `{path}` again: {getattr(cause, 'strerror', None) or cause}; expected the content "
            "that was written: check the disk, or choose another one with `temporary_folder=`"
        ) from cause


def _open_run(path: str) -> BinaryIO:
    if not is_remote(path):
        return Path(path).open("rb")
    file_system, name = remote_file_system(path, error=OutputError, what="the temporary file")
    return io.BufferedReader(RemoteFile(file_system, name, path, error=OutputError), RANGE_BYTES)


class SpilledRuns:
    """The runs of all workers: a table of counts on disk.

    Parameters
    ----------
    folder : str
        Where further runs may be written.
    runs : sequence of Run
    """

    def __init__(self, folder: str, runs: Sequence[Run]) -> None:
        self._folder = folder
        self._runs = list(runs)
        self.n_pretokens = sum(run.n_pretokens for run in runs)

    def blocks(self) -> Iterator[PretokenTable]:
        """Yield the merged table, sorted by bytes."""
        while len(self._runs) > MOST_RUNS:
            self._runs.sort(key=lambda run: run.n_bytes)
            some, self._runs = self._runs[:MOST_RUNS], self._runs[MOST_RUNS:]
            self._runs.append(write_run(self._folder, merge_streams([read_run(run.path) for run in some])))
            for run in some:
                with suppress(OSError):
                    Path(run.path).unlink()
        return merge_streams([read_run(run.path) for run in self._runs])

    def read_table(self) -> PretokenTable:
        """Return the merged table, in memory."""
        # Upper bounds. Memory that is never written costs nothing, and the arrays shrink without a copy.
        pool = np.empty(sum(run.n_bytes for run in self._runs), dtype=np.uint8)
        starts = np.empty(1 + sum(run.n for run in self._runs), dtype=np.int64)
        counts = np.empty(starts.size - 1, dtype=np.int64)
        n = n_bytes = 0
        starts[0] = 0
        for table in self.blocks():
            end, end_byte = n + len(table), n_bytes + table.pool.size
            pool[n_bytes:end_byte], counts[n:end] = table.pool, table.counts
            starts[n + 1 : end + 1] = table.starts[1:] + n_bytes
            n, n_bytes = end, end_byte
        pool.resize(n_bytes, refcheck=False)
        starts.resize(n + 1, refcheck=False)
        counts.resize(n, refcheck=False)
        return PretokenTable(pool, starts, counts)
