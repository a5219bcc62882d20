r"""Parse the dialect of split patterns.

The dialect has literals, escapes, `.`, sets, `\p{..}`, the classes `\s \S \d \D \w \W`, groups `(?:..)`, `(?i:..)`, `(..)`, a
leading `(?i)`, alternation, the quantifiers `? * + {m,n}` in greedy, lazy and possessive form, the lookaheads `(?=X)` and
`(?!X)` of one character, and the end of the text, written `$`, `\Z` or `\z`. Sets may contain sets, as in `[a-z&&[^aeiou]]` and
`[a-z--[aeiou]]`; this is the syntax of Rust and of version 1 of the `regex` package. Other features of that package are outside
the dialect. `parse` refuses them with a reason, and the pattern runs through the package instead.

Sets are not evaluated here. The `regex` package evaluates their source (see `character_classes`), so the two agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple


class OutsideDialectError(Exception):
    """A valid pattern that cannot become an automaton.

    Parameters
    ----------
    reason : str
        What is outside the dialect, and where.
    hint : str
        How to write it instead; empty if there is no advice.
    node : Node, optional
        The node that caused the error, if the reason lacks its position.
    """

    def __init__(self, reason: str, hint: str = "", node: Node | None = None) -> None:
        super().__init__(reason)
        self.hint = hint
        self.node = node


@dataclass(frozen=True)
class Chars:
    """One character of a set, given by its source: a literal, an escape, or a bracketed set."""

    source: str
    ignore_case: bool = False
    operations: bool = False
    """True for a set that contains sets or set operations."""


@dataclass(frozen=True)
class Sequence:
    """Items one after the other; an empty sequence matches the empty string."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives in order of preference."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A node repeated `low` to `high` times; without limit if `high` is None."""

    body: Node
    low: int
    high: int | None
    mode: Literal["greedy", "lazy", "possessive"]


@dataclass(frozen=True)
class Look:
    """A lookahead: the next character is in a set, or, if negated, it is not or the text ends."""

    chars: Chars
    negated: bool


@dataclass(frozen=True)
class End:
    """The end of the text."""


Node = Chars | Sequence | Choice | Repeat | Look | End


def sets_of(node: Node) -> list[Chars]:
    """Return the sets of a tree, in order of first use."""
    match node:
        case Chars():
            return [node]
        case Look():
            return [node.chars]
        case Repeat():
            return sets_of(node.body)
        case Sequence(parts) | Choice(parts):
            return [chars for part in parts for chars in sets_of(part)]
        case _:
            return []


class Mark(NamedTuple):
    """A part of the source that another tool may read differently (see `dialect_writer`)."""

    start: int
    end: int
    element: Node | str
    """A node of the tree, or the text itself: `|`, or the opening of a group."""


_QUANTIFIER = re.compile(r"([?*+]|\{(\d*)(,?)(\d*)\})([?+]?)")
_PROPERTY = re.compile(r"\\[pP](?:[A-Za-z]|\{\^?[\w\s=:&.-]+\})")
_CODE_POINT = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_SET_OPERATOR = re.compile(r"&&|--|\|\||~~")
_ANY_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_CLASS_LETTERS = "sSdDwW"
_CONTROL_LETTERS = "tnrfva"

_WRITE_GROUP = "write `(?:` instead"
_ADVICE = {
    "(?<=": "match the preceding text as a part of the piece, as in ` ?\\p{L}+` for `(?<= )\\p{L}+`",
    "(?<!": "match text that may precede as a part of the piece, as in ` ?\\p{L}+` for `(?<! )\\p{L}+`",
    "(?>": "write `(?:` instead, which differs only if the group would have to backtrack",
    "(?#": "remove the comment",
    "(?P": _WRITE_GROUP,
    "(?<": _WRITE_GROUP,
    "(?|": _WRITE_GROUP,
    "(?R": "write out as many levels as are needed",
    "(?s": "write `[\\s\\S]` for a `.` that also matches line breaks",
    "(?m": "write `(?=[\\r\\n])` or `(?![^\\n])` for the end of a line",
    "(?x": "write the pattern without white space and comments",
    "(?V": "remove it: nested sets and set operations are supported without it",
    "(?i": "write `(?i)` at the very beginning, or `(?i:...)` around a part",
    "\\b": "use a lookahead, as in `(?!\\w)` for a `\\b` after a word",
    "\\B": "use a lookahead, as in `(?=\\w)` for a `\\B` within a word",
    "\\A": "remove it: each piece begins where the previous one ends",
    "\\G": "remove it: each piece begins where the previous one ends",
    "^": "remove it: each piece begins where the previous one ends; write `\\^` for the character",
    "\\R": "write `(?:\\r\\n|[\\n\\v\\f\\r\\x85\\u2028\\u2029])`",
    "\\h": "write `[ \\t]`",
    "\\X": "write `\\P{M}\\p{M}*` for a character with its marks",
    "\\K": "match the text before it as a separate piece, by another alternative",
    "\\N": "write the character itself, or its code point as `\\u....`",
}
"""Advice for features outside the dialect, by their prefix; the longest matching prefix applies."""


class Cursor:
    """A position in the source of a pattern."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0

    def looking_at(self, text: str) -> bool:
        """Return True if a text is at the position."""
        return self.source.startswith(text, self.at)

    def accept(self, text: str) -> bool:
        """Move behind a text if it is at the position, and return whether it is."""
        found = self.looking_at(text)
        if found:
            self.at += len(text)
        return found


