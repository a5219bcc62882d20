"""Where prepared text comes from: which characters of the original each of its characters and bytes stands for.

Each change of a text (see `normalizers`) has a twin that gives `Sources` for it: arrays with an entry for each character of
the changed text, which is the number of a character of the text before. Following one change after another is then indexing,
and so an `AlignedText` knows the way back to the original whatever was done to it.

A character stands for exactly one of the original, as in `NormalizedString` of Hugging Face tokenizers, whose choice is kept:

- what one character became (`ﬁ` to `fi`, `İ` to `i̇`) stands for that character;
- what several became (a letter and its accents) stands for the first of them;
- what was put before a text stands for its first character;
- what replaced a match stands for the last character of the match, or, where the match is empty, for the one before it;
- combining marks that change places, or of which some go into the letter, are counted off from the left, so that a mark may
  stand for its neighbour.

What was inserted before everything stands for the first character here; there it stands for nothing, and is there twice.

Encoding needs none of this, and does none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array


class Sources(NamedTuple):
    """Where the characters of a changed text come from, as numbers of characters of the text before, which never fall.

    Parameters
    ----------
    of : int64 [characters]
        The one that each stands for.
    low, high : int64 [characters]
        The first and the last that had a part in it: all of a letter and its accents, or of a match that was replaced.
    """

    of: Array
    low: Array
    high: Array


class Change(NamedTuple):
    """A change of a text, and its twin that says where each character of the changed text comes from."""

    apply: Callable[[str], str]
    sources: Callable[[str], Sources]


class AlignedText(NamedTuple):
    """A text with the sources of its characters in an original text."""

    text: str
    sources: Sources

    def part(self, start: int, end: int) -> AlignedText:
        """Return the text between two places."""
        return AlignedText(self.text[start:end], Sources(*(array[start:end] for array in self.sources)))

    def changed(self, change: Change) -> AlignedText:
        """Return the text as it is after a change."""
        last = change.sources(self.text)
        of, low, high = self.sources
        return AlignedText(change.apply(self.text), Sources(of[last.of], low[last.low], high[last.high]))

    def within(self, areas: Array) -> list[tuple[int, int]]:
        """Return the stretches of this text that come from within one area of the original each.

        Parameters
        ----------
        areas : int64 [areas, 2]
            Begin and end of each, in characters of the original, in order.
        """
        if not len(areas):
            return []
        number = np.searchsorted(areas[:, 0], self.sources.low, side="right") - 1
        inside = (number >= 0) & (self.sources.high < areas[number, 1])
        borders = np.flatnonzero(np.diff(np.where(inside, number, -1))) + 1
        places = [0, *borders.tolist(), len(self.text)]
        return [(start, end) for start, end in pairwise(places) if start < end and inside[start]]


class PreparedText(NamedTuple):
    """A prepared text with the way back to the original.

    Parameters
    ----------
    text : uint8[:]
        As bytes, padded.
    ends : uint32 [spans]
        Where each span of it ends, with the special flag if the span is an added token.
    byte_starts, byte_ends : int64 [bytes]
        Which bytes of the original each byte stands for: the one that it is, where its character was not changed; otherwise
        the whole character; for a byte of an added token all that the token covers.
    found : list of str
        The text of each added token as it was found, with the white space that went with it.
    """

    text: Array
    ends: Array
    byte_starts: Array
    byte_ends: Array
    found: list[str]


def one_to_one(count: int) -> Sources:
    """Return the sources of a text that stays as it is."""
    every = np.arange(count, dtype=np.int64)
    return Sources(every, every, every)


def repeated(counts: Array) -> Sources:
    """Return the sources of a text each character of which becomes `counts` characters, one or more."""
    every = np.repeat(np.arange(counts.size, dtype=np.int64), counts)
    return Sources(every, every, every)


def joined(parts: list[Sources]) -> Sources:
    """Return the sources of texts one after the other."""
    none = np.zeros(0, dtype=np.int64)
    return (
        Sources(*(np.concatenate([none, *arrays]) for arrays in zip(*parts, strict=True)))
        if parts
        else Sources(none, none, none)
    )


def code_points(text: str) -> Array:
    """Return the code points of a text, surrogates among them, as uint32 [characters]."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def utf8_widths(points: Array) -> Array:
    """Return how many bytes of UTF-8 each code point has, as int64; three for a surrogate."""
    found: Array = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return found


def widths(text: str) -> Array:
    """Return how many bytes each character has in `text.encode("utf-8", "surrogateescape")`, as int64."""
    points = code_points(text)
    found = utf8_widths(points)
    found[(points >= 0xD800) & (points < 0xE000)] = 1
    return found


def ends_of(counts: Array) -> Array:
    """Return 0 and the running sums of some counts, as int64."""
    sums = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def byte_ranges(prepared: Array, first: Array, last: Array, original: str) -> tuple[Array, Array]:
    """Return which bytes of the original each byte of a prepared text stands for, as begins and ends.

    Parameters
    ----------
    prepared : uint8 [bytes]
    first, last : int64 [bytes]
        The first and the last character of the original that each stands for.
    original : str
    """
    data = np.frombuffer(original.encode("utf-8", "surrogateescape"), dtype=np.uint8)
    borders = ends_of(widths(original))
    starts, ends = borders[first], borders[last + 1]
    if not prepared.size:
        return starts, ends
    # A run of bytes that stand for one character, and are its bytes, is that character: then each is the byte that it was.
    runs = np.flatnonzero(np.diff(first, prepend=-1))
    sizes = np.diff(runs, append=prepared.size)
    place = starts + np.arange(prepared.size) - np.repeat(runs, sizes)
    same = (first == last) & (np.repeat(sizes, sizes) == ends - starts)
    same[same] = data[place[same]] == prepared[same]
    whole = np.repeat(np.logical_and.reduceat(same, runs), sizes)
    return np.where(whole, place, starts), np.where(whole, place + 1, ends)
