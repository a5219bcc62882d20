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
        Each text, followed by a line break, if no text contains one.
    listed : list of bytes, optional
        The texts, if one of them contains a line break; `lines` is then empty.
    """

    lines: bytes
    listed: list[bytes] | None = None

    def __len__(self) -> int:
        return count_line_ends(self.lines, 0, len(self.lines)) if self.listed is None else len(self.listed)

    def texts(self) -> list[bytes]:
        """Return the texts as a list."""
        return self.lines.split(b"\n")[:-1] if self.listed is None else self.listed

    def adjacent(self) -> tuple[bytes, Array]:
        """Return the texts without line breaks between them, and the end of each, as int64 [texts]."""
        if self.listed is not None:
            return b"".join(self.listed), np.cumsum(np.fromiter(map(len, self.listed), np.int64, len(self.listed)))
        ends = line_ends(self.lines)
        return self.lines.replace(b"\n", b""), ends - np.arange(ends.size)

    def is_empty(self) -> Array:
        """Return which texts are empty, as bool [texts]."""
        if self.listed is not None:
            return np.array([not text for text in self.listed], dtype=bool)
        found: Array = np.diff(line_ends(self.lines), prepend=-1) == 1
        return found

    def select(self, chosen: Array) -> FeatureTexts:
        """Return some of the texts.

        Parameters
        ----------
        chosen : bool [texts]
        """
        if self.listed is not None:
            return texts_from_list([text for text, use in zip(self.listed, chosen.tolist(), strict=True) if use])
        lengths = np.diff(line_ends(self.lines), prepend=-1)
        data = np.frombuffer(self.lines, dtype=np.uint8)
        return FeatureTexts(data[np.repeat(chosen, lengths)].tobytes())

    def divide(self, count: int) -> tuple[FeatureTexts, FeatureTexts]:
        """Return the first `count` texts, and the others."""
        if self.listed is not None:
            return texts_from_list(self.listed[:count]), texts_from_list(self.listed[count:])
        cut = int(line_ends(self.lines)[count - 1]) + 1 if count else 0
        return FeatureTexts(self.lines[:cut]), FeatureTexts(self.lines[cut:])

    def prefixed(self, prefix: bytes) -> FeatureTexts:
        """Return the texts with a prefix."""
        if not prefix:
            return self
        return texts_from_list([prefix + text for text in self.texts()])


def line_ends(data: bytes) -> Array:
    """Return the positions of line breaks, as int64."""
    return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == LINE_BREAK)


def count_line_ends(data: bytes, start: int, stop: int) -> int:
    """Return the number of line breaks in `data[start:stop]`; `bytes.count` takes four to six times as long."""
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8)[start:stop] == LINE_BREAK))


def texts_from_list(texts: Sequence[bytes]) -> FeatureTexts:
    """Return texts that are given one by one."""
    lines = b"".join([text + b"\n" for text in texts])
    return FeatureTexts(lines) if lines.count(b"\n") == len(texts) else FeatureTexts(b"", list(texts))


def texts_from_documents(data: bytes, ends: Array) -> FeatureTexts:
    """Return texts that are adjacent.

    Parameters
    ----------
    data : bytes
    ends : int64 [texts]
    """
    if b"\n" not in data:
        return FeatureTexts(np.insert(np.frombuffer(data, dtype=np.uint8), ends, LINE_BREAK).tobytes())
    starts = [0, *ends.tolist()]
    return texts_from_list([data[start:end] for start, end in pairwise(starts)])


def terminated(lines: bytes) -> bytes:
    """Return lines, of which the last one may lack its line break, with one at the end of each."""
    return lines if not lines or lines.endswith(b"\n") else lines + b"\n"
