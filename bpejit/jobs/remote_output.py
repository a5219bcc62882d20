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
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from bpejit.corpus.blocks import no_texts
from bpejit.errors import OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import checked_checkpoint, identify_part
from bpejit.jobs.finishing import Finished, JobResult, finish_job, read_finished
from bpejit.jobs.job_folder import (
    CHECKPOINT,
    LOCK,
    MANIFEST,
    Kept,
    job_folder,
    part_folder,
    read_record,
    sealed,
    unsealed,
    write_record,
)
from bpejit.jobs.job_manifest import find_begun_difference, manifest_path
from bpejit.jobs.joining import DATA_SET, check_version
from bpejit.jobs.output_files import OutputNames, check_job_outputs
from bpejit.jobs.unfinished import begun_fields, continuing, naming_output
from bpejit.jobs.unit_loop import Totals
from bpejit.storage.remote import check_container, remote_errors, remote_file_system
from bpejit.storage.scratch import scratch_folder
from bpejit.tokenfiles.registry import load_format

PART_UNITS = 16
"""Least number of units of a part, if a single machine divides a job: 1 GiB of input with units of 64 MiB."""

MOST_PARTS = 1000

_HEAD_BYTES = 1 << 16
"""Bytes at the start of a part that contain its checkpoint, unless it is longer."""

STORING = "storing.json"
"""The names of the final files, written before the first of them is stored. A run that is resumed may replace them."""

_WITH_FOLDERS = {"file", "local", "memory", "sftp", "ssh", "hdfs", "arrow_hdfs", "webhdfs", "smb", "ftp"}
"""Kinds of file systems in which a file needs a folder."""

_PART = re.compile(r"part-(\d+)-of-(\d+)\.tar")


