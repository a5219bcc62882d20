"""The patterns of `Split` and `Replace`: `{"String": ..}` or `{"Regex": ..}`, the latter in Oniguruma's dialect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import regex

from bpejit.errors import PatternError
from bpejit.normalization.json_fields import Fields, refused
from bpejit.splitting import PRESETS, SplitPattern, compile_pattern, from_oniguruma, to_oniguruma
from bpejit.splitting.text_limits import limits_of

_ALIKE = 12
"""Length of the prefix of presets that translation does not change."""

_LONGEST = 1 << 16
"""Maximum length of a pattern, since compilation takes time and memory in proportion to it."""


@dataclass(frozen=True)
class Finder:
    """Finds the matches of a pattern, as Hugging Face tokenizers find them.

    Parameters
    ----------
    source : str
        The pattern in the dialect of the `regex` package.
    compiled : SplitPattern
    """

    source: str
    compiled: SplitPattern

    @property
    def never_empty(self) -> bool:
        """True if matches are proven to have at least one character."""
        return self.compiled.kind != "regex"

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each match; empty matches are skipped in an empty text and directly after another match."""
        if not text:
            return
        text = self.compiled.substitute(text)
        limits = limits_of(text)
        if self.never_empty:
            yield from limits.matches(self.compiled.stages[0], text)
            return
        at, last = 0, -1
        while at <= len(text):
            found = limits.search(self.compiled.stages[0], text, at)
            if not found:
                return
            start, end = found.span()
            if start == end == last:
                at = end + 1
                continue
            yield start, end
            last = end
            at = end + (start == end)


def make_finder(source: str, *, unicode: str | None) -> Finder:
    """Return a finder for a pattern in the dialect of the `regex` package."""
    return Finder(source, compile_pattern(source, unicode=unicode))


def read_pattern(value: Any, path: str, *, unicode: str | None = None) -> Finder:
    """Read a pattern from the file.

    Raises
    ------
    TokenizerFormatError
        If it is empty, or cannot be translated exactly.
    """
    fields = Fields(value, path)
    literal: str = fields.take("String", str, default="")
    onig: str = "" if literal else fields.take("Regex", str, default="")
    fields.done()
    if not literal and not onig:
        raise refused(path, "is empty", "give it a pattern, or remove the component")
    if len(literal + onig) > _LONGEST:
        raise refused(path, f"has {len(literal + onig)} characters; expected at most {_LONGEST}", "use another pattern")
    try:
        if literal:
            return make_finder(_no_name(regex.escape(literal)), unicode=unicode)
        return make_finder(_preset(onig) or _no_name(from_oniguruma(onig, unicode=unicode)), unicode=unicode)
    except PatternError as error:
        raise refused(path, f"cannot be read: {error}", "use another pattern") from error


def _no_name(source: str) -> str:
    """Return a pattern, in a group if it could be read as the name of a preset."""
    return f"(?:{source})" if re.fullmatch(r"\w[\w-]*", source) else source


def _preset(onig: str) -> str | None:
    """Return the pattern of the preset whose translation to Oniguruma is `onig`, or None."""
    for source in PRESETS.values():
        if isinstance(source, str) and source[:_ALIKE] == onig[:_ALIKE] and _exported(source) == onig:
            return source
    return None


@cache
def _exported(source: str) -> str | None:
    try:
        return to_oniguruma(source)
    except PatternError:
        return None
