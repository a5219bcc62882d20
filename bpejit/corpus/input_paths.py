"""Search the paths that a user names: files, folders, globs, URLs and `-`.

In a folder of records, the files that describe a data set are left out, and a mixture of formats is refused.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from bpejit import arguments
from bpejit.corpus.contents import Contents, inner_name, named_inputs
from bpejit.corpus.input_streams import STANDARD_INPUT, unreadable
from bpejit.corpus.registry import TEXT, input_format_descriptions
from bpejit.errors import CorpusError, OptionError
from bpejit.options import AUTO
from bpejit.storage.files import is_remote, local_path
from bpejit.storage.remote import check_container, remote_access

File = TypeVar("File", bound=Any)
"""A `bpejit.corpus.sources.Source`."""

_STATE = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
"""Files that `datasets` writes beside the records, or that a repository of the Hugging Face Hub has."""

_ABOUT = re.compile(r"(?:readme|licen[cs]e|notice|citation|copying|changelog)(?:[._-].*)?")
"""Names of texts about a data set, in lower case."""

_CACHED = re.compile(r"cache-[0-9a-f]+\.arrow")
"""Names of what `datasets` keeps of results that it computed from the records."""

HUB_CACHE = {"blobs", "refs", "snapshots"}
"""The folders of a repository in the cache of the Hugging Face Hub."""


def records_of_folder(folder: str, sources: Sequence[File], contents: Contents) -> list[File]:
    """Return the sources of a folder without the files that describe a data set, if it has records.

    Parameters
    ----------
    folder : str
        The folder, or its URL, as the user gave it.
    sources : list of Source
        All of its files.
    contents : Contents
        Warns of the files that are left out.

    Raises
    ------
    CorpusError
        If there are records beside plain text, or records of two formats.
    """
    given = contents.options.input_format
    if given == TEXT or all(source.input_format == TEXT for source in sources):
        return list(sources)
    described = {_split(source.path)[0] for source in sources if _split(source.path)[1] in ("dataset_info.json", "state.json")}
    kept: list[File] = []
    left_out: list[File] = []
    for source in sources:
        place, name = _split(source.path)
        is_about = _ABOUT.fullmatch(name) is not None and (source.input_format == TEXT or given != AUTO)
        is_cached = place in described and _CACHED.fullmatch(name) is not None
        (left_out if name in _STATE or is_about or is_cached else kept).append(source)
    if not any(source.input_format != TEXT for source in kept):
        return list(sources)  # such as the texts of a project and its state.json
    contents.leave_out([source.path for source in left_out])
    kinds: dict[str, list[str]] = {}
    for source in kept:
        if source.input_format != TEXT or source.size:  # an empty file, such as that of Spark, is no text
            kinds.setdefault(source.input_format, []).append(source.path)
    if len(kinds) > 1:
        descriptions = input_format_descriptions()
        shown = ", and ".join(f"{len(paths)} of {descriptions[kind]} ({named_inputs(paths)})" for kind, paths in kinds.items())
        globs = " or ".join(f"`{_glob_of(folder, paths)}`" for paths in kinds.values())
        raise CorpusError(
            f"the folder `{folder}` has inputs of different formats: {shown}; expected one: give a glob, such as {globs}, or "
            'several globs to read all of them (`input_format="text"` reads all as text)'
        )
    return kept


def _split(path: str) -> tuple[str, str]:
    """Return the folder and the name of a file, the name in lower case."""
    place, _, name = path.replace(os.sep, "/").rpartition("/")
    return place, name.lower()


def _glob_of(folder: str, paths: Sequence[str]) -> str:
    """Return a glob for the most frequent suffix of some files of a folder, or the first of them if none has a suffix."""
    plain = [(inner_name(name), name) for name in (_split(path)[1] for path in paths)]
    found = Counter(PurePosixPath(inner).suffix + name.removeprefix(inner) for inner, name in plain if "." in inner)
    if not found:
        return paths[0]
    suffix = found.most_common(1)[0][0]
    places = {_split(path)[0] for path in paths}
    return f"{places.pop()}/*{suffix}" if len(places) == 1 else f"{folder.rstrip('/')}/**/*{suffix}"


GIVE_TEXTS = (
    "give texts as an iterator, such as iter(dataset['text']) or (row['text'] for row in rows), since a list is one of paths; "
    "bpejit.train_from_iterator and tokenizer.encode_batch take lists of texts"
)
"""What to do with texts in memory."""

Inputs = Sequence[str | os.PathLike[str]] | str | os.PathLike[str] | Iterator[Any]
"""One file, folder, glob, URL or `-`, a list of them, or an iterator of texts."""

Found = tuple[str, str, list[str], os.stat_result | None]
"""The path of an input, its kind, its files, and the status of a regular file (see `find_paths`)."""


def list_inputs(inputs: Inputs) -> list[str]:
    """Return the paths of all inputs, as `find_sources` does, without opening them.

    Raises
    ------
    CorpusError
        If there are no inputs, or a glob or a folder has no files. Whether a file exists is not checked.
    """
    names: list[str] = []
    for name, kind, files, _ in find_paths(inputs):
        names += [file[0] for file in find_remote(name)[1]] if kind == "remote" else files
    return names


def find_paths(inputs: Inputs) -> Iterator[Found]:
    """Yield the path of each input, its kind, its files, and of a regular file its status.

    Kinds are `stream` (standard input), `remote`, `folder`, `regular`, and `other`.
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
            yield name, "stream", [name], None
        elif "://" in name and is_remote(name):
            yield name, "remote", [], None
        elif (found := _examined(name))[1] == "regular":
            yield found
        elif glob.has_magic(name) and not os.path.exists(name):  # noqa: PTH110 - False for a name that is too long
            matches = list(_matches_of(name))
            if not any(files for _, _, files, _ in matches):
                if arguments.looks_like_text(name):
                    raise unreadable(name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
                raise CorpusError(f"no file matches the input `{name}`; expected at least one: check the pattern")
            yield from matches
        else:
            if not found[2]:
                raise CorpusError(f"the input `{name}` is a folder without files; expected at least one: check the path")
            yield found
        found_any = True
    if not found_any:
        raise CorpusError("no input was given; expected at least one file, folder, glob, or `-` for standard input")


def _examined(name: str) -> Found:
    """Return what `find_paths` yields of a path: as its files itself, or those of a folder."""
    try:
        status = os.stat(name)  # noqa: PTH116 - a third of the time, and there may be 10,000 files
    except (OSError, ValueError):  # also a name that is too long
        return name, "other", [name], None
    if stat.S_ISREG(status.st_mode):
        return name, "regular", [name], status
    if stat.S_ISDIR(status.st_mode):
        return name, "folder", sorted(_files_of(name)), None
    return name, "other", [name], None


def _matches_of(pattern: str) -> Iterator[Found]:
    """Yield the files and folders that match a glob, as the shell may expand it as well.

    Folders that match `**` are left out, since their files match, too.
    """
    for match in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 - the pattern may be absolute
        if "**" not in pattern or not os.path.isdir(match):  # noqa: PTH112
            yield _examined(match)


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
    with remote_access(name, "read the input", error=CorpusError, noun="the input") as (file_system, path):
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
        if len(files) == 1 and files[0][1] == path:
            files = [(name, path, files[0][2])]
        return file_system, files


def _is_hidden(name: str, folder: str) -> bool:
    """Return True if a file, or a folder that contains it below `folder`, has a name that begins with a dot."""
    return any(part.startswith(".") for part in name.removeprefix(folder).split("/"))


def _names(inputs: Inputs) -> list[str]:
    """Return the inputs as a list of paths, globs and `-`."""
    if isinstance(inputs, (str, os.PathLike)):
        return [local_path(arguments.path("inputs", inputs, error=CorpusError))]
    if not arguments.is_iterable(inputs):
        action = "give such a list" if arguments.column_names(inputs) is None else GIVE_TEXTS
        raise arguments.wrong_type("inputs", inputs, "a path, or a list of paths, globs and '-'", action)
    entries = list(inputs)
    if entries and not isinstance(entries[0], (str, bytes, os.PathLike)):
        raise arguments.wrong_type("inputs[0]", entries[0], "a path, a str or an os.PathLike", GIVE_TEXTS)
    return [local_path(arguments.path(f"inputs[{index}]", entry, error=CorpusError)) for index, entry in enumerate(entries)]


def names_below(inputs: Inputs, paths: Sequence[str]) -> list[Path]:
    """Return each path below the deepest folder that contains all inputs, for the names of outputs."""
    common = os.path.commonpath([_base(_on_server(name)) for name in _names(inputs)])
    names = [Path(os.path.relpath(_on_server(path), common)) for path in paths]
    repeated = [str(name) for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise OptionError(
            f"the input `{repeated[0]}` is listed twice; expected one output for each input: remove one of the two"
        )
    return names


def _on_server(name: str) -> str:
    """Return the path of an input, and for a URL the path on its server."""
    return f"/{name.partition('://')[2]}" if is_remote(name) else name


def _base(name: str) -> Path:
    path = Path(os.path.abspath(name))  # noqa: PTH100
    if path.is_dir():
        return path
    if glob.has_magic(name) and not path.exists():
        return next(parent for parent in path.parents if not glob.has_magic(str(parent)))
    return path.parent
