"""Store several arrays in one file of the cache, and read them in place.

A file starts with the begin and the end of each array, int64 each; the arrays follow, each at a multiple of a cache line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bpejit.jit import cache

CACHE_LINE_BYTES = 64


def load_arrays(
    name: str, types: Sequence[str], *, folder: str = cache.ENCODERS, alignment: Callable[[int], int] | None = None
) -> list[Any] | None:
    """Return the arrays that are stored under a name, or None.

    They share one block of memory, are aligned to cache lines, and can be written to, as kernels require.

    Parameters
    ----------
    name : str
    types : sequence of str
        The dtype of each array.
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

    content = cache.read_into(allocate, name, folder)
    if content is None:
        return None
    data = np.frombuffer(content, dtype=np.uint8)
    n = len(types)
    bounds = data[: 16 * n].view(np.int64).tolist()
    return [data[begin:end].view(kind) for kind, begin, end in zip(types, bounds[:n], bounds[n:], strict=True)]


def store_arrays(name: str, arrays: Sequence[Any], *, folder: str = cache.ENCODERS) -> None:
    """Store arrays under a name, if possible; by default in the folder for encoders."""
    begins, ends = [], []
    at = 16 * len(arrays)
    for array in arrays:
        at += -at % CACHE_LINE_BYTES
        begins.append(at)
        at += array.nbytes
        ends.append(at)
    content = np.zeros(at, dtype=np.uint8)
    content[: 16 * len(arrays)] = np.array([*begins, *ends], dtype=np.int64).view(np.uint8)
    for array, begin, end in zip(arrays, begins, ends, strict=True):
        content[begin:end] = array.view(np.uint8)
    cache.write(name, content.tobytes(), folder)
