"""Pre-tokenizers of Hugging Face tokenizers: text to pieces.

Most are equivalent to split patterns of bpejit, which are then in `PreTokenizer.patterns` and run as an automaton. The others
run step by step through the `regex` package.
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
from bpejit.splitting import PRESETS, covers_all_text
from bpejit.splitting.character_classes import set_boundaries
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
"""Punctuation added after Unicode 8, the version of `Punctuation`. Two characters were punctuation only in Unicode 8."""

_NUMBERS = r"[\p{N}\U00011DE0-\U00011DE9\U00016FF4-\U00016FF6]"
"""The numbers of `Digits` if patterns follow Unicode 16: it uses the tables of Rust, which follow Unicode 17."""

Cut: TypeAlias = Callable[[str], list[tuple[int, int]]]
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

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of a text, in GPT-2's byte characters."""
        pieces = [text]
        for step in self.steps:
            if isinstance(step, Change):
                pieces = [step.apply(piece) for piece in pieces]
            else:
                pieces = [piece[start:end] for piece in pieces for start, end in step(piece) if start < end]
        return pieces

    def aligned_pieces(self, text: AlignedText) -> list[AlignedText]:
        """Return the pieces of a text like `pieces`, with their sources."""
        pieces = [text]
        for step in self.steps:
            if isinstance(step, Change):
                pieces = [piece.changed(step) for piece in pieces]
            else:
                pieces = [piece.slice(start, end) for piece in pieces for start, end in step(piece.text) if start < end]
        return pieces


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
    components = _flatten(value, path, unicode)
    levels = [component.path for component in components if component.kind == "ByteLevel"]
    if mapped and levels:
        raise refused(levels[0], "is a second ByteLevel, after the normalizer's", "remove one of them")
    if len(levels) > 1:
        raise refused(levels[1], "is a second ByteLevel", "remove one of them")
    if not mapped and not levels:
        raise refused(path, "has no ByteLevel; only byte-level tokenizers are supported", "use another tokenizer")
    steps: list[Change | Cut] = []
    patterns: list[str] | None = None if mapped else []
    prefix = False
    for number, component in enumerate(components):
        if component.prefix:
            steps.append(PREFIX_SPACE)
            if number:
                patterns = None
            prefix = True
        if component.finder is not None:
            steps.append(partial(_split, component.finder, component.behavior, component.invert))
        if patterns is not None and component.finder is not None:
            pattern = _isolating(component, unicode)
            patterns = None if pattern is None else [*patterns, pattern]
        if component.kind == "ByteLevel":
            steps.append(MAP_BYTES)
            if number < len(components) - 1:
                patterns = None
    if patterns == []:
        patterns = [WHOLE]
    return PreTokenizer(tuple(steps), None if patterns is None else tuple(patterns), prefix)


@dataclass(frozen=True)
class _Component:
    kind: str
    path: str
    finder: Finder | None
    behavior: str = "Isolated"
    invert: bool = False
    prefix: bool = False


def _flatten(value: Any, path: str, unicode: str | None) -> list[_Component]:
    if value is None:
        return []
    fields = Fields(value, path)
    kind = fields.kind("pre-tokenizer")
    if kind == "Sequence":
        values = fields.take("pretokenizers", list)
        fields.done()
        inner = fields.inner("pretokenizers")
        for number, one in enumerate(values):
            if one is None:
                raise refused(f"{inner}[{number}]", "is null; expected a pre-tokenizer", "remove it")
        return [found for number, one in enumerate(values) for found in _flatten(one, f"{inner}[{number}]", unicode)]
    if kind == "ByteLevel":
        prefix, use_regex = read_byte_level(fields)
        finder = make_finder(str(PRESETS["gpt2"]), unicode=unicode) if use_regex else None
        component = _Component(kind, path, finder, prefix=prefix)
    elif kind == "Split":
        finder = read_pattern(fields.take("pattern", dict), fields.inner("pattern"), unicode=unicode)
        component = _Component(kind, path, finder, _behavior(fields), fields.take("invert", bool))
    elif kind == "Digits":
        numbers = _NUMBERS if unicode == "16.0" else r"\p{N}"
        component = _Component(
            kind, path, make_finder(numbers + ("" if fields.take("individual_digits", bool) else "+"), unicode=unicode)
        )
    elif kind == "Punctuation":
        behavior = _behavior(fields, default="Isolated")
        together = behavior == "Contiguous"
        finder = make_finder(_punctuation() + ("+" if together else ""), unicode=unicode)
        component = _Component(kind, path, finder, "Isolated" if together else behavior)
    else:
        raise unsupported(path, kind, SUPPORTED)
    fields.done()
    return [component]


def read_byte_level(fields: Fields) -> tuple[bool, bool]:
    """Return `add_prefix_space` and `use_regex` of a `ByteLevel`."""
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
    for points in _PUNCTUATION_SINCE_8.split():
        low, _, high = points.partition("-")
        later.update(range(int(low, 16), int(high or low, 16) + 1))
    # A fixed version: characters that are added later must not become punctuation with a later `regex` package.
    boundaries = set_boundaries(Chars(r"[\p{P}$+<=>^`|~]"), "16.0").tolist()
    found = {point for pair in zip(boundaries[::2], boundaries[1::2], strict=True) for point in range(*pair)}
    found = found - later | {0x166D, 0x111C9}
    ranges: list[str] = []
    run: list[int] = []
    for point in [*sorted(found), 0x110000]:
        if run and point != run[-1] + 1:
            ranges.append(f"\\U{run[0]:08X}" + (f"-\\U{run[-1]:08X}" if len(run) > 1 else ""))
            run = []
        run.append(point)
    return f"[{''.join(ranges)}]"


def _isolating(component: _Component, unicode: str | None) -> str | None:
    """Return the split pattern equivalent to a step, or None if there is none."""
    assert component.finder is not None
    if not component.finder.never_empty:
        return None
    whole = component.behavior == "Removed" and component.invert and covers_all_text(component.finder.source, unicode=unicode)
    return component.finder.source if component.behavior == "Isolated" or whole else None


def _prefix_space(text: str) -> str:
    return text if text.startswith(" ") else " " + text


def _prefix_space_sources(text: str) -> Sources:
    return one_to_one(len(text)) if text.startswith(" ") else prefixed(1, len(text))


PREFIX_SPACE = Change(_prefix_space, _prefix_space_sources)
"""Inserts a space before a text that does not begin with one."""


def _split(finder: Finder, behavior: str, invert: bool, text: str) -> list[tuple[int, int]]:
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
