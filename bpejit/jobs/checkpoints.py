"""Checkpoints of a part of a job: what is finished, written after the files that it describes are on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, sync_record, write_record

CHECKPOINT_FORMAT = "bpejit checkpoint"


def checkpoint_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a checkpoint."""
    return {"format": CHECKPOINT_FORMAT, "format_version": 1, **fields}


class Checkpoints:
    """Writes checkpoints in a second thread, since flushing to disk takes time.

    It is a context manager, which after an error writes the last checkpoint, if that is possible.

    Parameters
    ----------
    folder : Path
        The folder of a part.

    Attributes
    ----------
    begun : bool
        Whether a checkpoint is or has been written.
    """

    def __init__(self, folder: Path) -> None:
        self.begun = False
        self._path = folder / CHECKPOINT
        self._manifest: Path | None = folder.parent / MANIFEST
        self._thread: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._latest: tuple[dict[str, Any], list[Callable[[], None]]] | None = None

    def note(self, fields: dict[str, Any], flush: list[Callable[[], None]], *, write: bool) -> None:
        """Take a checkpoint; begin to write it if `write` is true."""
        self._latest = (fields, flush)
        if not write:
            return
        self.begun = True
        self.wait()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
        with suppress(RuntimeError):  # no thread can be started: the checkpoint is written at the end, or by a later one
            self._running = self._thread.submit(self._save, fields, flush)
            self._latest = None

    def _save(self, fields: dict[str, Any], flush: list[Callable[[], None]]) -> None:
        if self._manifest is not None:  # not when the job begins: without a checkpoint nothing refers to it
            sync_record(self._manifest)
            self._manifest = None
        for sync in flush:
            with suppress(ValueError):  # a file that has been completed since, and was flushed then
                sync()
        write_record(self._path, checkpoint_fields(fields))

    def wait(self) -> None:
        """Wait until the checkpoint that is being written is on disk.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def _save_last(self) -> None:
        with suppress(Exception):
            self.wait()
        if self._latest is not None:
            with suppress(Exception):
                self._save(*self._latest)

    def __enter__(self) -> Checkpoints:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self._save_last()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
