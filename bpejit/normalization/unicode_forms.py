"""Unicode normal forms and lower case exactly as in Hugging Face tokenizers, with any version of Unicode in Python.

Their normal forms are those of Unicode 9: a character added later has no decomposition and is not a combining mark, so
nothing is reordered across it or combines with it. Python therefore normalizes the text between such characters. The
properties of the characters of Unicode 9 are stable, so Unicode 13 in Python 3.10 and all later versions agree.

**Sources.** Their normalization returns a count with each character: the number of input characters that it replaces. When a
character decomposes, the first part replaces it and the other parts are insertions; a composed character replaces all its
parts. Marks are reordered with their counts, and input characters are then assigned from the left.

Lower case is computed for each character separately (a final sigma is not special), with the tables of Unicode 17.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from bpejit import splitting
from bpejit.arrays import Array
from bpejit.normalization.alignment import Sources, joined, one_to_one

Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]

RemovedSet: TypeAlias = Literal["StripAccents", "accents", "controls"]

FORMS: tuple[Form, ...] = get_args(Form)

_LATER = (
    "5C8-5C9 7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1AF0 1DF6-1DFA 32FF A7F1-A7F4 A82C AB69 105C0-105FF "
    "10781-107BF 10D24-10D27 10D40-10D8F 10EAB-10EAC 10EC0-10EFF 10F30-10F6F 10F70-10FAF 11070 1133B 11380-113FF 1145E "
    "11800-1184F 11900-1195F 119A0-11AAF 11B60-11B67 11D00-11DAF 11F00-11F5F 16100-1613F 16D40-16D7F 16FF0-16FF6 "
    "1CC00-1CEBF 1D127-1D128 1D250-1D281 1DF00-1DFFF 1E030-1E08F 1E100-1E14F 1E290-1E2FF 1E4D0-1E5FF 1E6C0-1E6FF 1F16C "
    "1FBF0-1FBF9"
)
"""Characters added after Unicode 9 that a later version decomposes, composes or reorders; whole blocks if all were."""

_LATER_CASES = (
    "1C89-1C8A A7C0-A7C1 A7CB-264 A7CC-A7CD A7CE-A7CF A7D0-A7D1 A7D2-A7D3 A7D4-A7D5 A7D6-A7D7 A7D8-A7D9 A7DA-A7DB "
    "A7DC-19B 2C2F-2C5F 10570-1057A-10597 1057C-1058A-105A3 1058C-10592-105B3 10594-10595-105BB 10D50-10D65-10D70 "
    "16EA0-16EB8-16EBB"
)
"""Capital letters of Unicode 14 to 17: the first, the last if there are several, and the small letter of the first."""


_STARTS = (
    "[\x00-\u02ff\u0370-\u0482\u05d0-\u05ea\u0620-\u064a\u0904-\u0939\u0e01-\u0e30\u1e00-\u206f\u3000-\u3029\u3041-\u3096"
    "\u30a1-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff01-\uff60]"
)
"""Characters that never combine with the preceding character: the most frequent ones."""


@cache  # sets of characters take 10 ms to compile, and few texts need them
def _compiled_starts() -> re.Pattern[str]:
    return re.compile(_STARTS)


@cache
def _later_characters() -> re.Pattern[str]:
    return re.compile("([" + "".join(f"{chr(low)}-{chr(high)}" for low, high in splitting.read_ranges(_LATER)) + "])")


def starts_anew(text: str) -> bool:
    """Return True if the first character of a text certainly never combines with the preceding one."""
    return _compiled_starts().match(text) is not None


_BEYOND = 0x30000
"""No code point from here on has a decomposition or combines."""

_HANGUL_VOWELS_AND_FINALS = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))


def normalized(form: Form, text: str) -> str:
    """Return a normal form of a text."""
    if text.isascii():
        return text
    if not _later_characters().search(text):
        return unicodedata.normalize(form, text)
    return "".join(
        part if index % 2 else unicodedata.normalize(form, part) for index, part in enumerate(_later_characters().split(text))
    )


def is_later(character: str) -> bool:
    """Return True if a character was added after Unicode 9 and a later version decomposes, composes or reorders it."""
    return _later_characters().match(character) is not None


def is_normalized(form: Form, text: str) -> bool:
    """Return True if `normalized` certainly does not change a text; False does not mean that it does.

    Any part of a text in a normal form is in that form too, so later characters need no check.
    """
    return text.isascii() or unicodedata.is_normalized(form, text)


@cache
def _lower_table() -> dict[int, str]:
    table = {point: lower for point in range(0x20000) if (lower := chr(point).lower()) != chr(point)}
    for part in _LATER_CASES.split():
        low, *last, small = (int(bound, 16) for bound in part.split("-"))
        high = max([low, *last])
        table.update((point, chr(small + point - low)) for point in range(low, high + 1))
    return table


_LOWERED_OTHERWISE = re.compile("[\u0130\u03a3\u1c89\u2c2f\ua7c0-\ua7dd\U00010570-\U00010594\U00010d50-\U00016eff]")
"""Characters whose lower case depends on their neighbors or on the version of Unicode in Python."""


def lowered(text: str) -> str:
    """Return a text with each character in lower case."""
    if text.isascii() or not _LOWERED_OTHERWISE.search(text):
        return text.lower()
    return text.translate(_lower_table())


# ---- sets of characters that normalizers remove

_MARKS_SINCE_9 = (
    "7FD 897-8D3 9FE AFA-AFF B55 C04-C3C CF3-D00 D3B-D3C D81 EBA ECE 1715 180F 1ABF-1ACE 1CF7 1DF6-1DFA A82C A8FF 10D24-10F85 "
    "11070-11074 110C2 11145-11146 111C9 111CE-111CF 11241 1133B 113B8-113E2 1145E 1182C-11A99 11D31-11F5A 13440-13455 "
    "1611E-1612F 16F4F 16F7F-16F87 16FE4-16FF1 1CF00-1CF46 1E08F-1E5EF"
)
"""Combining marks added after Unicode 9, the version of `StripAccents`, in ranges without earlier ones."""

_MARKS_OF_9 = "8D4-8E1 1885-1886 1DFB A8C5 A9BD 1123E 11438-11446 11C30-11CB6 1E000-1E02A 1E944-1E94A"
"""Nonspacing marks that are none in Unicode 8, the version of `BertNormalizer`."""

_FORMATS_SINCE_8 = "8E2 890-891 110CD 13430-1343F"


def fixed_set(source: str, without: str, *more: int) -> Array:
    """Return which characters are in a set of a fixed version of Unicode, bool [0x110000].

    Parameters
    ----------
    source : str
        The set in Unicode 16, in the dialect of the `regex` package. Later versions of that package change nothing.
    without : str
        Ranges that are left out (see `bpejit.splitting.read_ranges`).
    *more : int
        Further characters.
    """
    inside = splitting.members(splitting.Chars(source), "16.0")
    for low, high in splitting.read_ranges(without):
        inside[low : high + 1] = False
    inside[[*more]] = True
    return inside


@cache
def removed_characters(name: RemovedSet) -> dict[int, None]:
    """Return the characters that `StripAccents` removes, or `BertNormalizer` as accents or as controls, as keys."""
    match name:
        case "StripAccents":
            inside = fixed_set(r"\p{M}", _MARKS_SINCE_9, 0x1CF2, 0x1CF3)
        case "accents":
            inside = fixed_set(r"\p{Mn}", f"{_MARKS_SINCE_9} {_MARKS_OF_9}", 0x1734, 0x1171E)
        case "controls":
            inside = fixed_set(r"[\p{Cc}\p{Cf}\p{Co}\uFFFD]", f"9-A D {_FORMATS_SINCE_8}")
    return dict.fromkeys(np.flatnonzero(inside).tolist())


# ---- sources


def form_sources(form: Form, text: str) -> Sources:
    """Return the sources of a normal form of a text."""
    if text.isascii():
        return one_to_one(len(text))
    parts: list[Sources] = []
    done = 0
    for found in _clusters(form).finditer(text):
        changed = _cluster_sources(form, found[0])
        if changed is not None:
            parts += one_to_one(found.start() - done).shifted(done), changed.shifted(found.start())
            done = found.end()
    return joined([*parts, one_to_one(len(text) - done).shifted(done)])


@cache
def _clusters(form: Form) -> re.Pattern[str]:
    """Return a pattern for text that normalizing may change: characters that change or combine, and the one before them."""
    composes = form in ("NFC", "NFKC")
    active = np.zeros(_BEYOND, np.bool_)
    if composes:
        active[[*_HANGUL_VOWELS_AND_FINALS]] = True
    for point in range(0x80, _BEYOND):
        character = chr(point)
        if 0xD800 <= point < 0xE000 or is_later(character):
            continue
        if unicodedata.combining(character) or unicodedata.normalize(form, character) != character:
            active[point] = True
        pair = unicodedata.decomposition(character).split()
        if composes and len(pair) == 2 and not pair[0].startswith("<"):
            active[int(pair[1], 16)] = True
    marks = splitting.written_ranges(active, chr)
    return re.compile(f"[^{marks}]?[{marks}]+", re.DOTALL)


class _Part(NamedTuple):
    """A character of a normal form, the number of characters it replaces, and the first and last that contributed to it."""

    character: str
    takes: int
    low: int
    high: int

    @property
    def combining(self) -> int:
        """The combining class."""
        return 0 if is_later(self.character) else unicodedata.combining(self.character)


@lru_cache(maxsize=1 << 14)
def _cluster_sources(form: Form, text: str) -> Sources | None:
    """Return the sources of a normal form of a short text, or None if characters map one to one."""
    parts = _decomposed("NFKD" if form.startswith("NFK") else "NFD", text)
    if form in ("NFC", "NFKC"):
        parts = _composed(parts)
    takes = np.array([part.takes for part in parts], np.int64)
    of = np.maximum(np.cumsum(takes) - np.maximum(takes, 1), 0)
    low = np.minimum([part.low for part in parts], of)
    high = np.maximum([part.high for part in parts], of)
    # Marks that were reordered are no longer distinguished.
    low = np.minimum.accumulate(low[::-1])[::-1]
    high = np.maximum.accumulate(high)
    return None if of.size == len(text) and (low == high).all() else Sources(of, low, high)


def _decomposed(form: Form, text: str) -> list[_Part]:
    """Decompose a text."""
    parts = (
        _Part(part, int(index == 0), number, number)
        for number, character in enumerate(text)
        for index, part in enumerate(character if is_later(character) else unicodedata.normalize(form, character))
    )
    runs = groupby(parts, lambda part: part.combining > 0)
    return [part for _, run in runs for part in sorted(run, key=attrgetter("combining"))]


def _composed(parts: list[_Part]) -> list[_Part]:
    """Compose decomposed characters; a composed character replaces all that its parts replace."""
    out: list[_Part] = []
    base: int | None = None
    before = 0
    for part in parts:
        # A mark is blocked from the base by a mark of its class or a higher one between them, or by a character.
        if base is not None and (base == len(out) - 1 or before < part.combining):
            composite = _composite(out[base].character, part.character)
            if composite is not None:
                first = out[base]
                low = min(first.low, part.low)
                high = max(first.high, part.high)
                out[base] = _Part(composite, first.takes + part.takes, low, high)
                continue
        out.append(part)
        before = part.combining
        if not before:
            base = len(out) - 1
    return out


@lru_cache(maxsize=1 << 14)
def _composite(first: str, second: str) -> str | None:
    if is_later(first) or is_later(second):
        return None
    found = unicodedata.normalize("NFC", first + second)
    return found if len(found) == 1 and not is_later(found) else None
