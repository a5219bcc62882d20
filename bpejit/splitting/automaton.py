r"""Syntax tree -> ordered NFA -> leftmost-first DFA.

A state of the DFA is the *ordered* list of NFA threads that are still in the race, best first. The list is cut at the
first thread that matches, because a worse one can never win any more: that gives the alternation order of a backtracking
engine, not the longest match. The threads wait *before* their conditions are looked at; when the class of the next
character is known (the end of the text is one more class) the conditions are decided, so `(?!\S)` and `$` cost nothing.
A transition therefore says two things: whether a match ends *before* the next character, and where to go with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.splitting.character_classes import END_CLASS, Classes, partition
from bpejit.splitting.regex_syntax import Chars, Choice, End, Look, Node, OutsideDialectError, Repeat, Sequence

MAX_INSTRUCTIONS = 20_000
MAX_STATES = 10_000
MAX_ENTRIES = 1 << 20

DEAD = -1
"""The state from which nothing can match any more."""

_END = 1 << END_CLASS


@dataclass(frozen=True)
class Dfa:
    """A leftmost-first DFA over classes; state 0 is the start, and no transition leads back to it.

    Parameters
    ----------
    classes : Classes
    accepts : bool [states, classes + 1]
        Whether a match ends before a character of this class (column 0: at the end of the text).
    moves : int64 [states, classes + 1]
        The next state, or DEAD.
    """

    classes: Classes
    accepts: Array
    moves: Array


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


def _nullable(node: Node) -> bool:
    """Whether the node can match without reading anything."""
    match node:
        case Chars():
            return False
        case Repeat():
            return node.low == 0 or _nullable(node.body)
        case Sequence(items):
            return all(_nullable(item) for item in items)
        case Choice(options):
            return any(_nullable(option) for option in options)
        case _:
            return True


class _Rest(NamedTuple):
    """What is known of the rest of the pattern, from some place on to its end."""

    may: int
    """Classes that the next character must be one of if the rest is to match; never too few."""
    always: bool
    """Whether it matches whatever comes; never said without proof."""


class _Instruction(NamedTuple):
    kind: str
    """`read` a character of `mask`; `look` at one; `split` to two places, the better first; `match`."""
    mask: int
    goto: int
    other: int


class _Builder:
    """Writes the instructions of the NFA from the end of the pattern to its start."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.program: list[_Instruction] = []

    def emit(self, kind: str, mask: int = 0, goto: int = -1, other: int = -1) -> int:
        if len(self.program) >= MAX_INSTRUCTIONS:
            raise OutsideDialectError("its repetitions are too large", "repeat less often, or use `+` for a large number")
        self.program.append(_Instruction(kind, mask, goto, other))
        return len(self.program) - 1

    def look_mask(self, node: Look) -> int:
        mask = self.classes.masks[node.chars]
        return (self.classes.everything | _END) & ~mask if node.negated else mask

    def before(self, node: Node, rest: _Rest) -> _Rest:
        """What is known of `node` followed by `rest`."""
        match node:
            case Chars():
                return _Rest(self.classes.masks[node], False)
            case Look():
                mask = self.look_mask(node)
                return _Rest(mask & rest.may, rest.always and mask == self.classes.everything | _END)
            case End():
                return _Rest(_END & rest.may, False)
            case Sequence(items):
                for item in reversed(items):
                    rest = self.before(item, rest)
                return rest
            case Choice(options):
                each = [self.before(option, rest) for option in options]
                may = 0
                for one in each:
                    may |= one.may
                return _Rest(may, any(one.always for one in each))
            case Repeat():
                first = self.before(node.body, self.within(node, rest))
                if node.low == 0:
                    return _Rest(first.may | rest.may, rest.always)
                return _Rest(first.may, first.always)

    def within(self, node: Repeat, rest: _Rest) -> _Rest:
        """What is known of what follows one copy of the body of `node`: another copy, or the rest."""
        always = rest.always and node.low <= 1
        may = rest.may
        while True:
            more = may | self.before(node.body, _Rest(may, False)).may
            if more == may:
                return _Rest(may, always)
            may = more

    def add(self, node: Node, goto: int, rest: _Rest) -> int:
        """Write the instructions of `node`, which go on to `goto`; return where they begin."""
        match node:
            case Chars():
                return self.emit("read", self.classes.masks[node], goto)
            case Look():
                return self.emit("look", self.look_mask(node), goto)
            case End():
                return self.emit("look", _END, goto)
            case Sequence(items):
                for item in reversed(items):
                    goto = self.add(item, goto, rest)
                    rest = self.before(item, rest)
                return goto
            case Choice(options):
                begin = self.add(options[-1], goto, rest)
                for option in reversed(options[:-1]):
                    begin = self.emit("split", goto=self.add(option, goto, rest), other=begin)
                return begin
            case Repeat():
                return self.add_repeat(node, goto, rest)

    def add_repeat(self, node: Repeat, goto: int, rest: _Rest) -> int:
        if _nullable(node.body) and node.high != 1:
            raise OutsideDialectError(
                "it repeats a part that can match nothing", "write `+` or `*` once, not within and behind a group", node
            )
        # Greedy gives characters back only if the rest fails, and that changes nothing where the rest cannot begin with a
        # character that is given back.
        if node.mode == "possessive" and not (
            rest.always or (isinstance(node.body, Chars) and not self.classes.masks[node.body] & rest.may)
        ):
            raise OutsideDialectError(
                "it has a possessive quantifier that may differ from the greedy one",
                "leave out the `+` behind the quantifier, or let what follows begin with other characters",
                node,
            )
        inner = self.within(node, rest)
        copies = node.low
        begin = goto
        if node.high is None:
            loop = self.emit("split")
            body = self.add(node.body, loop, inner)
            self.program[loop] = self.branch(node, body, goto)
            begin = loop
            if copies:
                begin = body
                copies -= 1
        else:
            for _ in range(node.high - node.low):
                choice = self.branch(node, self.add(node.body, begin, inner), goto)
                begin = self.emit(*choice)
        for _ in range(copies):
            begin = self.add(node.body, begin, inner)
        return begin

    def branch(self, node: Repeat, body: int, goto: int) -> _Instruction:
        better, worse = (goto, body) if node.mode == "lazy" else (body, goto)
        return _Instruction("split", 0, better, worse)


