r"""Characters that stand in for others when the `regex` package is to read a text with an older version of Unicode.

The package has one set of tables. So a character that they know otherwise is replaced by one that is now in just those sets of
the pattern in which that one was then.

Of a pattern outside the dialect the sets are not known. There what must be taken as unassigned is replaced by something that
is, each character by one of its own, so that back references still tell them apart; and what has changed since by a character
that has the properties of then. A stand-in lies on the same side as its character of all that the pattern names, so that
`[\u4e00-\u9fff]` holds both or neither.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import PatternError
from bpejit.splitting.automaton import sets_of
from bpejit.splitting.character_classes import Classes, partition
from bpejit.splitting.regex_syntax import Chars, OutsideDialectError, parse
from bpejit.splitting.unicode_versions import UNASSIGNED, differing, free_points

_HEX = "[0-9a-fA-F]"
_NAMED = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|N\{{([^}}]*)\}}|[\x00-\x7F])|([^\x00-\x7F])", re.DOTALL
)


@lru_cache(maxsize=16)
def stand_ins(sources: tuple[str, ...], unicode: str) -> dict[int, int]:
    """Return which code points of a text to replace by which, before the patterns are applied to it.

    Parameters
    ----------
    sources : tuple of str
        Regular expressions that the `regex` package compiles.
    unicode : str

    Raises
    ------
    PatternError
        If the version cannot be had, or the patterns name so many characters that a stand-in is missing.
    """
    try:
        sets = {chars for source in sources for chars in sets_of(parse(source))}
        return _by_sets(partition(sets), partition(sets, unicode), unicode)
    except OutsideDialectError:
        return _by_sides(sources, unicode)


def _by_sets(now: Classes, then: Classes, unicode: str) -> dict[int, int]:
    def sets_with(classes: Classes, number: int) -> frozenset[Chars]:
        return frozenset(chars for chars, mask in classes.masks.items() if mask >> number & 1)

    numbers, firsts = np.unique(now.class_of, return_index=True)
    first = {sets_with(now, number): point for number, point in zip(numbers.tolist(), firsts.tolist(), strict=True)}
    found: dict[int, int] = {}
    for points, _ in differing(unicode):
        classes = then.class_of[points]
        for number in np.unique(classes).tolist():
            wanted = points[classes == number]
            stand_in = first.get(sets_with(then, number))
            if stand_in is None:
                raise _missing(wanted, unicode)
            found.update(dict.fromkeys(wanted.tolist(), stand_in))
    return found


def _by_sides(sources: tuple[str, ...], unicode: str) -> dict[int, int]:
    named = np.array(sorted(_named_points(sources)), dtype=np.int64)
    edges = np.union1d(named, named + 1)
    free = free_points()
    free_at = np.searchsorted(edges, free, side="right")
    found: dict[int, int] = {}
    for points, stand_in in differing(unicode):
        points_at = np.searchsorted(edges, points, side="right")
        for side in np.unique(points_at).tolist():
            wanted = points[points_at == side]
            if stand_in == UNASSIGNED:
                possible = free[free_at == side][: wanted.size]
            else:
                fits = np.searchsorted(edges, stand_in, side="right") == side
                possible = np.full(wanted.size if fits else 0, stand_in)
            if possible.size < wanted.size:
                raise _missing(wanted, unicode)
            found.update(zip(wanted.tolist(), possible.tolist(), strict=True))
    return found


def _missing(points: Array, unicode: str) -> PatternError:
    return PatternError(
        f"the split pattern runs through the `regex` package and names characters near U+{int(points[0]):04X}, which Unicode "
        f"{unicode} has not, or has otherwise; expected a pattern that leaves room for others in their place: write a wider "
        "range, or use a later version of Unicode"
    )


def _named_points(sources: tuple[str, ...]) -> set[int]:
    """Return the code points beyond ASCII that the patterns have, as they stand or escaped."""
    points = set()
    for source in sources:
        for two, four, eight, name, character in _NAMED.findall(source):
            if two or four or eight:
                points.add(int(two or four or eight, 16))
            elif name or character:
                points.add(ord(unicodedata.lookup(name) if name else character))
    return {point for point in points if point >= 0x80}
