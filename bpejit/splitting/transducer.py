"""DFA -> streaming transducer.

The plain way to split with a DFA is to remember the last accept, go on until the DFA is dead, and begin anew at that
accept. The transducer does the beginning anew *ahead of time*: its state is a stack of levels, where level k + 1 is a
fresh run of the DFA begun at the last accept of level k.

- When level k accepts again, what the levels above it did was in vain: they are dropped, and one fresh level begins here.
- A level that is dead waits, with its accept, until it is the lowest.
- When the lowest level is dead its accept is certain: it is emitted, and the stack shifts down.
- Above a level that will accept before *every* next class no level is needed: its accept will be replaced.

So each character is read once, and no position is ever returned to. What has to be kept are the accepts of all levels but
the highest: the pending ends. A step keeps the first `kept` of them, may add the present position behind these, and emits
the first `emitted` of the result. The kernel lays the pending ends where the next emitted ends belong, so that a step is
one store, `ends[n + kept] = position`, and one addition, `n += emitted` (where the position is not added, it lies behind
the pending ends and is never looked at).

**Sequences.** Where text is split by several patterns one after the other, a border of an earlier one is the end of the text
for the next. If the earlier one knows each border when it reads the character behind it, as runs of one kind of characters
do, it can go along as a *gate*: its state belongs to the state of the transducer, once for all levels, since where it puts
borders does not depend on what the next pattern does. At its border the levels read the end of the text, which empties the
stack, and the character begins a new one. The result may again be a gate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array, distinct
from bpejit.kernels.constants import MAX_PENDING
from bpejit.splitting.automaton import DEAD, Dfa
from bpejit.splitting.character_classes import END_CLASS

MAX_STATES = 4096

_SPENT = -1
"""A level that is dead and has an accept."""

_FAILED = -2
"""A level that is dead and has none."""


class Transducer(NamedTuple):
    """A minimal transducer; state 0 is the start, and the end of the text leads back to it.

    Each array is [states, classes + 1]; column 0 is the end of the text.
    """

    moves: Array
    kept: Array
    emitted: Array


class NoTransducerError(Exception):
    """The pattern has no transducer; the message is the reason."""


def is_gate(transducer: Transducer) -> bool:
    """Whether each border is known when the character behind it is read, so that another pattern can follow."""
    return not transducer.kept.any() and bool((transducer.emitted <= 1).all())


def _begin(dfa: Dfa, column: int) -> int:
    """Return the level that begins with a character."""
    fresh = int(dfa.moves[0, column])
    return fresh if fresh != DEAD else _FAILED


def _read(dfa: Dfa, endless: Array, levels: tuple[int, ...], column: int) -> tuple[tuple[int, ...], int]:
    """Return the stack after a character, before emission, and how many of the pending ends it keeps."""
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


def _emit(after: tuple[int, ...], *, ended: bool) -> tuple[tuple[int, ...], int]:
    """Return the stack without the levels that are finished, and their number; at an end all of them must be."""
    emitted = 0
    while after and after[0] == _SPENT:
        after = after[1:]
        emitted += 1
    if after and (ended or after[0] == _FAILED):
        raise NoTransducerError("some text is matched by no alternative")
    if len(after) - 1 > MAX_PENDING:
        raise NoTransducerError(f"more than {MAX_PENDING} ends can be pending")
    return after, emitted


def make_transducer(dfa: Dfa, gate: Transducer | None = None) -> Transducer:
    """Return the transducer of a DFA.

    Parameters
    ----------
    dfa : Dfa
    gate : Transducer, optional
        That of the patterns that are applied before, over the same classes; `is_gate` is true of it.

    Raises
    ------
    NoTransducerError
        If some text is not matched, if more than MAX_PENDING ends can be pending, or if there are too many states.
    """
    endless: Array = np.asarray(dfa.accepts.all(axis=1))
    start: tuple[int, ...] = (0,)
    numbers = {(0, start): 0}
    order = [(0, start)]
    size = dfa.classes.n + 1
    rows: list[list[tuple[int, int, int]]] = []
    for gate_state, levels in order:
        row = []
        for column in range(size):
            if column == END_CLASS and levels == start:
                row.append((0, 0, 0))
                continue
            border = column != END_CLASS and gate is not None and bool(gate.emitted[gate_state, column])
            after, kept = _read(dfa, endless, levels, END_CLASS if border else column)
            after, emitted = _emit(after, ended=border or column == END_CLASS)
            if border:
                after, _ = _emit((_begin(dfa, column),), ended=False)
            target_state = (0, start) if column == END_CLASS else (int(gate.moves[gate_state, column]) if gate else 0, after)
            target = numbers.setdefault(target_state, len(order))
            if target == len(order):
                order.append(target_state)
                if len(order) > MAX_STATES:
                    raise NoTransducerError(f"the transducer has more than {MAX_STATES} states")
            row.append((target, kept, emitted))
        rows.append(row)
    table = np.array(rows, dtype=np.int64)
    return _minimise(Transducer(table[:, :, 0], table[:, :, 1], table[:, :, 2]))


def border_pairs(transducer: Transducer) -> Array:
    """Return the pairs of classes between which any text may be cut: bool [classes + 1, classes + 1].

    A pair (x, y) is one if *every* state that has read x puts a border exactly before y, and goes to the state to which y
    leads at the start of a text: then what comes behind the cut is split as a text of its own would be.
    """
    moves, kept, emitted = transducer
    # Where the position is emitted, so is all that was pending before it.
    good = (moves == moves[0]) & (emitted == kept + 1)
    pairs = np.stack([good[distinct(moves[:, x])].all(axis=0) for x in range(moves.shape[1])])
    pairs[END_CLASS] = False
    pairs[:, END_CLASS] = False
    return pairs


def _minimise(transducer: Transducer) -> Transducer:
    """Merge states that no text can tell apart (Moore's algorithm); the blocks are numbered by their first state."""
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
