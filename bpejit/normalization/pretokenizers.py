"""Pre-tokenizers of Hugging Face tokenizers: text to pieces.

Most say nothing more than a split pattern of bpejit: then `PreTokenizer.pattern` is that, and text is split by its
automaton. The others run step after step through the `regex` package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

from bpejit.normalization.alignment import AlignedText, Change, Sources, one_to_one
from bpejit.normalization.json_fields import Fields, refused, unsupported
from bpejit.normalization.normalizers import MAP_BYTES, prefixed
from bpejit.normalization.patterns import Finder, make_finder, read_pattern
from bpejit.splitting import PRESETS, everything_matches
from bpejit.splitting.character_classes import set_borders
from bpejit.splitting.regex_syntax import Chars

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
"""Punctuation that came after Unicode 8, whose tables `Punctuation` uses; two characters were punctuation only then."""

_NUMBERS = r"[\p{N}\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6]"
"""What `Digits` takes for numbers where patterns are those of Unicode 16: it has Rust's own tables, which are of Unicode 17."""

Cut: TypeAlias = Callable[[str], list[tuple[int, int]]]
"""Gives the pieces of a text as begins and ends."""


@dataclass(frozen=True)
class PreTokenizer:
    """A compiled pre-tokenizer.

    Parameters
    ----------
    steps : tuple of Change or Cut
        Each changes or divides a piece; the text is written with GPT-2's byte characters in the end.
    patterns : tuple of str, optional
        Split patterns that do the same one after the other, each with what it does not match as a piece too; None if there
        are no such patterns.
    prefix : bool
        Whether the patterns want a space before a piece that does not begin with one.
    """

    steps: tuple[Change | Cut, ...]
    patterns: tuple[str, ...] | None
    prefix: bool

    def pieces(self, text: str) -> list[str]:
        """Divide a text by the steps; the pieces are written with GPT-2's byte characters."""
        pieces = [text]
        for step in self.steps:
            if isinstance(step, Change):
                pieces = [step.apply(piece) for piece in pieces]
            else:
                pieces = [piece[start:end] for piece in pieces for start, end in step(piece) if start < end]
        return pieces

    def aligned_pieces(self, text: AlignedText) -> list[AlignedText]:
        """As `pieces`, with the sources of each."""
        pieces = [text]
        for step in self.steps:
            if isinstance(step, Change):
                pieces = [piece.changed(step) for piece in pieces]
            else:
                pieces = [piece.part(start, end) for piece in pieces for start, end in step(piece.text) if start < end]
        return pieces


def make_pretokenizer(value: Any, *, mapped: bool, place: str = "pre_tokenizer", unicode: str | None = None) -> PreTokenizer:
    """Compile a pre-tokenizer.

    Parameters
    ----------
    value : object
        What the file has at `place`: an object, or None for no pre-tokenizer.
    mapped : bool
        Whether a normalizer has already written the text with GPT-2's byte characters.
    place : str
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.splitting.compile_pattern`).

    Raises
    ------
    TokenizerFormatError
        If it is broken, not supported, or not byte-level; the message names the component and its place.
    """
    parts = _flatten(value, place, unicode)
    levels = [part.place for part in parts if part.kind == "ByteLevel"]
    if mapped and levels:
        raise refused(levels[0], "is a second ByteLevel, after the normalizer's", "remove one of them")
    if len(levels) > 1:
        raise refused(levels[1], "is a second ByteLevel", "remove one of them")
    if not mapped and not levels:
        raise refused(place, "has no ByteLevel; only byte-level tokenizers are supported", "use another tokenizer")
    steps: list[Change | Cut] = []
    patterns: list[str] | None = None if mapped else []
    prefix = False
    for number, part in enumerate(parts):
        if part.prefix:
            steps.append(PREFIX_SPACE)
            if number:
                patterns = None
            prefix = True
        if part.finder is not None:
            steps.append(partial(_split, part.finder, part.behavior, part.invert))
        if patterns is not None and part.finder is not None:
            pattern = _isolating(part, unicode)
            patterns = None if pattern is None else [*patterns, pattern]
        if part.kind == "ByteLevel":
            steps.append(MAP_BYTES)
            if number < len(parts) - 1:
                patterns = None
    if patterns == []:
        patterns = [WHOLE]
    return PreTokenizer(tuple(steps), None if patterns is None else tuple(patterns), prefix)


@dataclass(frozen=True)
class _Part:
    kind: str
    place: str
    finder: Finder | None
    behavior: str = "Isolated"
    invert: bool = False
    prefix: bool = False


