"""What the cache holds, and how it is emptied: by the user, and of what has not been used for long.

Reading a file sets its time of modification, once a day, so that it tells when the file was last used. Files may disappear
while other processes use the cache: code that they have loaded is in their memory, and what they miss they make again.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bpejit.jit import cache

_FOLDER = re.compile(r"(?:kernels|numba|removed)-[0-9a-f]{16,32}|[0-9a-f]{24}|" + cache.PATTERNS)
"""Names of the folders in the cache; those without a word are of earlier versions."""

UNUSED_DAYS = 90
"""What has not been used for so long is removed."""

MOST_FOLDERS = 16
"""Of more folders than these, those that have not been used for a week are removed."""

_DAY = 86_400.0  # seconds

_LONGEST_WRITE = 3600.0
"""A temporary file that is older was left by a process that is dead."""


_MOST_TRIES = 3


class Folder(NamedTuple):
    """A folder in the cache.

    Parameters
    ----------
    name : str
    n_files : int
    n_bytes : int
    last_used : float
        In seconds since 1970, to a day.
    """

    name: str
    n_files: int
    n_bytes: int
    last_used: float


def list_folders(root: Path) -> list[Folder]:
    """Return what is in the cache, the folder that was used last first."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(root):
            with suppress(OSError):
                if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    files = [status for _, status in _files(Path(entry.path))]
                    times = [entry.stat(follow_symlinks=False).st_mtime, *(status.st_mtime for status in files)]
                    found.append(Folder(entry.name, len(files), sum(status.st_size for status in files), max(times)))
    return sorted(found, key=lambda folder: (-folder.last_used, folder.name))


def clear(root: Path) -> tuple[int, int]:
    """Remove everything from the cache; return the number of files and bytes removed.

    Parameters
    ----------
    root : Path
        A folder that `folders.resolve` has returned.

    Raises
    ------
    OSError
        If something cannot be removed.
    """
    n_files = n_bytes = 0
    for folder in list_folders(root):
        _remove(root / folder.name)
        n_files += folder.n_files
        n_bytes += folder.n_bytes
    return n_files, n_bytes


def prune(root: Path, current: str) -> None:
    """Remove what has not been used for long.

    Parameters
    ----------
    root : Path
        A folder that `folders.resolve` has returned.
    current : str
        Name of a folder in it that stays.
    """
    now = time.time()
    for number, folder in enumerate(list_folders(root)):
        days = (now - folder.last_used) / _DAY
        if folder.name != current and (days > UNUSED_DAYS or (number >= MOST_FOLDERS and days > 7)):
            with suppress(OSError):
                _remove(root / folder.name)
            continue
        for path, status in _files(root / folder.name):
            age = now - status.st_mtime
            if age > UNUSED_DAYS * _DAY or (path.suffix == ".tmp" and age > _LONGEST_WRITE):
                with suppress(OSError):
                    path.unlink()


def _remove(folder: Path) -> None:
    """Remove a folder with what is in it."""
    # Under another name nobody begins to write to it; who has begun, may still add a file.
    aside = folder.with_name(f"removed-{os.urandom(8).hex()}")
    with suppress(FileNotFoundError):  # another process was faster
        folder.rename(aside)
        for _ in range(_MOST_TRIES - 1):
            shutil.rmtree(aside, ignore_errors=True)
        if aside.exists():
            shutil.rmtree(aside)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files in a folder, and in those in it, as far as they are still there."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with suppress(OSError):
                yield path, path.lstat()
