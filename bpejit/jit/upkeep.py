"""List, clear and prune the cache.

Reading a cached file updates its modification time once a day, so that it shows when the file was last used. Files may be
removed while other processes use the cache: loaded code stays in their memory, and missing files are created again.
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

from bpejit.jit import folders

_FOLDER = re.compile(r"(?:kernels|numba|removed)-[0-9a-f]{16,32}|[0-9a-f]{24}|" + f"{folders.PATTERNS}|{folders.ENCODERS}")
"""Names of the folders in the cache. Names without a prefix are from earlier versions."""

MAX_UNUSED_DAYS = 90
"""Files and folders that have not been used for longer are removed."""

MAX_FOLDERS = 16
"""If there are more folders, those that have not been used for a week are removed."""

MAX_BYTES = {folders.PATTERNS: 1 << 27, folders.ENCODERS: 1 << 28}
"""If the files in one of these folders take more space, those that were not used or written for the longest time are removed.
A pattern takes 1 MB; all presets with all versions of Unicode take 100 MB.
"""

_DAY = 86_400.0  # seconds

_MAX_WRITE_SECONDS = 3600.0
"""Older temporary files were left by a process that no longer runs."""

_MAX_TRIES = 3


class Folder(NamedTuple):
    """A folder in the cache.

    Parameters
    ----------
    name : str
    n_files : int
    n_bytes : int
    last_used : float
        Seconds since the epoch, accurate to a day.
    """

    name: str
    n_files: int
    n_bytes: int
    last_used: float


def list_folders(root: Path) -> list[Folder]:
    """Return the folders in the cache, the most recently used first."""
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
    """Clear the cache. Return the number of files and bytes removed.

    Parameters
    ----------
    root : Path
        A folder returned by `folders.resolve`.

    Raises
    ------
    OSError
        If a file cannot be removed.
    """
    n_files = n_bytes = 0
    for folder in list_folders(root):
        _remove(root / folder.name)
        n_files += folder.n_files
        n_bytes += folder.n_bytes
    return n_files, n_bytes


def prune(root: Path, current: str) -> None:
    """Remove files and folders that have not been used for a long time.

    Parameters
    ----------
    root : Path
        A folder returned by `folders.resolve`.
    current : str
        Name of a folder in it that is kept.
    """
    now = time.time()
    for index, folder in enumerate(list_folders(root)):
        days = (now - folder.last_used) / _DAY
        if folder.name != current and (days > MAX_UNUSED_DAYS or (index >= MAX_FOLDERS and days > 7)):
            with suppress(OSError):
                _remove(root / folder.name)
            continue
        for path, status in _files(root / folder.name):
            age = now - status.st_mtime
            if age > MAX_UNUSED_DAYS * _DAY or (path.suffix == ".tmp" and age > _MAX_WRITE_SECONDS):
                with suppress(OSError):
                    path.unlink()
    for name, most in MAX_BYTES.items():
        n_bytes = 0
        for path, status in sorted(_files(root / name), key=lambda found: -found[1].st_mtime):
            n_bytes += status.st_size
            if n_bytes > most and path.suffix != ".tmp":
                with suppress(OSError):
                    path.unlink()


def _remove(folder: Path) -> None:
    """Remove a folder and its content."""
    # After the rename no process starts to write to it, but one that already started may still add a file.
    aside = folder.with_name(f"removed-{os.urandom(8).hex()}")
    with suppress(FileNotFoundError):  # another process was faster
        folder.rename(aside)
        for _ in range(_MAX_TRIES - 1):
            shutil.rmtree(aside, ignore_errors=True)
        if aside.exists():
            shutil.rmtree(aside)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files in a folder and its subfolders. Skip files that are removed meanwhile."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with suppress(OSError):
                yield path, path.lstat()
