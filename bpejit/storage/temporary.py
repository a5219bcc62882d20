"""Temporary files beside outputs, and the removal of those that ended processes left.

The name of a temporary file contains its purpose and the boot of the machine on which it was created:

    .<target>.bpejit-<boot>-<random>.tmp      an output being written
    .<target>.bpejit-<boot>-<random>.new      the same, in another folder than its description
    .<target>.bpejit-<boot>-<random>.old      the previous content of an output, until the new one is complete
    .<name>.bpejit-<boot>-<random>.scratch    a folder of temporary files

The process that writes a file, or to a folder, holds a lock (flock) on it. If the lock of one of this boot is free, its
process has ended, and the next run that writes to the same place removes it. Storage may be shared between
machines, so files of other boots are never removed, and a process id would prove nothing. If the file system has no locks,
nothing is removed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
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
"""True if the platform has file locks."""

_NAME = re.compile(r"\..{1,40}\.bpejit-([0-9a-f]{12})-[0-9a-f]{12}\.(tmp|scratch)", re.DOTALL)

_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EROFS}
"""Errors of file systems that cannot flush, such as some network and user-space file systems."""

_NO_LOCKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL}

_NO_BOOT = "0" * 12


@lru_cache(maxsize=1)
def boot_name() -> str:
    """Return 12 hexadecimal digits that identify the machine and its boot, or zeros if they are unknown."""
    try:
        if sys.platform == "darwin":
            import subprocess  # takes 5 ms, and only macOS needs it

            sysctl = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            identity = subprocess.run(sysctl, capture_output=True, check=True, timeout=10).stdout
        else:
            identity = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except Exception:  # of the system, or of `subprocess`
        return _NO_BOOT
    return hashlib.sha256(identity.strip()).hexdigest()[:12] if identity.strip() else _NO_BOOT


def is_this_boot(name: str) -> bool:
    """Return True if a result of `boot_name` identifies the current boot of this machine."""
    return name == boot_name() != _NO_BOOT


def hidden(target: Path, kind: str) -> Path:
    """Return an unused hidden path in the folder of `target`, with a bounded length."""
    return target.with_name(f".{target.name[:40]}.bpejit-{boot_name()}-{os.urandom(6).hex()}.{kind}")


def lock(descriptor: int) -> None:
    """Lock an open file until it is closed. Do nothing if the platform or the file system has no locks."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def try_lock(descriptor: int, *, shared: bool = False) -> bool | None:
    """Lock an open file until it is closed, without waiting; with `shared`, several processes may.

    Return False if another process holds the lock, and None if the platform or the file system has no locks.

    Raises
    ------
    OSError
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as cause:
        if cause.errno not in _NO_LOCKS:
            raise
        return None
    return True


def is_linked(descriptor: int) -> bool:
    """Return True if an open file or folder still has a name."""
    return os.fstat(descriptor).st_nlink > 0


@contextmanager
def taken(path: Path, *, shared: bool = False) -> Iterator[bool | None]:
    """Hold the lock of a file or a folder for the duration of the context.

    Parameters
    ----------
    path : Path
    shared : bool
        Whether several processes may hold it in this way.

    Yields
    ------
    bool, optional
        True if the lock was acquired, so that no process of this machine uses the file. False if a process holds it. None if
        the file does not exist or the state is unknown.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        yield None
        return
    try:
        state = None
        with suppress(OSError):
            state = try_lock(descriptor, shared=shared)
        yield None if state and not is_linked(descriptor) else state
    finally:
        os.close(descriptor)


def name_new(written: Path, path: Path) -> bool:
    """Give a complete file a name that no file has yet; return False if one has. The other name may stay."""
    try:
        path.hardlink_to(written)
    except FileExistsError:
        return False
    except (OSError, NotImplementedError):  # a file system without hard links
        if path.exists():
            return False
        written.replace(path)
    return True


def remove_leftovers(folder: Path, keep: Collection[Path] = ()) -> None:
    """Remove the temporary files and folders that ended processes of this machine left in a folder.

    Parameters
    ----------
    folder : Path
    keep : paths
        Files that an interrupted exchange still needs.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            path = folder / entry.name
            if found is None or not is_this_boot(found[1]) or path in keep:
                continue
            with taken(path) as free, suppress(OSError):
                if free:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove(path: Path) -> None:
    """Remove a file and ignore errors."""
    with suppress(OSError):
        path.unlink()


def sync_file(descriptor: int) -> None:
    """Flush the content of an open file or folder to disk.

    Raises
    ------
    OSError
        If writing fails. File systems that cannot flush are ignored.
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


def start_sync(descriptor: int, start: int, size: int) -> None:
    """Start to write a range of an open file to disk, so that `sync_file` waits less; no operation except on Linux."""
    if sys.platform == "linux":
        with suppress(OSError):
            # Dirty pages are written, and only clean ones leave the cache; pages that have just been written are not clean.
            os.posix_fadvise(descriptor, start, size, os.POSIX_FADV_DONTNEED)


def sync_folders(folders: Collection[Path]) -> None:
    """Flush the entries of folders to disk.

    Raises
    ------
    OSError
        If writing fails. File systems that cannot flush folders, and unreadable folders, are ignored.
    """
    if os.name != "posix":
        return
    for folder in dict.fromkeys(folders):
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except OSError:
            continue
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)
