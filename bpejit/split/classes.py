"""Sets of code points, and the equivalence classes that the sets of one pattern make.

Two code points are equivalent if each set of the pattern contains both or neither: the automaton needs to know the class
only. The sets are evaluated by the `regex` package, over every code point, so that its Unicode tables, its case folding
and its version are ours. Surrogates are among the code points: U+DC80..U+DCFF stand for the bytes of text that is not
UTF-8, as in Python's `surrogateescape`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex

from bpejit.arrays import Array
from bpejit.split.parse import Chars, OutsideDialectError

CODE_POINTS = 0x110000

MAX_CLASSES = 255
"""Classes are numbered 1..255 in a byte; 0 is the end of the text."""

END_CLASS = 0
"""The end of the text, as a class."""


@lru_cache(maxsize=1)
def _every_character() -> str:
    return np.arange(CODE_POINTS, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=512)
def set_borders(chars: Chars) -> Array:
    """Return where a set begins and ends: code points `borders[0]:borders[1]` are in it, `borders[2]:borders[3]`, ... too."""
    if len(chars.source) == 1 and chars.source != "." and not chars.ignore_case:
        point = ord(chars.source)
        return np.array([point, point + 1], dtype=np.int64)
    one = f"(?i:{chars.source})" if chars.ignore_case else chars.source
    if chars.operations:
        one = f"(?V1){one}"
    runs = [match.span() for match in regex.finditer(f"{one}+" if chars.operations else f"(?:{one})+", _every_character())]
    return np.array(runs, dtype=np.int64).reshape(-1)


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


def partition(sets: Iterable[Chars]) -> Classes:
    """Return the coarsest classes that each of the sets is a union of.

    Raises
    ------
    OutsideDialectError
        If there are more than 255.
    """
    wanted = list(dict.fromkeys(sets))
    borders = {chars: set_borders(chars) for chars in wanted}
    # Between two neighbouring borders nothing changes: these few thousand intervals are classified, not the code points.
    starts = np.unique(np.concatenate([np.array([0]), *borders.values()]))
    starts = starts[starts < CODE_POINTS]
    inside = np.zeros((starts.size, len(wanted)), dtype=np.uint8)
    for column, chars in enumerate(wanted):
        inside[:, column] = np.searchsorted(borders[chars], starts, side="right") & 1
    numbers: dict[bytes, int] = {}
    class_of_interval = np.array([numbers.setdefault(row.tobytes(), len(numbers) + 1) for row in inside], dtype=np.int64)
    if len(numbers) > MAX_CLASSES:
        raise OutsideDialectError(
            f"its sets make {len(numbers)} classes of characters, and an automaton has {MAX_CLASSES}",
            "use fewer different characters and sets",
        )

    masks = {chars: sum(1 << number for row, number in numbers.items() if row[column]) for column, chars in enumerate(wanted)}
    lengths = np.diff(np.append(starts, CODE_POINTS))
    return Classes(len(numbers), np.repeat(class_of_interval, lengths).astype(np.uint8), masks)
