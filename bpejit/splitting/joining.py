"""A split pattern for vocabularies whose text is not split: it divides where no token can cross.

Models such as Llama 2 merge across a whole text. A merge across a position makes a token that contains the characters on both
sides of it, so if no token has two such characters side by side, the text may be divided between them, and the parts are
encoded independently. In published vocabularies this holds before nearly all spaces, between letters and punctuation, and
around digits and line breaks, so the parts are words, as with any other pattern, and are found in the cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from bpejit.arrays import Array, ByteStrings, starts_of
from bpejit.utf8 import code_points

_RANGES = (
    *((0x80, 0xBF), (0x2000, 0x206F), (0x2100, 0x2BFF), (0x2E00, 0x2E7F), (0x3000, 0x303F), (0xFE30, 0xFE6F)),
    *((0xFF00, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65)),
)
"""Blocks of punctuation and symbols. Any division is exact, and this one does not depend on a version of Unicode."""

_MOST_RANGES = 40
"""Largest number of ranges of characters that a set of the pattern lists. Smaller gaps between them are filled."""

_ASCII, _SYMBOL, _LETTER = 0x80, "\x80", "\xc0"

_CLASSES = np.full(0x110000, ord(_LETTER), np.uint8)
_CLASSES[:_ASCII] = range(_ASCII)
for _first, _last in _RANGES:
    _CLASSES[_first : _last + 1] = ord(_SYMBOL)
"""The character that stands for each one: itself in ASCII."""

_LETTERS, _DIGITS, _MARKS, _OTHER_LETTERS, _OTHERS = "letters", "digits", "marks", "other letters", "others"


def joining_pattern(tokens: ByteStrings, known: Collection[str] | None = None) -> str:
    r"""Return a pattern whose matches no token can cross.

    A match ends between two characters if no token contains characters of their classes side by side. The classes are letters,
    digits and punctuation of ASCII, other letters, other characters, and each control character and the space. A punctuation
    mark that a token joins to a letter, a digit or a following space is a class of its own. A character that is not of ASCII,
    and that no token joins to another, is a match by itself: nearly all Chinese ones of Llama 2.

    Parameters
    ----------
    tokens : ByteStrings
        The tokens that merges make, in UTF-8.
    known : collection of str, optional
        The characters of the vocabulary, if all others that are adjacent become one token: they are not divided then.

    Examples
    --------
    >>> import re
    >>> re.findall(joining_pattern(ByteStrings.from_list([b" a", b"ab", b" ab"])), "ab ab  ba, 1")
    ['ab', ' ab', ' ', ' ba', ',', ' ', '1']
    """
    pairs, others = _adjacent(tokens)
    apart = {before for before, after in pairs if _class_of(after) in (_LETTERS, _DIGITS, _OTHER_LETTERS, " ")}
    apart |= {after for before, after in pairs if _class_of(before) in (_LETTERS, _DIGITS, _OTHER_LETTERS)}
    following: dict[str, set[str]] = {}
    for before, after in pairs:
        following.setdefault(_class_of(before, apart), set()).add(_class_of(after, apart))
    marks = "".join(_escaped(chr(code)) for code in range(128) if _class_of(chr(code), apart) == _MARKS)

    def members(classes: Iterable[str]) -> str:
        written = {**others, _LETTERS: "A-Za-z", _DIGITS: "0-9", _MARKS: marks}
        return f"[{''.join(written.get(name) or _escaped(name) for name in sorted(classes))}]"

    alike: dict[frozenset[str], list[str]] = {}
    for name, after_it in following.items():
        alike.setdefault(frozenset(after_it), []).append(name)
    steps = sorted(f"{members(names)}(?={members(after_it)})" for after_it, names in alike.items())
    if known is not None:
        # Letters that are not of ASCII count as unknown, since a vocabulary may have too many ranges of them.
        points = "".join(f"\\U{ord(one):08x}" for one in sorted(known) if one.isascii() or _CLASSES[ord(one)] == ord(_SYMBOL))
        unknown = f"[^{points}]" if points else r"[\s\S]"
        steps.append(f"{unknown}(?={unknown})")
    return f"(?:{'|'.join(steps)})*[\\s\\S]" if steps else r"[\s\S]"


def _adjacent(tokens: ByteStrings) -> tuple[set[tuple[str, str]], dict[str, str]]:
    """Return the pairs of adjacent characters, and the sets of those that are not of ASCII.

    In the pairs, one character stands for all of a class that is not of ASCII. The sets are letters and others.
    """
    points = code_points(tokens.pool.tobytes().decode("utf-8", "replace"))
    classes = _CLASSES[points]
    joins = np.ones(points.size, np.bool_)  # a character and the next one
    begins = starts_of((tokens.pool & 0xC0) != 0x80)
    joins[begins[tokens.starts[1:]] - 1] = False
    is_joined = np.zeros(_CLASSES.size, np.bool_)
    is_joined[points[joins]] = is_joined[points[1:][joins[:-1]]] = True
    joined = np.flatnonzero(is_joined[_ASCII:]) + _ASCII
    is_symbol = _CLASSES[joined] == ord(_SYMBOL)
    sets = {_OTHER_LETTERS: _written(joined[~is_symbol]), _OTHERS: _written(joined[is_symbol])}
    codes = np.bincount((classes[:-1].astype(np.uint16) << 8 | classes[1:])[joins[:-1]]) if points.size else np.zeros(0)
    return {(chr(code >> 8), chr(code & 0xFF)) for code in np.flatnonzero(codes).tolist()}, sets


def _written(points: Array) -> str:
    """Return the elements of a set with code points, in ascending order, as few ranges."""
    if not points.size:
        return ""
    gaps = np.diff(points)
    least = np.sort(gaps)[-_MOST_RANGES] if gaps.size >= _MOST_RANGES else 1
    ends = np.flatnonzero(gaps > least)
    firsts, lasts = points[np.append(0, ends + 1)].tolist(), points[np.append(ends, gaps.size)].tolist()
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in zip(firsts, lasts, strict=True))


def _class_of(character: str, apart: Collection[str] = ()) -> str:
    """Return the class of a character; punctuation in `apart` is a class of its own."""
    if ord(character) >= _ASCII:
        return _OTHERS if character == _SYMBOL else _OTHER_LETTERS
    if character.isalnum():
        return _LETTERS if character.isalpha() else _DIGITS
    return _MARKS if "!" <= character <= "~" and character not in apart else character


def _escaped(character: str) -> str:
    return f"\\x{ord(character):02x}"
