"""The outputs of a job, where it keeps its parts until they appear, and the states in which a run may find them.

A store is a folder (`bpejit.jobs.folder_store`), which has locks and renames, or a URL with the same methods
(`bpejit.jobs.url_store`): an object store has neither, but creates an object on the condition that there is none.
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
joins parts           complete parts, and files in           joins them again; files in `final` whose hashes are right stay
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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bpejit.engines import Engine
from bpejit.errors import OutputError
from bpejit.jobs.job_folder import Fields, read_record
from bpejit.jobs.job_options import Part
from bpejit.jobs.job_records import FORMAT, find_difference
from bpejit.jobs.job_totals import Finished, Totals
from bpejit.progress_bar import Progress
from bpejit.storage.exchange import recover
from bpejit.storage.outputs import InputFiles, check_outputs, job_folder, manifest_path

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST_PARTS = 8
"""Number of missing parts that a message lists."""


NamesOf = Callable[[Path, Fields], "JobOutputs"]
"""Returns the outputs of a kind of job from `out` and what was asked for, as in the manifest; raises KeyError, TypeError or
ValueError if that is broken."""

FilePairs = Sequence[tuple[Path, Path]]
"""Complete files in the folder of a job, and their final paths."""


class CompleteParts(NamedTuple):
    """The complete parts of a job, in a folder.

    Parameters
    ----------
    begun : dict
        The manifest of the unfinished job.
    checkpoints : list of dict
        Those of all parts.
    fresh : bool
        Whether this process has written all that is in the folder, which then is not compared with its hashes.
    """

    begun: Fields
    checkpoints: Sequence[Fields]
    fresh: bool = False

    @property
    def job(self) -> Fields:
        """What was asked for."""
        found: Fields = self.begun["job"]
        return found

    @property
    def totals(self) -> Totals:
        """The totals of all parts together."""
        return sum(map(Totals.of_checkpoint, self.checkpoints), Totals())


@dataclass(frozen=True)
class JobOutputs(ABC):
    """The outputs of a job, and how the parts of it become these.

    Parameters
    ----------
    out : Path
        The output as the user gave it.
    """

    out: Path

    @property
    def per_input(self) -> bool:
        """Whether `out` is a folder with an output for each input."""
        return False

    @property
    def has_many_files(self) -> bool:
        """Whether the job writes other files than `out`."""
        return True

    @property
    def folder(self) -> Path:
        """The folder of the unfinished job."""
        return job_folder(self.out, per_input=self.per_input)

    @property
    def manifest(self) -> Path:
        """The manifest of the complete job."""
        return manifest_path(self.out, per_input=self.per_input)

    @abstractmethod
    def first_files(self) -> list[Path]:
        """Return files that the job will write; at least those of its first output."""

    @abstractmethod
    def existing(self) -> list[Path]:
        """Return the files of an earlier job with these outputs, without its manifest."""

    @abstractmethod
    def read_complete(self, fields: Fields) -> Finished | None:
        """Return the outputs that a manifest describes; None if one is missing, or the manifest is broken."""

    @abstractmethod
    def check_totals(self, job: Fields, totals: Totals) -> None:
        """Raise CorpusError if a job with these totals has nothing to write."""

    @abstractmethod
    def write_final(self, parts: CompleteParts, report: Progress, engine: Engine | None) -> tuple[FilePairs, Finished]:
        """Write the final files, and the manifest, into the folder `final` of the job.

        Parameters
        ----------
        parts : CompleteParts
        report : callable
        engine : Engine, optional
            By default the kind of job chooses one.

        Raises
        ------
        CorpusError
            If there is nothing to write.
        OSError, OutputError
        """

    def moved(self, folder: Path) -> Self:
        """Return the same outputs in a new folder, which is created."""
        folder.mkdir()
        return replace(self, out=folder if self.per_input else folder / self.out.name)

    def find_complete(self, job: Fields | None) -> Finished | None:
        """Return the outputs of the same job, or of any for None, if all of them exist."""
        fields = read_record(self.manifest)
        if fields is None or (job is not None and find_difference(fields.get("job"), job) is not None):
            return None
        return self.read_complete(fields)

    def recover(self) -> None:
        """Undo or complete the exchange of an earlier run that was interrupted (see `bpejit.storage.exchange`)."""
        recover([*self.existing(), *self.first_files(), self.manifest], tree=self.out if self.per_input else None)

    def check(self, inputs: InputFiles, *, overwrite: bool) -> None:
        """Raise OutputError if writing the outputs would destroy data without permission (see `check_outputs`)."""
        self.recover()
        paths = [*self.first_files(), *self.existing()]  # after an interrupted exchange has brought files back
        check_outputs(list(dict.fromkeys(paths)), inputs=inputs, overwrite=overwrite)
        # A manifest without its outputs describes nothing, and is replaced.
        overwrite = overwrite or (read_record(self.manifest) or {}).get("format") == FORMAT
        check_outputs([self.manifest], inputs=inputs, overwrite=overwrite)


def listed_outputs(manifest: Path) -> list[str]:
    """Return the names of the outputs in a manifest; an empty list if it does not exist or is broken."""
    with suppress(KeyError, TypeError):
        paths = [Path(output["path"]) for output in (read_record(manifest) or {})["outputs"]]
        return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts]
    return []


class Left(NamedTuple):
    """What an earlier run left of a job.

    Parameters
    ----------
    begun : dict, optional
        The manifest of the unfinished job; None if that is missing or broken.
    kept : int
        The number of finished units, or, at a URL, of parts.
    finished : str
        This number in words.
    """

    begun: Fields | None
    kept: int
    finished: str


class Parts(ABC):
    """The parts of a job where a store keeps them: what stores have in common."""

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

    def kept_part(self, part: int, parts: int) -> Totals:
        """Return the totals of what is kept of a part."""
        return self.totals_of(part, parts) if (part, parts) in self.parts() else Totals()

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
