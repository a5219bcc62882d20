"""Shuffle the shards of a data set: each by itself, from the unshuffled shards of all parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bpejit.jobs.job_folder import damaged, file_sha256, read_record, write_record
from bpejit.storage.temporary import sync_file
from bpejit.t2t.record_formats.registry import load_record_format
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.tfrecords import read_record_blocks


@dataclass(frozen=True)
class ShardTask:
    """A shard to shuffle.

    Parameters
    ----------
    shard : int
        Its index among the shards of all splits.
    sources : tuple of Path
        TFRecord files, which together contain its records.
    target : Path
        The file to write, as `written_shard` until it is complete.
    hashes : tuple of str
        Those of the sources, if other runs have written them.
    """

    shard: int
    sources: tuple[Path, ...]
    target: Path
    hashes: tuple[str, ...] = ()

    @property
    def data(self) -> None:
        """None: a task carries no data."""
        return


def stored_shard(number: int) -> str:
    """Return the name of a shard in a stored part."""
    return f"shard-{number:05d}"


def written_shard(target: Path) -> Path:
    """Return the name of a file in the folder of a job until it is complete and on disk."""
    return target.with_name(f"{target.name}.tmp")


def complete_shard(target: Path) -> None:
    """Flush a shard to disk, and give it its name.

    Unlike `replacing`, without flushing the folder each time: after a power failure, a missing file is written again.
    """
    if written_shard(target).exists():
        with written_shard(target).open("rb+") as file:
            sync_file(file.fileno())
        write_record(_hash_of(target), {"sha256": file_sha256(written_shard(target))}, synced=False)
        written_shard(target).replace(target)


def _hash_of(target: Path) -> Path:
    """Return the file with the hash of a complete shard."""
    return target.with_name(f"{target.name}.sha256")


def _is_intact(target: Path) -> bool:
    """Return True if a shard is complete, and has the bytes that were written."""
    found = read_record(_hash_of(target)) or {}
    return target.exists() and file_sha256(target) == found.get("sha256")


@dataclass(frozen=True)
class ShuffleJob:
    """Shuffles shards; the results of a worker are sizes in bytes.

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
    """

    seed: int
    max_memory: int
    shuffles: bool
    format: str
    names: tuple[str, ...]

    def start(self) -> ShuffleJob:
        """Return itself."""
        return self

    def run(self, task: ShardTask) -> int:
        """Write a shard, unless it is complete. Return its size in bytes."""
        if _is_intact(task.target):  # an earlier run has written it
            return task.target.stat().st_size
        for source, expected in zip(task.sources, task.hashes, strict=False):
            if file_sha256(source) != expected:
                raise damaged(source, folder=source.parent)
        with written_shard(task.target).open("wb") as file:
            writer = load_record_format(self.format).writer(file, self.names)
            try:
                if self.shuffles:
                    shuffle_records(task.sources, writer.write, seed=self.seed, shard=task.shard, max_memory=self.max_memory)
                else:
                    for source in task.sources:
                        for data, starts in read_record_blocks(source):
                            writer.write(data, starts)
                writer.finish()
            except BaseException:
                writer.abandon()
                raise
        return written_shard(task.target).stat().st_size

    def finish(self) -> None:
        """Return None: there is no combined result."""
