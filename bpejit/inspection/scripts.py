"""The Unicode script of characters, tokens and words.

A word belongs to the script of its first character whose script is not Common, and to Common if there is none. Bytes that are
not valid UTF-8 belong to words, and to Other.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import regex

from bpejit.arrays import Array, ByteStrings, distinct
from bpejit.model import Model

SCRIPTS = (
    *("Common", "Latin", "Greek", "Cyrillic", "Armenian", "Hebrew", "Arabic", "Syriac", "Thaana", "Nko", "Devanagari"),
    *("Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao"),
    *("Tibetan", "Myanmar", "Georgian", "Hangul", "Ethiopic", "Cherokee", "Canadian_Aboriginal", "Khmer", "Mongolian"),
    *("Hiragana", "Katakana", "Bopomofo", "Han", "Yi", "Coptic", "Gothic", "Runic", "Javanese", "Balinese", "Tifinagh"),
    "Other",
)
"""Names of the scripts that are told apart. Common has digits, punctuation, spaces and symbols; Other has all other scripts,
and bytes that are not valid UTF-8.
"""

COMMON, OTHER = 0, len(SCRIPTS) - 1

UNDETERMINED = 255
"""In the scripts of tokens: a token whose only characters of a script are incomplete."""

_NOT_LOOKED_UP = 254

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


class ScriptTable:
    """Looks up the scripts of code points, each once."""

    def __init__(self) -> None:
        self._scripts = np.full(0x110000, _NOT_LOOKED_UP, dtype=np.uint8)
        self._scripts[0xD800:0xE000] = OTHER

    def look_up(self, points: Array) -> Array:
        """Return the index in `SCRIPTS` of each code point, as uint8.

        Parameters
        ----------
        points : integers [n], each below 0x110000
        """
        found: Array = self._scripts[points]
        missing = found == _NOT_LOOKED_UP
        if missing.any():
            self._add(distinct(points[missing]))
            found = self._scripts[points]
        return found

    def _add(self, points: Array) -> None:
        text = "".join(map(chr, points.tolist()))
        self._scripts[points] = OTHER
        for index, pattern in enumerate(_script_patterns()):
            for match in pattern.finditer(text):
                self._scripts[points[match.start() : match.end()]] = index


@lru_cache(maxsize=1)
def _script_patterns() -> list[regex.Pattern[str]]:
    names = [r"[\p{Script=Common}\p{Script=Inherited}]+", *(rf"\p{{Script={name}}}+" for name in SCRIPTS[1:-1])]
    return [regex.compile(name) for name in names]


def token_scripts(model: Model, table: ScriptTable) -> Array:
    """Return the script of each token: that of its first complete character that has one, and otherwise `COMMON`.

    Returns
    -------
    uint8 [vocab_size]
        Indices in `SCRIPTS`, or `UNDETERMINED`. Special tokens and ids that are not in use are `COMMON`.
    """
    found = np.zeros(model.vocab_size, dtype=np.uint8)
    ids = np.array(list(model.tokens), dtype=np.int64)
    strings = ByteStrings.from_list(list(model.tokens.values()))
    pool, starts = strings.pool, strings.starts
    padded = np.concatenate([pool, np.zeros(4, dtype=np.uint8)])
    heads = np.flatnonzero((pool & 0xC0) != 0x80)
    owners = np.searchsorted(starts, heads, side="right") - 1
    points, widths = code_points_at(padded, heads)
    complete = (points >= 0) & (heads + widths <= starts[owners + 1])
    scripts = table.look_up(points[complete])
    told = scripts != COMMON
    # Assigned in reverse order, so that the first character of each token is written last.
    found[ids[owners[complete][told][::-1]]] = scripts[told][::-1]
    stray = np.ones(pool.size, dtype=np.bool_)
    for offset in range(4):
        inside = complete & (widths > offset)
        stray[heads[inside] + offset] = False
    incomplete = np.zeros(len(strings), dtype=np.bool_)
    incomplete[np.searchsorted(starts, np.flatnonzero(stray), side="right") - 1] = True
    unknown = ids[incomplete]
    found[unknown[found[unknown] == COMMON]] = UNDETERMINED
    return found


def code_points_at(text: Array, heads: Array) -> tuple[Array, Array]:
    """Decode the characters that start at some positions.

    Parameters
    ----------
    text : uint8 [n]
        Followed by at least 3 readable bytes after the last position.
    heads : integers [m]
        Positions of bytes that are not continuation bytes.

    Returns
    -------
    points : int64 [m]
        -1 where the bytes are not a character in UTF-8. Surrogates are not detected.
    widths : int64 [m]
    """
    first = text[heads]
    points = np.where(first < 0x80, first.astype(np.int64), -1)
    widths = np.ones(heads.size, dtype=np.int64)
    # Each width by itself takes half the time of one pass that chooses between them for each character.
    for width, low, high, least in ((2, 0xC2, 0xE0, 0x80), (3, 0xE0, 0xF0, 0x800), (4, 0xF0, 0xF5, 0x10000)):
        chosen = np.flatnonzero((first >= low) & (first < high))
        if not chosen.size:
            continue
        at = heads[chosen]
        found = (first[chosen] & (0x7F >> width)).astype(np.int64)
        valid = np.ones(chosen.size, dtype=np.bool_)
        for offset in range(1, width):
            byte = text[at + offset]
            valid &= byte & 0xC0 == 0x80
            found = found << 6 | byte & 0x3F
        # Smaller code points are overlong forms.
        valid &= (found >= least) & (found < 0x110000)
        points[chosen[valid]] = found[valid]
        widths[chosen[valid]] = width
    return points, widths


def scripts_around(text: Array, starts: Array, ends: Array, table: ScriptTable) -> Array:
    """Return the script of the incomplete character of each of some tokens of a text, as uint8 [tokens].

    Parameters
    ----------
    text : uint8 [bytes]
        Followed by at least 3 readable bytes.
    starts, ends : int64 [tokens]
        Where the tokens begin and end. A token that begins inside a character belongs to that one, and otherwise to the one
        in which it ends.
    table : ScriptTable
    """
    at = np.where(text[starts] & 0xC0 == 0x80, starts, ends - 1)
    for _ in range(3):
        at = np.where((text[at] & 0xC0 == 0x80) & (at > 0), at - 1, at)
    points, _ = code_points_at(text, at)
    scripts = table.look_up(np.maximum(points, 0))
    return np.where(points < 0, np.uint8(OTHER), scripts)


def scripts_of_words(text: Array, n_bytes: int, table: ScriptTable, ends: Array | None = None) -> Array:
    """Return the script of each word of a block of text, which may be cut anywhere between characters, as uint8 [words].

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
    words: Array = np.where(scripts != COMMON, scripts, following)[is_word]
    return words


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
