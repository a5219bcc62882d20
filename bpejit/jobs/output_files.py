"""The outputs of jobs, and the exchange that gives their names to the complete files of a job."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bpejit.engines import Engine
from bpejit.jobs.job_folder import read_record, write_record
from bpejit.jobs.job_records import FORMAT, find_difference
from bpejit.jobs.job_totals import Totals
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
    def write_final(
        self,
        begun: Mapping[str, Any],
        checkpoints: Sequence[Mapping[str, Any]],
        report: Progress,
        *,
        fresh: bool,
        engine: Engine | None,
    ) -> tuple[FilePairs, Finished]:
        """Write the final files of complete parts, and the manifest, into the folder `final` of the job.

        Parameters
        ----------
        begun : dict
            The manifest of the unfinished job.
        checkpoints : list of dict
            Those of all parts.
        report : callable
        fresh : bool
            Whether this process has written all that is in the folder, which then is not compared with its hashes.
        engine : Engine, optional
            By default the kind of job chooses one.

        Raises
        ------
        CorpusError
            If there is nothing to write.
        OSError, OutputError
        """

    @abstractmethod
    def join_remote(
        self,
        remote: Any,
        begun: Mapping[str, Any],
        report: Progress,
        engine: Engine | None,
    ) -> Finished | None:
        """Write and store the final files of a job whose parts are complete at a URL; None if another process removes them."""

    def stored_name(self, name: str) -> str:
        """Return the name of a file of a part in the object that the part is at a URL."""
        return name

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
