"""Growth of Python's memory while a function is called again and again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def growth(call: Callable[[], object], times: int) -> tuple[int, int]:
    """Return by how many blocks of memory, and references to None, `times` calls raise what the process holds.

    Other threads of the process, such as those of a test runner, allocate memory as well. What leaks does so each time,
    so the smallest of five measurements is taken.
    """

    def measure() -> tuple[int, int]:
        gc.collect()
        blocks, nones = sys.getallocatedblocks(), sys.getrefcount(None)
        for _ in range(times):
            call()
        return sys.getallocatedblocks() - blocks, abs(sys.getrefcount(None) - nones)

    blocks, nones = zip(*(measure() for _ in range(5)), strict=True)
    return min(blocks), min(nones)
