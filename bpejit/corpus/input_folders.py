"""Folders of records: files that describe a data set are left out, and a mixture of formats is refused."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from bpejit.corpus.contents import Contents, inner_name, named_inputs
from bpejit.corpus.registry import TEXT, input_format_descriptions
from bpejit.errors import CorpusError
from bpejit.registry import AUTO


class FileSource(Protocol):
    """What is known of a file of a folder: the attributes of `bpejit.corpus.sources.Source`."""

    @property
    def path(self) -> str:
        """The path or the URL."""

    @property
    def size(self) -> int | None:
        """Bytes of the file."""

    @property
    def input_format(self) -> str:
        """The name of the format that was recognized."""


FoundFile = TypeVar("FoundFile", bound=FileSource)

_STATE = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
"""Files that `datasets` writes beside the records, or that a repository of the Hugging Face Hub has."""

_ABOUT = re.compile(r"(?:readme|licen[cs]e|notice|citation|copying|changelog)(?:[._-].*)?")
"""Names of texts about a data set, in lower case."""

_CACHED = re.compile(r"cache-[0-9a-f]+\.arrow")
"""Names of what `datasets` keeps of results that it computed from the records."""

HUB_CACHE = {"blobs", "refs", "snapshots"}
"""The folders of a repository in the cache of the Hugging Face Hub."""


def records_of_folder(folder: str, sources: Sequence[FoundFile], contents: Contents) -> list[FoundFile]:
    """Return the sources of a folder without the files that describe a data set, if it has records.

    Parameters
    ----------
    folder : str
        The folder, or its URL, as the user gave it.
    sources : list of FileSource
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
    kept: list[FoundFile] = []
    left_out: list[FoundFile] = []
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
