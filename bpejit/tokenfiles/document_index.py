"""The borders of documents in a file of their own, `<file>.docs.npy` beside a token file.

The file is a NumPy array, `starts` int64 [documents + 1]: document k consists of the ids from `starts[k]` to `starts[k + 1]`,
the first number is 0 and the last one the number of ids. `numpy.load(path, mmap_mode="r")` reads it.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import TokenFileError
from bpejit.storage.files import OutputFile, StrPath, read_error
from bpejit.tokenfiles.borders import Borders
from bpejit.tokenfiles.description import Description
from bpejit.tokenfiles.mapping import map_ids
from bpejit.tokenfiles.npy_header import npy_header, read_npy_header

_START = np.dtype("<i8")


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

    def finish(self, fields: Description) -> None:  # noqa: ARG002
        """Write the number of documents into the header."""
        self._file.write_at_start(npy_header(_START, self._n_starts))


class DocumentIndex(Borders):
    """The borders of documents in `starts` int64 [documents + 1], of which the last is the number of ids.

    Parameters
    ----------
    path : Path
        The document index.
    n_tokens : int

    Raises
    ------
    TokenFileError
        If the index is missing or broken, or its first and last number do not fit the token file.
    """

    def __init__(self, path: Path, n_tokens: int) -> None:
        try:
            dtype, n_starts, offset = read_npy_header(path)
        except OSError as cause:
            raise read_error(path, cause, error=TokenFileError, what="document index") from cause
        super().__init__(path, n_tokens)
        if dtype != _START or n_starts < 1:
            raise self.broken(f"it has {n_starts} numbers of {dtype}", "at least one of int64")
        starts = np.asarray(map_ids(path, offset + n_starts * _START.itemsize, _START, offset=offset))
        self._ends = starts[1:]
        first = int(starts[0])
        last = int(starts[-1])
        if first != 0 or last != n_tokens:
            raise self.broken(f"its first and last number are {first} and {last}", f"0 and {n_tokens}, the number of ids")
