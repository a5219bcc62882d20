"""The borders of documents in a file of their own, `<file>.docs.npy` beside a token file.

The file is a NumPy array, `starts` int64 [documents + 1]: document k consists of the ids from `starts[k]` to `starts[k + 1]`,
the first number is 0 and the last one the number of ids. `numpy.load(path, mmap_mode="r")` reads it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import OutputFile, StrPath, read_error
from bpejit.tokenfiles.description import Description
from bpejit.tokenfiles.npy_header import npy_header, read_npy_header

_START = np.dtype("<i8")

_CHECKED = 1 << 20
"""Number of starts that are compared at a time."""


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
        self._n_starts = 1
        file.write(npy_header(_START, 0))
        file.write(np.zeros(1, dtype=_START).data)

    def write(self, ends: Array) -> None:
        """Append the ends of documents, int64 [documents], as positions in the token file."""
        self._file.write(np.ascontiguousarray(ends, dtype=_START).data)
        self._n_starts += int(ends.size)

    def finish(self) -> None:
        """Write the number of documents into the header."""
        self._file.write_at_start(npy_header(_START, self._n_starts))


def find_document_index(path: StrPath, fields: Description | None, n_tokens: int) -> Array | None:
    """Return the document index of the token file `path`; None if there is none.

    A file with a description has an index if the description has the number of documents.
    """
    has_index = document_index_path(path).exists() if fields is None else fields.documents is not None
    return read_document_index(path, n_tokens) if has_index else None


def read_document_index(path: StrPath, n_tokens: int) -> Array:
    """Return `starts` int64 [documents + 1] of the token file `path`, mapped into memory.

    Raises
    ------
    TokenFileError
        If the file is missing or broken, or its first and last number do not fit the token file.
    """
    index = document_index_path(path)
    try:
        dtype, n_starts, offset = read_npy_header(index)
        if dtype != _START or n_starts < 1:
            raise _broken(index, f"it has {n_starts} numbers of {dtype}", "at least one of int64")
        starts: Array = np.memmap(index, dtype=_START, mode="r", offset=offset, shape=(n_starts,))
    except OSError as cause:
        raise read_error(index, cause, error=TokenFileError, what="document index") from cause
    if starts[0] != 0 or starts[-1] != n_tokens:
        raise _broken(
            index, f"its first and last number are {starts[0]} and {starts[-1]}", f"0 and {n_tokens}, the number of ids"
        )
    return starts


def check_ascending(starts: Array, path: StrPath) -> None:
    """Raise TokenFileError if the starts of documents are not in ascending order; reads all of them."""
    for begin in range(0, starts.size - 1, _CHECKED):
        block = np.asarray(starts[begin : begin + _CHECKED + 1])
        wrong = np.flatnonzero(block[1:] < block[:-1])
        if wrong.size:
            at = begin + int(wrong[0])
            raise _broken(path, f"document {at} starts at {starts[at]} and ends at {starts[at + 1]}", "ascending numbers")


def _broken(path: StrPath, found: Any, expected: str) -> TokenFileError:
    return TokenFileError(
        f"`{os.fspath(path)}` does not describe the documents of its token file: {found}; expected {expected}: copy all files "
        "of the token file again, or encode the text again"
    )
