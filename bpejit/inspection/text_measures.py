"""Count the characters and words of text, in blocks, and the words of each script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise

import numpy as np

from bpejit.arrays import Array
from bpejit.inspection.scripts import COMMON, SCRIPTS, ScriptTable, scripts_of_words
from bpejit.kernels.inspection.amounts import CHARACTERS, ENDS_IN_WORD, N_AMOUNTS, STARTS_IN_WORD, WORDS, count_words


@dataclass(frozen=True)
class TextMeasures:
    """Amounts of text.

    Parameters
    ----------
    bytes : int
    characters : int
        Bytes that are not continuation bytes of UTF-8: the characters of valid UTF-8.
    word_counts : int64 [scripts] or [1]
        Number of words of each script of `SCRIPTS`, or of all if scripts are not told apart. Words are maximal runs of
        characters that are not white space, as in `str.split`.
    starts_in_word, ends_in_word : bool
        Whether the first and the last byte belong to a word. A word that continues in the next block counts once.
    first_script, last_script : int
        Scripts of the first and the last word, which may continue outside the text.
    """

    bytes: int = 0
    characters: int = 0
    word_counts: Array = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    starts_in_word: bool = False
    ends_in_word: bool = False
    first_script: int = COMMON
    last_script: int = COMMON

    @property
    def words(self) -> int:
        """Number of words."""
        return int(self.word_counts.sum())

    def followed_by(self, block: TextMeasures) -> TextMeasures:
        """Return the measures of this text and the one that follows it."""
        if not self.bytes:
            return block
        if not block.bytes:
            return self
        counts = self.word_counts + block.word_counts
        first = self.first_script if self.words else block.first_script
        last = block.last_script if block.words else self.last_script
        if self.ends_in_word and block.starts_in_word:
            script = self.last_script if self.last_script != COMMON else block.first_script
            for index, more in ((self.last_script, -1), (block.first_script, -1), (script, 1)):
                counts[index] += more
            first = script if self.words == 1 else first
            last = script if block.words == 1 else last
        return TextMeasures(
            self.bytes + block.bytes,
            self.characters + block.characters,
            counts,
            self.starts_in_word,
            block.ends_in_word,
            first,
            last,
        )

    def beside(self, text: TextMeasures) -> TextMeasures:
        """Return the sum of the measures of two separate texts."""
        return TextMeasures(
            self.bytes + text.bytes,
            self.characters + text.characters,
            self.word_counts + text.word_counts,
        )


def measure_text(text: Array, n_bytes: int, table: ScriptTable | None = None, ends: Array | None = None) -> TextMeasures:
    """Return the measures of a block of text, which may be cut anywhere between characters.

    Bytes that are not valid UTF-8 belong to words.

    Parameters
    ----------
    text : uint8 [at least n_bytes + 3]
    n_bytes : int
    table : ScriptTable, optional
        Tells the scripts of words apart.
    ends : int64, optional
        Positions below `n_bytes`, between characters, where words end in any case.
    """
    found = np.zeros(N_AMOUNTS, dtype=np.int64)
    count_words(text, np.uint64(n_bytes), found)
    borders = bool(found[STARTS_IN_WORD]), bool(found[ENDS_IN_WORD])
    if table is None:
        divided = 0 if ends is None else sum(_is_inside_word(text[:n_bytes], end) for end in ends.tolist())
        return TextMeasures(n_bytes, int(found[CHARACTERS]), found[[WORDS]] + divided, *borders)
    words = scripts_of_words(text, n_bytes, table, ends)
    counts = np.bincount(words, minlength=len(SCRIPTS)).astype(np.int64)
    scripts = (int(words[0]), int(words[-1])) if words.size else (COMMON, COMMON)
    return TextMeasures(n_bytes, int(found[CHARACTERS]), counts, *borders, *scripts)


def measure_documents(text: Array, ends: Array, table: ScriptTable | None = None) -> TextMeasures:
    """Return the measures of adjacent documents, uint8 [at least ends[-1] + 3], whose boundaries end words."""
    parts = (measure_text(part, n_bytes, table, inner) for part, n_bytes, inner in _document_parts(text, ends))
    return reduce(TextMeasures.beside, parts, TextMeasures())


def _document_parts(text: Array, ends: Array) -> Iterator[tuple[Array, int, Array]]:
    """Divide adjacent documents where bytes of both sides might together look like a character; never in valid UTF-8.

    Yields
    ------
    part, n_bytes, inner
        A view of the text, which may be longer than the part; the size of the part; and the ends of documents inside it, int64.
    """
    n_bytes = int(ends[-1]) if ends.size else 0
    inner = np.unique(ends)
    inner = inner[(inner > 0) & (inner < n_bytes)]
    borders = [0, *inner[text[inner] & 0xC0 == 0x80].tolist(), n_bytes]
    firsts, lasts = np.searchsorted(inner, borders, side="right"), np.searchsorted(inner, borders)
    for at, (start, stop) in enumerate(pairwise(borders)):
        yield text[start:], stop - start, inner[firsts[at] : lasts[at + 1]] - start


def _is_inside_word(text: Array, at: int) -> bool:
    before = text[max(0, at - 4) : at].tobytes().decode("utf-8", "replace")[-1]
    after = text[at : at + 4].tobytes().decode("utf-8", "replace")[0]
    return not before.isspace() and not after.isspace()
