"""Data sets at URLs. Parts are generated in a scratch folder of a machine, and shards are shuffled in one.

Beside the data set, its job has the folder of `bpejit.jobs.remote_output`:

    .<name>.bpejit-job/manifest.json          what was asked for: created once, by the first run
    .<name>.bpejit-job/part-<i>-of-<n>.tar    a finished part: its checkpoint, then its unshuffled shards in order
    .<name>.bpejit-job/storing.json           the names of the shards, while they are stored
    .<name>.bpejit-job/shard-<k>.json         the size of a shard that is stored

When all parts are there, each shard is shuffled by itself: it is read from all parts by ranges, written to a scratch folder,
and stored as one object. The manifest of the data set is stored last. Two runs of the same job store equal objects.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpejit.engines import AUTO, make_engine
from bpejit.engines.base import Engine, Progress
from bpejit.errors import OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import checkpoint_fields
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, file_sha256, part_folder, write_record
from bpejit.jobs.joining import check_version
from bpejit.jobs.remote_output import (
    STORING,
    RemoteOutput,
    broken_manifest,
    broken_part,
    check_remote_parts,
    claim_fields,
    claim_remote,
    default_parts,
    manifest_url,
    mirrored_outputs,
    no_remote_parts,
    released_claim,
)
from bpejit.jobs.unfinished import naming_output
from bpejit.jobs.unit_loop import Seconds, Totals
from bpejit.storage.scratch import scratch_folder
from bpejit.t2t.datagen.dataset_files import DatasetNames, check_dataset_outputs, names_of_job
from bpejit.t2t.datagen.dataset_finishing import (
    SHUFFLE_MEMORY,
    Joining,
    ShardTask,
    ShuffleJob,
    feature_names,
    find_complete_dataset,
    no_samples,
    written_shard,
)
from bpejit.t2t.datagen.dataset_job import DatasetPlan, run_generation_part

_BLOCK = tarfile.BLOCKSIZE

_RANGE_BYTES = 64 << 20
"""Most bytes of a request for a range."""


class StoredParts:
    """The parts of a data set at a URL.

    Parameters
    ----------
    remote : RemoteOutput
    names : DatasetNames
        In a scratch folder, or without one.
    """

    def __init__(self, remote: RemoteOutput, names: DatasetNames) -> None:
        self.names = names
        self._remote = remote
        self._tells_parts = False

    def default_parts(self, units: Sequence[Any]) -> int:
        """Return the number of parts of a job that is not divided among machines."""
        return default_parts(units)

    def check(
        self,
        inputs: Sequence[str],
        job: Mapping[str, Any] | None = None,
        *,
        overwrite: bool,
        resume: bool = False,
    ) -> Totals | None:
        """Return the totals of the complete data set if the same job is resumed; otherwise check that it may be written.

        Raises
        ------
        OutputError
            If writing the data set would destroy data without permission.
        """
        clashes = {f"{self._remote.base}/{path.name}" for path in self.names.paths()} & set(inputs)
        if clashes:
            raise OutputError(
                f"cannot write `{min(clashes)}`: it is one of the inputs, which would be lost; expected another file: choose "
                "another `data_dir`"
            )
        with _mirror(self._remote, self.names) as local:
            done = find_complete_dataset(local, job) if resume and job is not None else None
            if done is None:
                check_dataset_outputs(local, inputs=(), overwrite=overwrite)
            return done

    def begin(self, plan: DatasetPlan, parts: int, say: Callable[[str], None], *, patience: float = 0.0) -> Totals | int:  # noqa: ARG002
        """Check the outputs of a job, and what an earlier run left for it, and claim it (see `FolderParts.begin`)."""
        options = plan.options
        self._tells_parts = options.part is not None
        done = self.check(plan.paths, plan.job, overwrite=options.overwrite, resume=options.resume)
        if done is not None:
            say(f"nothing is left to do: `{manifest_url(self._remote)}` describes the complete data set")
            self._remote.remove_folder()
            return done
        return claim_remote(plan, parts if options.part is None else options.part[1], say, max_memory=plan.max_memory)

    def working(self, plan: DatasetPlan, parts: int, patience: float = 0.0) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context without effect: an object store has no locks."""
        return nullcontext()

    def generate(
        self,
        plan: DatasetPlan,
        parts: int,
        engine: Engine,
        report: Progress,
        seconds: Seconds,
        say: Callable[[str], None],
    ) -> tuple[Totals, Totals]:
        """Generate the part of a plan in a scratch folder, and store it as one object, unless it is there.

        Returns
        -------
        before, after : Totals
            Those of the stored part of an earlier run, and now.

        Raises
        ------
        CorpusError, OutputError
        """
        remote = self._remote
        part, _ = plan.options.part or (0, 1)
        if part not in self.missing(parts):
            stored = Totals.from_json(remote.check_part(plan.job, part, parts)["totals"])
            if self._tells_parts:
                say(f"part {part} of {parts} is generated already")
            return stored, stored
        with released_claim(remote), scratch_folder(Path(tempfile.gettempdir()), "generating") as scratch:
            local = replace(plan, names=replace(plan.names, out=scratch / plan.names.out.name), remote=None)
            folder = part_folder(scratch, part, parts)
            folder.mkdir()
            write_record(scratch / MANIFEST, claim_fields(plan, parts), synced=False)  # checkpoints belong to it
            with naming_output(local.names.out):
                fields = run_generation_part(local, folder, engine, None, report, seconds)
                before = working_time()
                _store_dataset_part(remote, local.names, folder, fields, plan.identity())
            remote.claim(claim_fields(plan, parts, max_memory=plan.max_memory))  # if another process has given up the job
            seconds.finish += working_time() - before
        return Totals(), Totals.from_json(fields["totals"])

    def kept(self, parts: int) -> list[Totals]:
        """Return the totals of each part that is stored."""
        missing = self.missing(parts)
        return [Totals() if part in missing else self._remote.read_totals(part, parts) for part in range(parts)]

    def missing(self, parts: int) -> list[int]:
        """Return the parts that are not stored."""
        stored = {part for part, number in self._remote.parts() if number == parts}
        return sorted(set(range(parts)) - stored)

    def complete(self, job: Mapping[str, Any] | None = None) -> Totals | None:
        """Return the totals of the complete data set (see `find_complete_dataset`)."""
        with _mirror(self._remote, self.names) as local:
            return find_complete_dataset(local, job)

    def finish(self, engine: Engine | None, report: Progress, *, max_memory: int, overwrite: bool = False) -> Totals | None:
        """Shuffle the shards of all parts, store them, and then the manifest (see `FolderParts.finish`).

        Raises
        ------
        CorpusError
            If there are no samples.
        OutputError
            If a part is missing, or a file cannot be stored. The parts stay.
        """
        remote = self._remote
        begun = remote.begun()
        if begun is None:
            return None
        check_version(begun, remote.folder)
        try:
            job, parts = begun["job"], int(begun["parts"])
            names = names_of_job(Path(remote.name), job)
        except (KeyError, TypeError, ValueError) as cause:
            raise broken_manifest(remote) from cause
        try:
            check_remote_parts(remote, parts)
            checkpoints = [remote.check_part(job, part, parts) for part in range(parts)]
            joining = Joining(names, job, checkpoints)
            totals = joining.totals
            if not totals.documents:
                remote.remove_folder()
                raise no_samples(joining.inputs, totals)
            _store_shards(remote, joining, engine, report, max_memory, overwrite=overwrite or bool(begun.get("overwrite")))
        except OutputError:
            if remote.begun() is None:  # another process was faster, and has removed the parts
                remote.remove_folder()
                return None
            raise
        remote.remove_folder()
        return totals