@dataclass(frozen=True)
class RemoteOutput:
    """An output at a URL.

    Parameters
    ----------
    url : str
        Without a slash at its end.
    per_input : bool
        Whether it is a folder with an output for each input.
    """

    url: str
    per_input: bool

    @property
    def base(self) -> str:
        """URL of the folder of the manifest."""
        return self.url if self.per_input else self.url.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """URL of the folder of the unfinished job."""
        return f"{self.url}/.bpejit-job" if self.per_input else f"{self.base}/.{self.name[:200]}.bpejit-job"

    @contextmanager
    def access(self, url: str, what: str = "write") -> Iterator[tuple[Any, str]]:
        """Yield the file system, and the name of a file there; raise its errors as OutputError."""
        file_system, name = remote_file_system(url, error=OutputError, what="the output")
        with remote_errors(url, error=OutputError, what=what):
            yield file_system, name

    def read_json(self, url: str) -> dict[str, Any] | None:
        """Return the content of a JSON file; None if it does not exist or is broken."""
        with self.access(url, "read") as (file_system, name):
            try:
                found = unsealed(file_system.cat_file(name))
            except FileNotFoundError:
                found = None
            if found is None:
                check_container(url, file_system, name)
        return found

    def begun(self) -> dict[str, Any] | None:
        """Return the manifest of the unfinished job."""
        return self.read_json(f"{self.folder}/{MANIFEST}")

    def claim(self, fields: Mapping[str, Any]) -> bool:
        """Create the manifest of the unfinished job; return False if there is one."""
        url = f"{self.folder}/{MANIFEST}"
        data = sealed(fields)
        with self.access(url) as (file_system, name):
            _make_parent(file_system, name)
            try:
                file_system.pipe_file(name, data, mode="create")
            except FileExistsError:
                return False
            except (TypeError, ValueError, NotImplementedError):  # the storage or its package knows no conditions
                if file_system.exists(name):
                    return False
                file_system.pipe_file(name, data)
            except OSError as cause:
                if "PreconditionFailed" not in str(cause) and "412" not in str(cause):
                    raise
                return False
        return True

    def list_files(self, url: str) -> list[str]:
        """Return the names of all files below a URL, relative to it."""
        with self.access(url, "read") as (file_system, name):
            file_system.invalidate_cache()
            try:
                found = file_system.find(name)
            except FileNotFoundError:
                return []
        return [str(file)[len(name) :].lstrip("/") for file in found if str(file) != name]

    def parts(self) -> set[tuple[int, int]]:
        """Return index and number of parts of each finished part."""
        matches = [_PART.fullmatch(name) for name in self.list_files(self.folder)]
        return {(int(found[1]), int(found[2])) for found in matches if found is not None}

    def part_url(self, part: int, parts: int) -> str:
        """Return the URL of a part."""
        return f"{self.folder}/part-{part}-of-{parts}.tar"

    def read_totals(self, part: int, parts: int) -> Totals:
        """Return the totals of a finished part."""
        return Totals.from_json(self.read_head(part, parts)[0]["totals"])

    def check_part(self, job: Mapping[str, Any], part: int, parts: int) -> dict[str, Any]:
        """Return the checkpoint of a finished part of a job; raise OutputError if it belongs to something else."""
        url = self.part_url(part, parts)
        return checked_checkpoint(self.read_head(part, parts)[0], identify_part(job, part, parts), url, url)

    def read_head(self, part: int, parts: int) -> tuple[dict[str, Any], int]:
        """Return the checkpoint of a finished part, which is its first member, and the size of that in bytes."""
        with self.access(self.part_url(part, parts), "read") as (file_system, name):
            size = _HEAD_BYTES
            while True:
                data = file_system.cat_file(name, start=0, end=min(size, file_system.size(name)))
                with suppress(tarfile.ReadError, EOFError), _reading(data) as tar:
                    member = tar.next()
                    content = None if member is None else tar.extractfile(member)
                    if content is not None and member is not None and len(text := content.read()) == member.size:
                        fields = unsealed(text, strict=True)
                        if fields is not None:
                            return fields, member.size
                        size = len(data) + 1
                if len(data) < size:
                    raise broken_part(self.part_url(part, parts))
                size *= 8

    def put_file(self, path: Path, url: str) -> None:
        """Store a file, which appears complete."""
        with self.access(url) as (file_system, name):
            _make_parent(file_system, name)
            file_system.put_file(str(path), name)

    def put_bytes(self, url: str, data: bytes) -> None:
        """Store a small file."""
        with self.access(url) as (file_system, name):
            _make_parent(file_system, name)
            file_system.pipe_file(name, data)

    def has_file(self, url: str) -> bool:
        """Return True if a file exists."""
        with self.access(url, "read") as (file_system, name):
            file_system.invalidate_cache()
            return bool(file_system.isfile(name))

    def stored(self) -> set[str]:
        """Return the names of the final files, relative to `base`, that a run has begun to store."""
        return set((self.read_json(f"{self.folder}/{STORING}") or {}).get("files", ()))

    def remove(self, urls: list[str]) -> None:
        """Remove files; those that do not exist are no error."""
        for url in urls:
            with self.access(url, "remove") as (file_system, name), suppress(FileNotFoundError):
                file_system.rm_file(name)

    def remove_folder(self) -> None:
        """Remove what there is of the unfinished job, the manifest last."""
        names = sorted(self.list_files(self.folder), key=lambda name: name == MANIFEST)
        self.remove([f"{self.folder}/{name}" for name in names])

    def outputs(self) -> list[str]:
        """Return the names of the files beside the output or in its folder, relative to `base`."""
        if self.per_input:
            return [name for name in self.list_files(self.url) if not name.startswith(".")]
        stem = self.name.partition(".")[0]
        with self.access(self.base, "read") as (file_system, name):
            file_system.invalidate_cache()
            try:
                found = file_system.ls(name, detail=False)
            except FileNotFoundError:
                check_container(self.base, file_system, name)
                return []
        names = [str(file).rpartition("/")[2] for file in found]
        return [name for name in names if name.startswith(stem)]


def _make_parent(file_system: Any, name: str) -> None:
    """Create the folder of a file. Object stores have none, and would create a bucket."""
    protocol = file_system.protocol
    if _WITH_FOLDERS & set((protocol,) if isinstance(protocol, str) else protocol):
        file_system.makedirs(name.rpartition("/")[0], exist_ok=True)


@contextmanager
def _reading(data: bytes) -> Iterator[tarfile.TarFile]:
    import io

    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        yield tar


@contextmanager
def local_plan(plan: Any) -> Iterator[Any]:
    """Yield the plan with an output in a scratch folder, which is removed at the end."""
    with scratch_folder(Path(tempfile.gettempdir()), "encoding") as scratch:
        names = _local_names(plan.names, scratch)
        yield replace(plan, names=names, folder=_local_folder(names), remote=None)


def _local_names(names: OutputNames, scratch: Path) -> OutputNames:
    folder = scratch / "outputs"
    folder.mkdir()
    return replace(names, out=folder if names.inputs is not None else folder / names.out.name)


