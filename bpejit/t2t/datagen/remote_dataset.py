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
import logging
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpejit.engines import AUTO, make_engine
from bpejit.engines.base import Engine, Progress
from bpejit.errors import OutputError
from bpejit.jit.listening import working_time
from bpejit.jobs.checkpoints import checkpoint_fields
from bpejit.jobs.job_folder import CHECKPOINT, MANIFEST, file_sha256, part_folder, write_record
from bpejit.jobs.job_manifest import finished_manifest
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
    ShardTask,
    ShuffleJob,
    feature_names,
    find_complete_dataset,
    no_samples,
    written_shard,
)
from bpejit.t2t.datagen.dataset_job import DatasetPlan, DatasetResult, run_generation_part

_logger = logging.getLogger("bpejit")

_BLOCK = tarfile.BLOCKSIZE

_RANGE_BYTES = 64 << 20
"""Most bytes of a request for a range."""


def run_remote_generation(plan: DatasetPlan, *, workers: int | None, engine: str, report: Progress) -> DatasetResult:
    """Generate a data set at a URL, or the part of it that this process works on.

    Parameters
    ----------
    plan : DatasetPlan
        With `remote`.
    workers, engine
        How the work is distributed.
    report : callable
        Progress. If it has a method `message`, that is called with remarks for the user.

    Raises
    ------
    CorpusError, OutputError, OptionError, EngineError
    """
    begun = working_time()
    seconds = Seconds()
    say: Callable[[str], None] = getattr(report, "message", None) or _logger.info
    remote, options = plan.remote, plan.options
    assert remote is not None
    found = begin_remote_dataset(plan, default_parts(plan.units), say)
    if isinstance(found, DatasetResult):
        return found
    parts = found
    seconds.plan = working_time() - begun
    stored = {part for part, number in remote.parts() if number == parts}
    spread = make_engine(engine, workers, input_bytes=plan.size, returns_arrays=True)
    kept = new_bytes = 0
    totals = Totals()
    done = _Offset(report, plan.size)
    for part in range(parts) if options.part is None else [options.part[0]]:
        some = replace(plan, options=replace(options, part=(part, parts)))
        if part in stored:
            found_totals = Totals.from_json(remote.check_part(plan.job, part, parts)["totals"])
            kept += found_totals.units
            if options.part is not None:
                say(f"part {part} of {parts} is generated already")
            done.skip(found_totals.read)
        else:
            found_totals = generate_remote_part(some, spread, done, seconds)
            done.begin_next(found_totals)
            new_bytes += found_totals.bytes
        totals += found_totals
    before = working_time()
    missing = parts - len({index for index, number in remote.parts() if number == parts})
    finished = None
    if not missing:
        finished = finish_remote_dataset(remote, spread, report, max_memory=plan.max_memory)
        if finished is None:
            say("all parts are complete, and another process has joined them")
    seconds.finish = working_time() - before
    result = totals if finished is None else finished
    return DatasetResult(result, finished is not None, len(plan.mine), kept, missing, seconds, new_bytes)


class _Offset:
    """Progress of parts that run one after the other."""

    def __init__(self, report: Progress, total: int | None) -> None:
        self._report = report
        self._total = total
        self._read = 0
        self._counted = Totals()
        self._details = getattr(report, "details", None)

    def __call__(self, stage: str, done: int, total: int | None, unit: str) -> None:  # noqa: ARG002
        self._report(stage, self._read + done, self._total, unit)

    def details(self, *, tokens: int, documents: int) -> None:
        if self._details is not None:
            self._details(tokens=self._counted.tokens + tokens, documents=self._counted.documents + documents)

    def begin_next(self, totals: Totals) -> None:
        self._read += totals.read
        self._counted += totals

    def skip(self, read: int) -> None:
        if self._total is not None:
            self._total = max(self._total - read, 0)


def begin_remote_dataset(plan: DatasetPlan, parts: int, say: Callable[[str], None]) -> DatasetResult | int:
    """Check the outputs of a job, and what an earlier run left for it, and claim it.

    Parameters
    ----------
    plan : DatasetPlan
        With `remote`.
    parts : int
        The number of parts, unless the job is begun already, or the plan is that of a part.
    say : callable
        Called with remarks for the user.

    Returns
    -------
    DatasetResult or int
        The result if the job is resumed and nothing is left to do; otherwise the number of parts.

    Raises
    ------
    OutputError
    """
    remote, options = plan.remote, plan.options
    assert remote is not None
    done = check_remote_dataset(remote, plan.names, plan.inputs, plan.job, overwrite=options.overwrite, resume=options.resume)
    if done is not None:
        say(f"nothing is left to do: `{manifest_url(remote)}` describes the complete data set")
        remote.remove_folder()
        return DatasetResult(done, True, len(plan.units), len(plan.units), 0)
    return claim_remote(plan, parts if options.part is None else options.part[1], say, max_memory=plan.max_memory)


