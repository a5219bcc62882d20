r"""Build the ordered NFA of a pattern from its syntax tree.

The NFA is a list of instructions, as in Thompson's construction and Pike's virtual machine. Alternatives are ordered: the first
target of a `split` has priority over the second, which is how a backtracking engine chooses among matches.

A possessive quantifier never backtracks, and an automaton cannot express that. It is accepted where it is provably equal to
the greedy quantifier; `Rest` holds the facts for this proof.
"""

from __future__ import annotations

from typing import NamedTuple

from bpejit.splitting.character_classes import END_CLASS, Classes
from bpejit.splitting.regex_syntax import Chars, Choice, End, Look, Node, OutsideDialectError, Repeat, Sequence

MAX_INSTRUCTIONS = 20_000

END_BIT = 1 << END_CLASS
"""The end of the text in a mask of classes."""


class Rest(NamedTuple):
    """What is known about the rest of a pattern, from some position to its end."""

    may: int
    """Mask of the classes with which a match of the rest may begin; a superset of the exact mask."""
    always: bool
    """True if the rest is proven to match in every text."""


class Instruction(NamedTuple):
    """An instruction of the NFA."""

    kind: str
    """`read` a character of `mask`; `look` at one; `split` into two threads, the preferred one first; `match`."""
    mask: int
    goto: int
    other: int


def build_nfa(tree: Node, classes: Classes) -> tuple[list[Instruction], int]:
    """Return the instructions of a pattern and the index of the first.

    Raises
    ------
    OutsideDialectError
        If a possessive quantifier is not provably equal to the greedy one, a group that can match the empty string is repeated,
        or there are more than MAX_INSTRUCTIONS instructions.
    """
    builder = _Builder(classes)
    match_at = builder.emit("match")
    body = builder.add(tree, match_at, Rest(classes.everything | END_BIT, True))
    # The start has its own instruction, so that no transition leads back to the initial state of the DFA.
    start = builder.emit("split", goto=body, other=body)
    return builder.program, start


def _nullable(node: Node) -> bool:
    """Return True if the node can match the empty string."""
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


class _Builder:
    """Writes the instructions of an NFA, from the end of the pattern to its start."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.program: list[Instruction] = []

    def emit(self, kind: str, mask: int = 0, goto: int = -1, other: int = -1) -> int:
        if len(self.program) >= MAX_INSTRUCTIONS:
            raise OutsideDialectError("its repetitions are too large", "use smaller counts, or `+` for a large one")
        self.program.append(Instruction(kind, mask, goto, other))
        return len(self.program) - 1

    def look_mask(self, node: Look) -> int:
        mask = self.classes.masks[node.chars]
        return (self.classes.everything | END_BIT) & ~mask if node.negated else mask

    def before(self, node: Node, rest: Rest) -> Rest:
        """Return what is known about `node` followed by `rest`."""
        match node:
            case Chars():
                return Rest(self.classes.masks[node], False)
            case Look():
                mask = self.look_mask(node)
                return Rest(mask & rest.may, rest.always and mask == self.classes.everything | END_BIT)
            case End():
                return Rest(END_BIT & rest.may, False)
            case Sequence(items):
                for item in reversed(items):
                    rest = self.before(item, rest)
                return rest
            case Choice(options):
                each = [self.before(option, rest) for option in options]
                may = 0
                for one in each:
                    may |= one.may
                return Rest(may, any(one.always for one in each))
            case Repeat():
                first = self.before(node.body, self.after_copy(node, rest))
                if node.low == 0:
                    return Rest(first.may | rest.may, rest.always)
                return Rest(first.may, first.always)

    def after_copy(self, node: Repeat, rest: Rest) -> Rest:
        """Return what is known about the text after one copy of the body of `node`: another copy, or the rest."""
        always = rest.always and node.low <= 1
        may = rest.may
        while True:
            more = may | self.before(node.body, Rest(may, False)).may
            if more == may:
                return Rest(may, always)
            may = more

    def add(self, node: Node, goto: int, rest: Rest) -> int:
        """Write the instructions of `node`, followed by those at `goto`; return the index of the first."""
        match node:
            case Chars():
                return self.emit("read", self.classes.masks[node], goto)
            case Look():
                return self.emit("look", self.look_mask(node), goto)
            case End():
                return self.emit("look", END_BIT, goto)
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

    def add_repeat(self, node: Repeat, goto: int, rest: Rest) -> int:
        if _nullable(node.body) and node.high != 1:
            raise OutsideDialectError(
                "it repeats a group that can match the empty string",
                "write `+` or `*` either inside or after the group, not both",
                node,
            )
        # A greedy quantifier backtracks only if the rest fails. That changes nothing if the rest cannot begin with a character
        # that backtracking releases.
        if node.mode == "possessive" and not (
            rest.always or (isinstance(node.body, Chars) and not self.classes.masks[node.body] & rest.may)
        ):
            raise OutsideDialectError(
                "it has a possessive quantifier that may differ from the greedy one",
                "remove the `+` after the quantifier, or let the text that follows begin with other characters",
                node,
            )
        inner = self.after_copy(node, rest)
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

    def branch(self, node: Repeat, body: int, goto: int) -> Instruction:
        better, worse = (goto, body) if node.mode == "lazy" else (body, goto)
        return Instruction("split", 0, better, worse)
