"""Resolve the inputs that a user names to a list of byte sources."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO

from bpejit import arguments
from bpejit.corpus.contents import Contents, has_controls
from bpejit.corpus.input_paths import GIVE_TEXTS, Inputs, find_paths, find_remote, records_of_folder
from bpejit.corpus.input_streams import HEAD_BYTES, STANDARD_INPUT, InputStream, open_input, open_raw, unreadable
from bpejit.corpus.reading_options import InputOptions
from bpejit.corpus.registry import TEXT, load_format
from bpejit.errors import CorpusError, OptionError
from bpejit.process_memory import collector_paused
from bpejit.storage.files import is_remote
from bpejit.storage.remote import has_ranges, remote_errors

_READ_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

LARGEST_WEIGHT = 1_000_000

_HEADS_TOGETHER = 256
"""Remote files whose first bytes are read at the same time."""

_FILES_TOGETHER = 32
"""Files that are examined together. Their first bytes stay in the processor's cache: with 256 files, the search for control
characters in them takes three times as long.
"""

ExaminedFile = tuple[str, os.stat_result | None]
"""The path of a regular file, and its status if it has been examined."""

TEXTS = "texts"
"""The format of an iterator of texts, and its name in messages."""


@dataclass(frozen=True)
class Source:
    """One input: a file, a remote file, standard input, or an iterator of texts.

    Parameters
    ----------
    path : str
        The file, its URL, `-`, or a description of the iterator.
    size : int, optional
        Size of a file in bytes; None for a pipe or an iterator, which can be read only once.
    start : int
        Number of bytes to skip at the start of a regular file: a byte-order mark, or what other units contain. For formats
        whose ranges are not in bytes, as `InputFormat.ranges` returns it.
    stop : int, optional
        Where the range of a regular file ends: at a position where its text may be cut. None for the end of the file.
    contents : Contents, optional
        Checks the first bytes of a pipe when it is read. Files are checked by `find_sources`.
    input_format : str
        The name of a format (see `bpejit.corpus.registry`); that of a pipe is recognized when it is read.
    compression : str, optional
        `gzip` or `zstd`.
    options : InputOptions
    range_bytes : int, optional
        The number of bytes of a range that is not in bytes.
    weight : int
        How often the counts of the source count in training.
    texts : iterator, optional
        The texts.
    kept : bytes, optional
        The content of a small file.
    sha256 : str, optional
        The fingerprint of a small file (see `bpejit.corpus.fingerprints`), if it was computed when the file was examined.
    modified : int, optional
        The modification time of a file when it was examined, in nanoseconds.
    streamed : bool
        Whether a remote file is read from its start to its end, because its storage or its format does not allow more.
    """

    path: str
    size: int | None
    start: int = 0
    stop: int | None = None
    contents: Contents | None = field(default=None, compare=False, repr=False)
    input_format: str = TEXT
    compression: str | None = None
    options: InputOptions = field(default=InputOptions(), repr=False)
    range_bytes: int | None = None
    weight: int = 1
    texts: Iterator[Any] | None = field(default=None, compare=False, repr=False)
    streamed: bool = False
    kept: bytes | None = field(default=None, compare=False, repr=False)
    sha256: str | None = field(default=None, compare=False, repr=False)
    modified: int | None = field(default=None, compare=False, repr=False)

    @property
    def length(self) -> int | None:
        """The number of bytes of the input to read; None for a pipe."""
        if self.size is None or self.range_bytes is not None:
            return self.range_bytes
        if self.is_stream:
            return self.size
        return (self.size if self.stop is None else self.stop) - self.start

    @property
    def is_stream(self) -> bool:
        """True if the input is read from its start to its end: a pipe, compressed text, or a remote file without ranges."""
        return self.size is None or self.compression is not None or self.streamed

    @property
    def has_records(self) -> bool:
        """True if the input consists of records, as lines are: its format divides it, and not the split pattern."""
        return self.input_format != TEXT or self.options.by_lines

    def open(self) -> BinaryIO:
        """Open a file for reading bytes, unbuffered because chunks are large, after the bytes to skip.

        Raises
        ------
        CorpusError
            If it cannot be opened.
        """
        return open_input(self.path, self.start)

    def open_stream(self) -> InputStream:
        """Open an input that is read from its start to its end.

        Raises
        ------
        CorpusError
            If it cannot be opened, its format is not read in this way, or it is a pipe with something that is not read.
        """
        try:
            file = open_raw(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        try:
            stream = InputStream(
                file, self.path, self.contents, compression=self.compression, input_format=self.input_format, skip=self.start
            )
            indexed = load_format(stream.input_format).indexed
            if indexed and stream.peek(len(indexed)) == indexed:
                raise not_in_order(self.path)
            if self.contents is not None and self.size is None:
                self.contents.warn()
            return stream
        except BaseException:
            if self.path != STANDARD_INPUT:
                file.close()
            raise


def not_in_order(path: str) -> CorpusError:
    """Return the error for an input whose format is not read from its start to its end, as this one has to be."""
    what = "standard input" if path == "-" else f"the input `{path}`"
    return CorpusError(
        f"{what} has a format that is read at any position, which pipes and compressed files do not allow; expected a plain "
        "file: write it to one, for example with `cat` or `gzip -dc`, and give its path"
    )


def find_sources(inputs: Inputs, contents: Contents | None = None) -> list[Source]:
    """Return the sources of files, folders, globs, URLs and `-`, in order.

    The matches of a glob, and the files of a folder, are sorted by name. A folder is searched recursively; files and folders
    whose names begin with a dot are left out.

    Parameters
    ----------
    inputs : paths, or an iterator
        An iterator yields texts (see `bpejit.train_from_iterator`).
    contents : Contents, optional
        Recognizes the format of each input; that of pipes when they are read.

    Raises
    ------
    CorpusError
        If there are no inputs, a file is missing or unreadable, or is recognized as something that is not read, or a glob
        matches nothing.
    """
    contents = contents or Contents()
    if isinstance(inputs, Iterator):
        return [Source(TEXTS, None, input_format=TEXTS, options=contents.options, texts=inputs)]
    with collector_paused():
        sources = _found_sources(inputs, contents)
    contents.warn()
    return sources


def _found_sources(inputs: Inputs, contents: Contents) -> list[Source]:
    sources: list[Source] = []
    files: list[ExaminedFile] = []
    try:
        for name, kind, inside, status in find_paths(inputs):
            if status is not None:
                files.append((name, status))
                if len(files) < _FILES_TOGETHER:
                    continue
            group, files = files, []
            sources += _file_sources(group, contents)
            if kind == "folder":
                sources += records_of_folder(name, list(_file_sources([(path, None) for path in inside], contents)), contents)
            elif kind == "remote":
                found = list(_remote_sources(name, contents))
                is_folder = not glob.has_magic(name) and [source.path for source in found] != [name]
                sources += records_of_folder(name, found, contents) if is_folder else found
            elif kind == "stream":
                sources.append(Source(name, None, contents=contents, options=contents.options))
            elif status is None:
                sources.append(_other_source(name, contents))
    except CorpusError as error:
        list(_file_sources(files, contents))  # the error to raise is about the first input that has one
        if _may_be_texts(inputs):
            raise CorpusError(f"{error}, or {GIVE_TEXTS}") from error
        raise
    sources += _file_sources(files, contents)
    return sources


def _may_be_texts(inputs: Inputs) -> bool:
    """Return True if no input in a list of Python code, which is not a tuple as those of commands, is an existing file."""
    if isinstance(inputs, (str, os.PathLike, tuple)):
        return False
    exists = os.path.exists  # False for a name that is too long
    return not any("://" in str(name) or name == STANDARD_INPUT or exists(name) for name in inputs)


def find_weighted_sources(inputs: Inputs, weights: Mapping[str, int] | None, contents: Contents) -> list[Source]:
    """Return the sources of inputs, and of further inputs with weights.

    Parameters
    ----------
    inputs : paths, or an iterator
        May be empty if there are weights.
    weights : dict of path to int, optional
        Further inputs, and how often the counts of each count.
    contents : Contents

    Raises
    ------
    ArgumentTypeError, CorpusError, OptionError
    """
    if weights is None:
        return find_sources(inputs, contents)
    if not isinstance(weights, Mapping):
        raise arguments.wrong_type("sources", weights, "a dict of paths to whole numbers", "give one")
    empty = isinstance(inputs, (list, tuple)) and not inputs
    found = [] if empty and weights else find_sources(inputs, contents)
    for path, weight in weights.items():
        number = arguments.whole_number(f"sources[{path!r}]", weight, least=1, most=LARGEST_WEIGHT)
        some = find_sources([path], contents)
        if path == STANDARD_INPUT and any(source.path == STANDARD_INPUT for source in found):
            raise CorpusError("standard input (`-`) is listed twice, but can be read only once; expected it once: remove one")
        found += [replace(source, weight=number) for source in some]
    return found


def _other_source(name: str, contents: Contents) -> Source:
    """Return the source of a pipe or a device, which is not opened, since its writer would see it closed again."""
    try:
        regular = stat.S_ISREG(os.stat(name).st_mode)  # noqa: PTH116
        if not regular and not os.access(name, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise unreadable(name, error) from error
    if regular:  # it was created in the meantime
        return next(_file_sources([(name, None)], contents))
    return Source(name, None, contents=contents, options=contents.options)


def _file_sources(files: Sequence[ExaminedFile], contents: Contents) -> Iterator[Source]:
    """Yield the sources of regular files, some of which have been examined.

    There may be 10,000 files, and opening, reading and closing one takes 7 microseconds: nothing here may take long.

    Raises
    ------
    CorpusError
        For the first file that cannot be read, or is not accepted.
    """
    for first in range(0, len(files), _FILES_TOGETHER):
        yield from _read_together(files[first : first + _FILES_TOGETHER], contents)


def _read_together(files: Sequence[ExaminedFile], contents: Contents) -> Iterator[Source]:
    found: list[tuple[bytes, int, int]] = []
    head_bytes = contents.head_bytes
    failed = None
    try:
        for name, examined in files:
            number = os.open(name, _READ_FLAGS)
            try:
                data = os.read(number, head_bytes)
                status = examined
                if status is None or len(data) != status.st_size:
                    status = os.fstat(number)
                    if len(data) > status.st_size:  # it is being written, or has no size, as files in /proc
                        data += b"".join(iter(partial(os.read, number, head_bytes), b""))
                found.append((data, max(status.st_size, len(data)), (examined or status).st_mtime_ns))
            finally:
                os.close(number)
    except OSError as error:
        failed = error
    heads = [data[:HEAD_BYTES] for data, _, _ in found]
    clean = not has_controls(b"".join(heads))
    options, hashed = contents.options, contents.hashed
    for (name, _), (data, size, modified), head in zip(files, found, heads, strict=False):
        if clean and contents.is_plain(name, head):
            input_format, skip = TEXT, 0
        elif contents.compression(head) is not None:
            yield _compressed_source(name, size, contents)
            continue
        else:
            input_format, skip = contents.recognize(name, head, clean=clean)
        complete = size == len(data)
        # Not by the constructor of the frozen class, which takes three times as long.
        source = object.__new__(Source)
        source.__dict__.update(
            path=name,
            size=size,
            start=skip,
            input_format=input_format,
            options=options,
            modified=modified,
            kept=contents.keep(data) if complete and input_format == TEXT else None,
            sha256=hash_content(data) if complete and hashed else None,
        )
        yield source
    if failed is not None:
        raise unreadable(files[len(found)][0], failed) from failed


def hash_content(data: bytes) -> str:
    """Return the fingerprint of a small file from its content (see `bpejit.corpus.fingerprints`)."""
    digest = hashlib.sha256(b"%d " % len(data))
    digest.update(data)
    return digest.hexdigest()


def _compressed_source(name: str, size: int | None, contents: Contents) -> Source:
    with Source(name, size, contents=contents, options=contents.options).open_stream() as stream:
        return Source(
            *(name, size, stream.skipped),
            input_format=stream.input_format,
            compression=stream.compression,
            options=contents.options,
        )


def _remote_sources(name: str, contents: Contents) -> Iterator[Source]:
    file_system, files = find_remote(name)
    for first in range(0, len(files), _HEADS_TOGETHER):
        some = files[first : first + _HEADS_TOGETHER]
        with remote_errors(name, error=CorpusError):
            # At the same time, if the file system can: each request takes some 30 ms.
            full = [file for file in some if file[2]]
            heads = file_system.cat_ranges([file[1] for file in full], 0, [min(file[2], HEAD_BYTES) for file in full])
            head_of = dict(zip([file[0] for file in full], heads, strict=True))
        for url, path, size in some:
            head = head_of.get(url, b"")
            if isinstance(head, Exception):
                with remote_errors(url, error=CorpusError):
                    raise head
            if contents.compression(head) is not None:
                yield _compressed_source(url, size, contents)
                continue
            found, skip = contents.recognize(url, head)
            kept = contents.keep(head) if size == len(head) and found == TEXT else None
            with remote_errors(url, error=CorpusError):
                form = load_format(found)
                ranges = bool(form.indexed) or (form.is_text and has_ranges(url, file_system, path))
            yield Source(url, size, skip, input_format=found, options=contents.options, kept=kept, streamed=not ranges)


def total_bytes(sources: list[Source]) -> int | None:
    """Return the total size of all sources, or None if one of them is a pipe."""
    sizes = [source.length for source in sources]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return an absolute path, with links as they are; a URL is unchanged."""
    path = os.fspath(path)
    return path if is_remote(path) else os.path.abspath(path)  # noqa: PTH100 - Path.resolve follows links


def check_shared_sources(sources: Iterable[Source]) -> None:
    """Raise an exception if a source is a pipe, which only this process can read."""
    pipes = [source.path for source in sources if source.size is None]
    if pipes:
        name = "standard input" if pipes[0] == STANDARD_INPUT else f"`{pipes[0]}`"
        raise OptionError(
            f"{name} can be read only once, and only here; expected files that all nodes of the cluster read: write the text "
            "to files first, or use another engine"
        )
