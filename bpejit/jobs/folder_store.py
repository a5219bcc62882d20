"""Where a job keeps its parts until its outputs appear, and the states in which a run may find them.

A store is a folder, which has locks and renames, or a URL with the same methods (`bpejit.jobs.url_store`): an object store has
neither, but creates an object on the condition that there is none.
`bpejit.jobs.job_plan` decides by a store alone what happens to what an earlier run left.

The folder of an unfinished job is `.<output>.bpejit-job` beside its output:

    manifest.json               what was asked for: written once, when the job begins
    part-<i>-of-<n>/            what one process writes; a job that is not divided has one
        lock                    locked by the process that works on the part
        checkpoint.json         the last finished unit, and the lengths of the spools then
        closed.jsonl, *.ids, *.ends     the spools
    combined/                   the spools of all parts, joined and divided into shards
    final/                      the files of the output, until they get their final names

What a kill leaves, and what the next run of the same job does with `resume=True`:

====================  =====================================  ================================================================
killed while it       leaves                                 the next run
====================  =====================================  ================================================================
checks outputs        nothing                                begins
claims the job        `manifest.json`, no checkpoint         begins; other options are no error, since nothing is finished
works on a part       files that only grow, and, after       checks that the checkpoint is of this part and job, and that
                      the first units, `checkpoint.json`     the files have what they had then; compares the text if an
                                                             input was modified; cuts off what follows, and goes on
completes a part      a checkpoint with `complete`           works on the other parts
joins parts           complete parts, and files in           joins them again
                      `combined` and `final`
exchanges files       a journal beside the outputs, and      undoes the exchange, or completes it; finds the complete job,
                      `links.json`                           or joins again
removes its folder    the complete output, and a rest        finds the complete job, and removes the rest
====================  =====================================  ================================================================

Without `resume=True`, finished units are an error unless `overwrite=True`. At a URL, a part is one object, which exists if it
is complete; `storing.json` has the names of the final files before the first of them is stored, so that they may be replaced,
and the manifest of the output is stored last.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bpejit.engines import Engine
from bpejit.errors import CorpusError, OutputError
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    WAIT_SECONDS,
    Fields,
    LockHeldError,
    Totals,
    exchange,
    held,
    is_held,
    part_folder,
    parts_in,
    read_record,
    remove_folder,
    remove_links,
    write_record,
)
from bpejit.jobs.job_options import Finished, Part
from bpejit.jobs.job_records import CompleteParts, JobOutputs, complete_checkpoints
from bpejit.progress_bar import Progress, counted
from bpejit.storage.files import check_writable, naming_output
from bpejit.storage.outputs import MANIFEST, InputFiles, creating_folder, job_folder, manifest_path

COMBINED = "combined"
"""The folder with the joined parts, below that of the job; its lock is held while they are joined."""

_MOST_PARTS = 8
"""Number of missing parts that a message lists."""


class Left(NamedTuple):
    """What an earlier run left of a job.

    Parameters
    ----------
    begun : dict, optional
        The manifest of the unfinished job; None if that is missing or broken.
    kept : int
        The number of finished units, or, at a URL, of parts.
    """

    begun: Fields | None
    kept: int


class StoredParts(ABC):
    """The parts of a job where a store keeps them: what stores have in common."""

    @staticmethod
    @abstractmethod
    def words_for(kept: int) -> str:
        """Return in words how many units, or parts, are kept of an unfinished job."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call the output."""

    @abstractmethod
    def remove_empty(self) -> None:
        """Remove what there is of the job, unless that keeps finished units."""

    @abstractmethod
    def parts(self, *, complete: bool = False) -> set[Part]:
        """Return index and number of parts of each part that was begun, or of those that are complete."""

    @abstractmethod
    def totals_of(self, part: int, parts: int) -> Totals:
        """Return the totals of what is kept of a part that was begun."""

    @contextmanager
    def giving_up(self) -> Iterator[None]:
        """Remove what there is of the job if the context ends with an error, unless that keeps finished units."""
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self.remove_empty()
            raise

    def kept(self) -> Totals | None:
        """Return the totals of what an unfinished job keeps; None if it keeps nothing."""
        totals = sum((self.totals_of(*one) for one in self.parts()), Totals())
        return totals if totals.units else None

    def kept_parts(self, parts: int) -> list[Totals]:
        """Return the totals of what is kept of each part."""
        found = self.parts()
        return [self.totals_of(part, parts) if (part, parts) in found else Totals() for part in range(parts)]

    def missing_parts(self, parts: int) -> list[int]:
        """Return the parts that are not complete."""
        return sorted({*range(parts)} - {part for part, number in self.parts(complete=True) if number == parts})

    def check_parts(self, parts: int) -> None:
        """Raise OutputError if parts are not complete."""
        missing = self.missing_parts(parts)
        if missing:
            shown = ", ".join(map(str, missing[:_MOST_PARTS])) + (", ..." if len(missing) > _MOST_PARTS else "")
            verb = "is" if len(missing) == 1 else "are"
            raise OutputError(
                f"{len(missing)} of the {parts} parts of `{self.name}` {verb} not complete: {shown}; expected all of them: run "
                f'each of these with `shard="I/{parts}"` and `resume=True`'
            )


