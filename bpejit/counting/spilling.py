"""Count pre-tokens in bounded memory: full tables are written to disk as sorted runs, which are merged at the end."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bpejit.arrays import PretokenTable
from bpejit.counting.pretoken_counter import PretokenCounter
from bpejit.counting.table_streams import BlockError, merge_streams, read_blocks, read_table, write_stream
from bpejit.errors import OptionError, OutputError
from bpejit.kernels.common import keys
from bpejit.kernels.counting import interning
from bpejit.storage.files import is_remote, scratch_folder, write_error
from bpejit.storage.remote import check_container, remote_access

MOST_RUNS = 64
"""Runs that are merged in one pass. Each takes about a megabyte of memory; more are first merged to fewer."""

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
    n, n_bytes, n_pretokens : int
        Number of distinct pre-tokens, of their bytes, and the sum of their counts.
    """

    path: str
    n: int
    n_bytes: int
    n_pretokens: int


def spill_settings(folder: str, max_memory: int, workers: int) -> SpillSettings:
    """Return the settings that divide `max_memory` bytes among workers.

    Raises
    ------
    OptionError
        If that is too little.
    """
    least = PROCESS_BYTES + workers * (WORKER_BYTES + LEAST_TABLE_BYTES)
    if max_memory < least:
        raise OptionError(
            f"max_memory is {max_memory}; expected at least {least} for {workers} worker{'s' if workers > 1 else ''}: give "
            "more, or use fewer workers (`workers=`)"
        )
    return SpillSettings(folder, (max_memory - PROCESS_BYTES) // workers - WORKER_BYTES)


class SpillingCounter(PretokenCounter):
    """Hash table of pre-tokens that is written to disk and emptied instead of growing beyond a limit.

    Parameters
    ----------
    settings : SpillSettings
    **sizes : int
        Initial sizes (see `PretokenCounter`).

    Attributes
    ----------
    runs : list of Run
        The runs written so far.
    """

    def __init__(self, settings: SpillSettings, **sizes: int) -> None:
        super().__init__(**sizes)
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
        slots = self._table.size // 4
        arena = self._arena.size
        if (self._state[interning.USED] + keys.BATCH) * 4 > slots * 3:
            slots *= 2
        else:
            arena = max(2 * arena, int(self._state[interning.ARENA_USED]) + longest)
        return 52 * slots + 2 * arena

    def spill(self) -> None:
        """Write the table to a run, and empty it."""
        if not self._state[interning.USED]:
            return
        self.runs.append(write_run(self._settings.folder, self.take_sorted()))


def write_run(folder: str, stream: Iterator[PretokenTable]) -> Run:
    """Write a stream to a new file of a folder.

    Raises
    ------
    OutputError
        If it cannot be written, for example because the disk is full.
    """
    path = f"{folder}/{os.urandom(8).hex()}.run"
    try:
        with Path(path).open("xb") as file:
            totals = write_stream(file.write, stream)
    except OSError as cause:
        raise OutputError(f"{write_error(path, cause)}, for example with `temporary_folder=`") from cause
    return Run(path, *totals)


def read_run(path: str) -> Iterator[PretokenTable]:
    """Yield the blocks of a run.

    Raises
    ------
    OutputError
        If it cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            yield from read_blocks(file.read)
    except (OSError, BlockError) as cause:
        raise OutputError(
            f"cannot read the temporary file `{path}` again: {getattr(cause, 'strerror', None) or cause}; expected the content "
            "that was written: check the disk, or choose another one with `temporary_folder=`"
        ) from cause


def merge_some_runs(folder: str, runs: Sequence[Run]) -> Run:
    """Merge runs to a new one in a folder."""
    return write_run(folder, merge_streams([read_run(run.path) for run in runs]))


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
            self._runs.append(merge_some_runs(self._folder, some))
            for run in some:
                Path(run.path).unlink()
        return merge_streams([read_run(run.path) for run in self._runs])

    def read_table(self) -> PretokenTable:
        """Return the merged table, in memory."""
        return read_table(self.blocks(), sum(run.n for run in self._runs), sum(run.n_bytes for run in self._runs))


@contextmanager
def shared_runs_folder(parent: str) -> Iterator[str]:
    """Yield a hidden folder for runs, and remove it with its content when the context exits.

    Parameters
    ----------
    parent : str
        An existing folder, or a URL.

    Raises
    ------
    OutputError
        If the folder cannot be created, or the storage at the URL cannot be used.
    """
    if not is_remote(parent):
        with scratch_folder(Path(parent), "counting") as folder:
            yield str(folder)
        return
    with remote_access(parent, noun="the temporary folder") as (file_system, name):
        check_container(parent, file_system, name)
    url = f"{parent.rstrip('/')}/.counting.bpejit-{secrets.token_hex(6)}.scratch"
    try:
        yield url
    finally:
        # An error is ignored, as for local files: it would hide the result, or another error.
        with suppress(Exception), remote_access(url) as (file_system, name):
            file_system.invalidate_cache()
            file_system.rm(name, recursive=True)