@contextmanager
def _mirror(remote: RemoteOutput, names: DatasetNames) -> Iterator[DatasetNames]:
    """Yield names in a scratch folder, with an empty file for each that exists at the URL, and the manifest."""
    with scratch_folder(Path(tempfile.gettempdir()), "checks") as scratch:
        local = replace(names, out=scratch / "data" / names.out.name)
        local.out.parent.mkdir()
        with mirrored_outputs(remote, local.manifest):
            yield local


def _store_dataset_part(
    remote: RemoteOutput, names: DatasetNames, folder: Path, fields: Mapping[str, Any], of: Mapping[str, Any]
) -> None:
    """Store a finished part (see `identify_part`): a tar file whose members are at positions that its checkpoint tells."""
    paths = [folder / name for name in names.unshuffled()]
    fields = checkpoint_fields({**fields, "features": feature_names(paths)}, of)
    write_record(folder / CHECKPOINT, fields, synced=False)
    packed = folder / "part.tar"
    with tarfile.open(packed, "w", format=tarfile.GNU_FORMAT) as tar:  # headers of one block, for all sizes
        for name, path in ((CHECKPOINT, folder / CHECKPOINT), *((_member(n), path) for n, path in enumerate(paths))):
            member = tarfile.TarInfo(name)  # without times, so that equal parts are equal objects
            member.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(member, file)
            path.unlink()  # the space is needed once
    remote.put_file(packed, remote.part_url(of["part"], of["parts"]))


