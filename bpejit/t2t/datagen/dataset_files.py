"""The names of the shards of data sets, and the files that shards are while they are generated."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from bpejit.arrays import Array
from bpejit.jobs.job_folder import damaged

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

    Attributes
    ----------
    paths : list of Path

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
        self.paths = [folder / name for name in names]
        self.sizes = list(sizes or [0] * len(names))
        self._open: dict[int, BinaryIO] = {}
        self._changed: set[int] = set(range(len(names)))
        for path, size in zip(self.paths, self.sizes, strict=True):
            with path.open("r+b" if size else "wb") as file:
                found = file.seek(0, os.SEEK_END)
                if found < size:
                    raise OSError(None, f"it has {found} bytes, fewer than the {size} of the last checkpoint", str(path))
                file.truncate(size)
        self._hashes = [hashlib.sha256() for _ in names]
        for path, digest, expected in zip(self.paths, self._hashes, hashes, strict=False):
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
            file = self.paths[shard].open("ab", buffering=0)
        self._open[shard] = file  # the last one is closed last
        rest = data.data
        self._hashes[shard].update(rest)
        while len(rest):
            rest = rest[file.write(rest) :]
        self.sizes[shard] += data.size
        self._changed.add(shard)

    def changed(self) -> list[Path]:
        """Return the shards that have changed since the last call."""
        shards, self._changed = self._changed, set()
        return [self.paths[shard] for shard in sorted(shards)]

    def close(self) -> None:
        """Close the files."""
        while self._open:
            with suppress(OSError):
                self._open.popitem()[1].close()
