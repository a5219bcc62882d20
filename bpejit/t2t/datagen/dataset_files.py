"""The files of a data set: names of shards, unshuffled shards while they are generated, and the shuffled ones."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bpejit.arrays import Array
from bpejit.jobs.job_folder import damaged, job_folder, read_record
from bpejit.jobs.job_manifest import FORMAT, manifest_path
from bpejit.jobs.output_files import listed_outputs
from bpejit.storage.exchange import recover
from bpejit.storage.outputs import check_outputs
from bpejit.storage.temporary import sync_file
from bpejit.t2t.record_formats.registry import load_record_format

INCOMPLETE = ".incomplete"

MOST_OPEN = 256
"""Number of unshuffled shards that are open at a time."""

_HASHED_BYTES = 1 << 20


class DatasetSplit:
    """The names of the parts of a data set."""

    TRAIN = "train"
    EVAL = "eval"
    TEST = "test"


FILE_NAMES = {DatasetSplit.TRAIN: "train", DatasetSplit.EVAL: "dev", "dev": "dev", DatasetSplit.TEST: "test"}
"""The name of each split in the names of files."""


def shard_name(
    base: str,
    split: str,
    shard: int,
    shards: int,
    *,
    shuffled: bool = True,
    suffix: str = "",
) -> str:
    """Return the published name of a shard.

    Examples
    --------
    >>> shard_name("wmt", "eval", 0, 1)
    'wmt-dev-00000-of-00001'
    """
    return f"{base}{'' if shuffled else '-unshuffled'}-{FILE_NAMES[split]}-{shard:05d}-of-{shards:05d}{suffix}"


@dataclass(frozen=True)
class DatasetNames:
    """The names of the shards of a data set.

    Parameters
    ----------
    out : Path
        The folder, and the name with which the names of files begin.
    splits : tuple of (str, int)
        The name and the number of shards of each split.
    suffix : str
        End of the names of the shuffled shards.
    """

    out: Path
    splits: tuple[tuple[str, int], ...]
    suffix: str = ""

    @property
    def divided(self) -> bool:
        """True: the data set consists of several files."""
        return True

    @property
    def folder(self) -> Path:
        """The folder of the unfinished job."""
        return job_folder(self.out)

    @property
    def manifest(self) -> Path:
        """The manifest of the complete data set."""
        return manifest_path(self.out, per_input=False)

    @property
    def slots(self) -> list[tuple[str, int, int]]:
        """The split, the index and the number of shards of each shard, in order."""
        return [(split, shard, shards) for split, shards in self.splits for shard in range(shards)]

    def paths(self) -> list[Path]:
        """Return the paths of the shuffled shards."""
        return [self.out.with_name(shard_name(self.out.name, *slot, suffix=self.suffix)) for slot in self.slots]

    def unshuffled(self) -> list[str]:
        """Return the names of the shards while they are generated."""
        return [shard_name(self.out.name, *slot, shuffled=False) for slot in self.slots]

    def existing(self) -> list[Path]:
        """Return the files of an earlier data set with this name, without its manifest."""
        listed = [self.manifest.parent / name for name in listed_outputs(self.manifest)]
        return [path for path in dict.fromkeys((*self.paths(), *listed)) if os.path.lexists(path)]


def names_of_job(out: Path, job: Mapping[str, Any]) -> DatasetNames:
    """Return the names of a data set from what was asked for, as in the manifest."""
    splits = tuple((str(split), int(shards)) for split, shards in job["splits"])
    return DatasetNames(out, splits, load_record_format(job["format"]).suffix)


def check_dataset_outputs(names: DatasetNames, *, inputs: Sequence[str], overwrite: bool) -> None:
    """Raise OutputError if writing a data set would destroy data without permission (see `check_outputs`)."""
    recover([*names.paths(), *names.existing(), names.manifest])
    paths = list(dict.fromkeys((names.paths()[0], *names.existing())))
    check_outputs(paths, inputs=inputs, overwrite=overwrite)
    is_manifest = (read_record(names.manifest) or {}).get("format") == FORMAT
    check_outputs([names.manifest], inputs=inputs, overwrite=overwrite or is_manifest)


class UnshuffledShards:
    """The shards of a part of a data set while they are generated: files of records that only grow.

    Parameters
    ----------
    folder : Path
        The folder of the part.
    names : list of str
    sizes : list of int, optional
        The size of each at the last checkpoint; what follows is cut off.
    hashes : list of str
        The hash of each then.

    Raises
    ------
    OSError
        If a file cannot be written, or is shorter than it was.
    OutputError
        If it does not contain what it did.
    """

    def __init__(
        self, folder: Path, names: Sequence[str], sizes: Sequence[int] | None = None, hashes: Sequence[str] = ()
    ) -> None:
        self._paths = [folder / f"{name}{INCOMPLETE}" for name in names]
        self._complete = [folder / name for name in names]
        self.sizes = list(sizes or [0] * len(names))
        self._open: dict[int, BinaryIO] = {}
        self._unsynced: set[int] = set()
        for path, complete, size in zip(self._paths, self._complete, self.sizes, strict=True):
            with suppress(FileNotFoundError):
                complete.replace(path)  # a run was interrupted while it completed them
            with path.open("r+b" if size else "wb") as file:
                found = file.seek(0, os.SEEK_END)
                if found < size:
                    raise OSError(None, f"it has {found} bytes, fewer than the {size} of the last checkpoint", str(path))
                file.truncate(size)
        self._hashes = [hashlib.sha256() for _ in names]
        for path, digest, expected in zip(self._paths, self._hashes, hashes, strict=False):
            with path.open("rb", buffering=0) as file:
                while data := file.read(_HASHED_BYTES):
                    digest.update(data)
            if digest.hexdigest() != expected:
                raise damaged(path, folder=folder)

    @property
    def hashes(self) -> list[str]:
        """The hash of each shard."""
        return [digest.hexdigest() for digest in self._hashes]

    def append(self, shard: int, data: Array) -> None:
        """Append records to a shard.

        Raises
        ------
        OSError
        """
        file = self._open.pop(shard, None)
        if file is None:
            if len(self._open) >= MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            file = self._paths[shard].open("ab", buffering=0)
        self._open[shard] = file  # the last one is closed last
        rest = data.data
        self._hashes[shard].update(rest)
        while len(rest):
            rest = rest[file.write(rest) :]
        self.sizes[shard] += data.size
        self._unsynced.add(shard)

    def snapshot(self) -> tuple[list[int], list[Callable[[], None]]]:
        """Return the sizes, and a list with a function that flushes to disk what was written."""
        shards, self._unsynced = self._unsynced, set()
        paths = [self._paths[shard] for shard in sorted(shards)]

        def sync() -> None:
            for path in paths:
                with path.open("rb+") as file:
                    sync_file(file.fileno())

        return list(self.sizes), [sync]

    def finish(self, *, synced: bool = True) -> None:
        """Flush all shards, and give them their names.

        Parameters
        ----------
        synced : bool
            Whether to flush them to disk, so that they survive a power failure.

        Raises
        ------
        OSError
        """
        self.close()
        for sync in self.snapshot()[1] if synced else ():
            sync()
        for path, complete in zip(self._paths, self._complete, strict=True):
            path.replace(complete)

    def close(self) -> None:
        """Close the files."""
        while self._open:
            with suppress(OSError):
                self._open.popitem()[1].close()