def _local_folder(names: OutputNames) -> Path:
    return names.out / ".bpejit-job" if names.inputs is not None else job_folder(names.out)


@contextmanager
def _mirror(remote: RemoteOutput, names: OutputNames) -> Iterator[OutputNames]:
    """Yield names in a scratch folder with an empty file for each remote one, and the manifest, for the checks of files."""
    with scratch_folder(Path(tempfile.gettempdir()), "checks") as scratch:
        local = _local_names(names, scratch)
        with mirrored_outputs(remote, local.manifest):
            yield local


@contextmanager
def mirrored_outputs(remote: RemoteOutput, manifest: Path) -> Iterator[None]:
    """Make an empty file for each file of an output that this job has not stored, and copy the manifest.

    Errors of the checks that are made in this context name URLs.

    Parameters
    ----------
    remote : RemoteOutput
    manifest : Path
        The manifest in the folder for the files, which exists.

    Raises
    ------
    OutputError
    """
    base = manifest.parent
    ours = remote.stored()
    for name in remote.outputs():
        if name not in ours and ".." not in PurePosixPath(name).parts:
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).touch()
    if manifest.exists():
        with remote.access(f"{remote.base}/{manifest.name}", "read") as (file_system, name):
            manifest.write_bytes(file_system.cat_file(name))
    try:
        yield
    except OutputError as error:
        raise OutputError(error.args[0].replace(f"{base}", remote.base)) from None


def _url(remote: RemoteOutput, local: OutputNames, path: Path | str) -> str:
    return f"{remote.base}/{Path(path).relative_to(local.manifest.parent).as_posix()}"


def _at_urls(remote: RemoteOutput, local: OutputNames, finished: Finished) -> Finished:
    """Return the outputs with their URLs instead of their scratch paths."""
    paths = tuple(_url(remote, local, path) for path in finished.paths)
    return finished._replace(paths=paths, manifest=_url(remote, local, finished.manifest))


def begin_remote(plan: Any, parts: int, say: Callable[[str], None]) -> Finished | int:
    """Check a remote output, and what an earlier run left for it, and claim it.

    Parameters
    ----------
    plan : JobPlan
    parts : int
        The number of parts, unless the job is begun already.
    say : callable
        Called with remarks for the user.

    Returns
    -------
    Finished or int
        The complete output if the job is resumed and nothing is left to do; otherwise the number of parts.

    Raises
    ------
    OutputError
    """
    remote, options = plan.remote, plan.options
    with _mirror(remote, plan.names) as local:
        done = read_finished(local, plan.job) if options.resume else None
        if done is not None:
            say(f"nothing is left to do: `{_url(remote, local, local.manifest)}` describes the complete output of this job")
            remote.remove_folder()
            return _at_urls(remote, local, done)
        check_job_outputs(local, inputs=(), overwrite=options.overwrite)
    read = {source.path for source in plan.sources}
    if remote.url in read:
        raise OutputError(
            f"cannot write `{remote.url}`: it is one of the inputs, which would be lost; expected a different file: choose "
            "another name for the output"
        )
    return claim_remote(plan, parts, say)


def claim_remote(plan: Any, parts: int, say: Callable[[str], None], **others: Any) -> int:
    """Check what an earlier run left for a remote output, and claim it.

    Parameters
    ----------
    plan : JobPlan or DatasetPlan
    parts : int
        The number of parts, unless the job is begun already.
    say : callable
    **others
        Other fields of the manifest, for joining the parts, which may differ between them.

    Returns
    -------
    int
        The number of parts.

    Raises
    ------
    OutputError
    """
    remote = plan.remote
    begun = remote.begun()
    if begun is not None:
        parts = _check_begun(plan, begun, parts, say)
    if not remote.claim(claim_fields(plan, parts, **others)):
        difference = find_begun_difference(remote.begun(), plan.job, plan.options.texts)
        if difference is not None:
            raise OutputError(
                f"`{remote.folder}` belongs to another job: {difference}; expected the same one: wait until that job ends, or "
                "remove the folder"
            )
    return parts


def claim_fields(plan: Any, parts: int, **others: Any) -> dict[str, Any]:
    """Return the manifest of an unfinished job with a remote output."""
    return begun_fields(plan, parts, **others)


