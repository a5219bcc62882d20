"""Count the words of each script of a text in blocks.

A word belongs to the script of its first character whose script is not Common, and to Common if there is none. Bytes that are
not valid UTF-8 belong to words, and to Other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array
from bpejit.inspection.scripts import COMMON, OTHER, SCRIPTS, ScriptTable, code_points_at
from bpejit.inspection.text_measures import document_parts

_SPACE = 255
"""In the kinds of bytes: white space. Other kinds are indices in `SCRIPTS`."""

_LATIN = SCRIPTS.index("Latin")

_LAST_SPACE = 0x3000

_IS_SPACE = np.array([chr(point).isspace() for point in range(_LAST_SPACE + 1)] + [False])
"""Whether each code point up to `_LAST_SPACE` is white space; the last element stands for all others."""

_CHARACTERS = 1 << 14
"""Number of characters that are decoded at a time, such that temporary arrays stay in the processor's cache."""

_ASCII_KINDS = [_SPACE if chr(byte).isspace() else _LATIN if chr(byte).isalpha() else COMMON for byte in range(128)]

_BYTE_KINDS = bytes(_ASCII_KINDS + [OTHER] * 128)


@dataclass(frozen=True)
class WordScripts:
    """The words of a text by script.

    Parameters
    ----------
    counts : int64 [scripts]
        Number of words of each script of `SCRIPTS`.
    first, last : int
        Scripts of the first and the last word, which may continue outside the text.
    """

    counts: Array
    first: int = COMMON
    last: int = COMMON

    @classmethod
    def of_nothing(cls) -> WordScripts:
        """Return the counts of an empty text."""
        return cls(np.zeros(len(SCRIPTS), dtype=np.int64))

    @property
    def total(self) -> int:
        """Number of words."""
        return int(self.counts.sum())

    def followed_by(self, block: WordScripts, *, inside_word: bool) -> WordScripts:
        """Return the words of this text and the one that follows it.

        Parameters
        ----------
        block : WordScripts
        inside_word : bool
            Whether the boundary of both texts is inside a word.
        """
        counts = self.counts + block.counts
        first = self.first if self.total else block.first
        last = block.last if block.total else self.last
        if inside_word:
            script = self.last if self.last != COMMON else block.first
            for index, more in ((self.last, -1), (block.first, -1), (script, 1)):
                counts[index] += more
            first = script if self.total == 1 else first
            last = script if block.total == 1 else last
        return WordScripts(counts, first, last)


def count_word_scripts(text: Array, n_bytes: int, table: ScriptTable, ends: Array | None = None) -> WordScripts:
    """Return the words of a block of text, which may be cut anywhere between characters.

    Parameters
    ----------
    text : uint8 [at least n_bytes + 3]
    n_bytes : int
    table : ScriptTable
    ends : int64, optional
        Positions below `n_bytes`, between characters, where words end in any case.
    """
    kinds = _kinds_of_bytes(text, n_bytes, table)
    in_word = kinds != _SPACE
    begins = in_word.copy()
    begins[1:] &= ~in_word[:-1]
    if ends is not None:
        begins[ends] = in_word[ends]
    # The script of a word is at the first byte that has one. Its run of such bytes starts there, or is the first after the
    # start of the word, before the next word.
    told = in_word & (kinds != COMMON)
    run_starts = told.copy()
    run_starts[1:] &= ~told[:-1]
    events = np.flatnonzero(begins | run_starts)
    is_word = begins[events]
    scripts = kinds[events]
    following = np.append(np.where(is_word, COMMON, scripts)[1:], COMMON)
    words = np.where(scripts != COMMON, scripts, following)[is_word]
    if not words.size:
        return WordScripts.of_nothing()
    counts = np.bincount(words, minlength=len(SCRIPTS)).astype(np.int64)
    return WordScripts(counts, int(words[0]), int(words[-1]))


def count_words_of_documents(text: Array, ends: Array, table: ScriptTable) -> WordScripts:
    """Return the words of adjacent documents, whose boundaries end words.

    Parameters
    ----------
    text : uint8 [at least ends[-1] + 3]
    ends : int64 [documents]
    table : ScriptTable
    """
    total = WordScripts.of_nothing()
    for part, n_bytes, inner in document_parts(text, ends):
        total = total.followed_by(count_word_scripts(part, n_bytes, table, inner), inside_word=False)
    return total


def _kinds_of_bytes(text: Array, n_bytes: int, table: ScriptTable) -> Array:
    """Return the script of the character of each byte, or `_SPACE`, as uint8 [n_bytes]."""
    # Translating bytes takes a fifth of the time of indexing an array with them.
    kinds = np.frombuffer(bytearray(text[:n_bytes]).translate(_BYTE_KINDS), dtype=np.uint8)
    all_heads = np.flatnonzero(text[:n_bytes] >= 0xC0)
    for first in range(0, all_heads.size, _CHARACTERS):
        heads = all_heads[first : first + _CHARACTERS]
        points, widths = code_points_at(text, heads)
        valid = (points >= 0) & (heads + widths <= n_bytes)
        if not valid.all():
            heads, points, widths = heads[valid], points[valid], widths[valid]
        found = table.look_up(points)
        found[_IS_SPACE[np.minimum(points, _LAST_SPACE + 1)]] = _SPACE
        kinds[heads] = found
        kinds[heads + 1] = found  # of two bytes and more
        for offset in (2, 3):
            longer = widths > offset
            kinds[heads[longer] + offset] = found[longer]
    return kinds
