"""Texts of one feature of many samples, as lines: bytes without a Python object for each text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bpejit.arrays import Array

LINE_BREAK = 0x0A


@dataclass(frozen=True)
class FeatureTexts:
    """Texts, in order.

    Parameters
    ----------
    lines : bytes
        Each text, followed by a line break.
    known_ends : int64 [texts], optional
        The positions of these line breaks. Without it, no text contains a line break.
    """

    lines: bytes
    known_ends: Array | None = None

    def __len__(self) -> int:
        if self.known_ends is not None:
            return int(self.known_ends.size)
        # `bytes.count` takes four to six times as long.
        return int(np.count_nonzero(np.frombuffer(self.lines, dtype=np.uint8) == LINE_BREAK))

    @property
    def ends(self) -> Array:
        """The position of the line break after each text, as int64 [texts]."""
        return line_ends(self.lines) if self.known_ends is None else self.known_ends

    def texts(self) -> list[bytes]:
        """Return the texts as a list."""
        if self.known_ends is None:
            return self.lines.split(b"\n")[:-1]
        ends = [-1, *self.known_ends.tolist()]
        return [self.lines[before + 1 : end] for before, end in pairwise(ends)]

    def adjacent(self) -> tuple[bytes, Array]:
        """Return the texts without line breaks between them, and the end of each, as int64 [texts]."""
        ends = self.ends
        if self.known_ends is None:
            data = self.lines.replace(b"\n", b"")
        else:
            data = np.delete(np.frombuffer(self.lines, dtype=np.uint8), ends).tobytes()
        return data, ends - np.arange(ends.size)

    def is_empty(self) -> Array:
        """Return which texts are empty, as bool [texts]."""
        found: Array = np.diff(self.ends, prepend=-1) == 1
        return found

    def select(self, chosen: Array) -> FeatureTexts:
        """Return some of the texts.

        Parameters
        ----------
        chosen : bool [texts]
        """
        lengths = np.diff(self.ends, prepend=-1)
        lines = np.frombuffer(self.lines, dtype=np.uint8)[np.repeat(chosen, lengths)].tobytes()
        return FeatureTexts(lines, None if self.known_ends is None else np.cumsum(lengths[chosen]) - 1)

    def divide(self, count: int) -> tuple[FeatureTexts, FeatureTexts]:
        """Return the first `count` texts, and the others."""
        ends = self.ends
        cut = int(ends[count - 1]) + 1 if count else 0
        first, rest = self.lines[:cut], self.lines[cut:]
        if self.known_ends is None:
            return FeatureTexts(first), FeatureTexts(rest)
        return FeatureTexts(first, ends[:count]), FeatureTexts(rest, ends[count:] - cut)

    def prefixed(self, prefix: bytes) -> FeatureTexts:
        """Return the texts with a prefix."""
        return texts_from_list([prefix + text for text in self.texts()]) if prefix else self


def line_ends(data: bytes) -> Array:
    """Return the positions of line breaks, as int64."""
    return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == LINE_BREAK)


def texts_from_list(texts: Sequence[bytes]) -> FeatureTexts:
    """Return texts that are given one by one."""
    lines = b"".join([text + b"\n" for text in texts])
    if lines.count(b"\n") == len(texts):
        return FeatureTexts(lines)
    return FeatureTexts(lines, np.cumsum([len(text) + 1 for text in texts]) - 1)


def texts_from_documents(data: bytes, ends: Array) -> FeatureTexts:
    """Return texts that are adjacent; `ends`, int64 [texts], has the end of each."""
    lines = np.insert(np.frombuffer(data, dtype=np.uint8), ends, LINE_BREAK).tobytes()
    return FeatureTexts(lines, ends + np.arange(ends.size) if b"\n" in data else None)


def terminated(lines: bytes) -> bytes:
    """Return lines, of which the last one may lack its line break, with one at the end of each."""
    return lines if not lines or lines.endswith(b"\n") else lines + b"\n"
