"""Count the characters and words of text, in blocks, and the words of each script."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bpejit.arrays import Array
from bpejit.inspection.scripts import COMMON, SCRIPTS, ScriptTable
from bpejit.kernels.inspection.amounts import N_AMOUNTS, count_words


@dataclass(frozen=True)
class TextMeasures:
    """Amounts of text.

    Parameters
    ----------
    bytes : int
    characters : int
        Bytes that are not continuation bytes of UTF-8: the characters of valid UTF-8.
    word_counts : int64 [scripts]
        Number of words of each script of `SCRIPTS`. Words are maximal runs of characters that are not white space, as in
        `str.split`.
    starts_in_word, ends_in_word : bool
        Whether the first and the last byte belong to a word. A word that continues in the next block counts once.
    first_script, last_script : int
        Scripts of the first and the last word, which may continue outside the text.
    """

    bytes: int = 0
    characters: int = 0
    word_counts: Array = field(default_factory=lambda: np.zeros(len(SCRIPTS), dtype=np.int64))
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


def measure_text(text: Array, n_bytes: int, table: ScriptTable, ends: Array | None = None) -> TextMeasures:
    """Return the measures of a block of text, which may be cut anywhere between characters, or of adjacent documents.

    Bytes that are not valid UTF-8 belong to words.

    Parameters
    ----------
    text : uint8 [at least n_bytes]
    n_bytes : int
    table : ScriptTable
        Tells the scripts of words apart, or not.
    ends : int64 [documents], optional
        The ends of documents; the last one is `n_bytes`.
    """
    stops = np.array([n_bytes], dtype=np.int64) if ends is None else ends
    words = np.zeros(len(SCRIPTS), dtype=np.int64)
    amounts = np.zeros(N_AMOUNTS, dtype=np.int64)

    def count(kinds: Array, byte_kinds: Array) -> int:
        words[:] = 0
        return int(count_words(text, stops, kinds, byte_kinds, words, amounts))

    table.completed(text, count)
    characters, starts_in_word, ends_in_word, *scripts = amounts.tolist()
    if ends is not None:
        return TextMeasures(n_bytes, characters, words)
    return TextMeasures(n_bytes, characters, words, bool(starts_in_word), bool(ends_in_word), *scripts)
