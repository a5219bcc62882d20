"""Map the numbers of a file into memory."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bpejit.errors import TokenFileError
from bpejit.storage.files import read_error


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
        empty = np.empty(0, dtype=dtype)
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
