r"""The dialect of split patterns: source text to a syntax tree.

Accepted are literals, escapes, `.`, sets, `\p{..}`, the classes `\s \S \d \D \w \W`, groups `(?:..)`, `(?i:..)`, `(..)`, a
leading `(?i)`, alternation, the quantifiers `? * + {m,n}` in greedy, lazy and possessive form, `(?=X)` and `(?!X)` of one
character, and the end of the text, written `$`, `\Z` or `\z`. Whatever else the `regex` package knows is outside the
dialect: `parse` says so with a reason, and the pattern runs through that package instead.

What a set contains is not decided here: its source is handed to the `regex` package (see `classes`), so the two agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple


class OutsideDialectError(Exception):
    """A valid pattern that cannot become an automaton; the message is the reason."""


@dataclass(frozen=True)
class Chars:
    """One character out of a set, given by its source: a literal, an escape, or a bracketed set."""

    source: str
    ignore_case: bool = False


@dataclass(frozen=True)
class Sequence:
    """Items one after the other; none at all matches the empty string."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives in order of preference."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """`low` to `high` (or any number of) copies of a node."""

    body: Node
    low: int
    high: int | None
    mode: Literal["greedy", "lazy", "possessive"]


@dataclass(frozen=True)
class Look:
    """The next character is in a set (or, negated, is not: another character, or the end of the text)."""

    chars: Chars
    negated: bool


@dataclass(frozen=True)
class End:
    """The end of the text."""


Node = Chars | Sequence | Choice | Repeat | Look | End


class Mark(NamedTuple):
    """A piece of the source that another tool may read differently (see `translate`)."""

    start: int
    end: int
    piece: Node | str
    """A node of the tree, or the text itself: `|`, or what opens a group."""


_QUANTIFIER = re.compile(r"([?*+]|\{(\d*)(,?)(\d*)\})([?+]?)")
_PROPERTY = re.compile(r"\\[pP](?:[A-Za-z]|\{\^?[\w\s=:&.-]+\})")
_CODE_POINT = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_SET_OPERATOR = re.compile(r"&&|--|\|\||~~")
_CLASS_LETTERS = "sSdDwW"
_CONTROL_LETTERS = "tnrfva"


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.marks: list[Mark] = []

    def mark(self, start: int, piece: Node | str) -> None:
        self.marks.append(Mark(start, self.at, piece))

    def looking_at(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        found = self.looking_at(text)
        if found:
            self.at += len(text)
        return found

    def outside(self, what: str) -> OutsideDialectError:
        return OutsideDialectError(f"it has {what} at character {self.at}, which is outside the dialect")

    def choice(self, ignore_case: bool) -> Node:
        options = [self.sequence(ignore_case)]
        while self.accept("|"):
            self.mark(self.at - 1, "|")
            options.append(self.sequence(ignore_case))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, ignore_case: bool) -> Node:
        items: list[Node] = []
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            items.append(self.quantified(self.item(ignore_case)))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def quantified(self, node: Node) -> Node:
        found = _QUANTIFIER.match(self.source, self.at)
        if not found:
            if self.looking_at("{"):
                raise self.outside("`{` that is not a quantifier")
            return node
        sign, first, comma, second, suffix = found.groups()
        low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}.get(sign, (0, None))
        if sign[0] == "{":
            if not (first or second):
                raise self.outside(f"`{sign}`")
            low = int(first or 0)
            high = int(second) if second else (None if comma else low)
        if isinstance(node, Look | End):
            raise self.outside("a repeated condition")
        self.at = found.end()
        if self.at < len(self.source) and self.source[self.at] in "?*+{":
            raise self.outside("a quantifier after a quantifier")
        mode: Literal["greedy", "lazy", "possessive"] = {"?": "lazy", "+": "possessive"}.get(suffix, "greedy")  # type: ignore[assignment]
        repeat = Repeat(node, low, high, mode)
        self.mark(found.start(), repeat)
        return repeat

    def item(self, ignore_case: bool) -> Node:
        if self.looking_at("("):
            return self.group(ignore_case)
        start = self.at
        if self.accept("$") or self.accept("\\Z") or self.accept("\\z"):
            self.mark(start, End())
            return End()
        if self.looking_at("["):
            self.bracketed()
        elif self.looking_at("\\"):
            self.escape()
        elif self.source[start] in "^?*+{}]":
            raise self.outside(f"`{self.source[start]}`")
        else:
            self.at += 1
        chars = Chars(self.source[start : self.at], ignore_case)
        self.mark(start, chars)
        return chars

    def group(self, ignore_case: bool) -> Node:
        for opening, negated in (("(?=", False), ("(?!", True)):
            if self.looking_at(opening):
                start = self.at
                self.at += len(opening)
                inner = self.choice(ignore_case)
                if not isinstance(inner, Chars):
                    self.at = start
                    raise self.outside("a look ahead at more than one character")
                self.close()
                return Look(inner, negated)
        start = self.at
        if self.accept("(?i:"):
            ignore_case = True
            self.mark(start, "(?i:")
        elif self.accept("(?-i:"):
            ignore_case = False
            self.mark(start, "(?-i:")
        elif not self.accept("(?:"):
            if self.looking_at("(?") or self.looking_at("(*"):
                raise self.outside(f"the group `{self.source[self.at : self.at + 4]}`")
            self.at += 1
        inner = self.choice(ignore_case)
        self.close()
        return inner

    def close(self) -> None:
        if not self.accept(")"):
            raise self.outside("a missing `)`")

    def escape(self) -> None:
        """Step over one escape that stands for a character or a set of characters."""
        for known in (_PROPERTY, _CODE_POINT):
            found = known.match(self.source, self.at)
            if found:
                self.at = found.end()
                return
        letter = self.source[self.at + 1 : self.at + 2]
        if not letter or (letter.isalnum() and letter not in _CLASS_LETTERS + _CONTROL_LETTERS):
            raise self.outside(f"`\\{letter}`")
        self.at += 2

    def bracketed(self) -> None:
        """Step over one set in brackets."""
        self.at += 1
        self.accept("^")
        if self.looking_at("]"):
            raise self.outside("a set that begins with `]`")
        while not self.accept("]"):
            if self.at >= len(self.source):
                raise self.outside("a missing `]`")
            if self.looking_at("["):
                raise self.outside("a set within a set")
            if _SET_OPERATOR.match(self.source, self.at):
                raise self.outside("an operation on sets")
            if self.looking_at("\\"):
                self.escape()
            else:
                self.at += 1


def parse(source: str) -> Node:
    """Return the syntax tree of a pattern.

    Parameters
    ----------
    source : str
        A pattern that the `regex` package compiles; others are not told from those outside the dialect.

    Raises
    ------
    OutsideDialectError
        If the pattern uses what the dialect has not.
    """
    return parse_with_marks(source)[0]


def parse_with_marks(source: str) -> tuple[Node, list[Mark]]:
    """Return the syntax tree of a pattern, and the pieces of its source that a translator must look at, in order."""
    parser = _Parser(source)
    ignore_case = parser.accept("(?i)")
    if ignore_case:
        parser.mark(0, "(?i)")
    try:
        node = parser.choice(ignore_case)
    except RecursionError:
        raise OutsideDialectError("its groups are nested too deep") from None
    if parser.at < len(source):
        raise parser.outside("an unmatched `)`")
    return node, sorted(parser.marks, key=lambda mark: mark.start)
