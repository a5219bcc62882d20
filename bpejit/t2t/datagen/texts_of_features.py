"""Texts of one feature of many samples, as lines: bytes without a Python object for each text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bpejit.arrays import Array, lengths_of

LINE_BREAK = 0x0A


@dataclass(frozen=True)
class FeatureTexts:
    """Texts, in order.

    Parameters
    ----------
    lines : bytes
        Each text, followed by a line break.
    ends : int64 [texts]
        The positions of these line breaks.
    """

    lines: bytes
    ends: Array

    def __len__(self) -> int:
        return int(self.ends.size)

    @property
    def are_lines(self) -> bool:
        """Whether no text contains a line break."""
        # `bytes.count` takes four to six times as long.
        return int(np.count_nonzero(np.frombuffer(self.lines, np.uint8) == LINE_BREAK)) == len(self)

    def texts(self) -> list[bytes]:
        """Return the texts as a list."""
        found = self.lines.split(b"\n")[:-1]
        if len(found) == len(self):
            return found
        ends = [-1, *self.ends.tolist()]
        return [self.lines[before + 1 : end] for before, end in pairwise(ends)]

    def adjacent(self) -> tuple[bytes, Array]:
        """Return the texts without line breaks between them, and the end of each, as int64 [texts]."""
        ends = self.ends
        data = self.lines.replace(b"\n", b"")
        if len(data) + len(self) != len(self.lines):
            data = np.delete(np.frombuffer(self.lines, np.uint8), ends).tobytes()
        return data, ends - np.arange(ends.size)

    def is_empty(self) -> Array:
        """Return which texts are empty, as bool [texts]."""
        found: Array = np.diff(self.ends, prepend=-1) == 1
        return found

    def select(self, chosen: Array) -> FeatureTexts:
        """Return some of the texts: those for which `chosen`, bool [texts], is true."""
        lengths = np.diff(self.ends, prepend=-1)
        lines = np.frombuffer(self.lines, np.uint8)[np.repeat(chosen, lengths)].tobytes()
        return FeatureTexts(lines, np.cumsum(lengths[chosen]) - 1)

    def divide(self, count: int) -> tuple[FeatureTexts, FeatureTexts]:
        """Return the first `count` texts, and the others."""
        cut = int(self.ends[count - 1]) + 1 if count else 0
        rest = FeatureTexts(self.lines[cut:], self.ends[count:] - cut)
        return FeatureTexts(self.lines[:cut], self.ends[:count]), rest

    def prefixed(self, prefix: bytes) -> FeatureTexts:
        """Return the texts with a prefix."""
        return texts_from_list([prefix + text for text in self.texts()]) if prefix else self


def texts_from_lines(lines: bytes) -> FeatureTexts:
    """Return the texts in lines, each of which has a line break."""
    return FeatureTexts(lines, line_ends(lines))


def line_ends(data: bytes) -> Array:
    """Return the positions of line breaks, as int64."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == LINE_BREAK)


def texts_from_list(texts: Sequence[bytes]) -> FeatureTexts:
    """Return texts that are given one by one."""
    return FeatureTexts(b"".join([text + b"\n" for text in texts]), np.cumsum(lengths_of(texts) + 1) - 1)


def texts_from_documents(data: bytes, ends: Array) -> FeatureTexts:
    """Return texts that are adjacent; `ends`, int64 [texts], has the end of each."""
    lines = np.insert(np.frombuffer(data, np.uint8), ends, LINE_BREAK).tobytes()
    return FeatureTexts(lines, ends + np.arange(ends.size))


def terminated(lines: bytes) -> bytes:
    """Return lines, of which the last one may lack its line break, with one at the end of each."""
    return lines if not lines or lines.endswith(b"\n") else lines + b"\n"
