"""Count the characters and words of text, in blocks, and the words of each script."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bpejit.arrays import Array
from bpejit.inspection.scripts import ScriptTable, WordScripts, count_word_scripts
from bpejit.kernels.inspection.amounts import CHARACTERS, ENDS_IN_WORD, N_AMOUNTS, STARTS_IN_WORD, WORDS, count_words


@dataclass(frozen=True)
class TextMeasures:
    """Amounts of text.

    Parameters
    ----------
    bytes : int
    characters : int
        Bytes that are not continuation bytes of UTF-8: the characters of valid UTF-8.
    words : int
        Maximal runs of characters that are not white space, as in `str.split`.
    starts_in_word, ends_in_word : bool
        Whether the first and the last byte belong to a word. A word that continues in the next block counts once.
    scripts : WordScripts, optional
        The words by script; None if they are not counted.
    """

    bytes: int = 0
    characters: int = 0
    words: int = 0
    starts_in_word: bool = False
    ends_in_word: bool = False
    scripts: WordScripts | None = None

    def followed_by(self, block: TextMeasures) -> TextMeasures:
        """Return the measures of this text and the one that follows it."""
        if not self.bytes:
            return block
        if not block.bytes:
            return self
        inside_word = self.ends_in_word and block.starts_in_word
        return TextMeasures(
            self.bytes + block.bytes,
            self.characters + block.characters,
            self.words + block.words - inside_word,
            self.starts_in_word,
            block.ends_in_word,
            self.scripts and block.scripts and self.scripts.followed_by(block.scripts, inside_word=inside_word),
        )

    def beside(self, text: TextMeasures) -> TextMeasures:
        """Return the sum of the measures of two separate texts."""
        scripts = self.scripts or text.scripts
        if self.scripts and text.scripts:
            scripts = self.scripts.followed_by(text.scripts, inside_word=False)
        amounts = (self.bytes + text.bytes, self.characters + text.characters, self.words + text.words)
        return TextMeasures(*amounts, scripts=scripts)


def measure_text(text: Array, n_bytes: int, table: ScriptTable | None = None) -> TextMeasures:
    """Return the measures of a block of text, which may be cut anywhere between characters.

    Bytes that are not valid UTF-8 belong to words.

    Parameters
    ----------
    text : uint8 [at least n_bytes + 3]
    n_bytes : int
    table : ScriptTable, optional
        Counts the words by script.
    """
    found = np.zeros(N_AMOUNTS, dtype=np.int64)
    count_words(text, np.uint64(n_bytes), found)
    scripts = None if table is None else count_word_scripts(text, n_bytes, table)
    borders = bool(found[STARTS_IN_WORD]), bool(found[ENDS_IN_WORD])
    return TextMeasures(n_bytes, int(found[CHARACTERS]), int(found[WORDS]), *borders, scripts)


def measure_documents(text: Array, ends: Array, table: ScriptTable | None = None) -> TextMeasures:
    """Return the measures of adjacent documents, uint8 [at least ends[-1] + 3], whose boundaries end words."""
    total = TextMeasures()
    for part, n_bytes, inner in _document_parts(text, ends):
        measures = measure_text(part, n_bytes)
        joined = sum(_is_inside_word(part[:n_bytes], end) for end in inner.tolist())
        scripts = None if table is None else count_word_scripts(part, n_bytes, table, inner)
        total = total.beside(replace(measures, words=measures.words + joined, scripts=scripts))
    return total


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