def _member(shard: int) -> str:
    return f"shard-{shard:05d}"


@dataclass(frozen=True)
class _Range:
    """A shard in a part: the URL of the part, the position of the member there, and the shard's size and hash."""

    url: str
    begin: int
    size: int
    sha256: str


@dataclass(frozen=True)
class _RemoteShard:
    """A shard to shuffle: its number, where its records are, and the URLs of the shard and of the note that it is stored."""

    shard: int
    ranges: tuple[_Range, ...]
    url: str
    note: str

    data: None = None


@dataclass(frozen=True)
class _RemoteShuffleJob:
    """Shuffles shards, and stores them; the results of a worker are sizes in bytes."""

    remote: RemoteOutput
    shuffling: ShuffleJob

    def start(self) -> _RemoteShuffleJob:
        return self

    def run(self, task: _RemoteShard) -> int:
        with scratch_folder(Path(tempfile.gettempdir()), "shuffling") as scratch:
            sources = tuple(scratch / f"part-{number}" for number in range(len(task.ranges)))
            for source, place in zip(sources, task.ranges, strict=True):
                _fetch_records(self.remote, place, source)
            local = ShardTask(task.shard, sources, scratch / "shard")
            size = self.shuffling.run(local)
            self.remote.put_file(written_shard(local.target), task.url)
        self.remote.put_bytes(task.note, json.dumps({"bytes": size}).encode("ascii"))
        return size

    def finish(self) -> None:
        return None


def _fetch_records(remote: RemoteOutput, place: _Range, target: Path) -> None:
    """Copy a member of a stored part to a file."""
    position, stop = place.begin, place.begin + place.size
    with target.open("wb") as file, remote.access(place.url, "read") as (file_system, name):
        while position < stop:
            data = file_system.cat_file(name, start=position, end=min(position + _RANGE_BYTES, stop))
            if not data:
                break
            file.write(data)
            position += len(data)
    if file_sha256(target) != place.sha256:
        raise broken_part(place.url)


