"""Pre-tokenizers of Hugging Face tokenizers: text to pieces.

Most are equivalent to split patterns of bpejit, which are then in `PreTokenizer.patterns` and run as an automaton. The others
run step by step through the `regex` package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from bpejit.normalization.alignment import AlignedText, Change, Sources, Span
from bpejit.normalization.json_fields import Fields, components, read_byte_level, refused, unsupported
from bpejit.normalization.normalizers import MAP_BYTES, Finder, read_pattern, replacement
from bpejit.splitting import PRESETS, covers_all_text
from bpejit.splitting.character_classes import members, written_ranges
from bpejit.splitting.regex_syntax import Chars
from bpejit.splitting.unicode_versions import read_ranges

SUPPORTED = "ByteLevel, Split, Digits, Punctuation, Sequence"

WHOLE = r"[\s\S]+"
"""The pattern that does not split."""

_BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")

_PUNCTUATION_SINCE_8 = (
    "61D 9FD A76 C77 C84 1B4E-1B4F 1B7D-1B7F 2E43-2E4F 2E52-2E5D 2E60-2E63 10D6E 10EAD 10ED0 10F55-10F59 10F86-10F89 "
    "113D4-113D5 113D7-113D8 1144B-1144F 1145A-1145B 1145D 11660-1166C 116B9 1183B 11944-11946 119E2 11A3F-11A46 "
    "11A9A-11A9C 11A9E-11AA2 11B00-11B09 11BE1 11C41-11C45 11C70-11C71 11EF7-11EF8 11F43-11F4F 11FFF 12FF1-12FF2 "
    "16D6D-16D6F 16E97-16E9A 16FE2 1E5FF 1E95E-1E95F"
)
"""Punctuation added after Unicode 8, the version of `Punctuation`. Two characters were punctuation only in Unicode 8."""

_NUMBERS = r"[\p{N}\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6]"
"""The numbers of `Digits` if patterns follow Unicode 16: it uses the tables of Rust, which follow Unicode 17."""

Cut: TypeAlias = Callable[[str], list[Span]]
"""Returns the start and end of each piece of a text."""


@dataclass(frozen=True)
class PreTokenizer:
    """A compiled pre-tokenizer.

    Parameters
    ----------
    steps : tuple of Change or Cut
        Each step changes or splits every piece. The result consists of GPT-2's byte characters.
    patterns : tuple of str, optional
        Split patterns that are equivalent to the steps when applied in sequence, where gaps between matches are pieces too;
        None if there are none.
    prefix : bool
        True if a space is inserted before a text that does not begin with one.
    """

    steps: tuple[Change | Cut, ...]
    patterns: tuple[str, ...] | None
    prefix: bool

    def pieces(self, text: AlignedText) -> tuple[list[str], list[Sources]]:
        """Return the pieces of a text, in GPT-2's byte characters, and the sources of each; none if the text has none."""
        pieces = [text.text]
        sources = [] if text.sources is None else [text.sources]
        for step in self.steps:
            if isinstance(step, Change):
                sources = [of.through(step.sources(piece)) for of, piece in zip(sources, pieces, strict=False)]
                pieces = [step.apply(piece) for piece in pieces]
            else:
                spans = [[span for span in step(piece) if span[0] < span[1]] for piece in pieces]
                sources = [of.slice(*span) for of, found in zip(sources, spans, strict=False) for span in found]
                pieces = [piece[start:end] for piece, found in zip(pieces, spans, strict=True) for start, end in found]
        return pieces, sources


def make_pretokenizer(value: Any, *, mapped: bool, path: str = "pre_tokenizer", unicode: str | None = None) -> PreTokenizer:
    """Compile a pre-tokenizer.

    Parameters
    ----------
    value : object
        The JSON value at `path`; None for no pre-tokenizer.
    mapped : bool
        True if a normalizer has already converted the text to GPT-2's byte characters.
    path : str
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.splitting.compile_pattern`).

    Raises
    ------
    TokenizerFormatError
        If it is broken, not supported, or not byte-level. The message names the component and its path.
    """
    steps: list[Change | Cut] = []
    patterns: list[str] | None = None if mapped else []
    prefix = level = False
    for number, fields in enumerate(components(value, path, "pre-tokenizer", "pretokenizers")):
        step = _read_step(fields, unicode)
        fields.done()
        if level or (step.prefix and number):
            patterns = None
        if step.prefix:
            steps.append(PREFIX_SPACE)
            prefix = True
        if step.finder is not None:
            steps.append(partial(_split, step.finder, step.behavior, step.invert))
            pattern = _isolating(step, step.finder, unicode)
            patterns = None if pattern is None or patterns is None else [*patterns, pattern]
        if fields.kind == "ByteLevel":
            if mapped:
                raise refused(fields.path, "is a second ByteLevel, after the normalizer's", "remove one of them")
            if level:
                raise refused(fields.path, "is a second ByteLevel", "remove one of them")
            steps.append(MAP_BYTES)
            level = True
    if not mapped and not level:
        raise refused(path, "has no ByteLevel; only byte-level tokenizers are supported", "use another tokenizer")
    if patterns == []:
        patterns = [WHOLE]
    return PreTokenizer(tuple(steps), None if patterns is None else tuple(patterns), prefix)


