"""The split pattern of superwords: words that follow each other are one pre-token."""

from __future__ import annotations

import contextlib
from functools import cache

from bpejit.arrays import Array
from bpejit.errors import OptionError, shorten
from bpejit.splitting.character_classes import members
from bpejit.splitting.presets import Pattern, pattern_source, stages_of
from bpejit.splitting.regex_syntax import (
    Chars,
    Choice,
    Node,
    OutsideDialectError,
    Repeat,
    Sequence,
    parse,
    parse_with_marks,
)

_LETTERS = Chars(r"[\p{L}\p{M}]")


@cache
def joined_words(pattern: Pattern, unicode: str | None = None) -> Pattern:
    r"""Return a pattern whose pre-tokens are the longest sequences of words of another one, and its other pre-tokens.

    Words are what the first alternatives match, as many of them as match only text with a letter or a mark. These become one
    repeated group, so the borders of the result are borders of the pattern as well:

        ` ?\p{L}+| ?\p{N}+|\s+` becomes `(?: ?\p{L}+)+| ?\p{N}+|\s+`

    Of several expressions, this concerns the last one.

    Raises
    ------
    OptionError
        If no alternative is of this kind, or the pattern cannot be analyzed.
    """
    *before, source = stages_of(pattern_source(pattern))
    stop = None
    with contextlib.suppress(OutsideDialectError):
        stop = _end_of_words(source, unicode)
    if stop is None:
        raise OptionError(
            f"the first alternative of the pattern {shorten(source)} matches text without letters, or cannot be analyzed; "
            "expected alternatives that match words first: give a pattern that divides text between sequences of words as "
            "`superword_pattern=`"
        )
    joined = f"(?:{source[:stop]})+{source[stop:]}"
    return (*before, joined) if before else joined


def _end_of_words(source: str, unicode: str | None) -> int | None:
    """Return where the alternatives that match words end; None if there are none."""
    tree, marks = parse_with_marks(source)
    options = tree.options if isinstance(tree, Choice) else (tree,)
    bars = [mark.start for mark in marks if mark.element == "|" and _is_pattern(source[: mark.start])]
    if source.startswith("(?i)") or len(bars) + 1 != len(options):
        return None
    inside = members(_LETTERS, unicode)
    n_words = next((n for n, option in enumerate(options) if not _has_letter(option, inside, unicode)), len(options))
    return [*bars, len(source)][n_words - 1] if n_words else None


def _is_pattern(source: str) -> bool:
    """Return whether a part of a pattern is one, so that no group is open at its end."""
    try:
        parse(source)
    except OutsideDialectError:
        return False
    return True


def _has_letter(node: Node, inside: Array, unicode: str | None) -> bool:
    """Return whether all that a node matches has one of the characters `inside`."""
    match node:
        case Chars():
            return not (members(node, unicode) & ~inside).any()
        case Sequence(items):
            return any(_has_letter(item, inside, unicode) for item in items)
        case Choice(options):
            return all(_has_letter(option, inside, unicode) for option in options)
        case Repeat(body, low):
            return low > 0 and _has_letter(body, inside, unicode)
        case _:
            return False
