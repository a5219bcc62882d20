"""Search the paths that a user names: files, folders, globs, URLs and `-`."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bpejit import arguments
from bpejit.corpus.input_folders import HUB_CACHE
from bpejit.corpus.input_streams import STANDARD_INPUT
from bpejit.errors import CorpusError, shorten
from bpejit.storage.remote import check_container, is_remote, local_path, remote_errors, remote_file_system

GIVE_TEXTS = (
    "give texts as an iterator, such as iter(dataset['text']) or (row['text'] for row in rows), since a list is one of paths; "
    "bpejit.train_from_iterator and tokenizer.encode_batch take lists of texts"
)
"""What to do with texts in memory."""

Inputs = Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | Iterator[Any]
"""One file, folder, glob, URL or `-`, a list of them, or an iterator of texts."""


def list_inputs(inputs: Inputs) -> list[str]:
    """Return the paths of all inputs, as `find_sources` does, without opening them.

    Raises
    ------
    CorpusError
        If there are no inputs, or a glob or a folder has no files. Whether a file exists is not checked.
    """
    names: list[str] = []
    for name, kind in find_paths(inputs):
        if kind not in ("folder", "end"):
            names += [file[0] for file in find_remote(name)[1]] if kind == "remote" else [name]
    return names


def find_paths(inputs: Inputs) -> Iterator[tuple[str, str]]:
    """Yield the path of each input and its kind: `stream` (standard input), `remote`, `regular`, or `other`.

    The files of a folder follow its path with `folder`, and precede it with `end`.
    What cannot be examined is `other`, as pipes are: opening it raises the right error.
    """
    has_stream = found_any = False
    for name in _names(inputs):
        if name == STANDARD_INPUT:
            if has_stream:
                raise CorpusError(
                    "standard input (`-`) is listed twice, but can be read only once; expected it once: remove one"
                )
            has_stream = True
            yield name, "stream"
        elif "://" in name and is_remote(name):
            yield name, "remote"
        elif glob.has_magic(name) and not exists(name):
            matches = list(_matches_of(name))
            if all(kind in ("folder", "end") for _, kind in matches):
                if arguments.looks_like_text(name):
                    raise unreadable(name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
                raise CorpusError(f"no file matches the input `{name}`; expected at least one: check the pattern")
            yield from matches
        elif (kind := _file_kind(name)) == "folder":
            files = sorted(_files_of(name))
            if not files:
                raise CorpusError(f"the input `{name}` is a folder without files; expected at least one: check the path")
            yield name, "folder"
            for file in files:
                yield file, "regular"
            yield name, "end"
        else:
            yield name, kind
        found_any = True
    if not found_any:
        raise CorpusError("no input was given; expected at least one file, folder, glob, or `-` for standard input")


def _file_kind(name: str) -> str:
    """Return `folder`, `regular`, or `other`."""
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 - a third of the time, and there may be 10,000 files
    except (OSError, ValueError):  # also a name that is too long
        return "other"
    return "folder" if stat.S_ISDIR(mode) else "regular" if stat.S_ISREG(mode) else "other"


def _matches_of(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the files that match a glob, and those of folders that match it, with their kinds.

    So the shell may expand the glob as well. Folders that match `**` are left out, since their files match, too.
    """
    for match in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 - the pattern may be absolute
        kind = _file_kind(match)
        if kind != "folder":
            yield match, kind
        elif "**" not in pattern:
            yield match, "folder"
            yield from ((file, "regular") for file in sorted(_files_of(match)))
            yield match, "end"


