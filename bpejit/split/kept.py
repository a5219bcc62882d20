"""What is made of presets, on disk beside the compiled kernels: to make tables takes up to half a second, a translation a tenth
of one, to read them some milliseconds.

They are found by a hash of all that they depend on: the pattern, its version of Unicode, the `regex` package, and the sources
here; the kernels' constants are in the name of the folder (see `jit.cache`). So nothing old is ever used. Patterns that
are no presets are not kept: there may be any number of them, and nobody would take them away again.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import regex._regex

from bpejit.jit import cache
from bpejit.split.presets import PRESETS, Pattern

_STAGES = frozenset(stage for preset in PRESETS.values() for stage in ((preset,) if isinstance(preset, str) else preset))


def load_tables(source: Pattern, unicode: str | None, count: int) -> list[Any] | None:
    """Return the tables of a pattern, if they were kept.

    Parameters
    ----------
    source : str or tuple of str
        The regular expression, or those of a sequence.
    unicode : str, optional
        The version of Unicode that the pattern follows.
    count : int
        How many tables and numbers there are.
    """
    found = cache.read(_file_name(source, unicode, "tables"))
    if found is None:
        return None
    file = io.BytesIO(zlib.decompress(found))
    tables = (np.load(file, allow_pickle=False) for _ in range(count))
    return [table if table.ndim else int(table) for table in tables]


def keep_tables(source: Pattern, unicode: str | None, tables: Iterable[Any]) -> None:
    """Keep the tables of a pattern for later processes, if there is a folder for that.

    Before kernels were kept there is none: a folder without kernels would hide that this is their first run.
    """
    if cache.is_empty():
        return
    file = io.BytesIO()
    for table in tables:
        np.save(file, table, allow_pickle=False)
    # One megabyte, nearly all of it runs of one class.
    cache.write(_file_name(source, unicode, "tables"), zlib.compress(file.getvalue(), 1))


def translated(source: str, unicode: str | None, dialect: str, translate: Callable[[], str]) -> str:
    """Return what `translate` makes of a pattern for another dialect: of one that is part of a preset, as it was kept."""
    if source not in _STAGES:
        return translate()
    name = _file_name(source, unicode, dialect)
    found = cache.read(name)
    if found is not None:
        return found.decode()
    text = translate()
    if not cache.is_empty():
        cache.write(name, text.encode())
    return text


def _file_name(source: Pattern, unicode: str | None, what: str) -> str:
    return f"pattern-{cache.hash_text(repr((source, unicode, _makers())))}.{what}"


@functools.cache
def _makers() -> str:
    """Return a hash of what makes tables, apart from the kernels' constants."""
    digest = hashlib.blake2b(digest_size=12)
    folder = Path(__file__).parent
    for path in (*sorted(folder.glob("*.py")), *folder.parent.glob("arrays.py")):
        digest.update(path.read_bytes())
    engine = Path(regex._regex.__file__)
    stamp = engine.stat()
    digest.update(f"{engine} {stamp.st_mtime_ns} {stamp.st_size}".encode())
    return digest.hexdigest()
