"""Map the numbers of files into memory: ids, and the borders of documents, which are checked whenever they are read.

Formats that do not store borders have a file of their own for them, `<file>.docs.npy` beside a token file: a NumPy array,
`starts` int64 [documents + 1]. Document k consists of the ids from `starts[k]` to `starts[k + 1]`, the first number is 0 and
the last one the number of ids. `numpy.load(path, mmap_mode="r")` reads it. The headers of such files are those of version 1.0.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import OutputFile, read_error
from bpejit.tokenfiles.description import END_DTYPE, Description, document_index_path
from bpejit.tokenfiles.readers import BLOCK_TOKENS, TokenReader, from_zero


def check_regular(path: Path) -> None:
    """Raise TokenFileError if a token file cannot be read, or is not a regular file."""
    try:
        if path.is_file() or not path.exists() or path.is_dir():
            path.open("rb").close()  # raises now, not later, if the file cannot be read
            return
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
    raise TokenFileError(f"`{path}` is a device or a pipe; expected a regular file: write the ids to a file first")


def map_ids(path: Path, dtype: np.dtype[Any], *, offset: int = 0) -> npt.NDArray[Any]:
    """Return the ids of a file from the byte `offset` on, mapped into memory, read-only.

    Raises
    ------
    TokenFileError
        If the file cannot be read, or the size is not that of whole ids.
    """
    try:
        size = path.stat().st_size - offset
        if size % dtype.itemsize == 0:
            ids = np.memmap(path, dtype, "r", offset, size // dtype.itemsize) if size else np.empty(0, dtype)
            ids.flags.writeable = False
            return ids
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
    raise TokenFileError(
        f"`{path}` has {size} bytes{' of ids' if offset else ''}, which is not a multiple of {dtype.itemsize}, the size of "
        f"{dtype.name}; expected whole ids; the file was truncated or has another dtype: copy it again, or check the dtype"
    )


NPY_MAGIC = b"\x93NUMPY"

HEADER_BYTES = 128
"""Size of a header. NumPy reserves space for 21 digits of the length, so it has the same size for every length."""


def npy_header(dtype: np.dtype[Any], length: int) -> bytes:
    """Return the header of a file with `length` little-endian numbers, as `numpy.save` writes it."""
    fields = f"{{'descr': '{dtype.newbyteorder('<').str}', 'fortran_order': False, 'shape': ({length},), }}"
    size = HEADER_BYTES - len(NPY_MAGIC) - 4
    return NPY_MAGIC + bytes([1, 0]) + size.to_bytes(2, "little") + fields.encode("ascii").ljust(size - 1) + b"\n"


def map_npy(path: Path, *, what: str = "token file") -> np.memmap[Any, Any]:
    """Return the array of an `.npy` file, mapped into memory, read-only.

    Raises
    ------
    TokenFileError
        If the file cannot be read, or is not a complete `.npy` file with one dimension.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NumPy and of Python's parser, about headers that are read all the same
            array = np.lib.format.open_memmap(path, mode="r")
        size = path.stat().st_size - array.offset
        if array.ndim != 1:
            raise ValueError(f"it has {array.ndim} dimensions")
        if size != array.nbytes:
            raise ValueError(f"it has {size} bytes for {array.size} numbers of {array.dtype}")
        return array
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what=what) from cause
    except Exception as cause:  # what NumPy raises for damaged headers is not documented, such as tokenize.TokenError
        problem = " ".join(str(cause).split())[:200].rstrip(".") or type(cause).__name__
        raise TokenFileError(
            f"`{path}` is not a complete NumPy file of numbers: {problem}; expected one dimension, and the bytes after its "
            "header that this announces, as written by `numpy.save`: copy the file again, or encode the text again"
        ) from cause


_BLOCK = 1 << 16
"""Number of ends of documents that are read at a time."""


Output = OutputFile | BinaryIO
"""An open file that is written from its start to its end."""


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


def read_ends(file: BinaryIO) -> Iterator[Array]:
    """Yield the ends of documents of a file with little-endian int64 alone, in blocks."""
    file.seek(0)
    while data := file.read(_BLOCK * END_DTYPE.itemsize):
        yield np.frombuffer(data, END_DTYPE)


class MappedTokens(TokenReader):
    """An open token file whose ids are one array.

    Parameters
    ----------
    path : Path
        The file that contains the ids.
    ids : integers [n_tokens]
        Mapped into memory, or read from text; read-only.
    description : Description, optional
        The content of the description; None if there is none.
    borders : Borders, optional
        The borders of documents; None if they are not stored.
    """

    def __init__(
        self, path: Path, ids: npt.NDArray[Any], description: Description | None = None, borders: Borders | None = None
    ) -> None:
        self.path = path
        self.description = description
        self.dtype = str(ids.dtype.name)
        self.borders = borders
        self._ids = ids
        self._rows = None if borders is None else np.array([0, len(borders)])

    def _part_sizes(self) -> list[int]:
        return [int(self._ids.size)]

    def _slice(self, index: slice) -> Array:
        part: Array = self._ids[index]
        return part

    def document(self, number: int) -> Array:
        """Return the ids of a document."""
        if self.borders is None:
            raise TokenFileError(
                f"`{self.path}` does not contain the borders of documents: there is no `{document_index_path(self.path)}`; "
                "expected that file: encode the text again with `document_index=True`"
            )
        number = from_zero(number, len(self.borders), "document", "n_documents")
        ends = self.borders.ends(max(number - 1, 0), number + 1)
        part: Array = self._ids[int(ends[0]) if number else 0 : int(ends[-1])]
        return part

    def stored_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[Array]:
        """Yield all ids. They are read, since pages of a mapping count as memory of the process until the system needs them."""
        starts = range(0, self.n_tokens, size)
        if not isinstance(self._ids, np.memmap):  # they are in memory
            yield from (self._ids[start : start + size] for start in starts)
            return
        offset = self._ids.offset
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                for start in starts:
                    ids = np.fromfile(file, self._ids.dtype, min(size, self.n_tokens - start))
                    if ids.size < min(size, self.n_tokens - start):
                        raise TokenFileError(
                            f"`{self.path}` ends after {file.seek(0, os.SEEK_END)} bytes; expected "
                            f"{offset + self._ids.nbytes}, its size when it was opened: do not change the file while it is read"
                        )
                    yield ids
        except OSError as cause:
            raise read_error(self.path, cause, error=TokenFileError, what="token file") from cause

    def document_blocks(self, size: int = BLOCK_TOKENS) -> Iterator[tuple[Array, Array | None]]:
        """Yield all ids, in arrays each with the ends of the documents that end in it."""
        done = 0
        ends = None if self.borders is None else EndReader(self.borders.blocks())
        for ids in self.stored_blocks(size):
            # A document that ends where a block ends belongs to that block.
            yield ids, None if ends is None else ends.up_to(done + ids.size) - done
            done += ids.size
        if ends is not None and done == 0:  # an empty file with empty documents
            yield np.empty(0, self._ids.dtype), ends.up_to(0)
