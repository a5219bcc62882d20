"""Map the numbers of a file into memory, and read and write the headers of NumPy's files (`.npy`, version 1.0) with them."""

from __future__ import annotations

import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bpejit.errors import TokenFileError
from bpejit.storage.files import StrPath, read_error


def regular_size(path: Path) -> int:
    """Return the size of a token file.

    Raises
    ------
    TokenFileError
        If it cannot be read, or is not a regular file.
    """
    try:
        status = path.stat()
        regular = stat.S_ISREG(status.st_mode)
        if regular or stat.S_ISDIR(status.st_mode):
            path.open("rb").close()  # raises now, not later, if the file cannot be read
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
    if not regular:
        raise TokenFileError(f"`{path}` is a device or a pipe; expected a regular file: write the ids to a file first")
    return status.st_size


def map_ids(path: Path, size: int, dtype: np.dtype[Any], *, offset: int = 0) -> npt.NDArray[Any]:
    """Return the ids of a file of `size` bytes from the byte `offset` on, mapped into memory, read-only.

    Raises
    ------
    TokenFileError
        If the file cannot be read, or the size is not that of whole ids.
    """
    size -= offset
    if size % dtype.itemsize:
        raise TokenFileError(
            f"`{path}` has {size} bytes{' of ids' if offset else ''}, which is not a multiple of {dtype.itemsize}, the size of "
            f"{dtype.name}; expected whole ids; the file was truncated or has another dtype: copy it again, or check the dtype"
        )
    if size == 0:  # an empty file cannot be mapped
        empty = np.empty(0, dtype)
        empty.flags.writeable = False
        return empty
    try:
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=(size // dtype.itemsize,))
    except OSError as cause:
        raise read_error(path, cause, error=TokenFileError, what="token file") from cause
    except ValueError as cause:
        raise TokenFileError(
            f"`{path}` became shorter than {offset + size} bytes while it was opened ({cause}); expected a file that does not "
            "change: open it when it is complete"
        ) from cause


NPY_MAGIC = b"\x93NUMPY"

HEADER_BYTES = 128
"""Size of a header. NumPy reserves space for 21 digits of the length, so it has the same size for every length."""


_READERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,  # with other characters in the names of fields, which ids do not have
}


def npy_header(dtype: np.dtype[Any], length: int) -> bytes:
    """Return the header of a file with `length` little-endian numbers, as `numpy.save` writes it."""
    fields = f"{{'descr': '{dtype.newbyteorder('<').str}', 'fortran_order': False, 'shape': ({length},), }}"
    size = HEADER_BYTES - len(NPY_MAGIC) - 4
    return NPY_MAGIC + bytes([1, 0]) + size.to_bytes(2, "little") + fields.encode("ascii").ljust(size - 1) + b"\n"


def read_npy_header(path: StrPath) -> tuple[np.dtype[Any], int, int]:
    """Return the dtype, the number of items, and the position of the first item of an `.npy` file.

    Raises
    ------
    OSError
        If the file cannot be read.
    TokenFileError
        If it is not a complete `.npy` file with one dimension.
    """
    problem = ""
    with Path(path).open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            if version not in _READERS:
                raise ValueError(f"it has version {version[0]}.{version[1]}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of NumPy and of Python's parser, about headers that are read all the same
                shape, _, dtype = _READERS[version](file)
            offset = file.tell()
        except OSError:
            raise
        except Exception as cause:  # what NumPy raises for damaged headers is not documented, such as tokenize.TokenError
            problem = " ".join(str(cause).split())[:200].rstrip(".") or type(cause).__name__
        else:
            size = file.seek(0, 2) - offset
            if len(shape) != 1:
                problem = f"it has {len(shape)} dimensions"
            elif dtype.hasobject or size != shape[0] * dtype.itemsize:
                problem = f"it has {size} bytes after its header, which announces {shape[0]} numbers of {dtype}"
    if problem:
        raise TokenFileError(
            f"`{path}` is not a complete NumPy file of numbers: {problem}; expected one dimension, as written by `numpy.save`: "
            "copy the file again, or encode the text again"
        )
    return dtype, int(shape[0]), offset
