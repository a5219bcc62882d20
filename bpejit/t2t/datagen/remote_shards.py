"""Data sets at URLs: each shard is shuffled by itself, from ranges of the stored parts, and stored as one object.

Beside the data set, its job has the folder of `bpejit.jobs.remote_output`, with one more kind of file:

    .<name>.bpejit-job/shard-<k>.json         the size of a shard that is stored

The checkpoint of a part tells the sizes of its unshuffled shards, which are the members of the part in order, so that they are
read from all parts by ranges. Two runs of the same job store equal objects.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpejit.errors import OutputError
from bpejit.jobs.job_folder import file_sha256
from bpejit.jobs.job_plan import JobOutputs
from bpejit.jobs.remote_output import RemoteOutput, broken_part
from bpejit.storage.scratch import scratch_folder
from bpejit.t2t.datagen.shard_shuffling import ShardTask, ShuffleJob, stored_shard, written_shard

_BLOCK = tarfile.BLOCKSIZE

_RANGE_BYTES = 64 << 20
"""Most bytes of a request for a range."""


@dataclass(frozen=True)
class StoredRange:
    """A shard in a part: the URL of the part, the position of its records there, and their size and hash."""

    url: str
    begin: int
    size: int
    sha256: str


@dataclass(frozen=True)
class RemoteShard:
    """A shard to shuffle: its number, where its records are, and the URLs of the shard and of the note that it is stored."""

    shard: int
    ranges: tuple[StoredRange, ...]
    url: str
    note: str

    @property
    def data(self) -> None:
        """None: a task carries no data."""
        return


@dataclass(frozen=True)
class RemoteShuffleJob:
    """Shuffles shards, and stores them; the results of a worker are sizes in bytes."""

    remote: RemoteOutput
    shuffling: ShuffleJob

    def start(self) -> RemoteShuffleJob:
        """Return itself."""
        return self

    def run(self, task: RemoteShard) -> int:
        """Shuffle and store a shard. Return its size in bytes."""
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
        """Return None: there is no combined result."""


def _fetch_records(remote: RemoteOutput, place: StoredRange, target: Path) -> None:
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


def stored_sizes(remote: RemoteOutput, shards: Sequence[str]) -> dict[int, int]:
    """Return the sizes of the shards that an earlier run of this job has stored."""
    notes = set(remote.list_files(remote.folder))
    there = set(remote.outputs())
    sizes = {}
    for shard, name in enumerate(shards):
        if name in there and f"{stored_shard(shard)}.json" in notes:
            fields = remote.read_json(f"{remote.folder}/{stored_shard(shard)}.json")
            if fields is not None:
                sizes[shard] = int(fields["bytes"])
    return sizes


def plan_shards(remote: RemoteOutput, names: JobOutputs, heads: Sequence[tuple[Mapping[str, Any], int]]) -> list[RemoteShard]:
    """Return the shards, with their places in the parts; `heads` are the checkpoints of these, and the sizes of them."""
    positions = [_blocks(length) for _, length in heads]
    tasks = []
    for shard, path in enumerate(names.first_files()):
        ranges = []
        for part, (fields, _) in enumerate(heads):
            size = int(fields["sizes"][shard])
            begin = positions[part] + _BLOCK
            ranges.append(StoredRange(remote.part_url(part, len(heads)), begin, size, fields["hashes"][shard]))
            positions[part] += _blocks(size)
        note = f"{remote.folder}/{stored_shard(shard)}.json"
        tasks.append(RemoteShard(shard, tuple(ranges), f"{remote.base}/{path.name}", note))
    return tasks


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
