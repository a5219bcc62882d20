"""Inputs that are read from their start to their end: pipes, compressed files, and remote files."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Any, BinaryIO

from bpejit import arguments
from bpejit.errors import CorpusError, shorten
from bpejit.extras import import_extra
from bpejit.storage.files import is_remote
from bpejit.storage.remote import RemoteFile, remote_access

STANDARD_INPUT = "-"

HEAD_BYTES = 4096
"""Number of bytes at the start of an input that are examined."""

_READ_BYTES = 1 << 17
"""Bytes of a compressed file that are read and decompressed at a time."""

_REMOTE_BLOCK = 8 << 20
"""Bytes of a remote file that are requested at a time."""


def open_raw(path: str) -> BinaryIO:
    """Open a file, a URL or `-` for reading bytes, unbuffered because chunks are large."""
    if path == STANDARD_INPUT:
        return sys.stdin.buffer
    if is_remote(path):
        with remote_access(path, "read the input", error=CorpusError, noun="the input") as (file_system, name):
            file: BinaryIO = file_system.open(name, "rb", block_size=_REMOTE_BLOCK)
            if "::" in path:
                file.file_system = file_system  # type: ignore[attr-defined] # it closes the archive when it is collected
            return file
    return FileIO(path)


def open_input(path: str, start: int = 0) -> BinaryIO:
    """Open a file or a URL for reading ranges of bytes from a position on, each by one system call or one request.

    Raises
    ------
    CorpusError
        If it cannot be opened.
    """
    try:
        file: Any = RemoteFile(path) if is_remote(path) else open_raw(path)
        if start:
            file.seek(start)
        return file  # type: ignore[no-any-return]
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError, check: str = "the path and its permissions") -> CorpusError:
    """Return the error to raise for an input that cannot be opened or read, and what to check."""
    if error.errno in (errno.ENOENT, errno.ENAMETOOLONG, errno.ENOTDIR) and arguments.looks_like_text(path):
        return CorpusError(
            f"cannot read the input {shorten(path)}: {error.strerror or error}, and it looks like text; expected the path of a "
            "file: write the text to a file, and give its path"
        )
    return CorpusError(f"cannot read the input `{path}`: {error.strerror or error}; expected a readable file: check {check}")


@contextmanager
def reading_input(path: str, check: str = "the disk") -> Iterator[None]:
    """Raise errors of reading as CorpusError."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error, f"{check}, and run again") from error


def read_bytes(file: Any, path: str, size: int, *, partly: bool = False) -> bytes:
    """Return the next `size` bytes of a file or an InputStream; with `partly`, fewer at its end.

    Raises
    ------
    CorpusError
        If it cannot be read, or ends too early.
    """
    parts = []
    done = 0
    with reading_input(path):
        while done < size and (data := file.read(size - done)):
            parts.append(data)
            done += len(data)
    if done < size and not partly:
        found = file.tell()
        raise CorpusError(
            f"the input `{path}` became shorter while it was read: it ends at byte {found}; "
            f"expected at least {found + size - done} bytes: run again when the file is complete"
        )
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_range(path: str, start: int, size: int) -> bytes:
    """Return `size` bytes of a file from a position on; the errors are those of `open_input` and `read_bytes`."""
    with open_input(path, start) as file:
        return read_bytes(file, path, size)


class _Peekable:
    """Bytes that a function returns, which may be examined before they are taken."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read_on = read
        self._head = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, at least one unless the input has ended."""
        if self._head:
            some, self._head = self._head[:size], self._head[size:]
            return some
        return self._read_on(size)

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer if the input ends, without taking them."""
        while len(self._head) < size and (data := self._read_on(size - len(self._head))):
            self._head += data
        return self._head[:size]


class InputStream(_Peekable):
    """An input that is read once, decompressed if it is compressed, after the bytes to skip.

    Parameters
    ----------
    file : binary file
    path : str
    contents : Contents, optional
        Recognizes the format by the first bytes. Without it, the other arguments describe the input.
    compression, input_format : str, optional
    skip : int

    Attributes
    ----------
    input_format : str
    compression : str or None
    skipped : int
        Number of bytes that were skipped.
    n_raw : int
        Number of bytes read from the file so far.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: str,
        contents: Any = None,
        *,
        compression: str | None = None,
        input_format: str = "text",
        skip: int = 0,
    ) -> None:
        self._file = file
        self.path = path
        self.n_raw = 0
        raw = _Peekable(self._read_raw)
        if contents is not None:
            compression = contents.compression(raw.peek(HEAD_BYTES))
        super().__init__(raw.read if compression is None else open_compressed(raw.read, compression, path))
        if contents is not None:
            input_format, skip = contents.recognize(path, self.peek(HEAD_BYTES))
        if skip:
            self.read(len(self.peek(skip)))
        self.input_format = input_format
        self.compression = compression
        self.skipped = skip

    def _read_raw(self, size: int) -> bytes:
        with reading_input(self.path, "the disk or the connection"):
            # One system call at a time: a signal between two calls within `read` would wait for more input.
            data: bytes = getattr(self._file, "read1", self._file.read)(size)
        self.n_raw += len(data)
        return data

    def read_fully(self, size: int) -> bytes:
        """Return `size` bytes, or fewer if the input ends."""
        return read_bytes(self, self.path, size, partly=True)

    def __enter__(self) -> InputStream:  # noqa: PYI034 - typing has Self from Python 3.11 on
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def open_compressed(read_raw: Callable[[int], bytes], compression: str, path: str) -> Callable[[int], bytes]:
    """Return a function that reads the decompressed bytes of a file, of which `read_raw` returns the compressed ones.

    Both take the maximum number of bytes, and return at least one unless the input has ended. The compression is `gzip` or
    `zstd`; data that is damaged or ends too early raises CorpusError.
    """
    if compression == "gzip":
        import zlib

        # The class in `gzip` reads 8 KiB at a time, which takes a third longer. Zeros may follow the last member.
        pieces = _decompressed(read_raw, lambda: zlib.decompressobj(31), padding=b"\0")
    else:
        zstandard = import_extra("zstandard", f"the compressed input `{path}`")
        pieces = _decompressed(read_raw, lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj())
    ready = memoryview(b"")

    def read(size: int) -> bytes:
        nonlocal ready
        try:
            while not ready:
                ready = memoryview(next(pieces))
        except StopIteration:
            return b""
        except (CorpusError, KeyboardInterrupt):
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise CorpusError(
                f"the input `{path}` is not valid {compression} data: {reason}; expected a complete file: copy it again"
            ) from error
        some = bytes(ready[:size])
        ready = ready[size:]
        return some

    return read


def _decompressed(read_raw: Callable[[int], bytes], decompressor: Callable[[], Any], padding: bytes = b"") -> Iterator[bytes]:
    """Yield the content of the members of a gzip file, or of the frames of a zstd file."""
    state: Any = None
    while data := read_raw(_READ_BYTES):
        while data := data if state else data.lstrip(padding):
            state = state or decompressor()
            yield state.decompress(data)
            data = b""
            if state.eof:
                data, state = state.unused_data, None
    if state:
        raise EOFError("it ends before the end of the compressed data")
