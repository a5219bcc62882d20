"""The sources of the characters of a normal form, by the rules of Hugging Face tokenizers.

Their normalization returns a count with each character: the number of input characters that it replaces. When a character
decomposes, the first part replaces it and the other parts are insertions; a composed character replaces all its parts. Marks
are reordered with their counts, and input characters are then assigned from the left.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.normalization.alignment import Sources, joined, one_to_one
from bpejit.normalization.unicode_forms import Form, is_later

_BEYOND = 0x30000
"""No code point from here on has a decomposition or combines."""

_HANGUL_VOWELS_AND_FINALS = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))


def form_sources(form: Form, text: str) -> Sources:
    """Return the sources of a normal form of a text."""
    if text.isascii():
        return one_to_one(len(text))
    parts: list[Sources] = []
    done = 0

    def leave(start: int, end: int) -> None:
        if start < end:
            parts.append(Sources(*(array + start for array in one_to_one(end - start))))

    for found in _clusters(form).finditer(text):
        numbers = _cluster_sources(form, found[0])
        if numbers is not None:
            leave(done, found.start())
            parts.append(Sources(*(array + found.start() for array in numbers)))
            done = found.end()
    leave(done, len(text))
    return joined(parts)


@cache
def _clusters(form: Form) -> re.Pattern[str]:
    """Return a pattern for text that normalizing may change: characters that change or combine, and the one before them."""
    composes = form in ("NFC", "NFKC")
    seconds = set(_HANGUL_VOWELS_AND_FINALS) if composes else set()
    active = set()
    for point in range(0x80, _BEYOND):
        character = chr(point)
        if 0xD800 <= point < 0xE000 or is_later(character):
            continue
        if unicodedata.combining(character) or unicodedata.normalize(form, character) != character:
            active.add(point)
        pair = unicodedata.decomposition(character).split()
        if composes and len(pair) == 2 and not pair[0].startswith("<"):
            seconds.add(int(pair[1], 16))
    marks = "".join(f"{chr(low)}-{chr(high)}" for low, high in _runs(sorted(active | seconds)))
    return re.compile(f"[^{marks}]?[{marks}]+", re.DOTALL)


def _runs(points: list[int]) -> list[tuple[int, int]]:
    runs: list[list[int]] = []
    for point in points:
        if runs and runs[-1][1] == point - 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return [(low, high) for low, high in runs]


class _Part(NamedTuple):
    """A character of a normal form, the number of characters it replaces, and the first and last that contributed to it."""

    character: str
    takes: int
    low: int
    high: int


@lru_cache(maxsize=1 << 14)
def _cluster_sources(form: Form, text: str) -> tuple[Array, Array, Array] | None:
    """Return the sources of a normal form of a short text, or None if characters map one to one."""
    parts = _decomposed("NFKD" if form.startswith("NFK") else "NFD", text)
    if form in ("NFC", "NFKC"):
        parts = _composed(parts)
    takes = np.array([part.takes for part in parts], dtype=np.int64)
    of = np.maximum(np.cumsum(takes) - np.maximum(takes, 1), 0)
    low = np.minimum([part.low for part in parts], of)
    high = np.maximum([part.high for part in parts], of)
    # Marks that were reordered are no longer distinguished.
    low = np.minimum.accumulate(low[::-1])[::-1]
    high = np.maximum.accumulate(high)
    return None if of.size == len(text) and (low == high).all() else (of, low, high)


def _decomposed(form: Form, text: str) -> list[_Part]:
    """Decompose a text."""
    out: list[_Part] = []
    marks: list[_Part] = []
    for number, character in enumerate(text):
        parts = character if is_later(character) else unicodedata.normalize(form, character)
        for index, part in enumerate(parts):
            if _class(part):
                marks.append(_Part(part, int(index == 0), number, number))
                continue
            out += sorted(marks, key=_class_of_part)
            marks = []
            out.append(_Part(part, int(index == 0), number, number))
    return out + sorted(marks, key=_class_of_part)


def _composed(parts: list[_Part]) -> list[_Part]:
    """Compose decomposed characters; a composed character replaces all that its parts replace."""
    out: list[_Part] = []
    base: int | None = None
    before = 0
    for part in parts:
        # A mark is blocked from the base by a mark of its class or a higher one between them, or by a character.
        if base is not None and (base == len(out) - 1 or before < _class_of_part(part)):
            composite = _composite(out[base].character, part.character)
            if composite is not None:
                low, high = min(out[base].low, part.low), max(out[base].high, part.high)
                out[base] = _Part(composite, out[base].takes + part.takes, low, high)
                continue
        out.append(part)
        before = _class_of_part(part)
        if not before:
            base = len(out) - 1
    return out


def _class_of_part(part: _Part) -> int:
    return _class(part.character)


def _class(character: str) -> int:
    return 0 if is_later(character) else unicodedata.combining(character)


@lru_cache(maxsize=1 << 14)
def _composite(first: str, second: str) -> str | None:
    if is_later(first) or is_later(second):
        return None
    found = unicodedata.normalize("NFC", first + second)
    return found if len(found) == 1 and not is_later(found) else None
