"""Shuffle the shards of a data set: each by itself, from the unshuffled shards of all parts, in files or at a URL.

At a URL, the unshuffled shards of a part are the members of the stored part in order, and its checkpoint tells their sizes, so
that they are read by ranges. Each shard is stored as one object. Beside the parts in the folder of the job, there is one more
kind of file:

    .<name>.bpejit-job/shard-<k>.json         the size of a shard that is stored

Two runs of the same job store equal objects.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bpejit.jobs.job_folder import damaged, file_sha256, read_record, sync_paths, write_record
from bpejit.jobs.url_store import UrlStore, broken_part
from bpejit.storage.scratch import scratch_folder
from bpejit.t2t.record_formats.registry import load_record_format
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.tfrecords import read_record_blocks

_BLOCK = tarfile.BLOCKSIZE

_RANGE_BYTES = 64 << 20
"""Most bytes of a request for a range."""


@dataclass(frozen=True)
class ShardSource:
    """The records of a shard in one part.

    Parameters
    ----------
    place : Path or str
        A TFRecord file, or the URL of a stored part.
    size : int
        Bytes of the records.
    sha256 : str
        Their hash; empty if this run has written them.
    begin : int
        Where they begin.
    """

    place: Path | str
    size: int
    sha256: str = ""
    begin: int = 0


@dataclass(frozen=True)
class ShardTask:
    """A shard to shuffle.

    Parameters
    ----------
    shard : int
        Its index among the shards of all splits.
    sources : tuple of ShardSource
        Together they contain its records.
    target : Path or str
        The file to write, which is complete if its hash is stored (see `complete_shard`), or its URL.
    """

    shard: int
    sources: tuple[ShardSource, ...]
    target: Path | str

    data: ClassVar[None] = None
    """A task carries no data."""

    @property
    def size(self) -> int:
        """Bytes of its records."""
        return sum(source.size for source in self.sources)


def stored_shard(number: int) -> str:
    """Return the name of a shard in a stored part."""
    return f"shard-{number:05d}"


def local_sources(folder: Path, names: Sequence[str], checkpoint: Mapping[str, Any], *, fresh: bool) -> list[ShardSource]:
    """Return the unshuffled shards of a part in a folder; `fresh` is True if this run has written them."""
    hashes = [""] * len(names) if fresh else checkpoint["hashes"]
    return [ShardSource(folder / name, *found) for name, *found in zip(names, checkpoint["sizes"], hashes, strict=True)]


def stored_sources(url: str, checkpoint: Mapping[str, Any], checkpoint_bytes: int) -> list[ShardSource]:
    """Return the unshuffled shards of a stored part, which follow its checkpoint."""
    sources = []
    begin = _BLOCK + _padded(checkpoint_bytes)
    for size, sha256 in zip(checkpoint["sizes"], checkpoint["hashes"], strict=True):
        sources.append(ShardSource(url, int(size), sha256, begin + _BLOCK))
        begin += _BLOCK + _padded(int(size))
    return sources


def _padded(size: int) -> int:
    """Return the bytes that the content of a member takes."""
    return -(-size // _BLOCK) * _BLOCK


def stored_sizes(remote: UrlStore, shards: Sequence[str]) -> dict[int, int]:
    """Return the sizes of the shards that an earlier run of this job has stored."""
    there = set(remote.outputs())
    notes = set(remote.list_files(remote.folder))
    stored = [number for number, name in enumerate(shards) if name in there and f"{stored_shard(number)}.json" in notes]
    found = {number: remote.read_json(_note(remote, number)) for number in stored}
    return {number: int(fields["bytes"]) for number, fields in found.items() if fields is not None}


def _note(remote: UrlStore, shard: int) -> str:
    """Return the URL of the file with the size of a stored shard."""
    return f"{remote.folder}/{stored_shard(shard)}.json"


def complete_shard(target: Path) -> None:
    """Flush a shard to disk, and write its hash, unless an earlier run has done so.

    Unlike `replacing`, without flushing the folder each time: after a power failure, a missing file is written again.
    """
    if not _hash_of(target).exists():
        sync_paths([target])
        write_record(_hash_of(target), {"sha256": file_sha256(target)}, synced=False)


def _hash_of(target: Path) -> Path:
    """Return the file with the hash of a complete shard."""
    return target.with_name(f"{target.name}.sha256")


def _is_intact(target: Path) -> bool:
    """Return True if a shard is complete, and has the bytes that were written."""
    found = read_record(_hash_of(target)) or {}
    return target.exists() and file_sha256(target) == found.get("sha256")


@dataclass(frozen=True)
class Shuffling:
    """How shards are shuffled.

    Parameters
    ----------
    seed : int
    max_memory : int
        Bytes of memory for each worker.
    shuffles : bool
        Whether the examples are put into a random order.
    format : str
        A record format (see `bpejit.t2t.record_formats`).
    names : tuple of str
        The features of the examples.
    remote : UrlStore, optional
        Where the parts and the shards are, if not in files.
    """

    seed: int
    max_memory: int
    shuffles: bool
    format: str
    names: tuple[str, ...]
    remote: UrlStore | None

    def run(self, task: ShardTask) -> tuple[int, int]:
        """Write a shard, unless it is complete, or store it. Return its index, and its size in bytes."""
        if self.remote is None:
            target = Path(task.target)
            if _is_intact(target):  # an earlier run has written it
                return task.shard, target.stat().st_size
            _hash_of(target).unlink(missing_ok=True)
            return task.shard, self._write(task.shard, task.sources, target)
        with scratch_folder(Path(tempfile.gettempdir()), "shuffling") as scratch:
            places = [scratch / f"part-{number}" for number in range(len(task.sources))]
            for source, place in zip(task.sources, places, strict=True):
                _fetch_records(self.remote, source, place)
            size = self._write(task.shard, [ShardSource(place, 0) for place in places], scratch / "shard")
            self.remote.put_file(scratch / "shard", str(task.target))
        self.remote.put_bytes(_note(self.remote, task.shard), json.dumps({"bytes": size}).encode("ascii"))
        return task.shard, size

    def _write(self, shard: int, sources: Sequence[ShardSource], target: Path) -> int:
        for source in sources:
            if source.sha256 and file_sha256(Path(source.place)) != source.sha256:
                raise damaged(source.place, folder=Path(source.place).parent)
        paths = [Path(source.place) for source in sources]
        with target.open("wb") as file:
            writer = load_record_format(self.format).writer(file, self.names)
            try:
                if self.shuffles:
                    shuffle_records(paths, writer.write, seed=self.seed, shard=shard, max_memory=self.max_memory)
                else:
                    for path in paths:
                        for data, starts in read_record_blocks(path):
                            writer.write(data, starts)
                writer.finish()
            except BaseException:
                writer.abandon()
                raise
        return target.stat().st_size


def _fetch_records(remote: UrlStore, source: ShardSource, target: Path) -> None:
    """Copy a member of a stored part to a file."""
    position, stop = source.begin, source.begin + source.size
    with target.open("wb") as file, remote.access(str(source.place), "read") as (file_system, name):
        while position < stop:
            data = file_system.cat_file(name, start=position, end=min(position + _RANGE_BYTES, stop))
            if not data:
                break
            file.write(data)
            position += len(data)
    if file_sha256(target) != source.sha256:
        raise broken_part(str(source.place))
