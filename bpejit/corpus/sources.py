"""What the user names, as a list of sources of bytes."""

from __future__ import annotations

import errno
import glob
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bpejit import arguments
from bpejit.errors import CorpusError, shorten

STANDARD_INPUT = "-"

Inputs = Sequence[str | os.PathLike[str]] | str | os.PathLike[str]
"""What a user may name: one file, glob or `-`, or several."""


@dataclass(frozen=True)
class Source:
    """One input: a file, or standard input.

    Parameters
    ----------
    path : str
        The file, or `-`.
    size : int, optional
        Bytes, where it is a regular file; None for a pipe, which can be read only once and from the start.
    """

    path: str
    size: int | None

    def open(self) -> BinaryIO:
        """Open for reading bytes, without a buffer: chunks are large."""
        if self.path == STANDARD_INPUT:
            return sys.stdin.buffer
        try:
            return Path(self.path).open("rb", buffering=0)
        except OSError as error:
            raise _unreadable(self.path, error) from error


def _unreadable(path: str, error: OSError) -> CorpusError:
    if error.errno in (errno.ENOENT, errno.ENAMETOOLONG, errno.ENOTDIR) and arguments.looks_like_text(path):
        return CorpusError(
            f"cannot read the input {shorten(path)}: {error.strerror or error}, and it looks like text; expected the path of a "
            "file: write the text to a file, and give its path"
        )
    return CorpusError(
        f"cannot read the input `{path}`: {error.strerror or error}; expected a readable file: "
        "check the path and its permissions"
    )


def find_sources(inputs: Inputs) -> list[Source]:
    """Resolve files, globs and `-` to sources, in the order given; the matches of a glob in order of name.

    Raises
    ------
    CorpusError
        If nothing is named, a file is missing, unreadable or a folder, or a glob matches nothing.
    """
    sources: list[Source] = []
    for name in _names(inputs):
        if name == STANDARD_INPUT:
            if any(source.path == STANDARD_INPUT for source in sources):
                raise CorpusError("standard input (`-`) is named twice, but can be read only once: name it once")
            sources.append(Source(name, None))
        elif _exists(name) or not glob.has_magic(name):
            sources.append(_file_source(name))
        else:
            # Not Path.glob: the pattern may be absolute.
            matches = sorted(match for match in glob.glob(name, recursive=True) if not Path(match).is_dir())  # noqa: PTH207
            if not matches:
                if arguments.looks_like_text(name):
                    raise _unreadable(name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
                raise CorpusError(f"no file matches the input `{name}`; expected at least one: check the pattern")
            sources.extend(_file_source(match) for match in matches)
    if not sources:
        raise CorpusError("no input was given; expected at least one file, glob, or `-` for standard input")
    return sources


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # a name that is too long
        return False


def _names(inputs: Inputs) -> list[str]:
    """Return the inputs as a list of paths, globs and `-`."""
    if isinstance(inputs, (str, os.PathLike)):
        return [arguments.path("inputs", inputs, error=CorpusError)]
    if isinstance(inputs, (bytes, bytearray, memoryview)) or not isinstance(inputs, Iterable):
        raise arguments.wrong_type("inputs", inputs, "a path, or a list of paths, globs and '-'", "give such a list")
    return [arguments.path(f"inputs[{place}]", entry, error=CorpusError) for place, entry in enumerate(inputs)]


def _file_source(name: str) -> Source:
    try:
        status = Path(name).stat()
        if stat.S_ISDIR(status.st_mode):
            raise CorpusError(f"the input `{name}` is a folder; expected a file: name its files, for example `{name}/*.txt`")
        with Path(name).open("rb"):
            pass
    except OSError as error:
        raise _unreadable(name, error) from error
    return Source(name, status.st_size if stat.S_ISREG(status.st_mode) else None)


def total_bytes(sources: list[Source]) -> int | None:
    """Return the size of all sources together, or None if one of them is a pipe."""
    sizes = [source.size for source in sources]
    return None if None in sizes else sum(size for size in sizes if size is not None)
