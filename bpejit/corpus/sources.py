"""Resolve the inputs that a user names to a list of byte sources."""

from __future__ import annotations

import errno
import glob
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from bpejit import arguments
from bpejit.corpus.contents import HEAD_BYTES, Contents
from bpejit.errors import CorpusError, shorten

STANDARD_INPUT = "-"

Inputs = Sequence[str | os.PathLike[str]] | str | os.PathLike[str]
"""One file, glob or `-`, or a list of them."""


@dataclass(frozen=True)
class Source:
    """One input: a file, or standard input.

    Parameters
    ----------
    path : str
        The file, or `-`.
    size : int, optional
        Size of a regular file in bytes; None for a pipe, which can be read only once.
    start : int
        Number of bytes to skip at the start of a regular file: a byte-order mark, or what other units contain.
    stop : int, optional
        Where the range of a regular file ends: at a position where its text may be cut. None for the end of the file.
    contents : Contents, optional
        Checks the first bytes of a pipe when it is read. Files are checked by `find_sources`.
    """

    path: str
    size: int | None
    start: int = 0
    stop: int | None = None
    contents: Contents | None = field(default=None, compare=False, repr=False)

    @property
    def length(self) -> int | None:
        """The number of bytes to read; None for a pipe."""
        return None if self.size is None else (self.size if self.stop is None else self.stop) - self.start

    def open(self) -> BinaryIO:
        """Open the source for reading bytes, unbuffered because chunks are large, after the bytes to skip.

        Raises
        ------
        CorpusError
            If it cannot be opened, or is a pipe that does not contain text.
        """
        try:
            standard = self.path == STANDARD_INPUT
            file = sys.stdin.buffer if standard else Path(self.path).open("rb", buffering=0)  # noqa: SIM115 - the caller does
            if self.size is None and self.contents is not None:
                return _Pipe(file, self.path, self.contents)  # type: ignore[return-value]
            if self.start:
                file.seek(self.start)
            return file
        except OSError as error:
            raise _unreadable(self.path, error) from error


class _Pipe:
    """A pipe whose first bytes are checked on the first read."""

    def __init__(self, file: BinaryIO, path: str, contents: Contents) -> None:
        self._file = file
        self._path = path
        self._contents: Contents | None = contents
        self._head = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, at least one unless the pipe has ended."""
        if self._contents is not None:
            contents, self._contents = self._contents, None
            head = b""
            while len(head) < HEAD_BYTES and (block := self._file.read(HEAD_BYTES - len(head))):
                head += block
            self._head = head[contents.check(self._path, head) :]
        if self._head:
            some, self._head = self._head[:size], self._head[size:]
            return some
        return self._file.read(size)

    def __enter__(self) -> _Pipe:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.__exit__(kind, error, trace)


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


def find_sources(inputs: Inputs, contents: Contents | None = None) -> list[Source]:
    """Return the sources of files, globs and `-`, in order; the matches of a glob are sorted by name.

    Parameters
    ----------
    inputs : paths
    contents : Contents, optional
        Checks the first bytes of each input; of pipes when they are read.

    Raises
    ------
    CorpusError
        If there are no inputs, a file is missing, unreadable, a folder, or not text, or a glob matches nothing.
    """
    contents = contents or Contents()
    sources: list[Source] = []
    for name in _names(inputs):
        if name == STANDARD_INPUT:
            if any(source.path == STANDARD_INPUT for source in sources):
                raise CorpusError(
                    "standard input (`-`) is listed twice, but can be read only once; expected it once: remove one"
                )
            sources.append(Source(name, None, contents=contents))
        elif _exists(name) or not glob.has_magic(name):
            sources.append(_file_source(name, contents))
        else:
            # Not Path.glob: the pattern may be absolute.
            matches = sorted(match for match in glob.glob(name, recursive=True) if not Path(match).is_dir())  # noqa: PTH207
            if not matches:
                if arguments.looks_like_text(name):
                    raise _unreadable(name, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
                raise CorpusError(f"no file matches the input `{name}`; expected at least one: check the pattern")
            sources.extend(_file_source(match, contents) for match in matches)
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
    if not arguments.is_iterable(inputs):
        raise arguments.wrong_type("inputs", inputs, "a path, or a list of paths, globs and '-'", "give such a list")
    return [arguments.path(f"inputs[{index}]", entry, error=CorpusError) for index, entry in enumerate(inputs)]


def _file_source(name: str, contents: Contents) -> Source:
    try:
        status = Path(name).stat()
        if stat.S_ISDIR(status.st_mode):
            raise CorpusError(f"the input `{name}` is a folder; expected a file: pass its files, for example `{name}/*.txt`")
        if not stat.S_ISREG(status.st_mode):  # not opened, since the writer of a pipe would see it closed again
            if not os.access(name, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return Source(name, None, contents=contents)
        with Path(name).open("rb", buffering=0) as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise _unreadable(name, error) from error
    return Source(name, status.st_size, contents.check(name, head))


def total_bytes(sources: list[Source]) -> int | None:
    """Return the total size of all sources, or None if one of them is a pipe."""
    sizes = [source.length for source in sources]
    return None if None in sizes else sum(size for size in sizes if size is not None)
