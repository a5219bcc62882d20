"""`compile_pattern`, which reads the tables of presets, and their translations, from disk (see `bpejit.jit.cache`).

Computing tables takes up to half a second and a translation to another dialect a tenth of a second; reading them takes a few
milliseconds, since neither the compiler nor the `regex` package is imported, which takes 40 ms.

A file is identified by a hash of all that its content depends on: the pattern, its version of Unicode, the `regex` package, and
the sources of this package. Other patterns are not stored, since there may be any number of them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.jit import cache, fingerprint
from bpejit.jit.stored_arrays import load_arrays, store_arrays
from bpejit.splitting.pattern import SplitPattern, SplitTables
from bpejit.splitting.presets import PRESETS, Pattern, pattern_source, preset_name, stages_of


def compile_pattern(pattern: Pattern, *, unicode: str | None = None) -> SplitPattern:
    """Compile a split pattern.

    Parameters
    ----------
    pattern : str or tuple of str
        The name of a preset (see `bpejit.splitting.PRESETS`), a regular expression in the syntax of the `regex` package, or
        several expressions that are applied one after the other (see `bpejit.splitting.Pattern`).
    unicode : str, optional
        The version of Unicode that defines letters and other classes of characters, one of `unicode_versions.VERSIONS`. The
        default is the version of the installed `regex` package.

    Raises
    ------
    PatternError
        If the pattern does not compile, or the `regex` package has an older version of Unicode.

    Examples
    --------
    >>> compile_pattern("gpt2").kind
    'transducer'
    """
    return _compile(pattern_source(pattern), unicode)


LONG_PATTERN = 500
"""Length from which on the tables of a pattern are stored, like those of presets: compiling it takes longer than 50 ms."""


@functools.lru_cache(maxsize=64)
def _compile(source: Pattern, unicode: str | None) -> SplitPattern:
    is_stored = preset_name(source) is not None or len(str(source)) >= LONG_PATTERN
    stored = load_tables(source, unicode) if is_stored else None
    if stored is not None:  # for a version of Unicode that the installed `regex` package supports
        return SplitPattern(source, "transducer", "", stored, unicode)
    from bpejit.splitting.pattern_compiler import compile_uncached  # not at the top: it takes 40 ms
    from bpejit.splitting.unicode_versions import check_unicode

    if unicode is not None:
        check_unicode(unicode)
    compiled = compile_uncached(source, unicode=unicode)
    if is_stored and compiled.kind == "transducer" and compiled.tables is not None:
        store_tables(source, unicode, compiled.tables)
    return compiled


def load_tables(source: Pattern, unicode: str | None) -> SplitTables | None:
    """Return the stored tables of a pattern and a version of Unicode, or None if there are none.

    A number is stored as an array of one int64, which no table has.
    """
    name = _file_name(source, unicode, "tables")
    arrays = None if name is None else load_arrays(name, folder=cache.PATTERNS)
    if arrays is None:
        return None
    fields: list[Any] = [int(array[0]) if array.dtype == np.int64 else array for array in arrays]
    return SplitTables(*fields)


def store_tables(source: Pattern, unicode: str | None, tables: SplitTables) -> None:
    """Store the tables of a pattern for later processes, if possible."""
    name = _file_name(source, unicode, "tables")
    if name is not None:
        # One megabyte, mostly runs of one class. Decompressing it would take three times as long as reading it.
        store_arrays(name, [np.atleast_1d(one) for one in tables], folder=cache.PATTERNS)


def translated(source: str, unicode: str | None, dialect: str, translate: Callable[[], str]) -> str:
    """Return the result of `translate`, a translation of a pattern to another dialect; for patterns of presets it is stored."""
    is_published = any(source in stages_of(pattern) for pattern in PRESETS.values())
    name = _file_name(source, unicode, dialect) if is_published else None
    if name is None:
        return translate()
    found = cache.read(name)
    if found is not None:
        return str(found, "utf-8")
    text = translate()
    cache.write(name, text.encode())
    return text


def _file_name(source: Pattern, unicode: str | None, suffix: str) -> str | None:
    code = _hash_of_code()
    if code is None:
        return None
    return f"pattern-{fingerprint.hash_text(repr((source, unicode, code, describe_engine())))}.{suffix}"


@functools.cache
def _hash_of_code() -> str | None:
    """Return a hash of the code that computes tables, or None if its sources cannot be read."""
    folder = Path(__file__).parent
    names = sorted(path.name for path in folder.glob("*.py"))
    return fingerprint.of_modules(folder, (*names, "../arrays.py", "../jit/stored_arrays.py", "../kernels/constants.py"))


def describe_engine() -> str:
    """Return a text that differs for each installed `regex` package, without importing it."""
    engine = _find_engine()
    stamp = engine.stat()
    return f"{engine} {stamp.st_mtime_ns} {stamp.st_size}"


@functools.cache
def _find_engine() -> Path:
    """Return the file of the extension module of the `regex` package, without importing it, which takes 15 ms."""
    loaded = sys.modules.get("regex._regex")
    if loaded is not None and loaded.__file__ is not None:
        return Path(loaded.__file__)
    package = PathFinder.find_spec("regex")
    engine = None if package is None else PathFinder.find_spec("regex._regex", package.submodule_search_locations)
    if engine is None or engine.origin is None:
        import regex._regex  # from a place that only the import system knows, such as an archive

        return Path(regex._regex.__file__)
    return Path(engine.origin)
