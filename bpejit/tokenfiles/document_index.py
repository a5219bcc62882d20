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
        file.write(npy_header(_START, 0))
        file.write(np.zeros(1, dtype=_START).data)

    def write(self, ends: Array) -> None:
        """Append the ends of documents, int64 [documents], as positions in the token file."""
        self._file.write(np.ascontiguousarray(ends, dtype=_START).data)

    def finish(self, fields: Description) -> None:
        """Write the number of documents into the header."""
        self._file.write_at_start(npy_header(_START, (fields.documents or 0) + 1))


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
    if dtype != _START or n_starts < 1:
        raise borders.broken(f"it has {n_starts} numbers of {dtype}", "at least one of int64")
    starts = np.asarray(map_ids(path, offset + n_starts * _START.itemsize, _START, offset=offset))
    first = int(starts[0])
    last = int(starts[-1])
    if first != 0 or last != n_tokens:
        raise borders.broken(f"its first and last number are {first} and {last}", f"0 and {n_tokens}, the number of ids")
    return Borders(path, n_tokens, starts[1:])
