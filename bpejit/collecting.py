"""Python's garbage collector, and where it would look in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the collector from looking for cycles while the block, or the function that this decorates, makes many objects.

    For code that makes hundreds of thousands of them and keeps them: the collector goes through all of these again and again.
    Afterwards it is on if it was on before, whatever the block raised.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
