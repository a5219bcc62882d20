r"""Find substitutes for characters, with which the `regex` package splits a text by an older version of Unicode.

The package has one set of Unicode tables. A character whose properties differ from the older version is replaced by a character
that is now in exactly the sets of the pattern that contained the original in that version.

If a pattern is outside the dialect, its sets are unknown. Then each character that was unassigned is replaced by an unassigned
one, distinct for each, so that back references still distinguish them. A character whose properties have changed is replaced by
a character with the old properties. No code point that the pattern names lies between a character and its substitute, so that
`[\u4e00-\u9fff]` contains both or neither.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import numpy as np

from bpejit.arrays import Array
from bpejit.errors import PatternError
from bpejit.splitting.character_classes import Classes, check_ignored_case, partition
from bpejit.splitting.regex_syntax import Chars, OutsideDialectError, parse, sets_of
from bpejit.splitting.unicode_versions import UNASSIGNED, differing, free_points

_HEX = "[0-9a-fA-F]"
_NAMED = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|N\{{([^}}]*)\}}|[\x00-\x7F])|([^\x00-\x7F])", re.DOTALL
)


@lru_cache(maxsize=16)
def find_substitutes(source: str, unicode: str) -> dict[int, int]:
    """Return the code points to replace in a text before an expression is applied, with their substitutes.

    Raises
    ------
    PatternError
        If the version is not available, or the expression names so many characters that a substitute is missing.
    """
    try:
        tree = parse(source)
        check_ignored_case(tree)
        sets = sets_of(tree)
        return _by_sets(partition(sets), partition(sets, unicode), unicode)
    except OutsideDialectError:
        return _by_intervals(source, unicode)


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
            substitute = first.get(sets_with(then, number))
            if substitute is None:
                raise _missing(wanted, unicode)
            found.update(dict.fromkeys(wanted.tolist(), substitute))
    return found


def _by_intervals(source: str, unicode: str) -> dict[int, int]:
    named = np.array(sorted(_named_points(source)), np.int64)
    edges = np.union1d(named, named + 1)
    free = free_points()
    free_at = np.searchsorted(edges, free, side="right")
    found: dict[int, int] = {}
    for points, representative in differing(unicode):
        points_at = np.searchsorted(edges, points, side="right")
        for interval in np.unique(points_at).tolist():
            wanted = points[points_at == interval]
            if representative == UNASSIGNED:
                possible = free[free_at == interval][: wanted.size]
            else:
                fits = np.searchsorted(edges, representative, side="right") == interval
                possible = np.full(wanted.size if fits else 0, representative)
            if possible.size < wanted.size:
                raise _missing(wanted, unicode)
            found.update(zip(wanted.tolist(), possible.tolist(), strict=True))
    return found


def _missing(points: Array, unicode: str) -> PatternError:
    return PatternError(
        f"the split pattern runs through the `regex` package and names characters near U+{int(points[0]):04X}, which are "
        f"missing in Unicode {unicode} or have other properties there; expected a pattern that leaves enough other characters "
        "to substitute for them: write a wider range, or use a later version of Unicode"
    )


def _named_points(source: str) -> set[int]:
    """Return the non-ASCII code points in the expression, literal or escaped."""
    points = set()
    for two, four, eight, name, character in _NAMED.findall(source):
        if two or four or eight:
            points.add(int(two or four or eight, 16))
        elif name or character:
            points.add(ord(unicodedata.lookup(name) if name else character))
    return {point for point in points if point >= 0x80}
