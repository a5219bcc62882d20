"""Alignment: the mapping from pre-tokenized text to characters and bytes of the original text.

Each change of a text (see `normalizers`) has a twin that returns its `Sources`: arrays with an entry for each character of
the result, the index of a character of the input. Changes are composed by indexing, so an `AlignedText` maps to the original
after any number of changes.

Each character maps to exactly one original character, by the rules of `NormalizedString` in Hugging Face tokenizers:

- the results of one character (`ﬁ` to `fi`, `İ` to `i̇`) map to that character;
- the result of several characters (a letter and its accents) maps to the first;
- an inserted prefix maps to the first character of the text;
- a replacement maps to the last character of the match, or, if the match is empty, to the character before it;
- combining marks that are reordered or composed are assigned from the left, so a mark may map to its neighbor.

Text inserted before the first character maps to the first character; in Hugging Face tokenizers it maps to nothing, and is
inserted twice.

Encoding without offsets does not compute alignments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from bpejit.arrays import Array, starts_of
from bpejit.utf8 import widths

Span: TypeAlias = tuple[int, int]
"""Start and end of a range of a text."""


class Sources(NamedTuple):
    """The sources of the characters of a changed text: indices of characters of the input, in non-decreasing order.

    Parameters
    ----------
    of : int64 [characters]
        The character that each maps to.
    low, high : int64 [characters]
        The first and the last character that contributed to it: a letter and all its accents, or a replaced match.
    """

    of: Array
    low: Array
    high: Array

    def slice(self, start: int, end: int) -> Sources:
        """Return the sources of the characters from `start` to `end`."""
        return Sources(self.of[start:end], self.low[start:end], self.high[start:end])

    def shifted(self, by: int) -> Sources:
        """Return the sources for a part of a text that begins at a position."""
        return Sources(*(array + by for array in self))

    def through(self, last: Sources) -> Sources:
        """Return the sources of a text that was changed again, of which `last` are the sources in the text before."""
        return Sources(self.of[last.of], self.low[last.low], self.high[last.high])


class Change(NamedTuple):
    """A change of a text, and its twin that returns the sources of the result."""

    apply: Callable[[str], str]
    sources: Callable[[str], Sources]


class AlignedText(NamedTuple):
    """A text with the sources of its characters in an original text; None if they are not wanted."""

    text: str
    sources: Sources | None = None

    def slice(self, start: int, end: int) -> AlignedText:
        """Return the text from `start` to `end`."""
        if end - start == len(self.text):
            return self  # most texts have no added tokens
        return AlignedText(self.text[start:end], None if self.sources is None else self.sources.slice(start, end))

    def changed(self, change: Change) -> AlignedText:
        """Apply a change."""
        sources = None if self.sources is None else self.sources.through(change.sources(self.text))
        return AlignedText(change.apply(self.text), sources)

    def within(self, areas: Array) -> list[Span]:
        """Return the ranges of this text that come from a single area of the original.

        Parameters
        ----------
        areas : int64 [areas, 2]
            Start and end of each area in characters of the original, in order.
        """
        if not len(areas) or self.sources is None:
            return []
        number = np.searchsorted(areas[:, 0], self.sources.low, side="right") - 1
        inside = (number >= 0) & (self.sources.high < areas[number, 1])
        boundaries = np.flatnonzero(np.diff(np.where(inside, number, -1))) + 1
        positions = [0, *boundaries.tolist(), len(self.text)]
        return [(start, end) for start, end in pairwise(positions) if start < end and inside[start]]


class PreTokenizedText(NamedTuple):
    """Normalized text with the ends of its pre-tokens and its alignment to the original.

    Parameters
    ----------
    text : uint8[:]
        UTF-8, padded.
    ends : uint32 [spans]
        The end of each span, with the special flag if the span is an added token.
    byte_starts, byte_ends : int64 [bytes]
        The range of bytes of the original that each byte maps to: one byte if its character was not changed, otherwise the
        whole character; for added tokens, all that the token covers.
    found : list of str
        The matched text of each added token, with the white space stripped with it.
    """

    text: Array
    ends: Array
    byte_starts: Array
    byte_ends: Array
    found: list[str]


def one_to_one(count: int) -> Sources:
    """Return the sources of an unchanged text."""
    every = np.arange(count, dtype=np.int64)
    return Sources(every, every, every)


def repeated(counts: Array) -> Sources:
    """Return the sources of a text in which character `i` becomes `counts[i]` characters."""
    every = np.repeat(np.arange(counts.size, dtype=np.int64), counts)
    return Sources(every, every, every)


def joined(parts: list[Sources]) -> Sources:
    """Concatenate sources; there must be some."""
    return Sources(*map(concatenated, zip(*parts, strict=True)))


def concatenated(arrays: Iterable[Array], dtype: type[np.generic] = np.int64) -> Array:
    """Concatenate any number of arrays of one type."""
    return np.concatenate([np.zeros(0, dtype), *arrays])


def byte_ranges(prepared: Array, first: Array, last: Array, original: str) -> tuple[Array, Array]:
    """Return the range of original bytes that each byte maps to, as starts and ends.

    Parameters
    ----------
    prepared : uint8 [bytes]
    first, last : int64 [bytes]
        The first and the last original character that each byte maps to.
    original : str
    """
    data = np.frombuffer(original.encode("utf-8", "surrogateescape"), np.uint8)
    boundaries = starts_of(widths(original))
    starts = boundaries[first]
    ends = boundaries[last + 1]
    if not prepared.size:
        return starts, ends
    # A run of bytes that map to one character and equal its bytes is that character, so each byte maps to one byte.
    runs = np.flatnonzero(np.diff(first, prepend=-1))
    sizes = np.diff(runs, append=prepared.size)
    position = starts + np.arange(prepared.size) - np.repeat(runs, sizes)
    same = (first == last) & (np.repeat(sizes, sizes) == ends - starts)
    same[same] = data[position[same]] == prepared[same]
    whole = np.repeat(np.logical_and.reduceat(same, runs), sizes)
    return np.where(whole, position, starts), np.where(whole, position + 1, ends)
