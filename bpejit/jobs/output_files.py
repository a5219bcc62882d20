"""The outputs of jobs, what is reported of a run, and the exchange that gives their names to the complete files of a job."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.engines import Engine
from bpejit.jobs.job_folder import read_record, write_record
from bpejit.jobs.job_records import FORMAT, find_difference
from bpejit.jobs.job_totals import Seconds, Totals
from bpejit.process_memory import peak_memory
from bpejit.progress_bar import Progress
from bpejit.storage.exchange import Exchange, recover
from bpejit.storage.files import StrPath, naming_output
from bpejit.storage.outputs import InputFiles, check_outputs, job_folder, manifest_path
from bpejit.storage.temporary import hidden, remove

if TYPE_CHECKING:
    from typing_extensions import Self

FINAL = "final"
"""The folder with the complete files of a job, below its own."""

LINKS = "links.json"
"""The second names that these files get beside their final ones, just before the exchange."""

_LINK = re.compile(r"\..+\.bpejit-[0-9a-f]{12}-[0-9a-f]{12}\.new", re.DOTALL)

NamesOf = Callable[[Path, Mapping[str, Any]], "JobOutputs"]
"""Returns the outputs of a kind of job from `out` and what was asked for, as in the manifest; raises KeyError, TypeError or
ValueError if that is broken."""

FilePairs = Sequence[tuple[Path, Path]]
"""Complete files in the folder of a job, and their final paths."""


class Finished(NamedTuple):
    """The outputs of a complete job.

    Parameters
    ----------
    paths : tuple of Path or str
        The files: paths, or URLs.
    manifest : Path or str
    totals : Totals
    dtype : str
        Of ids in token files.
    left_out : int
        Ids that do not fill a row, which `totals` does not count.
    """

    paths: tuple[Path | str, ...]
    manifest: Path | str
    totals: Totals
    dtype: str = ""
    left_out: int = 0


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

    begun: Mapping[str, Any]
    checkpoints: Sequence[Mapping[str, Any]]
    fresh: bool = False

    @property
    def job(self) -> Mapping[str, Any]:
        """What was asked for."""
        found: Mapping[str, Any] = self.begun["job"]
        return found

    @property
    def totals(self) -> Totals:
        """The totals of all parts together."""
        return sum((Totals.from_json(one["totals"]) for one in self.checkpoints), Totals())


@dataclass
class JobResult:
    """What a run of a job did.

    Parameters
    ----------
    totals : Totals
        Of the part, or of the job once it is complete.
    finished : Finished, optional
        The outputs; None if other parts are missing.
    units, kept : int
        Units of the part, and those that an earlier run had finished.
    missing : int
        Parts that are not complete yet.
    seconds : Seconds
    worker_memory : int
        Peak resident memory of the largest worker on a cluster, in bytes.
    parts : int
        The number of parts of the job.
    new_bytes : int
        Bytes of text that this run has encoded.
    cluster : str
        The Ray cluster that the job ran on, in words.
    """

    totals: Totals
    finished: Finished | None
    units: int
    kept: int
    missing: int
    seconds: Seconds = field(default_factory=Seconds)
    worker_memory: int = 0
    parts: int = 1
    new_bytes: int = 0
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class JobReport:
    """What reports about all kinds of jobs tell.

    Parameters
    ----------
    paths : tuple of Path or str
        All files, or their URLs. Empty for a stream or a device, after a dry run, and while parts of the job are missing.
    manifest : Path or str, optional
        The manifest, which describes the job and its outputs.
    bytes : int
        Bytes of text; those of the part, if other parts of the job are missing. After a dry run, bytes of input.
    skipped : Skipped
        Records without text, or incomplete samples: their number (`count`), and the first few (`first`).
    seconds : float
        Wall time, reading and writing included; after a dry run, the expected time.
    units, kept_units : int
        Units of the job, or of the part, and those that an earlier run had finished.
    missing_parts : int
        Parts of the job that are not complete.
    stages : dict of str to float
        Where the time went, in seconds: `plan`, `encode` (waiting for results), `write` and `finish`.
    peak_memory, worker_memory : int
        Peak resident memory of this process, and of the largest worker, in bytes; 0 if unknown.
    parts : int
        Parts of the job.
    cluster : str
        The Ray cluster that the job ran on, in words.
    new_bytes : int
        Bytes of text that this run has encoded: fewer than `bytes` if an earlier run had finished units, or other runs parts.
    part : str
        The part of the job that this run worked on, such as 0/2; empty for the whole job.
    """

    paths: tuple[Path | str, ...] = ()
    manifest: Path | str | None = None
    bytes: int = 0
    skipped: Skipped = NOTHING_SKIPPED
    seconds: float = 0.0
    units: int = 0
    kept_units: int = 0
    missing_parts: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    worker_memory: int = 0
    parts: int = 1
    cluster: str = ""
    new_bytes: int = 0
    part: str = ""

    @classmethod
    def of(cls, result: JobResult, seconds: float, part: tuple[int, int] | None = None, **own: Any) -> Self:
        """Return the report of what a run did; `own` are the fields of the kind of job."""
        finished = result.finished
        memory, worker_memory = peak_memory()
        return cls(
            paths=() if finished is None else finished.paths,
            manifest=None if finished is None else finished.manifest,
            bytes=result.totals.bytes,
            skipped=result.totals.skipped,
            seconds=seconds,
            units=result.units,
            kept_units=result.kept,
            missing_parts=result.missing,
            stages=dict(vars(result.seconds)),
            peak_memory=memory,
            worker_memory=result.worker_memory if result.cluster else worker_memory,
            parts=result.parts,
            cluster=result.cluster,
            new_bytes=result.new_bytes,
            part="/".join(map(str, part or ())),
            **own,
        )


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
    def read_complete(self, fields: Mapping[str, Any]) -> Finished | None:
        """Return the outputs that a manifest describes; None if one is missing, or the manifest is broken."""

    @abstractmethod
    def check_totals(self, job: Mapping[str, Any], totals: Totals) -> None:
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

    def find_complete(self, job: Mapping[str, Any] | None) -> Finished | None:
        """Return the outputs of the same job, or of any for None, if all of them exist."""
        fields = read_record(self.manifest)
        if fields is None or (job is not None and find_difference(fields.get("job"), job) is not None):
            return None
        return self.read_complete(fields)

    def recover(self) -> None:
        """Undo or complete the exchange of an earlier run that was interrupted (see `bpejit.storage.exchange`)."""
        recover([*self.existing(), *self.first_files(), self.manifest], tree=self.out if self.per_input else None)

    def check(self, inputs: Iterable[StrPath] | InputFiles, *, overwrite: bool) -> None:
        """Raise OutputError if writing the outputs would destroy data without permission (see `check_outputs`)."""
        self.recover()
        inputs = inputs if isinstance(inputs, InputFiles) else InputFiles(inputs)
        paths = [*self.first_files(), *self.existing()]  # after an interrupted exchange has brought files back
        check_outputs(list(dict.fromkeys(paths)), inputs=inputs, overwrite=overwrite)
        # A manifest without its outputs describes nothing, and is replaced.
        overwrite = overwrite or (read_record(self.manifest) or {}).get("format") == FORMAT
        check_outputs([self.manifest], inputs=inputs, overwrite=overwrite)


def listed_outputs(manifest: Path) -> list[str]:
    """Return the names of the outputs in a manifest; an empty list if it does not exist or is broken."""
    outputs = (read_record(manifest) or {}).get("outputs")
    names = [output.get("path") for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else []
    return [name for name in names if isinstance(name, str) and not Path(name).is_absolute() and ".." not in Path(name).parts]


def exchange(folder: Path, pairs: Sequence[tuple[Path, Path]], removed: Iterable[Path]) -> None:
    """Give the files of a job their final names: all of them, or none if the process is killed.

    Parameters
    ----------
    folder : Path
        The folder of the job.
    pairs : list of (Path, Path)
        Files below `folder`, and their final paths. The last one describes the others.
    removed : paths
        Files of an earlier job.

    Raises
    ------
    OutputError
        If a file cannot be written. Existing files are then unchanged.
    """
    targets = [Path(os.path.realpath(target)) for _, target in pairs]
    drop = [Path(os.path.realpath(path)) for path in removed]
    drop = [path for path in drop if path not in set(targets)]
    links = [hidden(target, "new") for target in targets]
    try:
        with naming_output(targets[-1]):
            # Second names, not renames: if the exchange is rolled back, it removes them, and the files here stay.
            write_record(folder / LINKS, {"links": [str(link) for link in links]}, synced=False)
            for (file, _), target, link in zip(pairs, targets, links, strict=True):
                _keep_mode(file, target)
                _link(file, link)
            Exchange(list(zip(links, targets, strict=True)), drop).run()
    except BaseException:
        remove_links(folder)
        raise


def _keep_mode(file: Path, target: Path) -> None:
    """Give a new file the permissions of the file that it replaces."""
    with suppress(OSError):
        file.chmod(target.stat().st_mode & 0o7777)


def _link(file: Path, link: Path) -> None:
    try:
        link.hardlink_to(file)
    except (OSError, NotImplementedError) as cause:
        if isinstance(cause, OSError) and not file.exists():
            raise
        file.replace(link)  # a file system without hard links


def remove_links(folder: Path) -> None:
    """Remove the second names that an interrupted run gave to the files of a job."""
    names = (read_record(folder / LINKS) or {}).get("links")
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    links = [Path(name) for name in names if _LINK.fullmatch(Path(name).name)]
    ours = {_file_id(file) for file in (folder / FINAL).rglob("*")} if links else set()
    for link in links:
        with suppress(OSError, ValueError):
            if _file_id(link) in ours:
                link.unlink()
    remove(folder / LINKS)


def _file_id(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