def check_remote_dataset(
    remote: RemoteOutput,
    names: DatasetNames,
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
    clashes = {f"{remote.base}/{path.name}" for path in names.paths()} & set(inputs)
    if clashes:
        raise OutputError(
            f"cannot write `{min(clashes)}`: it is one of the inputs, which would be lost; expected another file: choose "
            "another `data_dir`"
        )
    with _mirror(remote, names) as local:
        done = find_complete_dataset(local, job) if resume and job is not None else None
        if done is None:
            check_dataset_outputs(local, inputs=(), overwrite=overwrite)
        return done


@contextmanager
def _mirror(remote: RemoteOutput, names: DatasetNames) -> Iterator[DatasetNames]:
    """Yield names in a scratch folder, with an empty file for each that exists at the URL, and the manifest."""
    with scratch_folder(Path(tempfile.gettempdir()), "checks") as scratch:
        local = replace(names, out=scratch / "data" / names.out.name)
        local.out.parent.mkdir()
        with mirrored_outputs(remote, local.manifest):
            yield local


def generate_remote_part(plan: DatasetPlan, engine: Engine, report: Progress, seconds: Seconds) -> Totals:
    """Generate the part of a begun job in a scratch folder, and store it as one object. Return its totals.

    Raises
    ------
    CorpusError, OutputError
    """
    remote = plan.remote
    assert remote is not None
    assert plan.options.part is not None
    part, parts = plan.options.part
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
    return Totals.from_json(fields["totals"])


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
    """A shard in a part: the URL of the part, the position of the header of the member there, and the shard's size and hash."""

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

    @property
    def data(self) -> None:
        return None


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
                _fetch_records(self.remote, place, task.shard, source)
            local = ShardTask(task.shard, sources, scratch / "shard")
            size = self.shuffling.run(local)
            self.remote.put_file(written_shard(local.target), task.url)
        self.remote.put_bytes(task.note, json.dumps({"bytes": size}).encode("ascii"))
        return size

    def finish(self) -> None:
        return None


def _fetch_records(remote: RemoteOutput, place: _Range, shard: int, target: Path) -> None:
    """Copy a member of a stored part to a file."""
    position, stop = place.begin, place.begin + _BLOCK + place.size
    with target.open("wb") as file, remote.access(place.url, "read") as (file_system, name):
        while position < stop:
            data = file_system.cat_file(name, start=position, end=min(position + _RANGE_BYTES, stop))
            if position == place.begin and not _is_header(data[:_BLOCK], shard, place.size):
                raise broken_part(place.url)
            file.write(data[_BLOCK:] if position == place.begin else data)
            position += len(data)
    if file_sha256(target) != place.sha256:
        raise broken_part(place.url)


def _is_header(block: bytes, shard: int, size: int) -> bool:
    try:
        member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except tarfile.HeaderError:
        return False
    return (member.name, member.size) == (_member(shard), size)


def _blocks(size: int) -> int:
    """Return the bytes that a member takes, with its header."""
    return _BLOCK + -(-size // _BLOCK) * _BLOCK


def finish_remote_dataset(
    remote: RemoteOutput, engine: Engine | None, report: Progress, *, max_memory: int, overwrite: bool = False
) -> Totals | None:
    """Shuffle the shards of all parts, store them, and then the manifest.

    Parameters
    ----------
    remote : RemoteOutput
    engine : Engine, optional
        By default chosen by the size.
    report : callable
    max_memory : int
        Bytes of memory for shuffling.
    overwrite : bool
        Whether to replace existing files, also if the job was begun without.

    Returns
    -------
    Totals, optional
        None if another process has done this in the meantime, or there is no job.

    Raises
    ------
    CorpusError
        If there are no samples.
    OutputError
        If a part is missing, or a file cannot be stored. The parts stay.
    """
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
        heads = [(remote.check_part(job, part, parts), remote.read_head(part, parts)[1]) for part in range(parts)]
        totals = sum((Totals.from_json(fields["totals"]) for fields, _ in heads), Totals())
        inputs = [entry["path"] for entry in job["inputs"]]
        if not totals.documents:
            remote.remove_folder()
            raise no_samples(inputs, totals)
        _store_shards(remote, names, begun, heads, engine, report, max_memory, overwrite=overwrite)
    except OutputError:
        if remote.begun() is None:  # another process was faster, and has removed the parts
            remote.remove_folder()
            return None
        raise
    remote.remove_folder()
    return totals


def _store_shards(
    remote: RemoteOutput,
    names: DatasetNames,
    begun: Mapping[str, Any],
    heads: Sequence[tuple[Mapping[str, Any], int]],
    engine: Engine | None,
    report: Progress,
    max_memory: int,
    *,
    overwrite: bool,
) -> None:
    job = begun["job"]
    with _mirror(remote, names) as local:
        same = find_complete_dataset(local, job) is not None  # two runs join the same parts at the same time
        check_dataset_outputs(local, inputs=(), overwrite=overwrite or same or bool(begun.get("overwrite")))
        old = {path.name for path in local.existing()}
    shards = [path.name for path in names.paths()]
    storing = f"{remote.folder}/{STORING}"
    old = (old | set((remote.read_json(storing) or {}).get("old", ()))) - set(shards)
    remote.put_bytes(storing, json.dumps({"files": shards, "old": sorted(old)}).encode("ascii"))
    remote.remove([manifest_url(remote)])  # while there is none, the data set is not complete
    sizes = _stored_sizes(remote, shards)
    tasks = [task for task in _plan_shards(remote, shards, heads) if task.shard not in sizes]
    amounts = [sum(place.size for place in task.ranges) for task in tasks]
    if engine is None:
        engine = make_engine(AUTO, None, input_bytes=sum(amounts), returns_arrays=True)
    features = next((fields["features"] for fields, _ in heads if fields["features"]), ())
    shuffling = ShuffleJob(job["seed"], max(max_memory // engine.workers, 1), job["shuffled"], job["format"], tuple(features))
    done = 0
    report("shuffle", 0, sum(amounts), "bytes")
    results: Any = engine.map_chunks(_RemoteShuffleJob(remote, shuffling), iter(tasks))  # type: ignore[arg-type]
    with closing(results):
        for task, amount, size in zip(tasks, amounts, results, strict=True):
            sizes[task.shard] = size
            done += amount
            report("shuffle", done, sum(amounts), "bytes")
    remote.remove([f"{remote.base}/{name}" for name in sorted(old)])
    outputs = [
        {
            "path": name,
            "split": slot[0],
            "examples": sum(fields["records"][shard] for fields, _ in heads),
            "bytes": sizes[shard],
        }
        for shard, (name, slot) in enumerate(zip(shards, names.slots, strict=True))
    ]
    totals = sum((Totals.from_json(fields["totals"]) for fields, _ in heads), Totals())
    remote.put_bytes(manifest_url(remote), finished_manifest(job, _sums(totals), outputs))


def _sums(totals: Totals) -> dict[str, int]:
    return {
        "examples": totals.documents,
        "ids": totals.tokens,
        "bytes_read": totals.bytes,
        "skipped": totals.skipped.count,
    }


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


def _plan_shards(
    remote: RemoteOutput, shards: Sequence[str], heads: Sequence[tuple[Mapping[str, Any], int]]
) -> list[_RemoteShard]:
    positions = [_blocks(length) for _, length in heads]
    tasks = []
    for shard, name in enumerate(shards):
        ranges = []
        for part, (fields, _) in enumerate(heads):
            size = int(fields["sizes"][shard])
            ranges.append(_Range(remote.part_url(part, len(heads)), positions[part], size, fields["hashes"][shard]))
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
    begun = remote.begun()
    fields = begun or remote.read_json(manifest_url(remote)) or {}
    try:
        names = names_of_job(Path(remote.name), fields["job"])
        max_memory = int(fields.get("max_memory", SHUFFLE_MEMORY))
    except (KeyError, TypeError, ValueError):
        raise no_remote_parts(remote) from None
    totals = None
    if begun is not None:
        totals = finish_remote_dataset(remote, None, report, max_memory=max_memory, overwrite=overwrite)
    if totals is None:
        with _mirror(remote, names) as local:
            totals = find_complete_dataset(local)
    if totals is None:
        raise no_remote_parts(remote)
    return names, totals


def fetch_vocabularies(base: str, names: Sequence[str], folder: Path) -> None:
    """Copy the vocabularies that exist at a URL to a folder, which is created.

    Parameters
    ----------
    base : str
        URL of the folder of the data.
    names : list of str
        Of the files, or of folders of tokenizers.
    folder : Path

    Raises
    ------
    OutputError
    """
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
