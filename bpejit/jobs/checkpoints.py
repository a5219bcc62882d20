"""Checkpoints of a part of a job: what is finished, written after the files that it describes are on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from bpejit.errors import OutputError
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, damaged, part_folder, sync_paths, unsealed, write_record
from bpejit.jobs.job_manifest import FOLDER_VERSION, hash_job
from bpejit.storage.temporary import sync_folders

CHECKPOINT_FORMAT = "bpejit checkpoint"


def identify_part(job: Mapping[str, Any], part: int, parts: int, units: Sequence[Any] | None = None) -> dict[str, Any]:
    """Return what the checkpoint of a part tells of it: the job, the part, its first unit and their number, if known."""
    known = {} if units is None else {"first": units[0].number if units else None, "units": len(units)}
    return {"job": hash_job(job), "part": part, "parts": parts, **known}


def read_checkpoint(folder: Path, of: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the last checkpoint of a part; None if there is none.

    Raises
    ------
    OutputError
        If it is damaged, or belongs to another part or another job than `of` tells.
    """
    path = folder / CHECKPOINT
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return checked_checkpoint(unsealed(data, strict=True), of, str(path), str(folder))


def checked_checkpoint(found: dict[str, Any] | None, of: Mapping[str, Any], name: str, folder: str) -> dict[str, Any]:
    """Return a checkpoint that belongs to a part; `name` and `folder` are those of the file, for messages.

    Raises
    ------
    OutputError
    """
    if found is None or found.get("format") != CHECKPOINT_FORMAT or found.get("format_version") != FOLDER_VERSION:
        raise damaged(name, folder=folder)
    theirs = found["of"]
    for key, value in of.items():
        if theirs.get(key) != value:
            what = "another job" if key == "job" else f"part {theirs['part']} of {theirs['parts']} ({_units_of(theirs)})"
            mine = "this job" if key == "job" else f"part {of['part']} of {of['parts']}"
            raise OutputError(
                f"`{name}` belongs to {what}, and not to {mine}: files were exchanged, or copied to a wrong folder; expected "
                f"what a run of this part has written: remove `{folder}`, and run that part again with `resume=True`"
            )
    return found


def _units_of(of: Mapping[str, Any]) -> str:
    return f"{of['units']} units" if of["first"] is None else f"{of['units']} units from number {of['first']} on"


def complete_checkpoints(folder: Path, begun: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the checkpoints of all parts of a job, which are complete.

    Parameters
    ----------
    folder : Path
        The folder of the job.
    begun : dict
        Its manifest.

    Raises
    ------
    OutputError
        If one is damaged, or does not belong to the job, or if they do not contain all units together.
    """
    parts = int(begun["parts"])
    found = []
    for part in range(parts):
        place = part_folder(folder, part, parts)
        one = read_checkpoint(place, identify_part(begun["job"], part, parts))
        if one is None or not one.get("complete"):
            raise damaged(place / CHECKPOINT, folder=place)
        found.append(one)
    if sum(one["totals"]["units"] for one in found) != begun["units"]:
        raise damaged(folder / MANIFEST, folder=folder)
    return found


class Checkpoints:
    """Writes checkpoints in a second thread, since flushing to disk takes time.

    It is a context manager, which after an error writes the last checkpoint, if that is possible.

    Parameters
    ----------
    folder : Path
        The folder of a part.
    identify : callable
        Returns what the checkpoints tell of the part (see `identify_part`).
    brief : bool
        Whether the part may be completed without a checkpoint (see `bpejit.jobs.running.run_units`).

    Attributes
    ----------
    brief : bool
        False once a checkpoint is or has been written.
    """

    def __init__(self, folder: Path, identify: Callable[[], dict[str, Any]], *, brief: bool) -> None:
        self.brief = brief
        self._identify = identify
        self._path = folder / CHECKPOINT
        self._manifest: Path | None = folder.parent / MANIFEST
        self._thread: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._latest: dict[str, Any] | None = None
        self._changed: set[Path] = set()

    def note(self, fields: dict[str, Any], changed: Iterable[Path], *, write: bool) -> None:
        """Take a checkpoint, and the files that have changed since the last one; begin to write it if `write` is true."""
        self._latest = fields
        self._changed.update(changed)
        if not write:
            return
        self.brief = False
        self.wait()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
        with suppress(RuntimeError):  # no thread can be started: the checkpoint is written at the end, or by a later one
            self._running = self._thread.submit(self._save, fields, sorted(self._changed))
            self._latest = None
            self._changed.clear()

    def _save(self, fields: dict[str, Any], changed: Iterable[Path]) -> None:
        if self._manifest is not None:  # not when the job begins: without a checkpoint nothing refers to it
            sync_paths([self._manifest])
            sync_folders([self._manifest.parent])
            self._manifest = None
        sync_paths(changed)
        kind = {"format": CHECKPOINT_FORMAT, "format_version": FOLDER_VERSION, "of": self._identify()}
        write_record(self._path, {**kind, **fields})

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

    def complete(self, fields: dict[str, Any], changed: Iterable[Path]) -> None:
        """Write the checkpoint of the complete part, unless the part is brief.

        Raises
        ------
        OSError
        """
        self.wait()
        if not self.brief:
            self._save(fields, {*self._changed, *changed})

    def _save_last(self) -> None:
        with suppress(Exception):
            self.wait()
        if self._latest is not None:
            with suppress(Exception):
                self._save(self._latest, self._changed)

    def __enter__(self) -> Checkpoints:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                self._save_last()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
