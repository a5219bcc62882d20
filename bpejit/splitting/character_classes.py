r"""Evaluate the sets of a pattern, and partition the code points into equivalence classes.

Two code points are equivalent if each set of the pattern contains both or neither; the automaton only needs the class. The
`regex` package evaluates the sets over all code points, so its Unicode tables and its case folding apply. For an older version
of Unicode, the few code points that differ are corrected (see `unicode_versions`). Surrogates are code points, too:
U+DC80..U+DCFF represent the bytes of text that is not UTF-8, as in Python's `surrogateescape`.

**Ignored case.** Where case is ignored, the `regex` package matches some classes differently by themselves and as parts of a
set: a class in a set matches a character if any case variant of it matches. `(?i:[q\p{Lu}])` does not match U+0138, a small
letter without a capital; by itself, `(?i:\p{Lu})` matches every letter that has case. The package makes sets in two cases in
which the pattern has none:

- Adjacent alternatives that are one character, also after a common beginning has been moved out of all alternatives.
- The characters that a match can begin with, for the search. If one of them ignores case, all of them do.

The automaton has no such rules, so a pattern for which they make a difference runs through the package.

**Substitutes.** Where the `regex` package splits a text by an older version of Unicode, a character whose properties differ
from that version is replaced in the text by a character that is now in exactly the sets of the pattern that contained the
original in that version (`find_substitutes`). If a pattern is outside the dialect, its sets are unknown. Then each character
that was unassigned is replaced by an unassigned one, distinct for each, so that back references still distinguish them. A
character whose properties have changed is replaced by a character with the old properties. No code point that the pattern names
lies between a character and its substitute, so that `[\u4e00-\u9fff]` contains both or neither.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import regex

from bpejit.arrays import Array, distinct
from bpejit.errors import PatternError
from bpejit.splitting.regex_syntax import Chars, Choice, Node, OutsideDialectError, Repeat, Sequence, parse, sets_of
from bpejit.splitting.unicode_versions import UNASSIGNED, as_text, differing, free_points

CODE_POINTS = 0x110000

MAX_CLASSES = 255
"""Classes are numbered 1..255, so that they fit into a byte; 0 is the end of the text."""

END_CLASS = 0
"""The class of the end of the text."""

ESCAPE = re.compile(r"\\(?:[pP](?:\{[^}]*\}|.)|x..|u.{4}|U.{8}|.)", re.DOTALL)
"""One escape of a pattern: a property, a code point, or a letter."""

ELEMENT = re.compile(f"{ESCAPE.pattern}|.", re.DOTALL)
"""One escape or character of a pattern."""


_HEX = "[0-9a-fA-F]"
_NAMED = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|N\{{([^}}]*)\}}|[\x00-\x7F])|([^\x00-\x7F])", re.DOTALL
)

_PROPERTIES = frozenset(f"\\{letter}" for letter in "pPsSdDwW")


@lru_cache(maxsize=1)
def _every_character() -> str:
    return as_text(np.arange(CODE_POINTS, dtype="<u4"))


@lru_cache(maxsize=512)
def set_boundaries(chars: Chars, unicode: str | None = None) -> Array:
    """Return the boundaries of a set: it contains code points `boundaries[0]:boundaries[1]`, `boundaries[2]:boundaries[3]`, ...

    Parameters
    ----------
    chars : Chars
    unicode : str, optional
        The version of Unicode of the set's properties. The default is the version of the `regex` package.

    Raises
    ------
    PatternError
        If the version is not available.
    """
    if len(chars.source) == 1 and chars.source != "." and not chars.ignore_case:
        point = ord(chars.source)
        return np.array([point, point + 1], np.int64)
    if unicode is None:
        starts = None if chars.ignore_case else _constant_intervals(chars.source)
        if starts is not None:
            ends = np.append(starts, CODE_POINTS)
            return ends[_runs(chars.source, chars.operations, as_text(starts))]
        return _runs(f"(?i:{chars.source})" if chars.ignore_case else chars.source, chars.operations, _every_character())
    boundaries = set_boundaries(chars, None)  # the same arguments as in `partition`, for the cache
    for points, representative in differing(unicode):
        now = np.searchsorted(boundaries, points, side="right") & 1
        then = np.zeros(points.size, now.dtype)
        for start, end in _runs(_source_for(chars, representative), chars.operations, as_text(points)).reshape(-1, 2).tolist():
            then[start:end] = 1
        moved = points[now != then]
        # To flip a code point, add its two boundaries, or remove one that is already present.
        boundaries = np.setxor1d(boundaries, np.setxor1d(moved, moved + 1, assume_unique=True), assume_unique=True)
    return boundaries


def members(chars: Chars, unicode: str | None = None) -> Array:
    """Return True for each code point that a set contains: bool [0x110000]."""
    changes = np.zeros(CODE_POINTS + 1, np.bool_)
    changes[set_boundaries(chars, unicode)] = True
    inside: Array = np.logical_xor.accumulate(changes)[:-1]
    return inside


def written_ranges(inside: Array, written: Callable[[int], str]) -> str:
    """Return the source of a set with these code points, each as `written` gives it, without brackets: bool [0x110000]."""
    boundaries = np.flatnonzero(np.diff(inside, prepend=False, append=False)).tolist()
    return "".join(
        written(start) if end == start + 1 else f"{written(start)}-{written(end - 1)}"
        for start, end in zip(boundaries[::2], boundaries[1::2], strict=True)
    )


def _constant_intervals(source: str) -> Array | None:
    """Return the starts of intervals in which a set contains all code points or none, or None if it has few elements.

    The `regex` package compares each character with the elements one after the other. A set that is read from another tool
    may list 700 ranges, and took 2.1 s for all code points; one code point of each interval takes 0.02 s. A property of a
    short set is compared as fast as its intervals are found.
    """
    elements = list(dict.fromkeys(ELEMENT.findall(source)))
    if "[:" in source or (len(elements) < 100 and any(element[:2] in _PROPERTIES for element in elements)):
        return None
    starts = [np.arange(128)]  # also for the escapes of ASCII characters
    for element in elements:
        digits = element[2:]
        if element[0] != "\\":
            starts.append(ord(element) + np.arange(2))
        elif element[1] in "xuU":
            starts.append(int(digits, 16) + np.arange(2))
        elif element[1] in "pPsSdDwW":
            starts.append(set_boundaries(Chars(element), None))
        elif element[1].isalnum() and element[1] not in "tnrfva":
            return None
        else:
            starts.append(ord(element[1]) + np.arange(2))
    found = distinct(np.concatenate(starts))
    return found[found < CODE_POINTS]


def _runs(one: str, operations: bool, text: str) -> Array:
    """Return the boundaries of the runs of characters of a set in a text."""
    runs = [found.span() for found in regex.finditer(f"(?V1){one}+" if operations else f"(?:{one})+", text)]
    return np.array(runs, np.int64).reshape(-1)


def _source_for(chars: Chars, representative: int) -> str:
    """Return the set with each property replaced by its value for one code point: all characters, or none.

    Characters that the set names explicitly stay. The result applies to non-ASCII characters with the same properties as the
    code point; none of them has case variants.
    """

    def settled(escape: re.Match[str]) -> str:
        text = escape[0]
        if text[1] not in "pPsSdDwW":
            return text
        one = f"(?i:{text})" if chars.ignore_case else text
        # Not a property and its negation: `regex` treats `[^\p{L}\P{L}]` as a non-empty set.
        return r"\p{Any}" if regex.fullmatch(one, chr(representative)) else r"\p{Zl}"

    return ESCAPE.sub(settled, chars.source)


@dataclass(frozen=True)
class Classes:
    """The equivalence classes of some sets.

    Parameters
    ----------
    n : int
        The number of classes. They are numbered 1..n, in order of their first code point.
    class_of : uint8 [0x110000]
        The class of each code point.
    masks : dict
        The classes of each set as a bit mask: bit k is class k.
    """

    n: int
    class_of: Array
    masks: dict[Chars, int]

    @property
    def everything(self) -> int:
        """The mask of all classes except the end of the text."""
        return (1 << (self.n + 1)) - 2


def partition(sets: Iterable[Chars], unicode: str | None = None) -> Classes:
    """Return the coarsest classes such that each set is a union of some.

    Raises
    ------
    OutsideDialectError
        If there are more than 255.
    """
    wanted = list(dict.fromkeys(sets))
    boundaries = {chars: set_boundaries(chars, unicode) for chars in wanted}
    _every_character.cache_clear()  # four megabytes
    # Between two adjacent boundaries nothing changes, so a few thousand intervals are classified instead of all code points.
    starts = distinct(np.concatenate([np.array([0]), *boundaries.values()]))
    starts = starts[starts < CODE_POINTS]
    inside = np.zeros((starts.size, len(wanted)), np.uint8)
    for column, chars in enumerate(wanted):
        inside[:, column] = np.searchsorted(boundaries[chars], starts, side="right") & 1
    numbers: dict[bytes, int] = {}
    class_of_interval = [numbers.setdefault(row.tobytes(), len(numbers) + 1) for row in inside]
    if len(numbers) > MAX_CLASSES:
        raise OutsideDialectError(
            f"its sets make {len(numbers)} classes of characters, and an automaton has at most {MAX_CLASSES}",
            "use fewer different characters and sets",
        )

    masks = {chars: sum(1 << number for row, number in numbers.items() if row[column]) for column, chars in enumerate(wanted)}
    lengths = np.diff(np.append(starts, CODE_POINTS))
    return Classes(len(numbers), np.repeat(np.array(class_of_interval, np.uint8), lengths), masks)


_CLASS = re.compile(r"\[\^|(?:\[.*)?\\[pPsSdDwW]", re.DOTALL)
"""The beginning of a class, of a set with one, or of a negated set: for all others, the two rules agree."""

_NEGATED_CLASS = re.compile(r"\[?\\(?:[PSDW]|p\{\^)")

_OTHER = "\uffff"
"""A character without case variants, and not in any class of letters."""


def check_ignored_case(tree: Node) -> None:
    """Refuse a tree if the sets that the `regex` package makes of its classes match other characters.

    Raises
    ------
    OutsideDialectError
        With the class as its node.
    """
    sets = dict.fromkeys(sets_of(tree))
    if len(sets) < 2 or not any(chars.ignore_case for chars in sets):
        return
    merged = _merged_alternatives(tree)
    for chars in sets:
        pattern = _CLASS if chars.ignore_case else _NEGATED_CLASS
        if chars.operations or not pattern.match(chars.source):
            continue
        alone = members(chars)
        in_set = members(replace(chars, source=f"{chars.source}|{_OTHER}", ignore_case=True))
        alone[ord(_OTHER)] = in_set[ord(_OTHER)] = False
        if (alone & ~in_set).any() or (chars in merged and (in_set & ~alone).any()):
            raise OutsideDialectError(
                f"the package matches other characters by the class `{chars.source}` beside other alternatives where "
                "case is ignored",
                r"put alternatives of one character into a set, as in `(?i:[q\p{Lu}])` for `(?i:q|\p{Lu})`",
                chars,
            )


def _merged_alternatives(node: Node) -> set[Chars]:
    """Return the sets that end alternatives, of which other ones of this length may differ in the last character alone."""
    match node:
        case Repeat(body):
            return _merged_alternatives(body)
        case Sequence(parts):
            return {chars for part in parts for chars in _merged_alternatives(part)}
        case Choice(options):
            found = {chars for option in options for chars in _merged_alternatives(option)}
            alternatives = [items for items in _alternatives(node) if items]
            lengths = Counter(map(len, alternatives))
            return found | {items[-1] for items in alternatives if lengths[len(items)] > 1 and isinstance(items[-1], Chars)}
        case _:
            return set()


def _alternatives(node: Node) -> list[tuple[Node, ...]]:
    """Return the items of each alternative, with alternatives in groups among them."""
    items = _items(node)
    if len(items) == 1 and isinstance(items[0], Choice):
        return [found for option in items[0].options for found in _alternatives(option)]
    return [items]


def _items(node: Node) -> tuple[Node, ...]:
    """Return the items of a node, with those in groups among them."""
    match node:
        case Sequence(parts):
            return tuple(item for part in parts for item in _items(part))
        case Repeat(body, 1, 1):
            return _items(body)
        case _:
            return (node,)


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
