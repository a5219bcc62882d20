"""Turn the spools of a job into token files, at the end or while they grow; the files get their names later."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.engines import count_cpus
from bpejit.jobs.column_spools import StoredColumns
from bpejit.jobs.job_folder import damaged, read_record, write_record
from bpejit.jobs.output_files import FINAL
from bpejit.jobs.spools import BLOCK_TOKENS, SpoolRecord, ends_path, ids_path, read_spool
from bpejit.storage.arrow_columns import ColumnRows
from bpejit.storage.hashes import file_sha256
from bpejit.storage.temporary import remove, sync_file
from bpejit.tokenfiles.description import Description
from bpejit.tokenfiles.file_writer import TokenFileWriter
from bpejit.tokenfiles.templates import MappedFormat

_COMPLETE = "complete"

_THREADS = 4
"""Threads that copy spools. Each takes the memory of some row groups."""

_FLUSHED = 8
"""Files that are flushed to disk at a time, if their ids are not copied."""


@dataclass
class _Growing:
    """A token file that is being written.

    Parameters
    ----------
    start : SpoolRecord
        Up to where it is written.
    record : SpoolRecord
        Up to where its spool is.
    complete : bool
        Whether that is the end of the spool.
    columns : ColumnRows, optional
        The rows of its documents.
    busy : bool
        Whether a thread works on it.
    last : bool
        Whether nothing else reads the spool, which is then removed, so that the folder does not grow.
    writer : TokenFileWriter, optional
    """

    start: SpoolRecord
    record: SpoolRecord
    complete: bool = False
    columns: ColumnRows | None = None
    busy: bool = False
    last: bool = False
    writer: TokenFileWriter | None = None

    @classmethod
    def begun(cls, record: SpoolRecord, **state: Any) -> _Growing:
        """Return the file of a spool of which nothing is written."""
        return cls(replace(record, tokens=0, documents=0, bytes=0), record, **state)

    @property
    def has_work(self) -> bool:
        """Whether there is enough to write."""
        return self.complete or self.record.tokens - self.start.tokens >= BLOCK_TOKENS


class FinalFiles:
    """Writes the token files of a job, each in a folder of its own below the folder `final` of the job.

    Large files are written in further threads, and those that `note` is told of while their spools grow. Their bytes are the
    same. Files of an interrupted run begin again, unless they are complete. The spool of a MappedFormat becomes its file.

    Parameters
    ----------
    names : EncodingOutputs
    job : dict
        What was asked for, as in the manifest.
    spools : Path
        The folder of the spools.
    has_ends : bool
        Whether the spools have the ends of documents.
    fresh : bool
        Whether this process has written all spools and files of the job, so that they are not compared with their hashes.
    """

    def __init__(self, names: Any, job: Mapping[str, Any], spools: Path, *, has_ends: bool, fresh: bool) -> None:
        self.names = names
        self.dtype = np.dtype(job["dtype"]).newbyteorder("<")
        self.threads = _FLUSHED if isinstance(names.format, MappedFormat) else min(count_cpus(), _THREADS)
        self._job = job
        self._spools = spools
        self.has_ends = has_ends
        self._fresh = fresh
        self._lock = threading.Lock()
        self._growing: dict[int, _Growing] = {}
        self._running: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._stopped = False

    def _place(self, record: SpoolRecord) -> Path:
        """Return the folder for the files of a spool."""
        folder: Path = self.names.folder
        return folder / FINAL / f"{record.number:06d}"

    def _staged(self, record: SpoolRecord) -> Path:
        """Return the path of the token file of a spool in its folder."""
        name: str = self.names.path(record).name
        return self._place(record) / name

    def _is_complete(self, record: SpoolRecord) -> bool:
        """Return True if the files of a spool are complete, and those that were written."""
        place = self._place(record)
        if self._fresh:
            return (place / _COMPLETE).exists()
        hashes = (read_record(place / _COMPLETE) or {}).get("files", {})
        with suppress(OSError):
            return bool(hashes) and all(file_sha256(place / name) == found for name, found in hashes.items())
        return False

    def writer(self, record: SpoolRecord, columns: ColumnRows | None = None) -> TokenFileWriter:
        """Return a writer for the token file of a spool; `columns` are the rows of its documents."""
        self._place(record).mkdir(parents=True, exist_ok=True)
        options = {"pack": self._job.get("pack"), "columns": columns}
        writer: TokenFileWriter = self.names.format.writer(
            self._staged(record),
            dtype=self.dtype.name,
            vocab_size=self._job["vocab_size"],
            tokenizer_sha256=self._job["tokenizer_sha256"],
            overwrite=True,
            document_index=self._job["document_index"],
            **{name: value for name, value in options.items() if value is not None},
        )
        return writer

    def begin(self, complete: Iterable[SpoolRecord]) -> None:
        """Remove the files of an earlier run, except for those of spools that it has completed, if they are complete."""
        valid = {self._place(record) for record in complete if self._is_complete(record)}
        for place in (self.names.folder / FINAL).glob("*"):
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
        while self._running and self._running[0].done():
            self._running.pop(0).result()
        with self._lock:
            growing = self._growing.setdefault(record.number, _Growing.begun(record))
            growing.record, growing.complete = record, complete
            if growing.busy or not growing.has_work:
                return
            growing.busy = True
        if not self._submit(partial(self._write, growing)):
            self._growing.pop(record.number)  # it is written at the end

    def _submit(self, task: Callable[[], None]) -> bool:
        """Let a thread write what a file lacks; return False if none can be started."""
        if self._pool is None:  # not earlier: the engine forks its workers before they send ids
            self._pool = ThreadPoolExecutor(self.threads)
        with suppress(RuntimeError):
            self._running.append(self._pool.submit(task))
            return True
        return False

    def _write(self, growing: _Growing) -> None:
        """Write to a file until there is not enough to write, or it is complete."""
        while True:
            with self._lock:
                record, complete = growing.record, growing.complete
                if self._stopped or not growing.has_work:
                    growing.busy = False
                    return
            if growing.writer is None:
                growing.writer = self.writer(record, growing.columns)
                growing.writer.__enter__()
            for ids, ends in read_spool(self._spools, record, self.dtype, has_ends=self.has_ends, start=growing.start):
                if self._stopped:
                    return
                growing.writer.write(ids, ends=ends if self.has_ends else None)
            growing.start = record
            if complete:
                growing.writer.write(np.empty(0, self.dtype), n_bytes=record.bytes)
                growing.writer.__exit__(None, None, None)
                place = self._place(record)
                hashes = {file.name: file_sha256(file) for file in place.iterdir() if file.name != _COMPLETE}
                write_record(place / _COMPLETE, {"files": hashes}, synced=False)
                with self._lock:
                    self._growing.pop(record.number)
                for path_of in (ids_path, ends_path) if growing.last else ():
                    remove(path_of(self._spools, record.number))
                return

    def finish(self) -> None:
        """Wait until the files of all complete spools that are noted are written.

        Raises
        ------
        OSError, OutputError
            If a file could not be written.
        """
        while self._running:
            self._running.pop(0).result()

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

    def write_all(
        self, records: Sequence[SpoolRecord], manifest: bytes, columns: StoredColumns | None
    ) -> list[tuple[Path, Path]]:
        """Write the files that are missing, and the manifest, and remove the spools.

        Parameters
        ----------
        records : list of SpoolRecord
            Those of all spools, which are complete.
        manifest : bytes
            The content of the manifest.
        columns : StoredColumns, optional
            The rows of the columns to keep.

        Returns
        -------
        list of (Path, Path)
            The files, and their final paths.

        Raises
        ------
        OSError, OutputError
        """
        names = self.names
        final = self.names.folder / FINAL
        final.mkdir(exist_ok=True)
        firsts = _first_rows(records)
        missing = [(record, first) for record, first in zip(records, firsts, strict=True) if not self._is_complete(record)]
        self._write_missing(missing, columns)
        pairs: list[tuple[Path, Path]] = []
        for record in records:
            staged = names.format.files(self._staged(record))
            targets = names.format.files(names.path(record))
            pairs += [(Path(made), Path(target)) for made, target in zip(staged, targets, strict=True) if Path(made).exists()]
        written = final / names.manifest.name
        with written.open("wb") as file:  # nothing reads it before its last name is given to it
            file.write(manifest)
            file.flush()
            sync_file(file.fileno())
        # The last file of an exchange is what a reader misses first: the description of a single output, else the manifest.
        pairs.insert(0 if len(records) == 1 else len(pairs), (written, names.manifest))
        return pairs

    def _write_missing(self, missing: Sequence[tuple[SpoolRecord, int]], columns: StoredColumns | None) -> None:
        """Write the files of complete spools; `missing` has each with the number of its first row."""
        form = self.names.format
        worthwhile = isinstance(form, MappedFormat) or sum(record.tokens for record, _ in missing) > BLOCK_TOKENS
        in_threads = self.threads > 1 and len(missing) > 1 and worthwhile
        try:
            for record, first in missing:
                if isinstance(form, MappedFormat):
                    task = partial(self._adopt, form, record)
                else:
                    rows = None if columns is None else columns.rows(record, first)
                    task = partial(self._write, self._begin_copy(record, rows))
                if not in_threads or not self._submit(task):
                    task()
            self.finish()
        finally:
            self.close()

    def _begin_copy(self, record: SpoolRecord, rows: ColumnRows | None) -> _Growing:
        """Return the file of a complete spool, which is removed when that is written; `rows` are those of its documents."""
        source = ids_path(self._spools, record.number)
        if not source.exists():
            raise damaged(self._staged(record), folder=self.names.folder)  # its spool was removed when it was complete
        if not self._fresh:
            _check_spool(self._spools, record, source, has_ends=self.has_ends)
        growing = _Growing.begun(record, complete=True, columns=rows, busy=True, last=True)
        self._growing[record.number] = growing
        return growing

    def _adopt(self, form: MappedFormat, record: SpoolRecord) -> None:
        """Write what belongs to a token file beside the ids, and rename the file with the ids."""
        staged = self._staged(record)
        has_borders = self._job["document_index"] or form.stores_documents
        source = ids_path(self._spools, record.number)
        target = Path(form.files(staged)[0])
        source = source if source.exists() else target  # an earlier run has renamed it
        if not self._fresh:
            _check_spool(self._spools, record, source, has_ends=self.has_ends)
        self._place(record).mkdir(parents=True, exist_ok=True)
        described = Description(
            dtype=self.dtype.name,
            tokens=record.tokens,
            bytes_read=record.bytes,
            vocab_size=self._job["vocab_size"],
            tokenizer_sha256=self._job["tokenizer_sha256"],
            ids_sha256=record.ids_sha256,
            documents=record.documents if has_borders else None,
            file_format=form.name,
            documents_sha256=record.ends_sha256 if has_borders else None,
        )
        header = form.header(described)
        form.write_others(staged, described, ends_path(self._spools, record.number))
        with source.open("r+b", buffering=0) as file:
            file.write(header)
            sync_file(file.fileno())
        source.replace(target)


def _first_rows(records: Sequence[SpoolRecord]) -> list[int]:
    """Return the number of the first row of each spool in its output, for all spools in order.

    A document that continues in the next shard belongs to both.
    """
    found = []
    following: dict[tuple[int, bool], int] = {}
    for record in records:
        start = following.get((record.output, record.aside), 0)
        found.append(start)
        following[record.output, record.aside] = start + record.documents - int(record.continues)
    return found


def _check_spool(folder: Path, record: SpoolRecord, ids_file: Path, *, has_ends: bool) -> None:
    """Compare the content of a complete spool, whose ids are in a file, with its record.

    Raises
    ------
    OSError, OutputError
    """
    if file_sha256(ids_file, start=record.position) != record.ids_sha256:
        raise damaged(ids_file, folder=folder.parent)
    path = ends_path(folder, record.number)
    if has_ends and file_sha256(path) != record.ends_sha256:
        raise damaged(path, folder=folder.parent)