def _files_of(folder: str, outer: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the paths of the regular files of a folder and of its folders, in no order."""
    inside = (*outer, os.path.realpath(folder))
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if not entry.name.startswith(".")]
        if {entry.name for entry in found} >= HUB_CACHE:
            found = [_only_snapshot(folder)]
        for entry in found:
            if entry.is_file():
                yield entry.path
            elif entry.is_dir() and os.path.realpath(entry.path) not in inside:  # a link to an outer folder is no input
                yield from _files_of(entry.path, inside)
    except OSError as error:
        raise unreadable(folder, error) from error


def _only_snapshot(folder: str) -> os.DirEntry[str]:
    """Return the snapshot of a repository in the cache of the Hugging Face Hub, whose other folders have the same content."""
    with os.scandir(os.path.join(folder, "snapshots")) as entries:  # noqa: PTH118
        found = sorted(entries, key=lambda entry: entry.name)
    if len(found) != 1:
        shown = ", ".join(f"`{entry.path}`" for entry in found[:5]) or "none"
        raise CorpusError(
            f"the folder `{folder}` has {len(found)} snapshots of a repository; expected one: give the folder of one of them "
            f"({shown})"
        )
    return found[0]


def find_remote(name: str) -> tuple[Any, list[tuple[str, str, int]]]:
    """Return a file system, and URL, name and size of each file that a URL names: one, those of a folder, or of a glob."""
    file_system, path = remote_file_system(name, error=CorpusError)
    with remote_errors(name, error=CorpusError):
        file_system.invalidate_cache()  # objects may have changed since an earlier call listed them
        magic = glob.has_magic(path)
        if magic:
            found = file_system.glob(path, detail=True)
        else:
            info = file_system.info(path)
            found = {path: info} if info.get("type") == "file" else file_system.find(path, detail=True)
        scheme = name.partition("://")[0]
        files = [
            (f"{scheme}://{str(match).partition('://')[2] or match}", str(match), int(info["size"]))
            for match, info in sorted(found.items())
            if info.get("type") == "file" and (magic or not _is_hidden(str(match), path))
        ]
        if not files:
            check_container(name, file_system, path)
            raise CorpusError(f"no file matches the input `{name}`; expected at least one: check the address")
        return file_system, files if len(files) > 1 or path != files[0][1] else [(name, path, files[0][2])]


def _is_hidden(name: str, folder: str) -> bool:
    """Return True if a file, or a folder that contains it below `folder`, has a name that begins with a dot."""
    return any(part.startswith(".") for part in name.removeprefix(folder).split("/"))


def exists(name: str) -> bool:
    """Return True if a name is that of a file or a folder."""
    try:
        return Path(name).exists()
    except OSError:  # a name that is too long
        return False


def _names(inputs: Inputs) -> list[str]:
    """Return the inputs as a list of paths, globs and `-`."""
    if isinstance(inputs, (str, os.PathLike)):
        return [local_path(arguments.path("inputs", inputs, error=CorpusError))]
    if not arguments.is_iterable(inputs):
        action = "give such a list" if arguments.column_names(inputs) is None else GIVE_TEXTS
        raise arguments.wrong_type("inputs", inputs, "a path, or a list of paths, globs and '-'", action)
    entries = list(inputs)
    names = _plain_names(entries)
    if names is not None:
        return names
    if not isinstance(entries[0], (str, bytes, os.PathLike)):
        raise arguments.wrong_type("inputs[0]", entries[0], "a path, a str or an os.PathLike", GIVE_TEXTS)
    return [local_path(arguments.path(f"inputs[{index}]", entry, error=CorpusError)) for index, entry in enumerate(entries)]


def _plain_names(entries: list[Any]) -> list[str] | None:
    """Return the names of inputs that are valid local paths; None if one may not be, or is a URL.

    They are tested together: for 10,000 inputs, each by itself takes four times as long.
    """
    try:
        names = [os.fspath(entry) for entry in entries]
        together = "".join(names)
        os.fsencode(together)
    except (TypeError, UnicodeEncodeError):
        return None
    is_plain = all(names) and "\0" not in together and "://" not in together
    return names if is_plain and max(map(len, names), default=0) <= arguments.LONGEST_PATH else None


def unreadable(path: str, error: OSError) -> CorpusError:
    """Return the error to raise for an input that cannot be opened or read."""
    if error.errno in (errno.ENOENT, errno.ENAMETOOLONG, errno.ENOTDIR) and arguments.looks_like_text(path):
        return CorpusError(
            f"cannot read the input {shorten(path)}: {error.strerror or error}, and it looks like text; expected the path of a "
            "file: write the text to a file, and give its path"
        )
    return CorpusError(
        f"cannot read the input `{path}`: {error.strerror or error}; expected a readable file: "
        "check the path and its permissions"
    )
