"""Extend a DFA that leaves some text unmatched, so that it matches every text.

A gap is a maximal run of text that no match covers, and it is one pre-token. It can be seen as the match of an additional last
alternative: one or more characters at which no match of the pattern begins. Whether a match begins at a character may depend on
the text after it. The alternative can be built into the DFA if the next character decides, as in all published patterns.

Two kinds of states are added, each for the class of the last character that was read:

- *undecided*: the run began at this character, which may begin a match or a gap;
- *gap*: the run is a gap that includes the text before this character, and ends there if a match begins at this character.
"""

from __future__ import annotations

import numpy as np

from bpejit.splitting.character_classes import END_CLASS
from bpejit.splitting.dfa import DEAD, Dfa


class UndecidedGapError(Exception):
    """More than the next character is needed to know whether a match begins."""


def fill_gaps(dfa: Dfa) -> Dfa:
    """Return a DFA that matches every text; this is `dfa` itself if it already does.

    Raises
    ------
    UndecidedGapError
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
        raise UndecidedGapError
    states = len(dfa.moves)
    undecided = np.full(begins.size, DEAD, dtype=np.int64)
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


def _certain(dfa: Dfa) -> np.ndarray:
    """Return the states from which a match will be found in every text: bool [states]."""
    dead = dfa.moves == DEAD
    certain = np.ones(len(dfa.moves), dtype=np.bool_)
    while True:
        still = (dfa.accepts | (~dead & certain[dfa.moves])).all(axis=1)
        if (still == certain).all():
            return certain
        certain = still
