"""What is made of presets, stored on disk (see `bpejit.jit.cache`): to make the tables takes up to half a second, a translation
a tenth of one; to read them takes some milliseconds.

They are found by a hash of all that they depend on: the pattern, its version of Unicode, the `regex` package, and the sources
here. Patterns that are no presets are not stored: there may be any number of them.
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

from bpejit.jit import cache, fingerprint
from bpejit.splitting.presets import PRESETS, Pattern

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
    """Store the tables of a pattern for later processes, if that is possible."""
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
    cache.write(name, text.encode())
    return text


def _file_name(source: Pattern, unicode: str | None, what: str) -> str:
    return f"pattern-{fingerprint.hash_text(repr((source, unicode, _makers())))}.{what}"


@functools.cache
def _makers() -> str:
    """Return a hash of what makes tables."""
    digest = hashlib.blake2b(digest_size=12)
    folder = Path(__file__).parent
    for path in (*sorted(folder.glob("*.py")), folder.parent / "arrays.py", folder.parent / "kernels" / "constants.py"):
        digest.update(path.read_bytes())
    engine = Path(regex._regex.__file__)
    stamp = engine.stat()
    digest.update(f"{engine} {stamp.st_mtime_ns} {stamp.st_size}".encode())
    return digest.hexdigest()
