"""The records of a job on disk: its manifest, before and after it is complete, the outputs that it describes, and checkpoints.

`<output>.manifest.json` beside the output, or `manifest.json` in a folder of outputs. It contains nothing that differs between
two runs of the same job: no times, no numbers of workers, no names of machines.

format, format_version
    What the file is.
job
    What was asked for: hash of the tokenizer, format and dtype of the output, all options that affect its bytes, and the
    inputs, each with path, size, and a hash of its size, head and tail.
documents, tokens, bytes_read, skipped
    Totals. `skipped` is the number of records without text. With `pack`, `tokens` are those in rows, and `left_out` the others.
outputs
    For each output its `path` in the folder of the manifest, `tokens`, `documents` and `bytes_read`, and `validation` if it
    contains the documents that were set aside. With `pack`, also `rows` and `left_out`.

A checkpoint tells what of a part is finished; it is written after the files that it describes are on disk.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bpejit.corpus.fingerprints import IdentifiedInputs
from bpejit.engines import Engine
from bpejit.errors import OutputError, shorten
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    Fields,
    Totals,
    damaged,
    encode_fields,
    part_folder,
    read_record,
    unsealed,
    write_record,
)
from bpejit.jobs.job_options import Finished
from bpejit.progress_bar import Progress
from bpejit.storage.exchange import recover
from bpejit.storage.outputs import MANIFEST, InputFiles, check_outputs, job_folder, manifest_path
from bpejit.storage.temporary import sync_file, sync_folders

if TYPE_CHECKING:
    from typing_extensions import Self

FORMAT = "bpejit job"

FORMAT_VERSION = 1

FOLDER_VERSION = 4
"""Version of the folder of an unfinished job; since version 4, spools stay until the job is complete."""


def begun_manifest(job: Fields, parts: int) -> dict[str, Any]:
    """Return the manifest of an unfinished job, divided into `parts`."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "folder_version": FOLDER_VERSION,
        "parts": parts,
        "job": job,
    }


def finished_manifest(job: Fields, totals: Mapping[str, int], outputs: Sequence[Fields]) -> bytes:
    """Return the content of the manifest of a complete job."""
    fields = {"format": FORMAT, "format_version": FORMAT_VERSION, "job": job, **totals, "outputs": list(outputs)}
    return f"{_indented(fields)}\n".encode("ascii")


def _indented(fields: Fields, depth: int = 0) -> str:
    """Return JSON with a field in each line, and each value of a list in one line."""
    inner = " " * (depth + 1)
    lines = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            text = _indented(value, depth + 1)
        elif isinstance(value, (list, tuple)) and value:
            texts = value.texts if isinstance(value, IdentifiedInputs) else map(_ENCODE, value)
            lines_of_values = f",\n{inner} ".join(texts)
            text = f"[\n{inner} {lines_of_values}\n{inner}]"
        else:
            text = _ENCODE(value)
        lines.append(f"{inner}{_ENCODE(name)}: {text}")
    return "{\n" + ",\n".join(lines) + f"\n{' ' * depth}}}"


_ENCODE = json.JSONEncoder().encode


_ARGUMENT_OF = {"append": "append_token", "prepend": "prepend_token"}
"""The arguments that fields of a job are, with the ids of tokens; others have the same name."""


def find_difference(found: Fields | None, wanted: Fields, texts: Mapping[str, str] | None = None) -> str | None:
    """Return how the job of a manifest differs from another job, as a clause; None if they are equal.

    `texts` are those of the tokens that are added to documents, by their ids.
    """
    if not isinstance(found, Mapping):
        return "its manifest cannot be read"
    found, wanted = json.loads(json.dumps([found, wanted]))
    for key in dict.fromkeys((*wanted, *found)):
        values = found.get(key), wanted.get(key)
        if values[0] == values[1]:
            continue
        if key == "inputs":
            return _input_difference(values[0], wanted["inputs"])
        name = _ARGUMENT_OF.get(key, key)
        shown = []
        for value in values if name == key else [(texts or {}).get(str(value), value) for value in values]:
            text = shorten(value) if isinstance(value, (list, dict, bool)) else _ENCODE(value)
            shown.append(None if value is None or value is False else f"`{name}={text}`")
        return f"it has {shown[0] or f'no `{name}=`'}, and this one has {shown[1] or 'not'}"
    return None


def find_begun_difference(begun: Fields | None, wanted: Fields, texts: Mapping[str, str]) -> str | None:
    """Return how an unfinished job with a manifest differs from another job, as a clause; None if they are equal.

    `texts` are those of the tokens that the other job adds to documents, by their ids.
    """
    if begun is None:
        return find_difference(None, wanted)
    if begun.get("folder_version") != FOLDER_VERSION:
        return "it was begun by another version of bpejit, which may finish it"
    return find_difference(begun.get("job"), wanted, {**begun.get("texts", {}), **texts})


def _input_difference(found: Any, wanted: Sequence[Fields]) -> str:
    if not isinstance(found, list):
        return "it has no list of inputs"
    for old, new in zip(found, wanted, strict=False):
        if old == new:
            continue
        if old.get("path") != new["path"]:
            return f"it has the input {shorten(old.get('path'))}, and this one {shorten(new['path'])} in its place"
        if old.get("size") != new["size"]:
            return f"its input {shorten(new['path'])} had {old.get('size')} bytes, and now has {new['size']}"
        return f"the content of its input {shorten(new['path'])} has changed"
    return f"it has {len(found)} inputs, and this one {len(wanted)}"


