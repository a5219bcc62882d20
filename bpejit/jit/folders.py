"""Where the cache is, and whether it may be trusted.

What is in the cache is executed. So a folder is used only if nobody but the user and root can change what is in it: it and
all folders above it belong to one of them, and nobody else may write to them. A folder above may have the sticky bit, as `/tmp`
has, which keeps others from renaming or removing what is not theirs. Folders are made with mode 0700.

The folders are checked from the root of the file system downwards. Once a folder has passed, no other user can exchange what is
in it, so what the next check finds stays true. Symbolic links are followed one by one, each under the same conditions.

Access control lists are not looked at. Windows has other permissions; there nothing is checked.
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

_MOST_LINKS = 40
"""Symbolic links on one path, as on Linux."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class FolderError(Exception):
    """A folder cannot be used; the message gives the reason."""


class Place(NamedTuple):
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


def find_place() -> Place:
    """Return the folder of the cache; it need not exist.

    Raises
    ------
    FolderError
        If no variable names a folder, and the user has no home directory.
    """
    for variable, inner in (("BPEJIT_CACHE_DIR", ""), ("NUMBA_CACHE_DIR", "bpejit")):
        chosen = os.environ.get(variable)
        if chosen:
            try:
                return Place(Path(chosen, inner).absolute(), variable)
            except OSError as error:
                raise FolderError(f"{variable} is {shorten(chosen)}, and there is no working directory: {error}") from error
    try:
        path = _user_folder()
    except RuntimeError:
        path = Path()
    if not path.is_absolute():
        raise FolderError("the user has no home directory")
    return Place(path, "")


def _user_folder() -> Path:
    # The folder that `platformdirs.user_cache_dir("bpejit")` gives. To import that package takes 7 ms, a tenth of the time of
    # `bpejit --help`.
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", ""), "bpejit", "bpejit", "Cache")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "bpejit"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "bpejit"


def has_owners() -> bool:
    """Whether files belong to users here, as they do everywhere but on Windows."""
    return hasattr(os, "geteuid")


def resolve(path: Path, *, create: bool = False) -> Path | None:
    """Return the real path of a folder that no other user can change.

    Parameters
    ----------
    path : Path
        An absolute path.
    create : bool
        Whether to make the folder, and those above it, where they do not exist.

    Returns
    -------
    Path, optional
        None if it does not exist.

    Raises
    ------
    FolderError
        If it cannot be used or made, or if another user can change it.
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
            check_owner(current, found, is_above=True)
            n_links += 1
            if n_links > _MOST_LINKS:
                raise FolderError(f"`{path}` has more than {_MOST_LINKS} symbolic links")
            # An absolute target begins anew at the root: a path that is joined to an absolute one is that one.
            waiting.extendleft(reversed([*map(Path, current.readlink().parts)]))
            current = current.parent
            continue
        if not stat.S_ISDIR(found.st_mode):
            raise FolderError(f"`{current}` is not a folder")
        is_above = bool(waiting)
        check_owner(current, found, is_above=is_above)
        check_writers(current, found, allow_sticky=is_above)
        if not waiting:
            return current
        name = waiting.popleft()
        if name == Path(os.pardir):
            current = current.parent  # there is no link in it
            continue
        current = current / name
        try:
            current.lstat()
        except FileNotFoundError:
            if not create:
                return None
            # If somebody else was faster, the next check finds out who.
            with suppress(FileExistsError):
                current.mkdir(mode=0o700)


def check_owner(path: Path, found: os.stat_result, *, is_above: bool = False) -> None:
    """Raise FolderError unless a file or folder belongs to the user or to root.

    Parameters
    ----------
    path : Path
    found : os.stat_result
    is_above : bool
        Whether it is a folder above that of the cache, or a link: then it may also belong to users without a number.
    """
    user = os.geteuid()
    if found.st_uid in (user, 0) or (is_above and found.st_uid == _nobody()):
        return
    expected = "root" if user == 0 else f"{_name_user(user)} or root"
    raise FolderError(f"`{path}` belongs to {_name_user(found.st_uid)}, expected {expected}")


@functools.cache
def _nobody() -> int | None:
    """Return the number that stands for all users without one, root among them.

    Containers without privileges know few users, often only one (user namespaces of Linux, see user_namespaces(7)). Everything
    above the folders of this user then belongs to nobody, and without this exception they would have no cache. Outside of
    containers each user has a number, and the result is None.
    """
    try:
        number = int(Path("/proc/sys/kernel/overflowuid").read_bytes())
        known = Path("/proc/self/uid_map").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return None if _is_known(number, known) else number


def _is_known(number: int, known: str) -> bool:
    """Whether a user has a number of his own, by lines as in `/proc/self/uid_map`: first number inside, outside, count."""
    ranges = (map(int, line.split()) for line in known.splitlines())
    return any(first <= number < first + count for first, _, count in ranges)


def check_writers(path: Path, found: os.stat_result, *, allow_sticky: bool = False) -> None:
    """Raise FolderError if others than the owner may write to a file or folder."""
    mode = found.st_mode
    if not mode & _OTHERS_WRITE or (allow_sticky and mode & stat.S_ISVTX):
        return
    if mode & stat.S_IWOTH or not _is_private_group(found):
        who = "every user" if mode & stat.S_IWOTH else "its group"
        raise FolderError(f"`{path}` can be written to by {who} (mode {stat.S_IMODE(mode):04o})")


def _is_private_group(found: os.stat_result) -> bool:
    """Whether a group has the owner of the file alone in it, as many systems make one for each user."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    # Users whose first group this is are not listed; by convention a group with the name of a user has no others. That of root
    # is an exception: containers give it to users without a number of their own.
    names_only_owner = group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}
    return names_only_owner and owner.pw_gid == group.gr_gid != 0


def _name_user(number: int) -> str:
    import pwd

    try:
        return f"user {shorten(pwd.getpwuid(number).pw_name)}"
    except KeyError:
        return f"user {number}"