def _flatten(value: Any, place: str, unicode: str | None) -> list[_Part]:
    if value is None:
        return []
    fields = Fields(value, place)
    kind = fields.kind("pre-tokenizer")
    if kind == "Sequence":
        parts = fields.take("pretokenizers", list)
        fields.done()
        inner = fields.inner("pretokenizers")
        for number, part in enumerate(parts):
            if part is None:
                raise refused(f"{inner}[{number}]", "is null; expected a pre-tokenizer", "remove it")
        return [one for number, part in enumerate(parts) for one in _flatten(part, f"{inner}[{number}]", unicode)]
    if kind == "ByteLevel":
        prefix, use_regex = read_byte_level(fields)
        finder = make_finder(str(PRESETS["gpt2"]), unicode=unicode) if use_regex else None
        part = _Part(kind, place, finder, prefix=prefix)
    elif kind == "Split":
        finder = read_pattern(fields.take("pattern", dict), fields.inner("pattern"), unicode=unicode)
        part = _Part(kind, place, finder, _behavior(fields), fields.take("invert", bool))
    elif kind == "Digits":
        numbers = _NUMBERS if unicode == "16.0" else r"\p{N}"
        part = _Part(
            kind, place, make_finder(numbers + ("" if fields.take("individual_digits", bool) else "+"), unicode=unicode)
        )
    elif kind == "Punctuation":
        behavior = _behavior(fields, default="Isolated")
        together = behavior == "Contiguous"
        finder = make_finder(_punctuation() + ("+" if together else ""), unicode=unicode)
        part = _Part(kind, place, finder, "Isolated" if together else behavior)
    else:
        raise unsupported(place, kind, SUPPORTED)
    fields.done()
    return [part]


def read_byte_level(fields: Fields) -> tuple[bool, bool]:
    """Read the fields of a `ByteLevel`; return whether it adds a space before text, and whether it splits."""
    prefix = fields.take("add_prefix_space", bool)
    fields.take("trim_offsets", bool)
    return prefix, fields.take("use_regex", bool, default=True)


def _behavior(fields: Fields, **default: str) -> str:
    behavior: str = fields.take("behavior", str, **default)
    if behavior not in _BEHAVIORS:
        raise unsupported(fields.inner("behavior"), behavior, ", ".join(_BEHAVIORS))
    return behavior


@cache
def _punctuation() -> str:
    later: set[int] = set()
    for part in _PUNCTUATION_SINCE_8.split():
        low, _, high = part.partition("-")
        later.update(range(int(low, 16), int(high or low, 16) + 1))
    # Of a version that stays: what comes later must not become punctuation with the next `regex` package.
    borders = set_borders(Chars(r"[\p{P}$+<=>^`|~]"), "16.0").tolist()
    points = {point for pair in zip(borders[::2], borders[1::2], strict=True) for point in range(*pair)}
    points = points - later | {0x166D, 0x111C9}
    parts: list[str] = []
    run: list[int] = []
    for point in [*sorted(points), 0x110000]:
        if run and point != run[-1] + 1:
            parts.append(f"\\U{run[0]:08X}" + (f"-\\U{run[-1]:08X}" if len(run) > 1 else ""))
            run = []
        run.append(point)
    return f"[{''.join(parts)}]"


def _isolating(part: _Part, unicode: str | None) -> str | None:
    """Return a pattern for `compile_pattern` that divides text as the part does, or None."""
    assert part.finder is not None
    if not part.finder.never_empty:
        return None
    whole = part.behavior == "Removed" and part.invert and everything_matches(part.finder.source, unicode=unicode)
    return part.finder.source if part.behavior == "Isolated" or whole else None


def _prefix_space(text: str) -> str:
    return text if text.startswith(" ") else " " + text


def _prefix_space_sources(text: str) -> Sources:
    return one_to_one(len(text)) if text.startswith(" ") else prefixed(1, len(text))


PREFIX_SPACE = Change(_prefix_space, _prefix_space_sources)
"""Puts a space before a text that does not begin with one."""


def _split(finder: Finder, behavior: str, invert: bool, text: str) -> list[tuple[int, int]]:
    """Divide a piece; the behaviours are those of Hugging Face tokenizers."""
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
    joined: list[tuple[int, int]] = []
    before = False
    for start, end, is_match in reversed(pieces) if behavior == "MergedWithNext" else pieces:
        joins = is_match == before if behavior == "Contiguous" else is_match and not before
        if joins and joined:
            joined[-1] = min(start, joined[-1][0]), max(end, joined[-1][1])
        else:
            joined.append((start, end))
        before = is_match
    return joined[::-1] if behavior == "MergedWithNext" else joined
