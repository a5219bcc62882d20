"""The buffer into which a worker reads its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import Block
from bpejit.corpus.sizes import CHUNK_BYTES
from bpejit.corpus.sources import Source
from bpejit.errors import CorpusError
from bpejit.kernels.constants import TEXT_PADDING

CUT_WINDOW = 1 << 13
"""Size of the window that is first searched for a cut after the target position; doubled until one is found."""

_COUNTED_AT_ONCE = 1 << 20


class AnyChunk(Protocol):
    """Description of work for one worker, which can be pickled."""

    @property
    def data(self) -> object:
        """What the chunk carries, if it cannot be read again; None otherwise."""

    def read(self, reader: ChunkReader) -> Block:
        """Return the text of the chunk, in the buffer of a reader."""


class ChunkReader:
    """Reads chunks into one buffer, so that new memory pages are touched only once.

    Parameters
    ----------
    normalize_newlines : bool
        Convert CR LF and CR to LF.

    Attributes
    ----------
    normalize_newlines : bool
    """

    def __init__(self, *, normalize_newlines: bool = False) -> None:
        self.normalize_newlines = normalize_newlines
        self._text: Array = np.empty(CHUNK_BYTES + CUT_WINDOW + TEXT_PADDING, np.uint8)
        self._opened: tuple[str, Any] | None = None
        self._counted = ("", 0, 0)

    def read(self, chunk: AnyChunk) -> Block:
        """Return the text of a chunk, which is valid until the next call.

        Raises
        ------
        CorpusError
            If the file cannot be read, or became shorter after it was divided.
        """
        return chunk.read(self)

    def buffer(self, length: int) -> Array:
        """Return the buffer of the reader, for a text of `length` bytes."""
        if self._text.size < length + TEXT_PADDING:
            self._text = np.empty(length + length // 4 + TEXT_PADDING, np.uint8)
        return self._text

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading bytes."""
        return Source(path, None).open()

    def opened(self, path: str, open_file: Callable[[str], Any]) -> Any:
        """Return a file that `open_file` has opened, the same one as for the last chunk if it has the same path."""
        if self._opened is None or self._opened[0] != path:
            self._opened = path, open_file(path)
        return self._opened[1]

    def fill(self, file: BinaryIO, path: str, start: int, target: memoryview) -> None:
        """Fill a buffer from a file.

        Raises
        ------
        CorpusError
            If it cannot be read, or ends too early.
        """
        done = self._read_into(file, path, target)
        if done < len(target):
            raise shorter_file(path, start + done, start + len(target))

    def read_bytes(self, file: BinaryIO, path: str, size: int, *, partly: bool = False) -> bytes:
        """Return `size` bytes of a file; with `partly`, fewer at its end.

        Raises
        ------
        CorpusError
            If it cannot be read, or ends too early.
        """
        parts = []
        done = 0
        with _reading(path):
            while done < size and (data := file.read(size - done)):
                parts.append(data)
                done += len(data)
        if done < size and not partly:
            raise shorter_file(path, file.tell(), file.tell() + size - done)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @staticmethod
    def _read_into(file: BinaryIO, path: str, target: memoryview) -> int:
        done = 0
        with _reading(path):
            while done < len(target) and (count := file.readinto(target[done:])):  # type: ignore[attr-defined]
                done += count
        return done

    def line_number(self, path: str, position: int) -> int:
        """Return the number of the line that starts at a position of a file, from 1.

        The lines before it are counted, from the last position that was asked for: once per reader, and only for messages.
        """
        counted, start, lines = self._counted
        if counted != path or start > position:
            start = lines = 0
        with self.open(path) as file:
            lines += count_lines(file, start, position)
        self._counted = path, position, lines
        return lines + 1


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise errors of reading as CorpusError."""
    try:
        yield
    except OSError as error:
        raise CorpusError(
            f"cannot read the input `{path}`: {error.strerror or error}; expected a readable "
            "file: check the disk, and run again"
        ) from error


def count_lines(file: Any, start: int, stop: int) -> int:
    """Return the number of line ends in a range of a file."""
    file.seek(start)
    found = 0
    while start < stop and (data := file.read(min(_COUNTED_AT_ONCE, stop - start))):
        found += data.count(b"\n")
        start += len(data)
    return found


def shorter_file(path: str, found: int, expected: int) -> CorpusError:
    """Return the error for a file that ends earlier than when it was listed."""
    return CorpusError(
        f"the input `{path}` became shorter while it was read: it ends at byte {found}; "
        f"expected at least {expected} bytes: run again when the file is complete"
    )
