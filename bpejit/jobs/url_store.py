"""Outputs of jobs at URLs: object stores, where a file appears complete, and where there are neither renames nor locks.

Parts are encoded in a scratch folder of the machine. Beside the output:

    .<output>.bpejit-job/manifest.json          what was asked for: created once, by the first run
    .<output>.bpejit-job/part-<i>-of-<n>.tar    a finished part: its checkpoint and its spools, stored as one object
    .<output>.bpejit-job/token_lengths.npy      and other small files that joining needs
    .<output>.bpejit-job/storing.json           the final files, while they are stored

When all parts are there, one machine fetches them, writes the final files in a scratch folder, and stores these, and the
manifest of the output last. Two runs of the same job store equal objects, so running a part twice is harmless.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bpejit.engines import Engine
from bpejit.errors import CorpusError, OutputError
from bpejit.jobs.folder_store import FolderStore, Left, StoredParts
from bpejit.jobs.job_folder import CHECKPOINT, LOCK, Fields, Totals, part_folder, parts_in, sealed, unsealed
from bpejit.jobs.job_options import Finished, Part
from bpejit.jobs.job_records import JobOutputs, checked_checkpoint, identify_part
from bpejit.progress_bar import Progress
from bpejit.storage.files import naming_output, scratch_folder
from bpejit.storage.outputs import JOB_FOLDER, MANIFEST, InputFiles, folder_beside, manifest_path
from bpejit.storage.remote import UrlFiles, check_container, make_parent

PART_UNITS = 16
"""Least number of units of a part, if a single machine divides a job: 1 GiB of input with units of 64 MiB."""

MOST_PARTS = 1000

_HEAD_BYTES = 1 << 16
"""Bytes at the start of a part that contain its checkpoint, unless it is longer."""

_BLOCK = tarfile.BLOCKSIZE

STORING = "storing.json"
"""The names of the final files, written before the first of them is stored. A run that is resumed may replace them."""


@dataclass(frozen=True)
class UrlStore(UrlFiles, StoredParts):
    """An output at a URL, and the finished parts of its job; the methods are those of `FolderStore`.

    Parameters
    ----------
    url : str
        Without a slash at its end.
    per_input : bool
        Whether it is a folder with an output for each input.
    """

    url: str
    per_input: bool

    @staticmethod
    def words_for(kept: int) -> str:
        """Return in words how many parts are kept."""
        return f"{kept} finished parts"

    @property
    def out(self) -> Path:
        """The last part of the URL."""
        return Path(self.url.rpartition("/")[2])

    @property
    def name(self) -> str:
        """The URL."""
        return self.url

    @property
    def base(self) -> str:
        """URL of the folder of the manifest."""
        return self.url if self.per_input else self.url.rpartition("/")[0]

    @property
    def folder(self) -> str:
        """URL of the folder of the unfinished job."""
        return f"{self.base}/{JOB_FOLDER if self.per_input else folder_beside(self.out.name)}"

    def read_json(self, url: str) -> Fields | None:
        """Return the content of a JSON file; None if it does not exist or is broken."""
        with self.access(url, "read") as (file_system, name):
            try:
                found = unsealed(file_system.cat_file(name))
            except FileNotFoundError:
                found = None
            if found is None:
                check_container(url, file_system, name)
        return found

    def default_parts(self, units: Sequence[Any]) -> int:
        """Return the number of parts of a job with some units, if it is not divided among machines."""
        groups = units[-1].number + 1 if units else 0  # the units of a group of small files have one number
        return max(1, min(groups // PART_UNITS, MOST_PARTS))

    def find_settled(self, names: JobOutputs, job: Fields | None) -> Finished | None:
        """Return the complete outputs, and remove what is left of the job."""
        with self.mirrored(names) as local:
            done = local.find_complete(job)
            found = None if done is None else self.at_urls(local, done)
        if found is not None:
            self.remove_folder()
        return found

    def find_left(self) -> Left | None:
        """Return what is left of a job; None if there is no manifest."""
        begun = self.begun()
        if begun is None:
            return None
        return Left(begun, len(self.parts()))

    def clear(self, left: Left) -> str:
        """Remove the folder."""
        self.remove_folder()
        return self.words_for(left.kept)

    def remove_empty(self) -> None:
        """Give up the claim of a job, unless finished parts are stored."""
        if not self.parts() and not self.stored():
            self.remove_folder()

    def begun(self) -> Fields | None:
        """Return the manifest of the unfinished job."""
        return self.read_json(f"{self.folder}/{MANIFEST}")

    def described(self) -> Fields | None:
        """Return the manifest of the complete job."""
        return self.read_json(f"{self.base}/{manifest_path(self.out, per_input=self.per_input).name}")

    def claim(self, fields: Fields) -> bool:
        """Create the manifest of the unfinished job; return False if there is one."""
        url = f"{self.folder}/{MANIFEST}"
        data = sealed(fields)
        with self.access(url) as (file_system, name):
            make_parent(file_system, name)
            if file_system.exists(name):  # versions of packages that know no conditions may also ignore them
                return False
            try:
                file_system.pipe_file(name, data, mode="create")
            except FileExistsError:
                return False
            except (TypeError, ValueError, NotImplementedError):
                file_system.pipe_file(name, data)
            except OSError as cause:
                if "PreconditionFailed" not in str(cause) and "412" not in str(cause):
                    raise
                return False
        return True

    def parts(self, *, complete: bool = False) -> set[Part]:  # noqa: ARG002
        """Return index and number of parts of each part, which is stored when it is complete."""
        return parts_in(self.list_files(self.folder))

    def part_url(self, part: int, parts: int) -> str:
        """Return the URL of a part."""
        return f"{self.folder}/part-{part}-of-{parts}.tar"

    def totals_of(self, part: int, parts: int) -> Totals:
        """Return the totals of a part."""
        return Totals.of_checkpoint(self.read_head(part, parts))

    def remove_part(self, part: int, parts: int, *, overwrite: bool) -> str | None:
        """Remove a finished part, if it may be replaced."""
        url = self.part_url(part, parts)
        if (part, parts) not in self.parts():
            return None
        if not overwrite:
            return f"`{url}` is a finished part"
        self.remove([url])
        return None

    def check_part(self, job: Fields, part: int, parts: int) -> Fields:
        """Return the checkpoint of a finished part of a job; raise OutputError if it is that of another."""
        url = self.part_url(part, parts)
        return checked_checkpoint(self.read_head(part, parts), identify_part(job, part, parts), url, url)

    def read_head(self, part: int, parts: int) -> Fields:
        """Return the checkpoint of a finished part, which is its first member."""
        url = self.part_url(part, parts)
        with self.access(url, "read") as (file_system, name), suppress(tarfile.HeaderError):
            whole = file_system.size(name)
            data = file_system.cat_file(name, start=0, end=min(_HEAD_BYTES, whole))
            size = tarfile.TarInfo.frombuf(data[:_BLOCK], "utf-8", "surrogateescape").size
            if len(data) < _BLOCK + size <= whole:
                data += file_system.cat_file(name, start=len(data), end=_BLOCK + size)
            fields = unsealed(data[_BLOCK : _BLOCK + size], strict=True)
            if fields is not None:
                return fields
        raise broken_part(url)

    def stored(self) -> set[str]:
        """Return the names of the final files, relative to `base`, that a run has begun to store."""
        return set((self.read_json(f"{self.folder}/{STORING}") or {}).get("files", ()))

    def remove_folder(self) -> None:
        """Remove what there is of the unfinished job, the manifest last."""
        names = sorted(self.list_files(self.folder), key=lambda name: name == MANIFEST)
        self.remove([f"{self.folder}/{name}" for name in names])

    def outputs(self) -> list[str]:
        """Return the names of the files beside the output or in its folder, relative to `base`."""
        if self.per_input:
            return [name for name in self.list_files(self.url) if not name.startswith(f"{JOB_FOLDER}/")]
        last = self.out.name
        stem = last[:1] + last[1:].partition(".")[0]  # a name may begin with a dot
        with self.access(self.base, "read") as (file_system, name):
            file_system.invalidate_cache()
            try:
                found = file_system.ls(name, detail=False)
            except FileNotFoundError:
                check_container(self.base, file_system, name)
                return []
        names = [str(file).rpartition("/")[2] for file in found]
        return [name for name in names if name.startswith(stem)]

    @contextmanager
    def mirrored(self, names: JobOutputs) -> Iterator[JobOutputs]:
        """Yield names in a scratch folder with the manifest, and an empty file for each output that this job has not stored.

        Errors of the checks that are made in this context name URLs.
        """
        with scratch_folder(None, "checks") as scratch:
            local = names.moved(scratch / "outputs")
            base = local.manifest.parent
            ours = self.stored()
            for name in self.outputs():
                if name not in ours and ".." not in PurePosixPath(name).parts:
                    (base / name).parent.mkdir(parents=True, exist_ok=True)
                    (base / name).touch()
            if local.manifest.exists():
                with self.access(self.url_of(local, local.manifest), "read") as (file_system, name):
                    file_system.get_file(name, str(local.manifest))
            try:
                yield local
            except OutputError as error:
                raise OutputError(error.args[0].replace(f"{base}", self.base)) from None

    def url_of(self, local: JobOutputs, path: Path | str) -> str:
        """Return the URL of a local file."""
        return f"{self.base}/{Path(path).relative_to(local.manifest.parent).as_posix()}"

    def at_urls(self, local: JobOutputs, finished: Finished) -> Finished:
        """Return outputs with their URLs instead of their scratch paths."""
        paths = tuple(self.url_of(local, path) for path in finished.paths)
        return finished._replace(paths=paths, manifest=self.url_of(local, finished.manifest))

    def check(self, names: JobOutputs, inputs: InputFiles, *, overwrite: bool) -> None:
        """Raise OutputError if an output is one of the inputs, or exists and may not be replaced."""
        read = {os.fspath(path) for path in inputs.paths}
        clashes = ({self.url_of(names, path) for path in names.first_files()} | {self.url}) & read
        if clashes:
            raise OutputError(
                f"cannot write `{min(clashes)}`: it is one of the inputs, which would be lost; expected a different file: "
                "choose another name for the output"
            )
        with self.mirrored(names) as local:
            local.check(InputFiles([]), overwrite=overwrite)

    def store_part(self, names: JobOutputs, part: int, parts: int) -> None:
        """Store a finished part as one object: a tar file with its checkpoint, which is read without the rest, and its files.

        Parameters
        ----------
        names : JobOutputs
            The local outputs.
        part, parts : int

        Raises
        ------
        OutputError, OSError
        """
        folder = names.folder
        source = part_folder(folder, part, parts)
        for path in folder.iterdir():  # what joining needs besides the parts
            if path.is_file() and path.name not in (LOCK, MANIFEST):
                self.put_file(path, f"{self.folder}/{path.name}")
        packed = source.with_suffix(".tar")
        files = sorted(path for path in source.iterdir() if path.name not in (CHECKPOINT, LOCK))
        with tarfile.open(packed, "w", format=tarfile.GNU_FORMAT) as tar:  # headers of one block, for all sizes
            for path in (source / CHECKPOINT, *files):
                member = tarfile.TarInfo(path.name)  # without times, so that equal parts are equal objects
                member.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(member, file)
                if path.name != CHECKPOINT:
                    path.unlink()  # the space is needed once
        self.put_file(packed, self.part_url(part, parts))
        packed.unlink()

    def fetch_part(self, folder: Path, part: int, parts: int) -> None:
        """Copy the files of a stored part to a local folder of a job."""
        target = part_folder(folder, part, parts)
        target.mkdir(parents=True)
        packed = target.with_suffix(".tar")
        url = self.part_url(part, parts)
        with self.access(url, "read") as (file_system, name):
            file_system.get_file(name, str(packed))
        try:
            with tarfile.open(packed, "r:") as tar:
                for member in tar:
                    content = tar.extractfile(member)
                    if content is None or PurePosixPath(member.name).name != member.name:
                        raise tarfile.ReadError(member.name)
                    with (target / member.name).open("wb") as file:
                        shutil.copyfileobj(content, file, 1 << 20)
        except tarfile.TarError as cause:
            raise broken_part(url) from cause
        packed.unlink()

    def publish(self, local: JobOutputs, finished: Finished, *, overwrite: bool, report: Progress) -> Finished:
        """Store the final files of a job that are in a scratch folder, and its manifest last; return them with their URLs.

        An old manifest is removed first: while there is none, the output is not complete. Files of an earlier output that the
        job does not have are removed at the end.

        Raises
        ------
        OutputError
        """
        base = local.manifest.parent
        files = [path for path in sorted(base.rglob("*")) if path.is_file() and path != local.manifest]
        names = [path.relative_to(base).as_posix() for path in files]
        job = (local.read_description() or {}).get("job", {})
        with self.mirrored(local) as there:
            same = there.find_complete(job) is not None  # two runs have joined the parts of the job at the same time
            there.check(InputFiles([]), overwrite=overwrite or same)
            old = {path.relative_to(there.manifest.parent).as_posix() for path in there.existing()}
        note = f"{self.folder}/{STORING}"
        old = (old | set((self.read_json(note) or {}).get("old", ()))) - {*names}
        self.put_bytes(note, json.dumps({"files": sorted(names), "old": sorted(old)}).encode("ascii"))
        manifest = self.url_of(local, local.manifest)
        self.remove([manifest])
        for number, path in enumerate(files):
            report("store", number, len(files), "files")
            self.put_file(path, self.url_of(local, path))
        self.remove([f"{self.base}/{name}" for name in sorted(old)])
        self.put_file(local.manifest, manifest)
        report("store", len(files), len(files), "files")
        return self.at_urls(local, finished)

    def join(
        self, names: JobOutputs, report: Progress, *, engine: Engine | None = None, overwrite: bool = False
    ) -> Finished | None:
        """Write and store the final files (see `FolderStore.join`)."""
        begun = self.begun()
        if begun is None:
            return None
        begun = {**begun, "overwrite": overwrite or bool(begun.get("overwrite"))}
        try:
            self.check_parts(int(begun["parts"]))
            finished = self._join_in_scratch(names, begun, report, engine)
        except CorpusError:  # there is nothing to write
            self.remove_folder()
            raise
        except OutputError:
            if self.begun() is not None:
                raise
            finished = None  # another process was faster, and has removed the parts
        self.remove_folder()
        return finished

    def _join_in_scratch(self, names: JobOutputs, begun: Fields, report: Progress, engine: Engine | None) -> Finished:
        """Fetch all parts into a scratch folder, write the final files there, and store them."""
        with scratch_folder(None, "joining") as scratch:
            local = names.moved(scratch / "outputs")
            folder = local.folder
            parts = int(begun["parts"])
            store = FolderStore(local.out, local.per_input)
            store.claim(begun)
            for file in self.list_files(self.folder):
                if file not in (MANIFEST, STORING) and not file.endswith(".tar"):
                    with self.access(f"{self.folder}/{file}", "read") as (file_system, name):
                        file_system.get_file(name, str(folder / file))
            for part in range(parts):
                report("fetch", part, parts, "parts")
                self.fetch_part(folder, part, parts)
            try:
                with naming_output(local.out):
                    finished = store.join(local, report, engine=engine)
            except OutputError as error:
                message = re.sub(rf"{re.escape(str(folder))}/(part-\d+-of-\d+)", rf"{self.folder}/\1.tar", str(error))
                raise OutputError(message) from None
            assert finished is not None  # nobody else uses the folder
            return self.publish(local, finished, overwrite=begun["overwrite"], report=report)


def broken_part(url: str) -> OutputError:
    """Return the error for a stored part that is damaged."""
    return OutputError(f"`{url}` is broken; expected a finished part: remove it, and run that part again with `resume=True`")


Store = FolderStore | UrlStore