class _Parser(Cursor):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.marks: list[Mark] = []

    def mark(self, start: int, element: Node | str) -> None:
        self.marks.append(Mark(start, self.at, element))

    def outside(self, what: str, hint: str = "") -> OutsideDialectError:
        if not hint:
            rest = self.source[self.at :]
            hint = next((_ADVICE[key] for key in sorted(_ADVICE, key=len, reverse=True) if rest.startswith(key)), "")
        return OutsideDialectError(f"it has {what} at character {self.at}, which is outside the dialect", hint)

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
                raise self.outside("`{` that is not a quantifier", "write `\\{` for the character")
            return node
        sign, first, comma, second, suffix = found.groups()
        low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}.get(sign, (0, None))
        if sign[0] == "{":
            if not (first or second):
                raise self.outside(f"`{sign}`", "give a count, as in `{1,3}`")
            low = int(first or 0)
            high = int(second) if second else (None if comma else low)
        if isinstance(node, Look | End):
            raise self.outside("a repeated condition", "remove the quantifier, which has no effect")
        self.at = found.end()
        if self.at < len(self.source) and self.source[self.at] in "?*+{":
            raise self.outside("a quantifier after a quantifier", "put the first into a group, as in `(?:a+)?`")
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
        operations = False
        if self.looking_at("["):
            operations = self.bracketed()
            if operations and ignore_case:
                self.at = start
                raise self.outside("a set operation that ignores case", "write out both cases, without `(?i)`")
        elif self.looking_at("\\"):
            self.escape()
        elif self.source[start] in "^?*+{}]":
            raise self.outside(
                f"`{self.source[start]}`", "" if self.source[start] == "^" else f"write `\\{self.source[start]}`"
            )
        else:
            self.at += 1
        chars = Chars(self.source[start : self.at], ignore_case, operations)
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
                    raise self.outside("a lookahead of more than one character", self.shorter_look(opening, inner))
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

    def shorter_look(self, opening: str, inner: Node) -> str:
        """Return the advice to look at the first character only."""
        first = inner.items[0] if isinstance(inner, Sequence) and inner.items else inner
        if isinstance(first, Repeat):
            first = first.body
        shown = first.source if isinstance(first, Chars) else r"\p{N}"
        return (
            f"look at one character, as in `{opening}{shown})`, or put several of one kind into a set, as in `{opening}[ab])`"
        )

    def close(self) -> None:
        if not self.accept(")"):
            raise self.outside("a missing `)`")

    def escape(self) -> None:
        """Parse an escape for a character or a set of characters."""
        for known in (_PROPERTY, _CODE_POINT):
            found = known.match(self.source, self.at)
            if found:
                self.at = found.end()
                return
        letter = self.source[self.at + 1 : self.at + 2]
        if not letter or (letter.isalnum() and letter not in _CLASS_LETTERS + _CONTROL_LETTERS):
            hint = "write out the repetitions, as in `(?:aa|bb)` for `([ab])\\1`" if letter in tuple("123456789") else ""
            raise self.outside(f"`\\{letter}`", hint)
        self.at += 2

    def bracketed(self) -> bool:
        """Parse a set in brackets; return True if it contains sets or set operations.

        Syntax that engines read differently is refused; Rust, Oniguruma and version 1 of the `regex` package agree on the rest.
        """
        self.at += 1
        self.accept("^")
        if self.looking_at("]"):
            raise self.outside("a set that begins with `]`", "write `\\]`")
        operator = ""
        members = 0  # of the current operand
        nested = dash = False
        while not self.looking_at("]"):
            if self.at >= len(self.source):
                raise self.outside("a missing `]`")
            if self.looking_at("[:"):
                raise self.outside("a POSIX class", "write a property, as in `\\p{L}` for `[:alpha:]`")
            found = _SET_OPERATOR.match(self.source, self.at)
            members += 1
            if found:
                if found[0] in ("||", "~~"):
                    raise self.outside(f"`{found[0]}` within a set", f"write `\\{found[0][0]}` for the character")
                if members == 1 or operator not in ("", found[0]):
                    what = "two kinds of set operations" if operator else f"`{found[0]}` with nothing before it"
                    raise self.outside(what, "put each operation into its own brackets, as in `[[a-z&&[^b]]--c]`")
                operator = found[0]
                members = 0
                self.at += 2
            elif self.looking_at("["):
                if dash:
                    raise self.outside("a set after a `-`", "write `\\-` for the character, and `--` for a set difference")
                nested = True
                self.bracketed()
            elif self.looking_at("\\"):
                self.escape()
            else:
                self.at += 1
            dash = members > 0 and self.source[self.at - 1] == "-" and self.source[self.at - 2] != "\\"
        if operator and not members:
            raise self.outside(f"`{operator}` with nothing after it", "write `\\&` or `\\-` for the character")
        self.at += 1
        return nested or bool(operator)


