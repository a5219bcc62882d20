"""Count the characters and words of text in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array
from bpejit.kernels.inspection.amounts import (
    CHARACTERS,
    ENDS_IN_WORD,
    N_AMOUNTS,
    STARTS_IN_WORD,
    WORDS,
    count_words,
)


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
    """

    bytes: int = 0
    characters: int = 0
    words: int = 0
    starts_in_word: bool = False
    ends_in_word: bool = False

    def followed_by(self, block: TextMeasures) -> TextMeasures:
        """Return the measures of this text and the one that follows it."""
        if not block.bytes:
            return self
        if not self.bytes:
            return block
        return TextMeasures(
            self.bytes + block.bytes,
            self.characters + block.characters,
            self.words + block.words - (self.ends_in_word and block.starts_in_word),
            self.starts_in_word,
            block.ends_in_word,
        )

    def divided(self, more_words: int) -> TextMeasures:
        """Return the measures of a text that consists of documents, whose boundaries divide some words."""
        return TextMeasures(self.bytes, self.characters, self.words + more_words)

    def beside(self, text: TextMeasures) -> TextMeasures:
        """Return the sum of the measures of two separate texts."""
        return TextMeasures(self.bytes + text.bytes, self.characters + text.characters, self.words + text.words)


def measure_text(text: Array, n_bytes: int) -> TextMeasures:
    """Return the measures of a block of text, which may be cut anywhere between characters.

    Parameters
    ----------
    text : uint8 [at least n_bytes + 2]
    n_bytes : int
    """
    found = np.zeros(N_AMOUNTS, dtype=np.int64)
    count_words(text, np.uint64(n_bytes), found)
    return TextMeasures(
        n_bytes, int(found[CHARACTERS]), int(found[WORDS]), bool(found[STARTS_IN_WORD]), bool(found[ENDS_IN_WORD])
    )


def count_joined_words(text: Array, ends: Array) -> int:
    """Return the number of boundaries of adjacent documents that have parts of words on both sides.

    Parameters
    ----------
    text : uint8 [bytes]
    ends : int64 [documents]
    """
    inner = np.unique(ends[:-1])
    inner = inner[(inner > 0) & (inner < (ends[-1] if ends.size else 0))]
    return sum(not _last_character(text, end).isspace() and not _first_character(text, end).isspace() for end in inner.tolist())


def _last_character(text: Array, end: int) -> str:
    return text[max(0, end - 4) : end].tobytes().decode("utf-8", "replace")[-1:]


def _first_character(text: Array, start: int) -> str:
    return text[start : start + 4].tobytes().decode("utf-8", "replace")[:1]
