r"""Build the ordered NFA of a pattern from its syntax tree, and the leftmost-first DFA of that by subset construction.

The NFA is a list of instructions, as in Thompson's construction and Pike's virtual machine. Alternatives are ordered: the first
target of a `split` has priority over the second, which is how a backtracking engine chooses among matches. A possessive
quantifier never backtracks, and an automaton cannot express that. It is accepted where it is provably equal to the greedy
quantifier; `Rest` holds the facts for this proof.

A state of the DFA is the *ordered* list of the NFA's threads, by decreasing priority. The list ends at the first thread that
matches, since threads of lower priority can no longer win. This yields the match of a backtracking engine, by order of the
alternatives, rather than the longest match.

Threads stop *before* their lookahead conditions. The conditions are evaluated when the class of the next character is known
(the end of the text is a class, too), so `(?!\S)` and `$` cost nothing. A transition therefore has two results: whether a match
ends *before* the next character, and the next state.

**Gaps.** A DFA that leaves some text unmatched is extended to match every text (`fill_gaps`). A gap is a maximal run of text
that no match covers, and it is one pre-token. It can be seen as the match of an additional last alternative: one or more
characters at which no match of the pattern begins. Whether a match begins at a character may depend on the text after it. The
alternative can be built into the DFA if the next character decides, as in all published patterns. Two kinds of states are
added, each for the class of the last character that was read:

- *undecided*: the run began at this character, which may begin a match or a gap;
- *gap*: the run is a gap that includes the text before this character, and ends there if a match begins at this character.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.splitting.character_classes import END_CLASS, Classes, check_ignored_case, partition
from bpejit.splitting.regex_syntax import Chars, Choice, End, Look, Node, OutsideDialectError, Repeat, Sequence, sets_of

MAX_INSTRUCTIONS = 20_000
MAX_STATES = 10_000
MAX_ENTRIES = 1 << 20

DEAD = -1
"""The state from which no match is possible."""


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


@dataclass(frozen=True)
class Dfa:
    """A leftmost-first DFA over character classes.

    State 0 is the initial state, and no transition leads back to it.

    Parameters
    ----------
    classes : Classes
    accepts : bool [states, classes + 1]
        True if a match ends before a character of this class (column 0: at the end of the text).
    moves : int64 [states, classes + 1]
        The next state, or DEAD.
    """

    classes: Classes
    accepts: Array
    moves: Array


def _step(program: list[Instruction], threads: tuple[int, ...], bit: int) -> tuple[bool, tuple[int, ...]]:
    """Return whether a match ends before a character of the class `bit`, and the threads of higher priority that read it."""
    readers: dict[int, None] = {}
    seen = set()
    waiting = list(reversed(threads))
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        kind, mask, goto, other = program[at]
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
        Classes such that each set of the tree is a union of some; the coarsest by default.

    Raises
    ------
    OutsideDialectError
        If the pattern can match the empty string, a possessive quantifier is not provably equal to the greedy one, or the
        automaton would be too large.
    """
    check_ignored_case(tree)
    classes = classes or partition(sets_of(tree))
    program, start = build_nfa(tree, classes)
    numbers: dict[tuple[int, ...], int] = {(start,): 0}
    order = list(numbers)
    accepts: list[list[bool]] = []
    moves: list[list[int]] = []
    for threads in order:
        accept_row = []
        move_row = []
        for number in range(classes.n + 1):
            accepted, following = _step(program, threads, 1 << number)
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
            raise OutsideDialectError(
                "it can match the empty string", "let each alternative match at least one character, as with `+` for `*`"
            )
        if len(order) > MAX_STATES or len(order) * (classes.n + 1) > MAX_ENTRIES:
            raise OutsideDialectError(
                f"its automaton has more than {min(len(order), MAX_STATES)} states",
                "use smaller counts, or `+` for a large one such as `{1,100}`",
            )
    return Dfa(classes, np.array(accepts, np.bool_), np.array(moves, np.int64))


def safe_pairs_of_dfa(dfa: Dfa) -> Array:
    """Return the pairs of classes between which any text may be cut: bool [classes + 1, classes + 1].

    A pair (x, y) is safe if (1) no state that has read x can also read y, and (2) x alone, before y, is a match. By (1) no
    match contains both, and no match in progress can continue past x. By (2) the character x is not in a gap, so the match that
    contains it ends exactly between x and y. The text after the cut is split like a separate text. The text before the cut
    ends by reading y, not by reaching the end of the text.
    """
    size = dfa.classes.n + 1
    pairs = np.zeros((size, size), np.bool_)
    survives = dfa.moves != DEAD
    for x in range(1, size):
        after = distinct(dfa.moves[:, x])
        after = after[after != DEAD]
        alone = dfa.moves[0, x]
        if alone != DEAD:
            pairs[x] = dfa.accepts[alone] & ~survives[after].any(axis=0)
    pairs[:, END_CLASS] = False
    return pairs


class NoTransducerError(Exception):
    """The pattern has no transducer; the message is the reason.

    Parameters
    ----------
    reason : str
    hint : str
        What may help; empty if it is what helps most patterns.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def leaves_gaps(dfa: Dfa) -> bool:
    """Return True unless a match is proven to begin with each character of every text."""
    first = dfa.moves[0, 1:]
    return bool((first == DEAD).any() or not _certain(dfa)[first].all())


def fill_gaps(dfa: Dfa) -> Dfa:
    """Return a DFA that matches every text; this is `dfa` itself if it already does.

    Raises
    ------
    NoTransducerError
        If two characters do not decide whether a match begins at the first of them.
    """
    dead = dfa.moves == DEAD
    certain = _certain(dfa)
    first = dfa.moves[0]
    begins = ~dead[0] & certain[first]
    begins[END_CLASS] = True  # no character is left for a gap
    if begins.all():
        return dfa
    # matches[x, y]: a match begins at a character of class x if one of class y follows.
    classes = np.flatnonzero(~begins)
    matches = dfa.accepts[first[classes]] | (~dead[first[classes]] & certain[dfa.moves[first[classes]]])
    too_late = ~matches & ~dead[first[classes]]
    matches[dead[0][classes]] = False
    too_late[dead[0][classes]] = False
    if too_late.any():
        raise NoTransducerError(
            "some text is matched by no alternative, and it takes more than two characters to know which",
            "an alternative at its end that matches any character, such as `|[\\s\\S]`, may help",
        )
    states = len(dfa.moves)
    undecided = np.full(begins.size, DEAD, np.int64)
    undecided[classes] = states + np.arange(classes.size)
    gap = np.where(undecided == DEAD, DEAD, undecided + classes.size)

    moves = dfa.moves.copy()
    moves[0, classes] = undecided[classes]
    undecided_moves = np.where(matches, dfa.moves[first[classes]], gap)
    undecided_accepts = np.where(matches, dfa.accepts[first[classes]], True)
    gap_moves = np.where(matches, DEAD, gap)
    return Dfa(
        dfa.classes,
        np.concatenate([dfa.accepts, undecided_accepts, ~matches]),
        np.concatenate([moves, undecided_moves, gap_moves]),
    )


def _certain(dfa: Dfa) -> Array:
    """Return the states from which a match will be found in every text: bool [states]."""
    dead = dfa.moves == DEAD
    certain = np.ones(len(dfa.moves), np.bool_)
    while True:
        still = (dfa.accepts | (~dead & certain[dfa.moves])).all(axis=1)
        if (still == certain).all():
            return certain
        certain = still
