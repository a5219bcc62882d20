"""Pre-tokenizers of Hugging Face tokenizers: text to pieces.

Most are equivalent to split patterns of bpejit, which are then in `PreTokenizer.patterns` and run as an automaton. The others
run step by step through the `regex` package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

from bpejit import splitting
from bpejit.normalization.alignment import AlignedText, Change, Span
from bpejit.normalization.json_fields import Fields, components, read_byte_level, read_metaspace, refused, unsupported
from bpejit.normalization.normalizers import MAP_BYTES, WHITE_SPACE, Finder, by_character, read_pattern, replacement
from bpejit.normalization.unicode_forms import fixed_set

SUPPORTED = "ByteLevel, Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, Sequence"

WHOLE = r"[\s\S]+"
"""The pattern that does not split."""

_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
"""The characters of words in the regular expressions of Rust, in a set."""

_SPACE = "".join(f"\\U{ord(one):08X}" for one in WHITE_SPACE)

_SETS_WITHOUT_MARKS = ("Digits", "Punctuation")
"""Pre-tokenizers that treat `▁` as they treat a space."""

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

PrefixScheme = Literal["", "always", "first"]

Cut: TypeAlias = Callable[[str], list[Span]]
"""Returns the start and end of each piece of a text."""


@dataclass(frozen=True)
class PreTokenizer:
    """A compiled pre-tokenizer.

    Parameters
    ----------
    steps : tuple of Change or Cut
        Each step changes or splits every piece. The result consists of GPT-2's byte characters if `level`.
    patterns : tuple of str, optional
        Split patterns that are equivalent to the steps when applied in sequence, where gaps between matches are pieces too;
        None if there are none.
    prefix : {"", "always", "first"}
        Whether a space is inserted before a text that does not begin with one, or only before the first part of a text with
        added tokens.
    level : bool
        Whether the result consists of GPT-2's byte characters, here or by the normalizer.
    space : str
        The character by which `Metaspace` replaces spaces; empty if there is none.
    removes_space : bool
        Whether white space is removed from the pieces. `patterns` separate it from other characters.
    """

    steps: tuple[Change | Cut, ...]
    patterns: tuple[str, ...] | None
    prefix: PrefixScheme = ""
    level: bool = True
    space: str = ""
    removes_space: bool = False

    def pieces(self, text: AlignedText, *, first: bool = True) -> list[AlignedText]:
        """Return the pieces of a text; `first` is True if the text is not after an added token."""
        pieces = [text]
        for step in self.steps:
            if self.prefix == "first" and not first and isinstance(step, Prefix):
                continue
            if isinstance(step, Change):
                pieces = [piece.changed(step) for piece in pieces]
            else:
                pieces = [piece.slice(start, end) for piece in pieces for start, end in step(piece.text) if start < end]
        return pieces


def make_pretokenizer(value: Any, *, mapped: bool, space: str = "", unicode: str | None = None) -> PreTokenizer:
    """Compile a pre-tokenizer.

    Parameters
    ----------
    value : object
        The JSON value; None for no pre-tokenizer.
    mapped : bool
        True if a normalizer has already converted the text to GPT-2's byte characters.
    space : str
        The character that stands for a space in the vocabulary, if the normalizer has replaced all spaces by it.
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.splitting.compile_pattern`).

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported. The message names the component and its path.
    """
    steps: list[Change | Cut] = []
    patterns: list[str] | None = None if mapped else []
    prefix: PrefixScheme = ""
    level = mapped
    mark = ""
    removes_space = False
    for number, fields in enumerate(components(value, "pre_tokenizer", "pre-tokenizer", "pretokenizers")):
        if level and not mapped:
            patterns = None
        if fields.kind == "ByteLevel" and level:
            second = ", after the normalizer's" if mapped else ""
            raise refused(fields.path, f"is a second ByteLevel{second}", "remove one of them")
        if fields.kind == "Metaspace" and level:
            raise refused(fields.path, "is Metaspace after ByteLevel, whose result it changes", "encode with `tokenizers`")
        level = level or fields.kind == "ByteLevel"
        if fields.kind == "Metaspace":
            mark = fields.peek("replacement")
            patterns = None if patterns else patterns  # earlier ones would see spaces where the text has marks
        for step in _read_steps(fields, unicode):
            if step.prefix:
                if number and step.prefix == "first":
                    raise refused(
                        fields.path, "adds a prefix to the first text, but is not the first step", "encode with `tokenizers`"
                    )
                prefix = step.prefix
                patterns = None if number else patterns
            if step.change is not None:
                steps.append(step.change)
            if step.finder is None or (space and step.finder.source == re.escape(" ")):
                continue  # there are no spaces
            steps.append(partial(_split, step.finder, step.behavior, step.invert))
            pattern, removes = (step.pattern, False) if step.pattern else _isolating(step, step.finder, unicode)
            removes_space = removes_space or removes
            # In the text that patterns divide, a space has not been replaced by its mark.
            if (space or mark) and not step.pattern and (fields.kind not in _SETS_WITHOUT_MARKS or (space or mark) != "▁"):
                pattern = None
            patterns = None if pattern is None or patterns is None else [*patterns, pattern]
    if patterns == []:
        patterns = [WHOLE]
    return PreTokenizer(
        tuple(steps),
        patterns=None if patterns is None else tuple(patterns),
        prefix=prefix,
        level=level,
        space=mark,
        removes_space=removes_space,
    )


class _Step(NamedTuple):
    """A change, or a division by the matches of a finder; `pattern` is equivalent to it where spaces are spaces."""

    finder: Finder | None = None
    behavior: str = "Isolated"
    invert: bool = False
    prefix: PrefixScheme = ""
    change: Change | None = None
    pattern: str = ""


def _read_steps(fields: Fields, unicode: str | None) -> Iterator[_Step]:
    match fields.kind:
        case "ByteLevel":
            prefix, use_regex = read_byte_level(fields)
            if prefix:
                yield _Step(prefix="always", change=PREFIX_SPACE)
            if use_regex:
                yield _Step(Finder(str(splitting.PRESETS["gpt2"]), unicode=unicode))
            yield _Step(change=MAP_BYTES)
        case "Split":
            finder = read_pattern(fields.take("pattern", dict), fields.inner("pattern"), unicode=unicode)
            yield _Step(finder, _behavior(fields), fields.take("invert", bool))
        case "Digits":
            numbers = _NUMBERS if unicode == "16.0" else r"\p{N}"
            if not fields.take("individual_digits", bool):
                numbers += "+"
            yield _Step(Finder(numbers, unicode=unicode))
        case "Punctuation":
            behavior = _behavior(fields, default="Isolated")
            marks = _punctuation()
            if behavior == "Contiguous":
                behavior = "Isolated"
                marks += "+"
            yield _Step(Finder(marks, unicode=unicode), behavior)
        case "Metaspace":
            mark, scheme, splits = read_metaspace(fields)
            yield _Step(change=by_character(lambda text: text.replace(" ", mark)))
            if scheme != "never":
                yield _Step(prefix="first" if scheme == "first" else "always", change=prefix_of(mark))
            if splits:
                finder = Finder(re.escape(mark), unicode=unicode)
                yield _Step(finder, "MergedWithNext", pattern=" [^ ]*|[^ ]+")
        case "Whitespace":
            yield _Step(Finder(rf"[{_WORD}]+|[^{_WORD}{_SPACE}]+", unicode=unicode), "Removed", True)
        case "WhitespaceSplit":
            yield _Step(Finder(f"[^{_SPACE}]+", unicode=unicode), "Removed", True)
        case "BertPreTokenizer":
            yield _Step(Finder(f"[^{_SPACE}]+", unicode=unicode), "Removed", True)
            yield _Step(Finder(_punctuation(), unicode=unicode))
        case kind:
            raise unsupported(fields.path, kind, SUPPORTED)


def _behavior(fields: Fields, **default: str) -> str:
    behavior: str = fields.take("behavior", str, **default)
    if behavior not in _BEHAVIORS:
        raise unsupported(fields.inner("behavior"), behavior, ", ".join(_BEHAVIORS))
    return behavior


@cache
def _punctuation() -> str:
    inside = fixed_set(r"[\p{P}$+<=>^`|~]", _PUNCTUATION_SINCE_8, 0x166D, 0x111C9)
    return "[" + splitting.written_ranges(inside, r"\U{:08X}".format) + "]"


def _isolating(step: _Step, finder: Finder, unicode: str | None) -> tuple[str | None, bool]:
    """Return the split pattern equivalent to a step, None if there is none, and whether white space is removed after it."""
    if step.behavior == "Isolated":
        return finder.source if finder.never_empty else None, False
    if not (finder.never_empty and step.behavior == "Removed" and step.invert):
        return None, False
    if splitting.covers_all_text(finder.source, unicode=unicode):
        return finder.source, False
    separate = f"{finder.source}|[{_SPACE}]+"
    if splitting.avoids(finder.source, f"[{_SPACE}]", unicode=unicode) and splitting.covers_all_text(separate, unicode=unicode):
        return separate, True
    return None, False


class Prefix(Change):
    """A change that inserts a character before a text that does not begin with it."""


def prefix_of(mark: str) -> Prefix:
    """Return the change that inserts a mark before a text that does not begin with it."""
    return Prefix(*replacement(lambda text: [] if text.startswith(mark) else [(0, 0)], mark))


PREFIX_SPACE = prefix_of(" ")
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