def _step(program: list[_Instruction], threads: tuple[int, ...], bit: int) -> tuple[bool, tuple[int, ...]]:
    """Return whether a match ends before a character of the class `bit`, and the better threads that read it."""
    readers: dict[int, None] = {}
    seen = set()
    waiting = list(reversed(threads))
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        kind, mask, goto, other = program[place]
        if kind == "match":
            return True, tuple(readers)
        if kind == "split":
            waiting += (other, goto)
        elif mask & bit:
            if kind == "look":
                waiting.append(goto)
            else:
                readers[goto] = None
    return False, tuple(readers)


def make_dfa(tree: Node, classes: Classes | None = None) -> Dfa:
    """Return the leftmost-first DFA of a pattern.

    Parameters
    ----------
    tree : Node
    classes : Classes, optional
        Classes that all sets of the tree are unions of; by default the coarsest.

    Raises
    ------
    OutsideDialectError
        If the pattern can match the empty string, if a possessive quantifier is not provably the same as the greedy one, or
        if the automaton would be too large.
    """
    classes = classes or partition(sets_of(tree))
    builder = _Builder(classes)
    match_at = builder.emit("match")
    body = builder.add(tree, match_at, _Rest(classes.everything | _END, True))
    # An instruction of its own for the start, so that no transition leads back to state 0.
    start = builder.emit("split", goto=body, other=body)
    numbers: dict[tuple[int, ...], int] = {(start,): 0}
    order = list(numbers)
    accepts: list[list[bool]] = []
    moves: list[list[int]] = []
    for threads in order:
        accept_row = []
        move_row = []
        for number in range(classes.n + 1):
            accepted, following = _step(builder.program, threads, 1 << number)
            if not following:
                target = DEAD
            else:
                target = numbers.setdefault(following, len(order))
                if target == len(order):
                    order.append(following)
            accept_row.append(accepted)
            move_row.append(target)
        accepts.append(accept_row)
        moves.append(move_row)
        if any(accepts[0]):
            raise OutsideDialectError("it can match the empty string", "let each alternative match a character, as `+` for `*`")
        if len(order) > MAX_STATES or len(order) * (classes.n + 1) > MAX_ENTRIES:
            raise OutsideDialectError(
                f"its automaton has more than {min(len(order), MAX_STATES)} states", "count less far, as `+` for `{1,100}`"
            )
    return Dfa(classes, np.array(accepts, dtype=np.bool_), np.array(moves, dtype=np.int64))


def safe_pairs(dfa: Dfa) -> Array:
    """Return the pairs of classes between which any text may be cut: bool [classes + 1, classes + 1].

    A pair (x, y) is safe if (1) no state that has read x can also read y, and (2) x alone, before y, is a match. Then by (1)
    no match goes on over the border between x and y, and none that is in progress there can read on; by (2) the
    character x is not left over, so the match that contains it ends exactly at the border. What comes after begins there
    as a text of its own would. The text before is finished by reading y, not by the end of the text.
    """
    size = dfa.classes.n + 1
    pairs = np.zeros((size, size), dtype=np.bool_)
    survives = dfa.moves != DEAD
    for x in range(1, size):
        after = distinct(dfa.moves[:, x])
        after = after[after != DEAD]
        alone = dfa.moves[0, x]
        if alone != DEAD:
            pairs[x] = dfa.accepts[alone] & ~survives[after].any(axis=0)
    pairs[:, END_CLASS] = False
    return pairs
