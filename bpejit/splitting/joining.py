"""A split pattern for vocabularies whose text is not split: it divides where no token can cross.

Models such as Llama 2 merge across a whole text. A merge across a position makes a token that contains the characters on both
sides of it, so if no token has two such characters side by side, the text may be divided between them, and the parts are
encoded independently. In published vocabularies this holds before nearly all spaces, between letters and punctuation, and
around digits and line breaks, so the parts are words, as with any other pattern, and are found in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import pairwise

_SYMBOLS = (
    r"\x80-\xbf\u2000-\u206f\u2100-\u2bff\u2e00-\u2e7f\u3000-\u303f\ufe30-\ufe6f"
    r"\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
"""Blocks of punctuation and symbols. Any division is exact, and this one does not depend on a version of Unicode."""

_LETTERS, _DIGITS, _MARKS, _OTHER_LETTERS, _OTHERS = "letters", "digits", "marks", "other letters", "others"

_SETS = {_LETTERS: "A-Za-z", _DIGITS: "0-9", _OTHER_LETTERS: rf"[^\x00-\x7f{_SYMBOLS}]", _OTHERS: _SYMBOLS}

_is_symbol = re.compile(f"[{_SYMBOLS}]").match


def joining_pattern(tokens: Iterable[str]) -> str:
    r"""Return a pattern whose matches no token can cross.

    A match ends between two characters if no token contains characters of their classes side by side. The classes are letters,
    digits and punctuation of ASCII, other letters, other characters, and each control character and the space. A punctuation
    mark that a token joins to a letter, a digit or a following space is a class of its own.

    Parameters
    ----------
    tokens : iterable of str
        Every token that a merge makes.

    Examples
    --------
    >>> re.findall(joining_pattern([" a", "ab", " ab"]), "ab ab  ba, 1")
    ['ab', ' ab', ' ', ' ba', ',', ' ', '1']
    """
    pairs = {pair for token in tokens for pair in pairwise(token)}
    apart = {before for before, after in pairs if _class_of(after) in (_LETTERS, _DIGITS, _OTHER_LETTERS, " ")}
    apart |= {after for before, after in pairs if _class_of(before) in (_LETTERS, _DIGITS, _OTHER_LETTERS)}
    following: dict[str, set[str]] = {}
    for before, after in pairs:
        following.setdefault(_class_of(before, apart), set()).add(_class_of(after, apart))
    marks = "".join(_escaped(chr(code)) for code in range(128) if _class_of(chr(code), apart) == _MARKS)

    def members(classes: Iterable[str]) -> str:
        written = {**_SETS, _MARKS: marks}
        return f"[{''.join(written.get(name) or _escaped(name) for name in sorted(classes))}]"

    alike: dict[frozenset[str], list[str]] = {}
    for name, after_it in following.items():
        alike.setdefault(frozenset(after_it), []).append(name)
    steps = sorted(f"{members(names)}(?={members(after_it)})" for after_it, names in alike.items())
    return f"(?:{'|'.join(steps)})*[\\s\\S]" if steps else r"[\s\S]"


def _class_of(character: str, apart: Collection[str] = ()) -> str:
    """Return the class of a character; punctuation in `apart` is a class of its own."""
    if character >= "\x80":
        return _OTHERS if _is_symbol(character) else _OTHER_LETTERS
    if character.isalnum():
        return _LETTERS if character.isalpha() else _DIGITS
    return _MARKS if "!" <= character <= "~" and character not in apart else character


def _escaped(character: str) -> str:
    return f"\\x{ord(character):02x}"
