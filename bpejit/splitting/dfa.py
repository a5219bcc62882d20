r"""Build the leftmost-first DFA of a pattern by subset construction.

A state of the DFA is the *ordered* list of the NFA's threads, by decreasing priority. The list ends at the first thread that
matches, since threads of lower priority can no longer win. This yields the match of a backtracking engine, by order of the
alternatives, rather than the longest match.

Threads stop *before* their lookahead conditions. The conditions are evaluated when the class of the next character is known
(the end of the text is a class, too), so `(?!\S)` and `$` cost nothing. A transition therefore has two results: whether a match
ends *before* the next character, and the next state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.splitting.character_classes import END_CLASS, Classes, partition
from bpejit.splitting.ignored_case import check_ignored_case
from bpejit.splitting.nfa import Instruction, build_nfa
from bpejit.splitting.regex_syntax import Node, OutsideDialectError, sets_of

MAX_STATES = 10_000
MAX_ENTRIES = 1 << 20

DEAD = -1
"""The state from which no match is possible."""


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
    return Dfa(classes, np.array(accepts, dtype=np.bool_), np.array(moves, dtype=np.int64))


def safe_pairs_of_dfa(dfa: Dfa) -> Array:
    """Return the pairs of classes between which any text may be cut: bool [classes + 1, classes + 1].

    A pair (x, y) is safe if (1) no state that has read x can also read y, and (2) x alone, before y, is a match. By (1) no
    match contains both, and no match in progress can continue past x. By (2) the character x is not in a gap, so the match that
    contains it ends exactly between x and y. The text after the cut is split like a separate text. The text before the cut
    ends by reading y, not by reaching the end of the text.
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
