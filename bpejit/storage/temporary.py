"""Hidden files that a run makes beside its outputs, and how those of dead processes are found and removed.

A name says what the file is for and in which boot of which machine it was made:

    .<target>.bpejit-<boot>-<random>.tmp      an output that is being written
    .<target>.bpejit-<boot>-<random>.new      the same, where it is on another disk than its description
    .<target>.bpejit-<boot>-<random>.old      the former content of an output, kept until the new one is complete

The process that writes a file holds a lock on it (flock). A file of this boot whose lock is free belongs to a process that is
gone, and is removed by the next run that writes to the folder. Storage may be shared between machines, so a file of another
boot is never removed, and a process id would prove nothing. Where the file system has no locks, nothing is removed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCKS = fcntl is not None
"""Whether the platform has locks that other processes see."""

_NAME = re.compile(r"\..{1,40}\.bpejit-([0-9a-f]{12})-[0-9a-f]{12}\.tmp", re.DOTALL)

_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EROFS}
"""What file systems answer that cannot flush: some network and user-space ones."""

_NO_BOOT = "0" * 12


@lru_cache(maxsize=1)
def boot_name() -> str:
    """Return 12 hexadecimal digits that differ for each machine and each of its boots; zeros where that is not known."""
    try:
        if sys.platform == "darwin":
            sysctl = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            identity = subprocess.run(sysctl, capture_output=True, check=True, timeout=10).stdout
        else:
            identity = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except (OSError, subprocess.SubprocessError):
        return _NO_BOOT
    return hashlib.sha256(identity.strip()).hexdigest()[:12] if identity.strip() else _NO_BOOT


def is_this_boot(name: str) -> bool:
    """Return whether a result of `boot_name` is of this machine since it was started."""
    return name == boot_name() != _NO_BOOT


def hidden(target: Path, kind: str) -> Path:
    """Return an unused name in the folder of `target`: hidden, and short enough even where `target` has a long name."""
    return target.with_name(f".{target.name[:40]}.bpejit-{boot_name()}-{secrets.token_hex(6)}.{kind}")


def lock(descriptor: int) -> None:
    """Mark an open file as in use by this process, until it is closed. Nothing happens where there are no locks."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_linked(descriptor: int) -> bool:
    """Return whether an open file still has a name."""
    return os.fstat(descriptor).st_nlink > 0


@contextmanager
def taken(path: Path) -> Iterator[bool | None]:
    """Take the lock of a file for the block.

    Yields
    ------
    bool, optional
        True if the lock was taken, so that no process of this machine uses the file; False if one does; None if there is no
        such file, or it cannot be known.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        yield None
        return
    try:
        if fcntl is None or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield None
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            state: bool | None = True if is_linked(descriptor) else None
        except BlockingIOError:
            state = False
        except OSError:
            state = None
        yield state
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, keep: Collection[Path] = ()) -> None:
    """Remove what dead processes of this machine left while they wrote to a folder.

    Parameters
    ----------
    folder : Path
    keep : paths
        Files that an interrupted exchange still needs.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            if found is None or not is_this_boot(found[1]) or folder / entry.name in keep:
                continue
            with taken(folder / entry.name) as free:
                if free:
                    remove(folder / entry.name)


def remove(path: Path) -> None:
    """Remove a file, if that is possible."""
    with suppress(OSError):
        path.unlink()


def sync_file(descriptor: int) -> None:
    """Wait until the content of an open file is on the disk.

    Raises
    ------
    OSError
        If the disk fails. File systems that cannot flush are ignored.
    """
    try:
        if fcntl is not None and hasattr(fcntl, "F_FULLFSYNC"):
            with suppress(OSError):  # macOS: fsync leaves the data in the cache of the drive
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
        os.fsync(descriptor)
    except OSError as cause:
        if cause.errno not in _UNSUPPORTED:
            raise


def sync_folders(folders: Collection[Path]) -> None:
    """Wait until the names in folders are on the disk.

    Raises
    ------
    OSError
        If the disk fails. File systems that cannot flush folders, and folders that may not be read, are ignored.
    """
    if os.name != "posix":
        return
    for folder in dict.fromkeys(folders):
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except OSError:
            continue
        try:
            os.fsync(descriptor)
        except OSError as cause:
            if cause.errno not in _UNSUPPORTED:
                raise
        finally:
            os.close(descriptor)
