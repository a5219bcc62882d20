"""Check split patterns, and compile them for the `regex` package."""

from __future__ import annotations

import re
from typing import Any

import regex

from bpejit.errors import PatternError, shorten
from bpejit.splitting.presets import PRESETS, Pattern, is_name, preset_name
from bpejit.splitting.regex_syntax import find_ends


def check_pattern(source: Pattern) -> tuple[Any, ...]:
    """Return the expressions of a pattern, compiled by the `regex` package.

    Parameters
    ----------
    source : str or tuple of str
        From `pattern_source`.

    Raises
    ------
    PatternError
        If the pattern is empty, looks like the name of a preset that does not exist, or does not compile.
    """
    sources = (source,) if isinstance(source, str) else source
    if preset_name(source) is None:
        _check_sources(sources)
    return compile_stages(source)


def _check_sources(sources: tuple[str, ...]) -> None:
    if not sources:
        raise PatternError("the split pattern is an empty sequence; expected at least one regular expression: add one")
    # In a sequence a fixed word may be intended, unless it is the name of a preset.
    for source in sources if len(sources) > 1 else ():
        if source in PRESETS or not source:
            raise PatternError(
                f"{shorten(source, 400)} is not a regular expression for a sequence; expected {len(sources)} regular "
                f"expressions: write them out, as in `PRESETS[{shorten(source or 'gpt2')}]`"
            )
    if len(sources) == 1 and (not sources[0] or is_name(sources[0])):
        raise PatternError(
            f"there is no split pattern named {shorten(sources[0])}; expected {', '.join(PRESETS)}, or a regular expression: "
            "choose one of these names, or write a pattern that matches more than one fixed word"
        )


def _in_sequence(sources: tuple[str, ...]) -> str:
    return "" if len(sources) == 1 else f" in a sequence of {len(sources)}"


def compile_stages(source: Pattern) -> tuple[Any, ...]:
    """Return the expressions of a pattern, compiled by the `regex` package, with `$` as the end of the text only."""
    sources = (source,) if isinstance(source, str) else source
    return tuple(_compile_stage(one, sources) for one in sources)


def _compile_stage(source: str, sources: tuple[str, ...]) -> Any:
    try:
        return _compile_regex(source)
    except regex.error as error:
        raise PatternError(
            f"the split pattern {shorten(source, 400)}{_in_sequence(sources)} does not compile: {error}; "
            "expected a regular expression in the syntax of the `regex` package: correct it, or choose one of the presets "
            f"({', '.join(PRESETS)})"
        ) from None


def _compile_regex(source: str) -> Any:
    """Compile for the `regex` package, with `$` as the end of the text only; there it also matches before a final newline."""
    ends, operations = find_ends(source)
    # In multiline mode `$` keeps its meaning.
    if not re.search(r"\(\?[a-zA-Z]*m", source):
        for start, end in reversed(ends):
            source = source[:start] + r"\Z" + source[end:]
    # Version 1 supports set operations. Its other new feature, full case folding, is turned off.
    return regex.compile(f"(?V1)(?-f:{source})" if operations else source)
