"""Normalizers of Hugging Face tokenizers: text to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from bpejit import splitting
from bpejit.errors import PatternError
from bpejit.normalization.alignment import AlignedText, Change, Sources, Span, repeated
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.normalization.json_fields import Fields, components, refused, unsupported
from bpejit.normalization.spacing import SPACE, Spacing, read_spacing
from bpejit.normalization.unicode_forms import (
    FORMS,
    Form,
    form_sources,
    is_normalized,
    lowered,
    normalized,
    removed_characters,
)
from bpejit.splitting.pattern import SplitPattern
from bpejit.splitting.text_limits import MORE_CHARACTERS, limits_of

SUPPORTED = "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer, Prepend, Replace, Strip, ByteLevel, Sequence"

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space; `str.strip` also strips four control characters."""

_ALIKE = 12
"""Length of the prefix of presets that translation does not change."""

_SHORT = 16
"""The length of a content that is inserted before the growth of the text is checked."""

_LONGEST = 1 << 16
"""Maximum length of a pattern, since compilation takes time and memory in proportion to it."""


@dataclass(frozen=True)
class Normalizer:
    """A compiled normalizer.

    Parameters
    ----------
    changes : tuple of Change
        Applied in order.
    forms : tuple of str, optional
        The normal forms, if no change does more than these and the next two; otherwise None.
    space : str
        The character that replaces each space at the end; empty if none does.
    prepends : bool
        True if that character, or the space that it replaces, is inserted before each text that is not empty.
    maps_bytes : bool
        True if the output consists of GPT-2's byte characters.
    spacing : Spacing, optional
        The normalizer of SentencePiece, which is then the only change. Added tokens are found in its result as they are.
    """

    changes: tuple[Change, ...] = ()
    forms: tuple[Form, ...] | None = ()
    space: str = ""
    prepends: bool = False
    maps_bytes: bool = False
    spacing: Spacing | None = None

    def __call__(self, text: AlignedText) -> AlignedText:
        """Apply all changes."""
        for change in self.changes:
            text = text.changed(change)
        return text

    def is_noop(self, text: str) -> bool:
        """Return True if the text, and any part of it, is certainly unchanged."""
        return self.forms is not None and all(is_normalized(form, text) for form in self.forms)


def make_normalizer(value: Any, *, unicode: str | None = None) -> Normalizer:
    """Compile a normalizer.

    Parameters
    ----------
    value : object
        The JSON value; None for no normalizer.
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.splitting.compile_pattern`).

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported; the message names the component and its path.
    """
    if isinstance(value, dict) and value.get("type") == "SentencePiece":
        fields = Fields(value, "normalizer")
        fields.take("type", str)
        spacing = read_spacing(fields)
        fields.done()
        change = Change(spacing, spacing.sources)
        return Normalizer((change,), space=SPACE if spacing.space == " " else "", prepends=spacing.prefix, spacing=spacing)
    changes: list[Change] = []
    kinds: list[str] = []
    inserted: list[str] = []
    space = ""
    last = ""
    for fields in components(value, "normalizer", "normalizer", "normalizers"):
        if "ByteLevel" in kinds:
            raise refused(last, "is ByteLevel, but not the last normalizer", "move it to the end")
        last = fields.path
        kinds.append(fields.kind)
        if fields.kind == "Prepend":
            inserted.append(fields.peek("prepend"))
        elif fields.kind == "Replace" and fields.peek("pattern") == {"String": " "}:
            space = str(fields.peek("content"))
        else:
            space = ""  # a later step could make spaces
        changes += _read_changes(fields, unicode)
    space = space if len(space) == 1 and kinds.count("Replace") == 1 else ""
    # What is inserted is a space that is replaced later, or what replaces it.
    prepends = (
        bool(space)
        and inserted in ([" "], [space])
        and (inserted == [space] or kinds.index("Prepend") < kinds.index("Replace"))
    )
    simple = [kind for kind in kinds if not (space and kind == "Replace") and not (prepends and kind == "Prepend")]
    forms = tuple(form for kind in simple for form in FORMS if form == kind)
    return Normalizer(
        tuple(changes),
        forms=forms if len(forms) == len(simple) else None,
        space=space,
        prepends=prepends,
        maps_bytes="ByteLevel" in kinds,
    )


