r"""Find the classes of a pattern that the `regex` package matches differently by themselves and as parts of a set.

Where case is ignored, a class in a set matches a character if any case variant of it matches: `(?i:[q\p{Lu}])` does not match
U+0138, a small letter without a capital. By itself, `(?i:\p{Lu})` matches every letter that has case. The package makes sets
in two cases in which the pattern has none:

- Adjacent alternatives that are one character, also after a common beginning has been moved out of all alternatives.
- The characters that a match can begin with, for the search. If one of them ignores case, all of them do.

The automaton has no such rules, so a pattern for which they make a difference runs through the package.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np

from bpejit.arrays import Array
from bpejit.splitting.character_classes import CODE_POINTS, set_boundaries
from bpejit.splitting.regex_syntax import Chars, Choice, Node, OutsideDialectError, Repeat, Sequence, sets_of

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
        alone = _members(chars)
        in_set = _members(replace(chars, source=f"{chars.source}|{_OTHER}", ignore_case=True))
        if (alone & ~in_set).any() or (chars in merged and (in_set & ~alone).any()):
            raise OutsideDialectError(
                f"the package matches other characters by the class `{chars.source}` beside other alternatives where "
                "case is ignored",
                r"put alternatives of one character into a set, as in `(?i:[q\p{Lu}])` for `(?i:q|\p{Lu})`",
                chars,
            )


def _members(chars: Chars) -> Array:
    """Return True for each code point that a set matches, without regard to `_OTHER`: bool [0x110000]."""
    boundaries = set_boundaries(chars)
    changes = np.zeros(CODE_POINTS + 1, dtype=np.int8)
    changes[boundaries[::2]] += 1
    changes[boundaries[1::2]] -= 1
    members = np.cumsum(changes[:-1], dtype=np.int8).astype(np.bool_)
    members[ord(_OTHER)] = False
    return members


def _merged_alternatives(node: Node) -> set[Chars]:
    """Return the sets that are adjacent alternatives of one character, possibly after a common beginning."""
    match node:
        case Repeat(body):
            return _merged_alternatives(body)
        case Sequence(parts):
            return {chars for part in parts for chars in _merged_alternatives(part)}
        case Choice(options):
            found = {chars for option in options for chars in _merged_alternatives(option)}
            ends = [(len(items), _one_character(items[-1])) for items in _alternatives(node) if items]
            for (length, one), (next_length, other) in itertools.pairwise(ends):
                if length == next_length and one and other:
                    found |= {*one, *other}
            return found
        case _:
            return set()


def _one_character(node: Node) -> list[Chars]:
    """Return the sets of a node that is one character, and none for another node."""
    if isinstance(node, Chars):
        return [node]
    found = _alternatives(node) if isinstance(node, Choice) else [()]
    return [one for items in found for one in items if isinstance(one, Chars)] if {*map(len, found)} == {1} else []


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
