"""Find the folder of the cache, and check that other users cannot modify it.

The content of the cache is executed. A folder is therefore used only if it and all its parents belong to the user or to root,
and no other user may write to them. A parent may be writable if it has the sticky bit, like `/tmp`, which prevents users from
renaming or removing the files of others. Folders are created with mode 0700.

Folders are checked from the root of the file system downwards. Once a folder has passed, no other user can replace its entries,
so the result of the next check remains valid. Symbolic links are followed one by one, under the same conditions.

Access control lists are not checked. On Windows, whose permissions differ, nothing is checked.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bpejit.errors import shorten

PATTERNS = "patterns"
"""Name of the folder for the tables of split patterns."""

ENCODERS = "encoders"
"""Name of the folder for the tables of encoders and for parsed vocabularies."""

_MAX_LINKS = 40
"""Maximum number of symbolic links on one path, as on Linux."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class FolderError(Exception):
    """A folder cannot be used; the message gives the reason."""


class CacheFolder(NamedTuple):
    """The folder of the cache.

    Parameters
    ----------
    path : Path
        An absolute path.
    variable : str
        The environment variable that named it; empty for the user's own folder.
    """

    path: Path
    variable: str


def find_cache_folder() -> CacheFolder:
    """Return the folder of the cache; it need not exist.

    Raises
    ------
    FolderError
        If no variable names a folder and the user has no home directory.
    """
    for variable, inner in (("BPEJIT_CACHE_DIR", ""), ("NUMBA_CACHE_DIR", "bpejit")):
        chosen = os.environ.get(variable)
        if chosen:
            try:
                return CacheFolder(Path(chosen, inner).absolute(), variable)
            except OSError as error:
                raise FolderError(f"{variable} is {shorten(chosen)}, but there is no working directory: {error}") from error
    try:
        path = _user_folder()
    except RuntimeError:
        path = Path()
    if not path.is_absolute():
        raise FolderError("the user has no home directory")
    return CacheFolder(path, "")


def _user_folder() -> Path:
    # Same as `platformdirs.user_cache_dir("bpejit")`. Importing that package takes 7 ms, a tenth of the time of
    # `bpejit --help`.
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", ""), "bpejit", "bpejit", "Cache")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "bpejit"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "bpejit"


def has_owners() -> bool:
    """Return True if files have owners on this system, that is, everywhere but on Windows."""
    return hasattr(os, "geteuid")


def resolve(path: Path, *, create: bool = False) -> Path | None:
    """Return the real path of a folder after checking that no other user can modify it.

    Parameters
    ----------
    path : Path
        An absolute path.
    create : bool
        Whether to create the folder and its parents if they do not exist.

    Returns
    -------
    Path, optional
        None if the folder does not exist.

    Raises
    ------
    FolderError
        If the folder cannot be read or created, or if another user can modify it.
    """
    try:
        if has_owners():
            return _walk(path, create=create)
        if create:
            path.mkdir(parents=True, exist_ok=True)
        return path if path.is_dir() else None
    except OSError as error:
        raise FolderError(f"`{error.filename or path}`: {error.strerror or error}") from error


def _walk(path: Path, *, create: bool) -> Path | None:
    current, *names = map(Path, path.parts)
    waiting = deque(names)
    n_links = 0
    while True:
        found = current.lstat()
        if stat.S_ISLNK(found.st_mode):
            check_owner(current, found, is_parent=True)
            n_links += 1
            if n_links > _MAX_LINKS:
                raise FolderError(f"`{path}` has more than {_MAX_LINKS} symbolic links")
            # An absolute target restarts at the root: joining a path with an absolute path gives the absolute path.
            waiting.extendleft(reversed([*map(Path, current.readlink().parts)]))
            current = current.parent
            continue
        if not stat.S_ISDIR(found.st_mode):
            raise FolderError(f"`{current}` is not a folder")
        is_parent = bool(waiting)
        check_owner(current, found, is_parent=is_parent)
        check_writers(current, found, allow_sticky=is_parent)
        if not waiting:
            return current
        name = waiting.popleft()
        if name == Path(os.pardir):
            current = current.parent  # contains no symbolic link
            continue
        current = current / name
        try:
            current.lstat()
        except FileNotFoundError:
            if not create:
                return None
            # If another process created it first, the next check examines its owner.
            with suppress(FileExistsError):
                current.mkdir(mode=0o700)


def check_owner(path: Path, found: os.stat_result, *, is_parent: bool = False) -> None:
    """Raise FolderError unless a file or folder belongs to the user or to root.

    Parameters
    ----------
    path : Path
    found : os.stat_result
    is_parent : bool
        Whether it is a parent of the cache folder, or a link. It may then also belong to the overflow user (see `_nobody`).
    """
    user = os.geteuid()
    if found.st_uid in (user, 0) or (is_parent and found.st_uid == _nobody()):
        return
    expected = "root" if user == 0 else f"{_name_user(user)} or root"
    raise FolderError(f"`{path}` belongs to {_name_user(found.st_uid)}; expected {expected}")


@functools.cache
def _nobody() -> int | None:
    """Return the overflow user id, to which unmapped users (root among them) are mapped in a user namespace, or None.

    Unprivileged containers map few users, often only one (see user_namespaces(7)). All parents of the user's folders then
    belong to the overflow user, and without this exception there would be no cache. Outside of containers all users are mapped,
    and the result is None.
    """
    try:
        uid = int(Path("/proc/sys/kernel/overflowuid").read_bytes())
        uid_map = Path("/proc/self/uid_map").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return None if _is_mapped(uid, uid_map) else uid


def _is_mapped(uid: int, uid_map: str) -> bool:
    """Return True if a user id is in a range of `/proc/self/uid_map`: first id inside, first id outside, count."""
    ranges = (map(int, line.split()) for line in uid_map.splitlines())
    return any(first <= uid < first + count for first, _, count in ranges)


def check_writers(path: Path, found: os.stat_result, *, allow_sticky: bool = False) -> None:
    """Raise FolderError if users other than the owner may write to a file or folder."""
    mode = found.st_mode
    if not mode & _OTHERS_WRITE or (allow_sticky and mode & stat.S_ISVTX):
        return
    if mode & stat.S_IWOTH or not _is_private_group(found):
        who = "every user" if mode & stat.S_IWOTH else "its group"
        raise FolderError(f"`{path}` is writable by {who} (mode {stat.S_IMODE(mode):04o})")


def _is_private_group(found: os.stat_result) -> bool:
    """Return True if the owner of the file is the only member of its group. Many systems create a group for each user."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    # `gr_mem` does not list users whose primary group this is. By convention, the group named after a user has no other
    # members. The group of root is an exception: containers assign it to arbitrary users.
    names_only_owner = group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}
    return names_only_owner and owner.pw_gid == group.gr_gid != 0


def _name_user(uid: int) -> str:
    import pwd

    try:
        return f"user {shorten(pwd.getpwuid(uid).pw_name)}"
    except KeyError:
        return f"user {uid}"