def identify_part(job: Fields, part: int, parts: int, units: Sequence[Any] | None = None) -> Fields:
    """Return what the checkpoint of a part tells of it: the job, the part, its first unit and their number, if known."""
    known = {} if units is None else {"first": units[0].number if units else None, "units": len(units)}
    job_hash = hashlib.sha256(encode_fields(job).encode("ascii")).hexdigest()
    return {"job": job_hash, "part": part, "parts": parts, **known}


def read_checkpoint(folder: Path, of: Fields) -> Fields | None:
    """Return the last checkpoint of a part; None if there is none.

    Raises
    ------
    OutputError
        If it is damaged, or belongs to another part or another job than `of` tells.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    return checked_checkpoint(unsealed(path.read_bytes(), strict=True), of, str(path), str(folder))


def checked_checkpoint(found: Fields | None, of: Fields, name: str, folder: str) -> Fields:
    """Return a checkpoint that belongs to a part; `name` and `folder` are those of the file, for messages.

    Raises
    ------
    OutputError
    """
    if found is None:
        raise damaged(name, folder=folder)
    theirs = found["of"]
    for key, value in of.items():
        if theirs.get(key) != value:
            where = "" if theirs["first"] is None else f" from number {theirs['first']} on"
            other = f"part {theirs['part']} of {theirs['parts']} ({theirs['units']} units{where})"
            what = "another job" if key == "job" else other
            mine = "this job" if key == "job" else f"part {of['part']} of {of['parts']}"
            raise OutputError(
                f"`{name}` belongs to {what}, and not to {mine}: files were exchanged, or copied to a wrong folder; expected "
                f"what a run of this part has written: remove `{folder}`, and run that part again with `resume=True`"
            )
    return found


def complete_checkpoints(folder: Path, begun: Fields) -> list[Fields]:
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


def sync_paths(paths: Iterable[Path]) -> None:
    """Flush files to disk.

    Raises
    ------
    OSError
    """
    for path in paths:
        with path.open("rb") as file:
            sync_file(file.fileno())


class Checkpoints:
    """Writes checkpoints in a second thread, since flushing to disk takes time.

    It is a context manager, which after an error writes the last checkpoint, if that is possible. The final files of a part are
    written within it: if a part is so small that it is complete before a checkpoint is due, none is written unless this fails.

    Parameters
    ----------
    folder : Path
        The folder of a part.
    identify : callable
        Returns what the checkpoints tell of the part (see `identify_part`).
    brief : bool
        Whether the part may be completed without a checkpoint: if it is killed, it begins again.
    """

    def __init__(self, folder: Path, identify: Callable[[], Fields], *, brief: bool) -> None:
        self.folder = folder
        self._brief = brief
        self._identify = identify
        self._path = folder / CHECKPOINT
        self._manifest: Path | None = folder.parent / MANIFEST
        self._thread = ThreadPoolExecutor(1)  # it starts with the first checkpoint
        self._running: Future[None] | None = None
        self._latest: Fields | None = None
        self._changed: set[Path] = set()

    def note(self, fields: Fields, changed: Iterable[Path], *, write: bool) -> None:
        """Take a checkpoint, and the files that have changed since the last one; begin to write it if `write` is true."""
        self._latest = fields
        self._changed.update(changed)
        if not write:
            return
        self._brief = False
        self._wait()
        with suppress(RuntimeError):  # no thread can be started: the checkpoint is written at the end, or by a later one
            self._running = self._thread.submit(self._save, fields, sorted(self._changed))
            self._latest = None
            self._changed.clear()

    def _save(self, fields: Fields, changed: Iterable[Path]) -> None:
        if self._manifest is not None:  # not when the job begins: without a checkpoint nothing refers to it
            sync_paths([self._manifest])
            sync_folders([self._manifest.parent])
            self._manifest = None
        sync_paths(changed)
        write_record(self._path, {"of": self._identify(), **fields})

    def _wait(self) -> None:
        """Wait until the checkpoint that is being written is on disk; raise OSError if it cannot be written."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def complete(self, fields: Fields, changed: Iterable[Path]) -> None:
        """Write the checkpoint of the complete part, unless the part may do without.

        Raises
        ------
        OSError
        """
        self._wait()
        self._latest = fields
        self._changed.update(changed)
        if not self._brief:
            self._save(fields, self._changed)
            self._latest = None

    def __enter__(self) -> Checkpoints:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is not None:
                with suppress(Exception):
                    self._wait()
                with suppress(Exception):
                    if self._latest is not None:  # without spools that are final files already
                        self._save(self._latest, filter(Path.exists, self._changed))
        finally:
            self._thread.shutdown()


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

    def read_description(self) -> Fields | None:
        """Return the manifest of the complete job, with what was asked for as `job`; None if it does not exist or is broken."""
        return read_record(self.manifest)

    def find_complete(self, job: Fields | None) -> Finished | None:
        """Return the outputs of the same job, or of any for None, if all of them exist."""
        fields = self.read_description()
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
        if self.manifest not in paths:  # without its outputs it describes nothing, and is replaced
            overwrite = overwrite or (read_record(self.manifest) or {}).get("format") == FORMAT
            check_outputs([self.manifest], inputs=inputs, overwrite=overwrite)


def listed_outputs(manifest: Path) -> list[str]:
    """Return the names of the outputs in a manifest; an empty list if it does not exist or is broken."""
    with suppress(KeyError, TypeError):
        paths = [Path(output["path"]) for output in (read_record(manifest) or {})["outputs"]]
        return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts]
    return []
