"""The borders of documents of an open token file, which are checked whenever they are read.

Formats that do not store them have a file of their own for them, `<file>.docs.npy` beside a token file: a NumPy array, `starts`
int64 [documents + 1]. Document k consists of the ids from `starts[k]` to `starts[k + 1]`, the first number is 0 and the last
one the number of ids. `numpy.load(path, mmap_mode="r")` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import OutputFile, StrPath, read_error
from bpejit.tokenfiles.description import END_DTYPE, Description
from bpejit.tokenfiles.mapping import map_ids, npy_header, read_npy_header

_BLOCK = 1 << 16
"""Number of ends of documents that are read at a time."""


class Borders:
    """The ends of documents, read in blocks, so that their number does not matter.

    Parameters
    ----------
    path : Path
        The file that contains them.
    n_tokens : int
        The number of ids of the token file.
    stored : integers [documents], optional
        The ends as positions in the ids, if they are stored as such.
    """

    def __init__(self, path: Path, n_tokens: int, stored: Array | None = None) -> None:
        self.path = path
        self.n_tokens = n_tokens
        self._ends = np.empty(0, np.int64) if stored is None else stored

    def __len__(self) -> int:
        """Return the number of documents."""
        return int(self._ends.size)

    def _stored(self, start: int, stop: int) -> Array:
        """Return the ends of the documents from `start` to `stop` as they are stored, int64, as positions in the ids."""
        return self._ends[start:stop].astype(np.int64, copy=False)

    def ends(self, start: int, stop: int) -> Array:
        """Return the ends of the documents from `start` to `stop`, int64, as positions in the ids.

        Raises
        ------
        TokenFileError
            If these documents do not follow each other within the ids.
        """
        first = max(start - 1, 0)
        ends = self._stored(first, stop)
        if ends.size and (ends[0] < 0 or ends[-1] > self.n_tokens or (ends[1:] < ends[:-1]).any()):
            starts = np.concatenate([[ends[0] if start else 0], ends[:-1]])
            at = int(np.flatnonzero((ends < starts) | (ends < 0) | (ends > self.n_tokens))[0])
            raise self.broken(
                f"document {first + at} starts at {starts[at]} and ends at {ends[at]}",
                f"ascending numbers from 0 to {self.n_tokens}, the number of ids",
            )
        return ends[start - first :]

    def blocks(self) -> Iterator[Array]:
        """Yield the ends of all documents in order, in blocks; the errors are those of `ends`."""
        for start in range(0, len(self), _BLOCK):
            yield self.ends(start, min(start + _BLOCK, len(self)))

    def span(self, number: int) -> tuple[int, int]:
        """Return the positions at which a document starts and ends; the errors are those of `ends`."""
        ends = self.ends(max(number - 1, 0), number + 1)
        return int(ends[0]) if number else 0, int(ends[-1])

    def broken(self, found: str, expected: str) -> TokenFileError:
        """Return the error for borders that do not fit the ids."""
        return TokenFileError(
            f"`{self.path}` does not describe the documents of its token file: {found}; expected {expected}: copy all files of "
            "the token file again, or encode the text again"
        )


class EndReader:
    """Read the ends of documents in order; `blocks` yields them, int64."""

    def __init__(self, blocks: Iterator[Array]) -> None:
        self._blocks = blocks
        self._ends: Array = np.empty(0, np.int64)

    def up_to(self, position: int) -> Array:
        """Return the next ends that are not greater than `position`, int64."""
        found = []
        while True:
            n_ended = int(np.searchsorted(self._ends, position, side="right"))
            found.append(self._ends[:n_ended])
            self._ends = self._ends[n_ended:]
            following = None if self._ends.size else next(self._blocks, None)
            if following is None:
                return np.concatenate(found)
            self._ends = following


def document_index_path(path: StrPath) -> Path:
    """Return the path of the document index of the token file `path`."""
    return Path(f"{os.fspath(path)}.docs.npy")


class DocumentIndexWriter:
    """Write a document index.

    Parameters
    ----------
    file : OutputFile
        An empty file.
    """

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        file.write(npy_header(END_DTYPE, 0))
        file.write(np.zeros(1, END_DTYPE).data)

    def write(self, ends: Array) -> None:
        """Append the ends of documents, int64 [documents], as positions in the token file."""
        self._file.write(np.ascontiguousarray(ends, END_DTYPE).data)

    def finish(self, fields: Description) -> None:
        """Write the number of documents into the header."""
        self._file.write_at_start(npy_header(END_DTYPE, (fields.documents or 0) + 1))


def read_document_index(path: Path, n_tokens: int) -> Borders:
    """Return the borders of documents of a document index.

    Raises
    ------
    TokenFileError
        If the index is missing or broken, or its first and last number are not 0 and the number of ids.
    """
    borders = Borders(path, n_tokens)
    try:
        dtype, n_starts, offset = read_npy_header(path)
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="document index") from cause
    if dtype != END_DTYPE or n_starts < 1:
        raise borders.broken(f"it has {n_starts} numbers of {dtype}", "at least one of int64")
    starts = np.asarray(map_ids(path, offset + n_starts * END_DTYPE.itemsize, END_DTYPE, offset=offset))
    first = int(starts[0])
    last = int(starts[-1])
    if first != 0 or last != n_tokens:
        raise borders.broken(f"its first and last number are {first} and {last}", f"0 and {n_tokens}, the number of ids")
    return Borders(path, n_tokens, starts[1:])