def _check_begun(plan: Any, begun: Mapping[str, Any], parts: int, say: Callable[[str], None]) -> int:
    """Check an unfinished job; return its number of parts, or `parts` after removing it."""
    remote, options = plan.remote, plan.options
    finished = remote.parts()
    difference = find_begun_difference(begun, plan.job, options.texts)
    if difference is None and begun.get("parts") != parts:
        if options.resume and options.part is None:
            return int(begun["parts"])
        difference = f"it is divided into {begun.get('parts')} parts, and this one into {parts}"
    remains = f"`{remote.folder}` keeps {len(finished)} finished parts of an unfinished job"
    again = "expected none: continue it with `resume=True`, or start again with `overwrite=True`"
    if options.part is not None:
        if difference is not None:
            raise OutputError(
                f"{remains}, but {difference}; expected the same job in all parts: {continuing(begun)}, or remove the folder"
            )
        if options.part in finished and not options.resume:
            if not options.overwrite:
                raise OutputError(f"`{remote.part_url(*options.part)}` is a finished part; {again}")
            remote.remove([remote.part_url(*options.part)])
        return parts
    if difference is None and (options.resume or not finished):
        return parts
    if not options.overwrite:
        if difference is None:
            raise OutputError(f"{remains}; {again}")
        # It may be at work: an object store has no locks.
        raise OutputError(
            f"{remains}, but {difference}; expected the same job: wait if it is at work; otherwise {continuing(begun)}, or "
            "start again with `overwrite=True`"
        )
    remote.remove_folder()
    say(f"removed {len(finished)} finished parts in `{remote.folder}`, which an unfinished run left")
    return parts