class _Step(NamedTuple):
    finder: Finder | None
    behavior: str = "Isolated"
    invert: bool = False
    prefix: bool = False


def _read_step(fields: Fields, unicode: str | None) -> _Step:
    match fields.kind:
        case "ByteLevel":
            prefix, use_regex = read_byte_level(fields)
            return _Step(Finder(str(PRESETS["gpt2"]), unicode=unicode) if use_regex else None, prefix=prefix)
        case "Split":
            finder = read_pattern(fields.take("pattern", dict), fields.inner("pattern"), unicode=unicode)
            return _Step(finder, _behavior(fields), fields.take("invert", bool))
        case "Digits":
            numbers = _NUMBERS if unicode == "16.0" else r"\p{N}"
            if not fields.take("individual_digits", bool):
                numbers += "+"
            return _Step(Finder(numbers, unicode=unicode))
        case "Punctuation":
            behavior = _behavior(fields, default="Isolated")
            marks = _punctuation()
            if behavior == "Contiguous":
                behavior = "Isolated"
                marks += "+"
            return _Step(Finder(marks, unicode=unicode), behavior)
        case kind:
            raise unsupported(fields.path, kind, SUPPORTED)


def _behavior(fields: Fields, **default: str) -> str:
    behavior: str = fields.take("behavior", str, **default)
    if behavior not in _BEHAVIORS:
        raise unsupported(fields.inner("behavior"), behavior, ", ".join(_BEHAVIORS))
    return behavior


@cache
def _punctuation() -> str:
    # A fixed version: characters that are added later must not become punctuation with a later `regex` package.
    inside = members(Chars(r"[\p{P}$+<=>^`|~]"), "16.0")
    for low, high in read_ranges(_PUNCTUATION_SINCE_8):
        inside[low : high + 1] = False
    inside[[0x166D, 0x111C9]] = True
    return "[" + written_ranges(inside, r"\U{:08X}".format) + "]"


def _isolating(step: _Step, finder: Finder, unicode: str | None) -> str | None:
    """Return the split pattern equivalent to a step, or None if there is none."""
    if not finder.never_empty:
        return None
    whole = step.behavior == "Removed" and step.invert and covers_all_text(finder.source, unicode=unicode)
    return finder.source if step.behavior == "Isolated" or whole else None


PREFIX_SPACE = replacement(lambda text: [] if text.startswith(" ") else [(0, 0)], " ")
"""Inserts a space before a text that does not begin with one."""


def _split(finder: Finder, behavior: str, invert: bool, text: str) -> list[Span]:
    """Return the start and end of each piece of a text, by a behavior of Hugging Face tokenizers."""
    pieces: list[tuple[int, int, bool]] = []
    done = 0
    for start, end in finder.spans(text):
        if start > done:
            pieces.append((done, start, invert))
        pieces.append((start, end, not invert))
        done = end
    if done < len(text):
        pieces.append((done, len(text), invert))
    if behavior == "Isolated":
        return [(start, end) for start, end, _ in pieces]
    if behavior == "Removed":
        return [(start, end) for start, end, is_match in pieces if not is_match]
    joined: list[Span] = []
    before = False
    for start, end, is_match in reversed(pieces) if behavior == "MergedWithNext" else pieces:
        joins = is_match == before if behavior == "Contiguous" else is_match and not before
        if joins and joined:
            joined[-1] = min(start, joined[-1][0]), max(end, joined[-1][1])
        else:
            joined.append((start, end))
        before = is_match
    return joined[::-1] if behavior == "MergedWithNext" else joined