def _blocks(size: int) -> int:
    """Return the bytes that a member takes, with its header."""
    return _BLOCK + -(-size // _BLOCK) * _BLOCK


def _store_shards(
    remote: RemoteOutput, joining: Joining, engine: Engine | None, report: Progress, max_memory: int, *, overwrite: bool
) -> None:
    names = joining.names
    with _mirror(remote, names) as local:
        same = find_complete_dataset(local, joining.job) is not None  # two runs join the same parts at the same time
        check_dataset_outputs(local, inputs=(), overwrite=overwrite or same)
        old = {path.name for path in local.existing()}
    shards = [path.name for path in names.paths()]
    storing = f"{remote.folder}/{STORING}"
    old = (old | set((remote.read_json(storing) or {}).get("old", ()))) - set(shards)
    remote.put_bytes(storing, json.dumps({"files": shards, "old": sorted(old)}).encode("ascii"))
    remote.remove([manifest_url(remote)])  # while there is none, the data set is not complete
    sizes = _stored_sizes(remote, shards)
    tasks = [task for task in _plan_shards(remote, shards, joining.checkpoints) if task.shard not in sizes]
    if engine is None:
        size = sum(place.size for task in tasks for place in task.ranges)
        engine = make_engine(AUTO, None, input_bytes=size, returns_arrays=True)
    features = next((fields["features"] for fields in joining.checkpoints if fields["features"]), ())
    job = _RemoteShuffleJob(remote, joining.shuffling(features, max_memory, engine))
    sizes.update(joining.run(job, tasks, engine, report))
    remote.remove([f"{remote.base}/{name}" for name in sorted(old)])
    remote.put_bytes(manifest_url(remote), joining.manifest(sizes))


def _stored_sizes(remote: RemoteOutput, shards: Sequence[str]) -> dict[int, int]:
    """Return the sizes of the shards that an earlier run of this job has stored."""
    notes = set(remote.list_files(remote.folder))
    there = set(remote.outputs())
    sizes = {}
    for shard, name in enumerate(shards):
        if name in there and f"{_member(shard)}.json" in notes:
            fields = remote.read_json(f"{remote.folder}/{_member(shard)}.json")
            if fields is not None:
                sizes[shard] = int(fields["bytes"])
    return sizes


def _plan_shards(remote: RemoteOutput, shards: Sequence[str], checkpoints: Sequence[Mapping[str, Any]]) -> list[_RemoteShard]:
    parts = len(checkpoints)
    positions = [_blocks(remote.read_head(part, parts)[1]) for part in range(parts)]
    tasks = []
    for shard, name in enumerate(shards):
        ranges = []
        for part, fields in enumerate(checkpoints):
            size = int(fields["sizes"][shard])
            begin = positions[part] + _BLOCK
            ranges.append(_Range(remote.part_url(part, parts), begin, size, fields["hashes"][shard]))
            positions[part] += _blocks(size)
        note = f"{remote.folder}/{_member(shard)}.json"
        tasks.append(_RemoteShard(shard, tuple(ranges), f"{remote.base}/{name}", note))
    return tasks


def combine_remote_dataset(remote: RemoteOutput, *, overwrite: bool, report: Progress) -> tuple[DatasetNames, Totals]:
    """Join the parts of a data set at a URL; see `bpejit.combine`.

    Raises
    ------
    CorpusError
        If there are no samples.
    OutputError
        If there are no parts, or some are missing.
    """
    fields = remote.begun() or remote.read_json(manifest_url(remote)) or {}
    try:
        names = names_of_job(Path(remote.name), fields["job"])
        max_memory = int(fields.get("max_memory", SHUFFLE_MEMORY))
    except (KeyError, TypeError, ValueError):
        raise no_remote_parts(remote) from None
    parts = StoredParts(remote, names)
    totals = parts.finish(None, report, max_memory=max_memory, overwrite=overwrite) or parts.complete()
    if totals is None:
        raise no_remote_parts(remote)
    return names, totals


def fetch_vocabularies(base: str, names: Sequence[str], folder: Path) -> None:
    """Copy the vocabularies `names`, files or folders, that exist at the URL `base` to a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    data = RemoteOutput(f"{base}/vocabularies", per_input=False)
    for name in names:
        for file in data.list_files(f"{base}/{name}") or ([""] if data.has_file(f"{base}/{name}") else []):
            target = folder / name / file if file else folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with data.access(f"{base}/{name}/{file}".rstrip("/"), "read") as (file_system, found):
                file_system.get_file(found, str(target))


def store_vocabularies(base: str, names: Sequence[str], folder: Path) -> None:
    """Store the vocabularies in a folder that do not exist at a URL.

    Raises
    ------
    OutputError
        If another process has stored a different one meanwhile.
    """
    data = RemoteOutput(f"{base}/vocabularies", per_input=False)
    for name in names:
        path = folder / name
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path] if path.exists() else []
        for file in files:
            url = f"{base}/{os.fspath(file.relative_to(folder))}"
            if not data.has_file(url):
                data.put_file(file, url)
                continue
            with data.access(url, "read") as (file_system, found):
                if file_system.cat_file(found) != file.read_bytes():
                    raise OutputError(
                        f"another process has stored a different vocabulary `{base}/{name}`; expected that of the same "
                        "problem: run this again to use it, or choose another `data_dir`"
                    )