def default_parts(units: Sequence[Any]) -> int:
    """Return the number of parts of a job with some units, if it is not divided among machines."""
    groups = units[-1].number + 1 if units else 0  # the units of a group of small files have one number
    return max(1, min(groups // PART_UNITS, MOST_PARTS))


def run_remote_part(
    plan: Any, run: Callable[[Any], JobResult], report: Any, say: Callable[[str], None], *, joins: bool = True
) -> JobResult:
    """Run a part of a begun job with a remote output, store it, and join all parts if it was the last one.

    Parameters
    ----------
    plan : JobPlan
        Of the part. A job that is not divided is not stored as a part: its final files are.
    run : callable
        Runs the plan of a part with a local output.
    report, say : callable
        Progress, and remarks for the user.
    joins : bool
        False if another process joins the parts.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    remote, options = plan.remote, plan.options
    fields = claim_fields(plan, (options.part or (0, 1))[1])
    if options.part is None:
        with released_claim(remote), local_plan(plan) as local:
            result = run(local)
            finished = result.finished
            if finished is not None:
                before = working_time()
                publish(remote, local.names, finished, overwrite=options.overwrite, report=report)
                remote.remove_folder()
                result.finished = _at_urls(remote, local.names, finished)
                result.seconds.finish += working_time() - before
            return result
    part, parts = options.part
    if options.resume and (part, parts) in remote.parts():
        say(f"part {part} of {parts} is encoded already")
        totals = Totals.from_json(remote.check_part(plan.job, part, parts)["totals"])
        result = JobResult(totals, None, len(plan.mine), totals.units, 0)
    else:
        with released_claim(remote), local_plan(plan) as local:
            local.folder.mkdir(parents=True)
            write_record(local.folder / MANIFEST, fields, synced=False)
            result = run(replace(local, options=replace(options, resume=False, overwrite=False)))
            before = working_time()
            store_part(remote, local.folder, part, parts)
            remote.claim(fields)  # in case that another process has given up the job
            result.seconds.finish += working_time() - before
    result.missing = parts - len({index for index, number in remote.parts() if number == parts})
    if joins and not result.missing:
        before = working_time()
        result.finished = join_remote(remote, report)
        if result.finished is None:
            say("all parts are complete, and another process has joined them")
        else:
            result.totals = result.finished.totals
        result.seconds.finish += working_time() - before
    return result


@contextmanager
def released_claim(remote: RemoteOutput) -> Iterator[None]:
    """Give up the claim of a job after an error, unless finished parts are stored."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            if not remote.parts() and not remote.stored():
                remote.remove_folder()
        raise


def store_part(remote: RemoteOutput, folder: Path, part: int, parts: int) -> None:
    """Store a finished part as one object.

    Parameters
    ----------
    remote : RemoteOutput
    folder : Path
        The local folder of the job.
    part, parts : int

    Raises
    ------
    OutputError, OSError
    """
    source = part_folder(folder, part, parts)
    for path in folder.iterdir():  # what joining needs besides the parts
        if path.is_file() and path.name not in (LOCK, MANIFEST):
            remote.put_file(path, f"{remote.folder}/{path.name}")
    packed = source.with_suffix(".tar")
    files = sorted(path for path in source.iterdir() if path.name not in (CHECKPOINT, LOCK))
    with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in (source / CHECKPOINT, *files):  # its totals are read without the rest
            member = tarfile.TarInfo(path.name)  # without times, so that equal parts are equal objects
            member.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(member, file)
            if path.name != CHECKPOINT:
                path.unlink()  # the space is needed once
    remote.put_file(packed, remote.part_url(part, parts))
    packed.unlink()


def _fetch_part(remote: RemoteOutput, folder: Path, part: int, parts: int) -> None:
    target = part_folder(folder, part, parts)
    target.mkdir(parents=True)
    packed = target.with_suffix(".tar")
    url = remote.part_url(part, parts)
    with remote.access(url, "read") as (file_system, name):
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


def join_remote(remote: RemoteOutput, report: Any, *, overwrite: bool = False) -> Finished | None:
    """Fetch all parts, write the final files, and store them.

    Returns
    -------
    Finished, optional
        None if another process has done this in the meantime, or there is no job.

    Raises
    ------
    OutputError, OSError
        If a part is missing, or a file cannot be written. The parts stay.
    """
    begun = remote.begun()
    if begun is None:
        return None
    check_version(begun, remote.folder)
    try:
        job = begun["job"]
        parts = int(begun["parts"])
        inputs = None if job["per_input"] is None else [Path(name) for name in job["per_input"]]
        names = OutputNames(Path(remote.name), inputs, job["shard_tokens"] is not None, load_format(job["format"]))
    except (KeyError, TypeError, ValueError) as cause:
        raise broken_manifest(remote) from cause
    try:
        check_remote_parts(remote, parts)
    except OutputError:
        if remote.begun() is None:
            return None
        raise
    begun["overwrite"] = overwrite or bool(begun.get("overwrite"))
    with scratch_folder(Path(tempfile.gettempdir()), "joining") as scratch:
        local = _local_names(names, scratch)
        folder = _local_folder(local)
        folder.mkdir(parents=True)
        write_record(folder / MANIFEST, begun, synced=False)
        try:
            for file in remote.list_files(remote.folder):
                if file not in (MANIFEST, STORING) and _PART.fullmatch(file) is None:
                    with remote.access(f"{remote.folder}/{file}", "read") as (file_system, name):
                        file_system.get_file(name, str(folder / file))
            for part in range(parts):
                report("fetch", part, parts, "parts")
                _fetch_part(remote, folder, part, parts)
        except OutputError:
            if remote.begun() is None:  # another process was faster, and has removed the parts
                return None
            raise
        try:
            with naming_output(local.out):
                finished = finish_job(folder, local, report=report)
        except OutputError as error:
            message = re.sub(rf"{re.escape(str(folder))}/(part-\d+-of-\d+)", rf"{remote.folder}/\1.tar", str(error))
            raise OutputError(message) from None
        if finished is not None and finished.totals.skipped and not finished.totals.documents:
            raise no_texts(finished.totals.skipped)
        if finished is None:  # not possible: nobody else uses the folder
            return None
        publish(remote, local, finished, overwrite=begun["overwrite"], report=report)
        remote.remove_folder()
        return _at_urls(remote, local, finished)


def broken_part(url: str) -> OutputError:
    """Return the error for a stored part that is damaged."""
    return OutputError(f"`{url}` is broken; expected a finished part: remove it, and run that part again with `resume=True`")


def broken_manifest(remote: RemoteOutput) -> OutputError:
    """Return the error for an unfinished job whose manifest is broken."""
    return OutputError(
        f"`{remote.folder}/{MANIFEST}` is broken; expected the manifest of a job: remove the folder, and run the job again"
    )


def no_remote_parts(remote: RemoteOutput) -> OutputError:
    """Return the error for an output that has no parts."""
    return OutputError(
        f"there are no parts of `{remote.url}`; expected the folder `{remote.folder}`, which `bpejit encode --shard` and "
        "`bpejit datagen --shard` write: check the address, which for a data set is FOLDER/NAME"
    )


def check_remote_parts(remote: RemoteOutput, parts: int) -> None:
    """Raise OutputError if parts of a job are not complete."""
    missing = sorted(set(range(parts)) - {part for part, number in remote.parts() if number == parts})
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise OutputError(
            f"{len(missing)} of the {parts} parts of `{remote.url}` are not complete: {shown}; expected all of them: run each "
            f'of these with `shard="I/{parts}"` and `resume=True`'
        )


def publish(remote: RemoteOutput, local: OutputNames, finished: Finished, *, overwrite: bool, report: Any) -> None:
    """Store the final files of a job, and its manifest last.

    An old manifest is removed first: while there is none, the output is not complete.

    Raises
    ------
    OutputError
    """
    with _mirror(remote, local) as mirror:
        check_job_outputs(mirror, inputs=(), overwrite=overwrite or _is_same(mirror, finished))
        old = {path.relative_to(mirror.manifest.parent).as_posix() for path in mirror.existing()}
    base = local.manifest.parent
    files = [path for path in sorted(base.rglob("*")) if path.is_file() and path != local.manifest]
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(base).parts)]
    new = {path.relative_to(base).as_posix() for path in files}
    remote.put_bytes(f"{remote.folder}/{STORING}", json.dumps({"files": sorted(new)}).encode("ascii"))
    remote.remove([_url(remote, local, local.manifest)])
    for number, path in enumerate(files):
        report("store", number, len(files), "files")
        remote.put_file(path, _url(remote, local, path))
    remote.remove([f"{remote.base}/{name}" for name in sorted(old - new)])
    remote.put_file(local.manifest, _url(remote, local, local.manifest))
    report("store", len(files), len(files), "files")


