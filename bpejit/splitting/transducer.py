"""Turn a DFA into a streaming transducer.

The usual way to split with a DFA is to remember the last accepting position, continue until the DFA is dead, and restart at
that position. The transducer restarts *in advance*. Its state is a stack of levels; level k + 1 is a run of the DFA that
started at the last accepting position of level k.

- When level k accepts again, the levels above it are discarded, and one new level starts at this position.
- A dead level keeps its accepting position until it is the lowest level.
- When the lowest level is dead, its accepting position is final: it is emitted, and removed from the stack.
- No level is needed above a level that will accept before *every* next class, since its accepting position will be replaced.

So each character is read once, and the transducer never backtracks. Its memory is the accepting positions of all levels but the
highest: the pending ends. A step keeps the first `kept` of them, may append the current position, and emits the first `emitted`
of the result. The kernel stores the pending ends at the positions where the next emitted ends belong. A step is then one store,
`ends[n + kept] = position`, and one addition, `n += emitted`. (If the position is not appended, the store is after the pending
ends and is never read.)

**Sequences.** If several patterns are applied one after the other, a boundary of an earlier pattern is the end of the text for
the next one. Two patterns can be composed if the transducer of the first emits each boundary immediately, when it reads the
character after it. Patterns for runs of one kind of character do. A state of the composed transducer is a state of the first
and a stack of the second; one state of the first is enough for all levels, since its boundaries do not depend on the second
pattern. At a boundary of the first, the levels read the end of the text, which empties the stack, and the character starts a
new one. The result can be composed with the next pattern in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.kernels.constants import MAX_PENDING
from bpejit.splitting.character_classes import END_CLASS
from bpejit.splitting.dfa import DEAD, Dfa, NoTransducerError

MAX_STATES = 4096

_SPENT = -1
"""A dead level with an accepting position."""

_FAILED = -2
"""A dead level without an accepting position."""


_Levels = tuple[int, ...]
"""The state of the DFA in each level of a stack, from the lowest."""


class Transducer(NamedTuple):
    """A minimal transducer; state 0 is the start, and the end of the text leads back to it.

    Each array is [states, classes + 1]; column 0 is the end of the text.
    """

    moves: Array
    kept: Array
    emitted: Array


def emits_immediately(transducer: Transducer) -> bool:
    """Return True if each boundary is emitted when the character after it is read, so that another pattern can follow."""
    return not transducer.kept.any() and bool((transducer.emitted <= 1).all())


def _begin(dfa: Dfa, column: int) -> int:
    """Return the level that starts with a character of a class."""
    fresh = int(dfa.moves[0, column])
    return fresh if fresh != DEAD else _FAILED


def _read(dfa: Dfa, endless: Array, levels: _Levels, column: int) -> tuple[_Levels, int]:
    """Return the stack after a character, before emission, and the number of pending ends that it keeps."""
    after: list[int] = []
    for level, state in enumerate(levels):
        if state < 0:
            after.append(state)
            continue
        accepted = bool(dfa.accepts[state, column])
        following = int(dfa.moves[state, column])
        has_accept = accepted or level + 1 < len(levels)
        after.append(following if following != DEAD else _SPENT if has_accept else _FAILED)
        if following != DEAD and endless[following]:
            return tuple(after), level
        if accepted:
            if column != END_CLASS:
                after.append(_begin(dfa, column))
            return tuple(after), level
    return tuple(after), len(levels) - 1


def _emit(after: _Levels, *, ended: bool) -> tuple[_Levels, int]:
    """Return the stack without its finished levels, and the number of these; at the end of a text all must be finished."""
    emitted = 0
    while after and after[0] == _SPENT:
        after = after[1:]
        emitted += 1
    if after and (ended or after[0] == _FAILED):
        raise NoTransducerError("some text is matched by no alternative")
    if len(after) - 1 > MAX_PENDING:
        raise NoTransducerError(f"more than {MAX_PENDING} ends can be pending")
    return after, emitted


def make_transducer(dfa: Dfa, first: Transducer | None = None) -> Transducer:
    """Return the transducer of a DFA.

    Parameters
    ----------
    dfa : Dfa
    first : Transducer, optional
        The transducer of the patterns that are applied before, over the same classes. It must emit immediately.

    Raises
    ------
    NoTransducerError
        If some text is not matched, if more than MAX_PENDING ends can be pending, or if there are too many states.
    """
    endless: Array = np.asarray(dfa.accepts.all(axis=1))
    start: _Levels = (0,)
    numbers = {(0, start): 0}
    order = [(0, start)]
    size = dfa.classes.n + 1
    rows: list[list[tuple[int, int, int]]] = []
    for first_state, levels in order:
        row = []
        for column in range(size):
            if column == END_CLASS and levels == start:
                row.append((0, 0, 0))
                continue
            boundary = column != END_CLASS and first is not None and bool(first.emitted[first_state, column])
            after, kept = _read(dfa, endless, levels, END_CLASS if boundary else column)
            after, emitted = _emit(after, ended=boundary or column == END_CLASS)
            if boundary:
                after, _ = _emit((_begin(dfa, column),), ended=False)
            target_state = (0, start) if column == END_CLASS else (int(first.moves[first_state, column]) if first else 0, after)
            target = numbers.setdefault(target_state, len(order))
            if target == len(order):
                order.append(target_state)
                if len(order) > MAX_STATES:
                    raise NoTransducerError(f"the transducer has more than {MAX_STATES} states")
            row.append((target, kept, emitted))
        rows.append(row)
    table = np.array(rows, np.int64)
    return _minimize(Transducer(*np.moveaxis(table, 2, 0)))


def with_separator(transducer: Transducer) -> Transducer:
    """Return a transducer with one more class, a separator between texts.

    A separator ends the text before it and is a pre-token by itself, and the text after it is split like a separate text.

    The added state is the one after a separator. It equals the start, except that the next character, or the end of the text,
    also emits the end of the separator.
    """
    moves, kept, emitted = transducer
    state = len(moves)
    # At the start of a text nothing is pending, so its first character emits nothing.
    moves = np.concatenate([moves, moves[:1]])
    kept = np.concatenate([kept, np.zeros_like(kept[:1])])
    emitted = np.concatenate([emitted, np.ones_like(emitted[:1])])
    ends = np.s_[:, END_CLASS : END_CLASS + 1]
    return Transducer(
        np.concatenate([moves, np.full((state + 1, 1), state)], axis=1),
        np.concatenate([kept, kept[ends]], axis=1),
        np.concatenate([emitted, emitted[ends]], axis=1),
    )


def safe_pairs_of_transducer(transducer: Transducer) -> Array:
    """Return the pairs of classes between which any text may be cut: bool [classes + 1, classes + 1].

    A pair (x, y) is safe if *every* state that has read x puts a boundary exactly before y, and moves to the state that y
    leads to at the start of a text. Then the text after the cut is split like a separate text.
    """
    moves, kept, emitted = transducer
    # If the position is emitted, so are all ends that were pending before it.
    good = (moves == moves[0]) & (emitted == kept + 1)
    pairs = np.stack([good[distinct(moves[:, x])].all(axis=0) for x in range(moves.shape[1])])
    pairs[END_CLASS] = False
    pairs[:, END_CLASS] = False
    return pairs


def _minimize(transducer: Transducer) -> Transducer:
    """Merge equivalent states (Moore's algorithm); the blocks are numbered by their first state."""
    moves, kept, emitted = transducer
    signature = np.concatenate([kept, emitted], axis=1)
    n_blocks = 0
    while True:
        _, first, block = np.unique(signature, axis=0, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        block = rank[block.reshape(-1)]
        first = np.sort(first)
        if first.size == n_blocks:
            break
        n_blocks = first.size
        signature = np.concatenate([block[:, None], block[moves]], axis=1)
    return Transducer(block[moves[first]], kept[first], emitted[first])
