"""Folders for temporary files of a run, and the removal of those that ended processes left.

A folder is named `.<name>.bpejit-<boot>-<random>.scratch`. It contains a file `lock`, on which the process holds a lock (see
`bpejit.storage.temporary`). If the lock of a folder of this boot is free, its process has ended, and the next run that creates
a folder in the same place removes it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bpejit.storage.files import write_error
from bpejit.storage.temporary import hidden, is_linked, is_this_boot, lock, taken

_NAME = re.compile(r"\..{1,40}\.bpejit-([0-9a-f]{12})-[0-9a-f]{12}\.scratch", re.DOTALL)

_LOCK = "lock"


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """Create a hidden folder for temporary files, and remove it with its content when the context exits.

    Parameters
    ----------
    parent : Path
        An existing folder.
    name : str
        Part of the name of the new folder.

    Raises
    ------
    OutputError
        If the folder cannot be created.
    """
    remove_scratch(parent)
    folder, descriptor = _create(parent, name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _create(parent: Path, name: str) -> tuple[Path, int]:
    while True:
        folder = hidden(parent / name, "scratch")
        try:
            folder.mkdir(mode=0o700)
            descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        except FileNotFoundError as cause:
            if not parent.is_dir():
                raise write_error(str(folder), cause) from cause
            continue  # another run removed the new folder as a leftover
        except OSError as cause:
            raise write_error(str(folder), cause) from cause
        lock(descriptor)
        if is_linked(descriptor):
            return folder, descriptor
        os.close(descriptor)


def remove_scratch(parent: Path) -> None:
    """Remove the folders for temporary files that ended processes of this machine left in `parent`."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            if found is None or not is_this_boot(found[1]) or not entry.is_dir(follow_symlinks=False):
                continue
            folder = parent / entry.name
            with taken(folder / _LOCK) as free:
                if free:
                    shutil.rmtree(folder, ignore_errors=True)
                elif free is None:  # its process ended before it made the lock
                    with suppress(OSError):
                        folder.rmdir()
