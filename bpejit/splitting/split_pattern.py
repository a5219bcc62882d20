"""Compile split patterns, or read the tables of presets from disk."""

from __future__ import annotations

from functools import lru_cache

from bpejit.splitting.compiled_pattern import SplitPattern
from bpejit.splitting.presets import Pattern, pattern_source, preset_name
from bpejit.splitting.table_cache import load_tables, store_tables


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


@lru_cache(maxsize=64)
def _compile(source: Pattern, unicode: str | None) -> SplitPattern:
    is_preset = preset_name(source) is not None
    stored = load_tables(source, unicode) if is_preset else None
    if stored is not None:  # for a version of Unicode that the installed `regex` package supports
        return SplitPattern(source, "transducer", "", stored, unicode)
    from bpejit.splitting.pattern_compiler import compile_uncached  # not at the top: it takes 40 ms
    from bpejit.splitting.unicode_versions import check_unicode

    if unicode is not None:
        check_unicode(unicode)
    compiled = compile_uncached(source, unicode=unicode)
    if is_preset and compiled.kind == "transducer" and compiled.tables is not None:
        store_tables(source, unicode, compiled.tables)
    return compiled