@dataclass(frozen=True)
class FolderStore(StoredParts):
    """The folder of an unfinished job, beside its output or in the folder of its outputs.

    Parameters
    ----------
    out : Path
        The output.
    per_input : bool
        Whether it is a folder with an output for each input.
    """

    out: Path
    per_input: bool

    @staticmethod
    def words_for(kept: int) -> str:
        """Return in words how many units are kept."""
        return counted(kept, "finished unit")

    @property
    def name(self) -> str:
        """The path of the output."""
        return str(self.out)

    @property
    def folder(self) -> Path:
        """The folder of the unfinished job."""
        return job_folder(self.out, per_input=self.per_input)

    def begun(self) -> Fields | None:
        """Return the manifest of the unfinished job; an empty one if it is broken."""
        path = self.folder / MANIFEST
        return read_record(path) or ({} if path.exists() else None)

    def described(self) -> Fields | None:
        """Return the manifest of the complete job; None if it does not exist or is broken."""
        return read_record(manifest_path(self.out, per_input=self.per_input))

    def claim(self, fields: Fields) -> bool:
        """Create the manifest of the unfinished job; return False if there is one.

        That of a job that is not divided is flushed to disk with its first checkpoint.

        Raises
        ------
        OutputError
        """
        with naming_output(self.folder, always=True):
            self.folder.mkdir(parents=True, exist_ok=True)
            return write_record(self.folder / MANIFEST, fields, synced=fields["parts"] > 1, is_new=True)

    def check(self, names: JobOutputs, inputs: InputFiles, *, overwrite: bool) -> None:
        """Check the outputs (see `JobOutputs.check`), and that a single one can be written; create the folder of many."""
        names.check(inputs, overwrite=overwrite)
        if self.per_input:
            with suppress(FileExistsError):
                self.out.mkdir(parents=True)
        elif not names.has_many_files:
            check_writable(self.out)

    def find_settled(self, names: JobOutputs, job: Fields | None) -> Finished | None:
        """Return the outputs of the same job, or of any for None, if all of them exist.

        The rest of the folder is removed unless a process works there.
        """
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
        """Return what an earlier run left; None if there is nothing."""
        if not self.folder.exists():
            return None
        kept = sum(self.totals_of(*one).units for one in self.parts())
        return Left(self.begun() or None, kept)

    def wait_for_others(self, patience: float) -> None:
        """Wait until no process holds the lock of a part, and remove the links of an interrupted exchange.

        OutputError is raised after `patience` seconds.
        """
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
        """Remove what an earlier run left; return in words what that was."""
        return f"{remove_folder(self.folder):,} bytes"

    def remove_empty(self) -> None:
        """Remove the folder, unless it keeps finished units, or a process works on a part."""
        if self.kept() is None and not self._is_at_work():
            self._remove_empty(self.folder)

    @contextmanager
    def working(self, part: Part | None, what: str, *, patience: float = 0.0) -> Iterator[Path]:
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
        with self._without_empty(folder, unused, is_locked=False), lock, self._without_empty(folder, unused):
            yield folder

    @contextmanager
    def _without_empty(self, folder: Path, unused: Path, *, is_locked: bool = True) -> Iterator[None]:
        """Remove a folder after an error, unless it keeps finished units, or another process has its lock."""
        try:
            yield
        except BaseException as cause:
            is_ours = is_locked or not (isinstance(cause, LockHeldError) or is_held(folder))
            if is_ours and read_record(folder / CHECKPOINT) is None:
                self._remove_empty(unused)
            raise

    def _remove_empty(self, folder: Path) -> None:
        with suppress(OutputError):
            remove_folder(folder)
        if self.per_input:
            with suppress(OSError):
                self.out.rmdir()  # if it is empty

    def parts(self, *, complete: bool = False) -> set[Part]:
        """Return index and number of parts of each part with a folder, or with the checkpoint of a complete part."""
        found: set[Part] = set()
        with suppress(OSError):
            found = parts_in(entry.name for entry in self.folder.iterdir())
        return {one for one in found if self._checkpoint(*one).get("complete")} if complete else found

    def _checkpoint(self, part: int, parts: int) -> Fields:
        """Return the checkpoint of a part; an empty one if there is none, or it is broken."""
        return read_record(part_folder(self.folder, part, parts) / CHECKPOINT) or {}

    def totals_of(self, part: int, parts: int) -> Totals:
        """Return the totals in the checkpoint of a part."""
        with suppress(KeyError, TypeError, ValueError):
            return Totals.of_checkpoint(self._checkpoint(part, parts))
        return Totals()

    def remove_part(self, part: int, parts: int, *, overwrite: bool) -> str | None:
        """Remove what an earlier run left of a part, unless another run works on it.

        Return what is kept of the part, in words, if `overwrite` is false, so that it may not be removed; otherwise None.
        """
        folder = part_folder(self.folder, part, parts)
        if not folder.exists() or is_held(folder):
            return None
        kept = self.totals_of(part, parts).units
        if kept and not overwrite:
            return f"`{folder}` keeps {self.words_for(kept)} of this part"
        remove_folder(folder)
        return None

    def join(
        self,
        names: JobOutputs,
        report: Progress,
        *,
        engine: Engine | None = None,
        overwrite: bool = False,
        written: CompleteParts | None = None,
    ) -> Finished | None:
        """Write the final files of a job whose parts are complete, give them their names together, and remove the rest.

        Parameters
        ----------
        names : JobOutputs
        report : callable
        engine : Engine, optional
        overwrite : bool
            Whether to replace existing files, also if the job was begun without.
        written : CompleteParts, optional
            The parts, if this process has written all that is in the folder; by default they are read.

        Returns
        -------
        Finished, optional
            None if there is no job, or another process joins the parts or has done so.

        Raises
        ------
        CorpusError
            If there is nothing to write.
        OSError, OutputError
            If a part is missing, a file cannot be written, or what is left of another run is damaged. The parts stay.
        """
        begun = self.begun() if written is None else written.begun
        if not begun:
            return None
        parts, folder = int(begun["parts"]), self.folder
        with ExitStack() as stack:
            if parts > 1:  # they often finish at the same time, so another process that joins them is no error
                try:
                    (folder / COMBINED).mkdir(exist_ok=True)
                    stack.enter_context(held(folder / COMBINED, "joins the parts of this job", creates=False))
                except (FileNotFoundError, LockHeldError):  # the former if another process has just removed the folder
                    return None
                if not (folder / MANIFEST).exists():  # another process removes the folder
                    return None
            remove_links(folder)  # to files of an interrupted run; the parts stay until the end
            complete = written or CompleteParts(begun, complete_checkpoints(folder, begun))
            finished = self._write_final(names, complete, report, engine, overwrite=overwrite)
            if parts > 1:  # before the lock is released: the next process to take it must find that nothing is left to join
                (folder / MANIFEST).unlink(missing_ok=True)
        remove_folder(folder)
        return finished

    def _write_final(
        self, names: JobOutputs, parts: CompleteParts, report: Progress, engine: Engine | None, *, overwrite: bool
    ) -> Finished:
        """Write the final files of complete parts, and give them their names."""
        try:
            names.check_totals(parts.job, parts.totals)
        except CorpusError:
            remove_folder(self.folder)
            raise
        pairs, finished = names.write_final(parts, report, engine)
        inputs = InputFiles([entry["path"] for entry in parts.job["inputs"]])
        names.check(inputs, overwrite=overwrite or bool(parts.begun.get("overwrite")))
        with ExitStack() as folders:
            for target in dict.fromkeys(target.parent for _, target in pairs):
                folders.enter_context(creating_folder(target))
            exchange(self.folder, pairs, names.existing())
        return finished
