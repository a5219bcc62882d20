"""Write the token files of a job in further threads while their spools still grow."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bpejit.jobs.final_files import FinalFiles
from bpejit.jobs.output_files import FINAL
from bpejit.jobs.spools import BLOCK_TOKENS, SpoolRecord, read_spool
from bpejit.tokenfiles.base import TokenWriter


@dataclass
class _Growing:
    """A spool whose token file is being written.

    Parameters
    ----------
    start : SpoolRecord
        Up to where the file is written.
    record : SpoolRecord
        Up to where the spool is.
    complete : bool
        Whether that is its end.
    busy : bool
        Whether a thread works on it.
    writer : TokenWriter, optional
    """

    start: SpoolRecord
    record: SpoolRecord
    complete: bool = False
    busy: bool = False
    writer: TokenWriter | None = None

    @property
    def has_work(self) -> bool:
        """Whether there is enough to write."""
        return self.complete or self.record.tokens - self.start.tokens >= BLOCK_TOKENS


class EarlyFiles:
    """Token files that are written while the spools that they are made of grow.

    The files have the same bytes as those that are written at the end, and those of an interrupted run begin again.

    Parameters
    ----------
    files : FinalFiles
        How they are written.
    spools : Path
        The folder of the spools.
    complete : iterable of SpoolRecord
        Spools that an earlier run has completed, whose files are valid if they are complete. All other files are removed.
    """

    def __init__(self, files: FinalFiles, spools: Path, complete: Iterable[SpoolRecord]) -> None:
        self._files = files
        self._spools = spools
        self._lock = threading.Lock()
        self._growing: dict[int, _Growing] = {}
        self._running: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._stopped = False
        valid = {files.place(record) for record in complete if files.is_complete(record)}
        for place in (files.folder / FINAL).glob("*"):
            if place not in valid:
                shutil.rmtree(place, ignore_errors=True)

    def note(self, record: SpoolRecord, *, complete: bool = False) -> None:
        """Take what a spool contains now, and let a thread continue its file.

        Raises
        ------
        OSError, OutputError
            If a file could not be written.
        """
        if self._pool is None and record.tokens < BLOCK_TOKENS:
            return  # small files are written at the end
        self._raise_errors()
        with self._lock:
            growing = self._growing.get(record.number)
            if growing is None:
                empty = SpoolRecord(record.number, record.output, record.aside, record.shard, position=record.position)
                growing = self._growing[record.number] = _Growing(empty, record)
            growing.record, growing.complete = record, complete
            if growing.busy or not growing.has_work:
                return
            growing.busy = True
        if self._pool is None:  # not earlier: the engine forks its workers before they send ids
            self._pool = ThreadPoolExecutor(self._files.threads)
        try:
            self._running.append(self._pool.submit(self._work, growing))
        except RuntimeError:  # no thread can be started: the file is written at the end
            self._growing.pop(record.number)

    def _raise_errors(self) -> None:
        running = []
        for future in self._running:
            if future.done():
                future.result()
            else:
                running.append(future)
        self._running = running

    def _work(self, growing: _Growing) -> None:
        files = self._files
        while True:
            with self._lock:
                record, complete = growing.record, growing.complete
                if self._stopped or not growing.has_work:
                    growing.busy = False
                    return
            if growing.writer is None:
                growing.writer = files.writer(record)
                growing.writer.__enter__()
            for ids, ends in read_spool(self._spools, record, files.dtype, has_ends=files.has_ends, start=growing.start):
                if self._stopped:
                    return
                growing.writer.write(ids, ends=ends if files.has_ends else None)
            growing.start = record
            if complete:
                growing.writer.write(np.empty(0, dtype=files.dtype), n_bytes=record.bytes)
                growing.writer.__exit__(None, None, None)
                files.set_complete(record)
                with self._lock:
                    self._growing.pop(record.number)
                return

    def finish(self) -> None:
        """Wait until the files of all complete spools are written.

        Raises
        ------
        OSError, OutputError
            If a file could not be written.
        """
        for future in self._running:
            future.result()

    def close(self) -> None:
        """Stop, and abandon the files that are not complete."""
        self._stopped = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        error = InterruptedError()
        for growing in self._growing.values():
            if growing.writer is not None:
                with suppress(Exception):
                    growing.writer.__exit__(type(error), error, None)
