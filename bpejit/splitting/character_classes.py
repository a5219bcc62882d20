"""Sets of code points, and the equivalence classes that the sets of one pattern make.

Two code points are equivalent if each set of the pattern contains both or neither: the automaton needs to know the class
only. The sets are evaluated by the `regex` package, over every code point, so that its Unicode tables and its case folding
are ours; where an older version of Unicode is asked for, the few code points are corrected that differ (see
`unicode_versions`). Surrogates are among the code points: U+DC80..U+DCFF stand for the bytes of text that is not UTF-8, as
in Python's `surrogateescape`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex

from bpejit.arrays import Array, distinct
from bpejit.splitting.regex_syntax import Chars, OutsideDialectError
from bpejit.splitting.unicode_versions import as_text, differing

CODE_POINTS = 0x110000

MAX_CLASSES = 255
"""Classes are numbered 1..255 in a byte; 0 is the end of the text."""

END_CLASS = 0
"""The end of the text, as a class."""


ESCAPE = re.compile(r"\\(?:[pP](?:\{[^}]*\}|.)|x..|u.{4}|U.{8}|.)", re.DOTALL)
"""One escape of a pattern: a property, a code point, or a letter."""


@lru_cache(maxsize=1)
def _every_character() -> str:
    return as_text(np.arange(CODE_POINTS, dtype="<u4"))


@lru_cache(maxsize=512)
def set_borders(chars: Chars, unicode: str | None = None) -> Array:
    """Return where a set begins and ends: code points `borders[0]:borders[1]` are in it, `borders[2]:borders[3]`, ... too.

    Parameters
    ----------
    chars : Chars
    unicode : str, optional
        The version of Unicode that the set's properties are those of; by default that of the `regex` package.

    Raises
    ------
    PatternError
        If the version cannot be had.
    """
    if len(chars.source) == 1 and chars.source != "." and not chars.ignore_case:
        point = ord(chars.source)
        return np.array([point, point + 1], dtype=np.int64)
    if unicode is None:
        return _runs(f"(?i:{chars.source})" if chars.ignore_case else chars.source, chars.operations, _every_character())
    borders = set_borders(chars, None)  # written as `partition` writes it, for the cache
    for points, stand_in in differing(unicode):
        now = np.searchsorted(borders, points, side="right") & 1
        then = np.zeros(points.size, dtype=now.dtype)
        for start, end in _runs(_source_for(chars, stand_in), chars.operations, as_text(points)).reshape(-1, 2).tolist():
            then[start:end] = 1
        moved = points[now != then]
        # A code point changes sides if its two borders are put in, or taken out where one is there already.
        borders = np.setxor1d(borders, np.setxor1d(moved, moved + 1, assume_unique=True), assume_unique=True)
    return borders


def _runs(one: str, operations: bool, text: str) -> Array:
    """Return where the runs of characters out of a set begin and end in a text."""
    runs = [found.span() for found in regex.finditer(f"(?V1){one}+" if operations else f"(?:{one})+", text)]
    return np.array(runs, dtype=np.int64).reshape(-1)


def _source_for(chars: Chars, stand_in: int) -> str:
    """Return the set with each property in it as it is for one code point: everything, or nothing.

    What the set names itself stays. Characters beyond ASCII can then be looked up that have the properties of that one; none
    of those that are has another case.
    """

    def settled(escape: re.Match[str]) -> str:
        text = escape[0]
        if text[1] not in "pPsSdDwW":
            return text
        one = f"(?i:{text})" if chars.ignore_case else text
        # Not a property and its opposite: `regex` takes `[^\p{L}\P{L}]` for a set that is not empty.
        return r"\p{Any}" if regex.fullmatch(one, chr(stand_in)) else r"\p{Zl}"

    return ESCAPE.sub(settled, chars.source)


@dataclass(frozen=True)
class Classes:
    """The equivalence classes of some sets.

    Parameters
    ----------
    n : int
        Classes are numbered 1..n, in order of their first code point.
    class_of : uint8 [0x110000]
        The class of each code point.
    masks : dict
        For each set its classes, as the bits of a number: bit k is class k.
    """

    n: int
    class_of: Array
    masks: dict[Chars, int]

    @property
    def everything(self) -> int:
        """The mask of every class, the end of the text not included."""
        return (1 << (self.n + 1)) - 2


def partition(sets: Iterable[Chars], unicode: str | None = None) -> Classes:
    """Return the coarsest classes that each of the sets is a union of.

    Parameters
    ----------
    sets : iterable of Chars
    unicode : str, optional
        As in `set_borders`.

    Raises
    ------
    OutsideDialectError
        If there are more than 255.
    """
    wanted = list(dict.fromkeys(sets))
    borders = {chars: set_borders(chars, unicode) for chars in wanted}
    _every_character.cache_clear()  # four megabytes
    # Between two neighbouring borders nothing changes: these few thousand intervals are classified, not the code points.
    starts = distinct(np.concatenate([np.array([0]), *borders.values()]))
    starts = starts[starts < CODE_POINTS]
    inside = np.zeros((starts.size, len(wanted)), dtype=np.uint8)
    for column, chars in enumerate(wanted):
        inside[:, column] = np.searchsorted(borders[chars], starts, side="right") & 1
    numbers: dict[bytes, int] = {}
    class_of_interval = [numbers.setdefault(row.tobytes(), len(numbers) + 1) for row in inside]
    if len(numbers) > MAX_CLASSES:
        raise OutsideDialectError(
            f"its sets make {len(numbers)} classes of characters, and an automaton has {MAX_CLASSES}",
            "use fewer different characters and sets",
        )

    masks = {chars: sum(1 << number for row, number in numbers.items() if row[column]) for column, chars in enumerate(wanted)}
    lengths = np.diff(np.append(starts, CODE_POINTS))
    return Classes(len(numbers), np.repeat(np.array(class_of_interval, dtype=np.uint8), lengths), masks)
