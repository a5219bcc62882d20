"""The Unicode script of characters, tokens and words; the numbers of characters and words of text, in blocks.

A word belongs to the script of its first character whose script is not Common, and to Common if there is none. Bytes that are
not valid UTF-8 belong to words, and to Other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import regex

from bpejit.arrays import Array, lengths_of
from bpejit.inspection.vocabulary_measures import token_properties
from bpejit.kernels.inspection.amounts import N_AMOUNTS, SPACE, count_words, find_scripts
from bpejit.model import Model

_NAMES = (
    "Common Latin Greek Cyrillic Armenian Hebrew Arabic Syriac Thaana Nko Devanagari Bengali Gurmukhi Gujarati Oriya "
    "Tamil Telugu Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Cherokee "
    "Canadian_Aboriginal Khmer Mongolian Hiragana Katakana Bopomofo Han Yi Coptic Gothic Runic Javanese Balinese "
    "Tifinagh Other"
)

SCRIPTS = tuple(_NAMES.split())
"""Names of the scripts that are told apart. Common has digits, punctuation, spaces and symbols; Other has all other scripts,
and bytes that are not valid UTF-8.
"""

COMMON, OTHER = 0, len(SCRIPTS) - 1

UNDETERMINED = 255
"""In the scripts of tokens: a token whose only characters of a script are incomplete."""

_LAST_SPACE = 0x3000
"""The last code point that is white space."""


class ScriptTable:
    """The kinds of characters: indices in `SCRIPTS`, with the flag `SPACE` for white space.

    Parameters
    ----------
    by_script : bool
        Whether scripts are told apart; otherwise all characters are `COMMON`.

    Attributes
    ----------
    kinds : uint8 [0x110000]
    byte_kinds : uint8 [256]
        Of ASCII, and of bytes that are not valid UTF-8.
    """

    def __init__(self, *, by_script: bool = True) -> None:
        self.kinds = find_kinds().copy() if by_script else np.full(0x110000, COMMON, np.uint8)
        self.kinds[[point for point in range(_LAST_SPACE + 1) if chr(point).isspace()]] |= SPACE
        self.byte_kinds = np.full(256, OTHER if by_script else COMMON, np.uint8)
        self.byte_kinds[:128] = self.kinds[:128]


@lru_cache(maxsize=1)
def find_kinds() -> Array:
    """Return the script of each character, as uint8 [0x110000], in a tenth of a second.

    Scripts with many characters come first, so that the patterns of the others look at few. Those of no script, and the planes
    that have none, are `OTHER`.
    """
    kinds = np.full(0x110000, OTHER, np.uint8)
    points = np.concatenate([np.arange(0x40000), np.arange(0xE0000, 0xE1000)]).astype("<u4")
    for name in ("Unknown", "Han", "Hangul", *SCRIPTS[:-1]):
        names = r"\p{Script=Common}\p{Script=Inherited}" if name == "Common" else rf"\p{{Script={name}}}"
        belongs = np.zeros(points.size, np.bool_)
        for match in regex.finditer(f"[{names}]+", points.tobytes().decode("utf-32-le", "surrogatepass")):
            belongs[match.start() : match.end()] = True
        kinds[points[belongs]] = SCRIPTS.index(name) if name in SCRIPTS else OTHER
        points = points[~belongs]
    return kinds


def token_scripts(model: Model, table: ScriptTable) -> Array:
    """Return the script of each token: that of its first complete character that has one, and otherwise `COMMON`.

    Returns
    -------
    uint8 [vocab_size]
        Indices in `SCRIPTS`, or `UNDETERMINED`. Special tokens and ids that are not in use are `COMMON`.
    """
    found = np.zeros(model.vocab_size, np.uint8)
    ids = np.array(list(model.tokens), np.int64)
    texts = [token.decode("utf-8", "ignore") for token in model.tokens.values()]
    owners = np.repeat(ids, lengths_of(texts))
    points = np.frombuffer("".join(texts).encode("utf-32-le"), "<u4")
    scripts = table.kinds[points] & (SPACE - 1)
    told = scripts != COMMON
    # Assigned in reverse order, so that the first character of each token is written last.
    found[owners[told][::-1]] = scripts[told][::-1]
    found[token_properties(model).partial & (found == COMMON)] = UNDETERMINED
    return found


def scripts_around(text: Array, starts: Array, ends: Array, table: ScriptTable) -> Array:
    """Return the script of the incomplete character of each of some tokens of a text, as uint8 [tokens].

    A token that begins inside a character belongs to that one, and otherwise to the one in which it ends.
    """
    scripts = np.zeros(starts.size, np.uint8)
    find_scripts(text, starts, ends, table.kinds, table.byte_kinds, scripts)
    return scripts


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
    word_counts: Array = field(default_factory=lambda: np.zeros(len(SCRIPTS), np.int64))
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
        both = self.beside(block)
        first = self.first_script if self.words else block.first_script
        last = block.last_script if block.words else self.last_script
        if self.ends_in_word and block.starts_in_word:
            script = self.last_script if self.last_script != COMMON else block.first_script
            for index, more in ((self.last_script, -1), (block.first_script, -1), (script, 1)):
                both.word_counts[index] += more
            first = script if self.words == 1 else first
            last = script if block.words == 1 else last
        return replace(
            both,
            starts_in_word=self.starts_in_word,
            ends_in_word=block.ends_in_word,
            first_script=first,
            last_script=last,
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

    The text is a uint8 array of at least `n_bytes`; the ends of documents are int64 [documents], and the last one is `n_bytes`.
    """
    stops = np.array([n_bytes], np.int64) if ends is None else ends
    words = np.zeros(len(SCRIPTS), np.int64)
    amounts = np.zeros(N_AMOUNTS, np.int64)
    count_words(text, stops, table.kinds, table.byte_kinds, words, amounts)
    characters, starts_in_word, ends_in_word, *scripts = amounts.tolist()
    if ends is not None:
        return TextMeasures(n_bytes, characters, words)
    return TextMeasures(n_bytes, characters, words, bool(starts_in_word), bool(ends_in_word), *scripts)