def _is_same(mirror: OutputNames, finished: Finished) -> bool:
    """Return True if the output of the same job is there already: two runs have joined its parts at the same time."""
    written = read_record(Path(finished.manifest)) or {}
    return read_finished(mirror, written.get("job", {})) is not None


def find_remote_kept(remote: RemoteOutput) -> Kept | None:
    """Return what an unfinished job keeps; None if it keeps nothing."""
    begun = remote.begun()
    finished = sorted(remote.parts())
    if begun is None or not finished:
        return None
    totals = [remote.read_totals(*part) for part in finished]
    units = sum(total.units for total in totals)
    read = sum(total.read for total in totals)
    return Kept(remote.folder, units, begun.get("units", units), read, begun.get("command", ""))


def combine_remote(remote: RemoteOutput, *, overwrite: bool, report: Any) -> Finished:
    """Join the parts of a divided job; see `bpejit.combine`.

    Raises
    ------
    OutputError
        If there are no parts, or some are missing.
    """
    finished = join_remote(remote, report, overwrite=overwrite)
    if finished is not None:
        return finished
    fields = remote.read_json(manifest_url(remote))
    if fields is not None:
        with suppress(KeyError, TypeError):
            job = fields["job"]
            inputs = None if job["per_input"] is None else [Path(name) for name in job["per_input"]]
            names = OutputNames(Path(remote.name), inputs, job["shard_tokens"] is not None, load_format(job["format"]))
            done = read_finished_remote(remote, names, job)
            if done is not None:
                return done
    raise no_remote_parts(remote)


def read_finished_remote(remote: RemoteOutput, names: OutputNames, job: Mapping[str, Any]) -> Finished | None:
    """Return the outputs of the same job if all of them exist, and None otherwise."""
    with _mirror(remote, names) as local:
        done = read_finished(local, job)
        return None if done is None else _at_urls(remote, local, done)


def find_remote_output(url: str) -> RemoteOutput:
    """Return the output at a URL: a folder of outputs if there is a job or a manifest in it, and otherwise a single one."""
    url = url.rstrip("/")
    folder = RemoteOutput(url, per_input=True)
    single = RemoteOutput(url, per_input=False)
    if single.begun() is None and (folder.begun() is not None or folder.read_json(manifest_url(folder)) is not None):
        return folder
    return single


def describes_remote_dataset(url: str) -> bool:
    """Return True if the job with the output at a URL, unfinished or complete, generates a data set."""
    remote = RemoteOutput(url.rstrip("/"), per_input=False)
    fields = remote.begun() or remote.read_json(manifest_url(remote)) or {}
    job = fields.get("job")
    return isinstance(job, dict) and DATA_SET in job


def manifest_url(remote: RemoteOutput) -> str:
    """Return the URL of the manifest of the complete output."""
    return f"{remote.base}/{manifest_path(Path(remote.name), per_input=remote.per_input).name}"
