"""Jobs whose outputs are files: parts are folders with locks, and final files get their names by renames."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bpejit.corpus.sources import absolute_path
from bpejit.engines import Engine
from bpejit.errors import CorpusError, OutputError
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    LOCK,
    WAIT_SECONDS,
    LockHeldError,
    claim_record,
    found_parts,
    held,
    is_held,
    part_folder,
    read_record,
    remove_folder,
)
from bpejit.jobs.job_records import CHECKPOINT_FORMAT, complete_checkpoints
from bpejit.jobs.job_totals import Totals
from bpejit.jobs.output_files import CompleteParts, Finished, JobOutputs, exchange, remove_links
from bpejit.jobs.store import Left, Store
from bpejit.progress_bar import Progress
from bpejit.storage.files import check_writable, naming_output
from bpejit.storage.outputs import MANIFEST, InputFiles, creating_folder, job_folder, manifest_path

COMBINED = "combined"
"""The folder with the joined parts, below that of the job; its lock is held while they are joined."""


@dataclass(frozen=True)
class FolderStore(Store):
    """The folder of an unfinished job, beside its output or in the folder of its outputs (see `bpejit.jobs.job_folder`).

    Parameters
    ----------
    out : Path
        The output.
    per_input : bool
        Whether it is a folder with an output for each input.
    """

    out: Path
    per_input: bool
    has_locks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The path of the output."""
        return str(self.out)

    @property
    def folder(self) -> Path:
        """The folder of the unfinished job."""
        return job_folder(self.out, per_input=self.per_input)

    def begun(self) -> dict[str, Any] | None:
        """Return the manifest of the unfinished job; an empty one if it is broken."""
        path = self.folder / MANIFEST
        return read_record(path) or ({} if path.exists() else None)

    def described(self) -> dict[str, Any] | None:
        """Return the manifest of the complete job."""
        return read_record(manifest_path(self.out, per_input=self.per_input))

    def claim(self, fields: Mapping[str, Any]) -> bool:
        """Create the manifest; that of a job that is not divided is flushed to disk with its first checkpoint."""
        with naming_output(self.folder, always=True):
            self.folder.mkdir(parents=True, exist_ok=True)
            return claim_record(self.folder / MANIFEST, dict(fields), synced=fields["parts"] > 1)

    def check(self, names: JobOutputs, inputs: InputFiles, *, overwrite: bool) -> None:
        """Check the outputs (see `JobOutputs.check`)."""
        names.check(inputs, overwrite=overwrite)

    def find_settled(self, names: JobOutputs, job: Mapping[str, Any] | None) -> Finished | None:
        """Return the complete outputs, and remove the rest of the folder unless a process works there."""
        names.recover()
        done = names.find_complete(job)
        if done is not None and self.folder.exists() and not self._is_at_work():
            remove_links(self.folder)
            remove_folder(self.folder)
        return done

    def _is_at_work(self) -> bool:
        """Return True if a process holds the lock of a part."""
        return any(is_held(part_folder(self.folder, *one)) for one in self.parts())

    def find_left(self) -> Left | None:
        """Return what is in the folder; None if it does not exist."""
        if not self.folder.exists():
            return None
        kept = sum(self.totals_of(*one).units for one in self.parts())
        return Left(self.begun() or None, kept, _words(kept))

    def wait_for_others(self, patience: float) -> None:
        """Wait until no process holds the lock of a part, and remove the links of an interrupted exchange."""
        until = time.monotonic() + patience
        while self._is_at_work():
            if time.monotonic() >= until:
                raise OutputError(
                    f"another process works on `{self.out}` (it holds a lock in `{self.folder}`); expected one at a time: "
                    "wait until it ends, or end it"
                )
            time.sleep(WAIT_SECONDS)
        remove_links(self.folder)

    def clear(self, left: Left) -> str:  # noqa: ARG002
        """Remove the folder."""
        return f"{remove_folder(self.folder):,} bytes"

    def prepare(self, names: JobOutputs) -> None:
        """Create the folder of outputs, or check that a single one can be written."""
        if self.per_input:
            with suppress(FileExistsError):
                self.out.mkdir(parents=True)
        elif not names.has_many_files:
            check_writable(self.out)

    def remove_empty(self) -> None:
        """Remove the folder, unless it keeps finished units."""
        if self.kept() is None:
            self._remove_empty(self.folder)

    @contextmanager
    def working(self, part: tuple[int, int] | None, what: str, *, patience: float = 0.0) -> Iterator[Path]:
        """Hold the lock of a part, and yield its folder, which is removed after an error unless it keeps finished units.

        Parameters
        ----------
        part : tuple of int, optional
            Index and number of parts; None if the job is not divided.
        what : str
            What messages call the part.
        patience : float
            Seconds to wait for another process that holds the lock.
        """
        folder = part_folder(self.folder, *(part or (0, 1)))
        unused = folder if part else self.folder
        lock = held(folder, f"works on {what}", patience=patience)
        with self._without_lock(folder, unused), lock, self._without_empty(folder, unused):
            yield folder

    @contextmanager
    def _without_lock(self, folder: Path, unused: Path) -> Iterator[None]:
        """Remove a folder with nothing but a free lock, which an error left: to remove it earlier takes more open files."""
        try:
            yield
        except BaseException as cause:
            with suppress(OSError):
                is_unused = {path.name for path in folder.iterdir()} <= {LOCK} and not is_held(folder)
                if is_unused and not isinstance(cause, LockHeldError):
                    self._remove_empty(unused)
            raise

    @contextmanager
    def _without_empty(self, folder: Path, unused: Path) -> Iterator[None]:
        """Remove a folder after an error, unless it keeps finished units."""
        try:
            yield
        except BaseException:
            if (read_record(folder / CHECKPOINT) or {}).get("format") != CHECKPOINT_FORMAT:
                self._remove_empty(unused)
            raise

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OutputError):
            remove_folder(folder)
        if self.per_input:
            with suppress(OSError):
                self.out.rmdir()  # if it is empty

    def parts(self, *, complete: bool = False) -> set[tuple[int, int]]:
        """Return index and number of parts of each part with a folder, or with the checkpoint of a complete part."""
        found = found_parts(self.folder)
        return {one for one in found if self._checkpoint(*one).get("complete")} if complete else found

    def _checkpoint(self, part: int, parts: int) -> dict[str, Any]:
        """Return the checkpoint of a part; an empty one if there is none, or it is broken."""
        return read_record(part_folder(self.folder, part, parts) / CHECKPOINT) or {}

    def totals_of(self, part: int, parts: int) -> Totals:
        """Return the totals in the checkpoint of a part."""
        with suppress(KeyError, TypeError, ValueError):
            return Totals.from_json(self._checkpoint(part, parts)["totals"])
        return Totals()

    def remove_part(self, part: int, parts: int, *, overwrite: bool) -> str | None:
        """Remove the folder of a part that keeps nothing, or may be replaced, and whose lock is free."""
        folder = part_folder(self.folder, part, parts)
        if not folder.exists() or is_held(folder):
            return None
        kept = self.totals_of(part, parts).units
        if kept and not overwrite:
            return f"`{folder}` keeps {_words(kept)} of this part"
        remove_folder(folder)
        return None

    def seen_by_nodes(self) -> list[str]:
        """Return the path of the manifest of the unfinished job."""
        return [absolute_path(self.folder / MANIFEST)]

    def join(
        self,
        names: JobOutputs,
        report: Progress,
        *,
        engine: Engine | None = None,
        overwrite: bool = False,
        written: CompleteParts | None = None,
    ) -> Finished | None:
        """Write the final files, and give them their names together (see `Store.join`).

        Parameters
        ----------
        written : CompleteParts, optional
            The parts, if this process has written all that is in the folder; by default they are read.
        """
        begun = self.begun() if written is None else written.begun
        if not begun:
            return None
        finished = None
        folder = self.folder
        with self._joining(int(begun["parts"])) as is_mine:
            if is_mine:
                parts = written or CompleteParts(begun, complete_checkpoints(folder, begun))
                try:
                    names.check_totals(parts.job, parts.totals)
                except CorpusError:
                    remove_folder(folder)
                    raise
                pairs, finished = names.write_final(parts, report, engine)
                inputs = [entry["path"] for entry in parts.job["inputs"]]
                names.check(inputs, overwrite=overwrite or bool(begun.get("overwrite")))
                with ExitStack() as folders:
                    for target in dict.fromkeys(target.parent for _, target in pairs):
                        folders.enter_context(creating_folder(target))
                    exchange(folder, pairs, names.existing())
        return finished

    @contextmanager
    def _joining(self, parts: int) -> Iterator[bool]:
        """Be the only process that finishes a job, and remove the folder of the job at the end.

        Yields
        ------
        bool
            False if another process joins the parts, or has done so: there is nothing to do. The parts of a job often finish
            at the same time, so this is no error.
        """
        folder = self.folder
        manifest = folder / MANIFEST
        with ExitStack() as stack:
            if parts > 1:
                try:
                    (folder / COMBINED).mkdir(exist_ok=True)
                    stack.enter_context(held(folder / COMBINED, "joins the parts of this job", creates=False))
                except (FileNotFoundError, LockHeldError):  # the former if another process has just removed the folder
                    yield False
                    return
                if not manifest.exists():  # another process removes the folder
                    yield False
                    return
            remove_links(folder)  # to files of an interrupted run; the parts stay until the end
            yield True
            if parts > 1:  # before the lock is released: the next process to take it must find that nothing is left to join
                manifest.unlink(missing_ok=True)
        remove_folder(folder)


def _words(count: int) -> str:
    return f"{count} finished unit{'' if count == 1 else 's'}"