def parse(source: str) -> Node:
    """Return the syntax tree of a pattern.

    Parameters
    ----------
    source : str
        A pattern that the `regex` package compiles. Invalid patterns are not distinguished from those outside the dialect.

    Raises
    ------
    OutsideDialectError
        If the pattern is outside the dialect.
    """
    return parse_with_marks(source)[0]


def parse_with_marks(source: str) -> tuple[Node, list[Mark]]:
    """Return the syntax tree of a pattern, and the parts of its source that a translator must process, in order."""
    parser = _Parser(source)
    ignore_case = parser.accept("(?i)")
    if ignore_case:
        parser.mark(0, "(?i)")
    try:
        node = parser.choice(ignore_case)
    except RecursionError:
        raise OutsideDialectError("its groups are nested too deeply") from None
    if parser.at < len(source):
        raise parser.outside("an unmatched `)`")
    return node, sorted(parser.marks, key=lambda mark: mark.start)


def find_ends(source: str) -> tuple[list[tuple[int, int]], bool]:
    r"""Return the spans of `$` and `\z` that mean the end of the text, and True if there are set operations.

    The pattern may be outside the dialect; a set that cannot be parsed is then assumed to end at the first `]`.
    """
    ends = []
    operations = False
    parser = _Parser(source)
    while parser.at < len(source):
        start = parser.at
        if parser.looking_at("\\"):
            parser.at += 2
            if source[start : parser.at] == r"\z":
                ends.append((start, parser.at))
        elif parser.accept("$"):
            ends.append((start, parser.at))
        elif parser.looking_at("["):
            try:
                operations = parser.bracketed() or operations
            except OutsideDialectError:
                found = _ANY_SET.match(source, start)
                parser.at = found.end() if found else start + 1
        else:
            parser.at += 1
    return ends, operations