def _read_changes(fields: Fields, unicode: str | None) -> Iterator[Change]:
    """Yield the changes of a normalizer."""
    match fields.kind:
        case "NFC" | "NFD" | "NFKC" | "NFKD" as form:
            yield _form(form)
        case "Lowercase":
            yield _LOWER
        case "StripAccents":
            yield _translation(removed_characters("StripAccents"))
        case "BertNormalizer":
            cleans, parts = (fields.take(name, bool) for name in ("clean_text", "handle_chinese_chars"))
            strips, lowers = fields.take("strip_accents", bool, type(None)), fields.take("lowercase", bool)
            if cleans:
                yield _translation(removed_characters("controls"))
                yield _translation(_SPACES)
            if parts:
                yield by_character(partial(_chinese().sub, r" \g<0> "))
            if lowers if strips is None else strips:
                yield _form("NFD")
                yield _translation(removed_characters("accents"))
            if lowers:
                yield _LOWER
        case "Prepend":
            yield replacement(_start, _inserted(fields, "prepend"))
        case "Replace":
            finder = read_pattern(fields.take("pattern", dict), fields.inner("pattern"), unicode=unicode)
            content = _inserted(fields, "content")
            yield replacement(finder.spans, content)._replace(apply=partial(finder.replaced, content))
        case "Strip":
            yield replacement(partial(_outer_space, fields.take("strip_left", bool), fields.take("strip_right", bool)), "")
        case "ByteLevel":
            yield MAP_BYTES
        case kind:
            raise unsupported(fields.path, kind, SUPPORTED)


def by_character(change: Callable[[str], str]) -> Change:
    """Return the change of a text whose characters change independently of each other."""

    def sources(text: str) -> Sources:
        lengths = {character: len(change(character)) for character in set(text)}
        return repeated(np.array([lengths[character] for character in text], np.int64))

    return Change(change, sources)


_LOWER = by_character(lowered)

_SPACES = dict.fromkeys(map(ord, WHITE_SPACE), " ")

_CHINESE = (
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f\U0002b920-\U0002ceaf"
    "\U0002f800-\U0002fa1f]"
)
"""The characters around which `BertNormalizer` puts spaces."""


@cache
def _chinese() -> re.Pattern[str]:
    return re.compile(_CHINESE)


def _form(form: Form) -> Change:
    return Change(partial(normalized, form), partial(form_sources, form))


def _translation(table: Mapping[int, str | None]) -> Change:
    return by_character(lambda text: text.translate(table))


def _inserted(fields: Fields, key: str) -> str:
    """Return the text that a normalizer inserts."""
    text: str = fields.take(key, str)
    if len(text) > MORE_CHARACTERS:
        raise refused(fields.inner(key), f"has {len(text)} characters; expected at most {MORE_CHARACTERS}", "shorten it")
    return text


MAP_BYTES = by_character(lambda text: encode_byte_characters(text.encode("utf-8", "surrogateescape")))
"""Replaces the bytes of a text by GPT-2's byte characters."""


# ---- changes that replace ranges of a text by the same content

Spans: TypeAlias = Callable[[str], Iterable[Span]]
"""Returns the start and end of each range of a text, in order."""


def replacement(find: Spans, content: str) -> Change:
    """Return the change that replaces ranges of a text, which `find` returns."""
    return Change(partial(_replace, find, content), partial(_replacement_sources, find, content))


def _start(text: str) -> list[Span]:
    """Return the empty range at the start of a text, and none in an empty text."""
    return [(0, 0)] if text else []


