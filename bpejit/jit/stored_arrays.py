"""Store several arrays in one file of the cache, and read them in place.

A file starts with the number of arrays, and the begin, the end and the code of the dtype of each, int64 each; the arrays
follow, each at a multiple of a cache line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bpejit.jit import cache

CACHE_LINE_BYTES = 64


def load_arrays(name: str, *, folder: str = cache.ENCODERS, alignment: Callable[[int], int] | None = None) -> list[Any] | None:
    """Return the arrays that are stored under a name, or None.

    They share one block of memory, are aligned to cache lines, and can be written to, as kernels require.

    Parameters
    ----------
    name : str
    folder : str, optional
        By default the folder for encoders.
    alignment : callable, optional
        Returns the alignment of the content for a file of a number of bytes, a multiple of that of a cache line.
    """

    def allocate(n_bytes: int) -> memoryview:
        multiple = CACHE_LINE_BYTES if alignment is None else alignment(n_bytes)
        data = np.empty(n_bytes + 2 * multiple, dtype=np.uint8)
        begin = -(data.ctypes.data + cache.HEAD_BYTES) % multiple
        return memoryview(data[begin : begin + n_bytes])  # type: ignore[arg-type]

    content = cache.read(name, folder, allocate)
    if content is None:
        return None
    data = np.frombuffer(content, dtype=np.uint8)
    head = data[: _head_bytes(int(data[:8].view(np.int64)[0]))].view(np.int64)
    return [data[begin:end].view(chr(code)) for begin, end, code in head[1:].reshape(3, -1).T.tolist()]


def store_arrays(name: str, arrays: Sequence[Any], *, folder: str = cache.ENCODERS) -> None:
    """Store arrays under a name, if possible; by default in the folder for encoders."""
    begins, ends = [], []
    at = _head_bytes(len(arrays))
    for array in arrays:
        at += -at % CACHE_LINE_BYTES
        begins.append(at)
        at += array.nbytes
        ends.append(at)
    content = np.zeros(at, dtype=np.uint8)
    codes = [ord(np.dtype(array.dtype.str).char) for array in arrays]  # one code for types of the same size
    content[: _head_bytes(len(arrays))] = np.array([len(arrays), *begins, *ends, *codes], dtype=np.int64).view(np.uint8)
    for array, begin, end in zip(arrays, begins, ends, strict=True):
        content[begin:end] = array.view(np.uint8)
    cache.write(name, content.tobytes(), folder)


def _head_bytes(n_arrays: int) -> int:
    return 8 + 24 * n_arrays