def _outer_space(left: bool, right: bool, text: str) -> list[Span]:
    """Return the white space at the start and at the end of a text."""
    begin = len(text) - len(text.lstrip(WHITE_SPACE)) if left else 0
    end = max(begin, len(text.rstrip(WHITE_SPACE))) if right else len(text)
    return [(0, begin), (end, len(text))]


def _replace(find: Spans, content: str, text: str) -> str:
    spans = list(find(text))
    limits_of(text).grow(_growth(spans, content))
    out: list[str] = []
    done = 0
    for start, end in spans:
        out += text[done:start], content
        done = end
    out.append(text[done:])
    return "".join(out)


def _growth(found: list[Span], content: str) -> int:
    """Return the number of characters that replacements add."""
    return len(content) * len(found) - sum(end - start for start, end in found)


def _replacement_sources(find: Spans, content: str, text: str) -> Sources:
    """Return the sources of a text in which ranges have been replaced."""
    found = list(find(text))
    limits_of(text).check_growth(_growth(found, content))
    starts, ends = np.repeat(np.array(found, np.int64).reshape(-1, 2), len(content), axis=0).T
    last = np.maximum(ends - 1, 0)
    stays = np.ones(len(text), np.bool_)
    for start, end in found:
        stays[start:end] = False
    kept = np.flatnonzero(stays)
    places = np.searchsorted(kept, starts)
    of = np.insert(kept, places, last)
    return Sources(of, np.insert(kept, places, np.minimum(starts, last)), of)


# ---- the patterns of `Split` and `Replace`: `{"String": ..}` or `{"Regex": ..}`, the latter in Oniguruma's dialect


class Finder:
    """Finds the matches of a pattern, as Hugging Face tokenizers find them.

    Parameters
    ----------
    source : str
        The pattern in the dialect of the `regex` package.
    unicode : str, optional
        The version of Unicode that it follows.
    """

    def __init__(self, source: str, *, unicode: str | None) -> None:
        self.source = source
        self._unicode = unicode

    @cached_property
    def compiled(self) -> SplitPattern:
        """The compiled pattern. A text is rarely searched for the pattern of Llama's space, which takes 30 ms to compile."""
        return splitting.compile_pattern(self.source, unicode=self._unicode)

    @property
    def never_empty(self) -> bool:
        """True if matches are proven to have at least one character."""
        return self.compiled.kind != "regex"

    def replaced(self, content: str, text: str) -> str:
        """Return a text with each match replaced by a content."""
        limits = limits_of(text)
        if not self.never_empty or len(content) > _SHORT or self.compiled.substitute(text) != text:
            return _replace(self.spans, content, text)
        result = limits.replaced(self.compiled.stages[0], content, text)
        limits.grow(len(result) - len(text))
        return result

    def spans(self, text: str) -> Iterator[Span]:
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
            return Finder(_no_name(re.escape(literal)), unicode=unicode)
        finder = Finder(_preset(onig) or _no_name(splitting.from_oniguruma(onig, unicode=unicode)), unicode=unicode)
        _ = finder.compiled  # raises if it has errors
        return finder
    except PatternError as error:
        raise refused(path, f"cannot be read: {error}", "use another pattern") from error


def _no_name(source: str) -> str:
    """Return a pattern, in a group if it could be read as the name of a preset."""
    return f"(?:{source})" if re.fullmatch(r"\w[\w-]*", source) else source


def _preset(onig: str) -> str | None:
    """Return the pattern of the preset whose translation to Oniguruma is `onig`, or None."""
    for source in splitting.PRESETS.values():
        if isinstance(source, str) and source[:_ALIKE] == onig[:_ALIKE] and _exported(source) == onig:
            return source
    return None


@cache
def _exported(source: str) -> str | None:
    try:
        return splitting.to_oniguruma(source)
    except PatternError:
        return None
