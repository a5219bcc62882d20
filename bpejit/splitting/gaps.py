"""A DFA that leaves some text unmatched -> one that matches every text, with the gaps as matches of their own.

What no match covers is a gap, and a gap, as long as it goes, is one pre-token. As a match it would be the last alternative:
characters at none of which the pattern matches, one or more, up to the next one at which it does. Whether it does may depend
on what follows; it can be built in wherever the character behind decides, as it does in all published patterns.

Two kinds of states are added, each for the class of the character that was read last:

- *doubtful*: the run began at this character, which may begin a match or a gap;
- *gap*: the gap goes on up to this character, at which it ends if a match begins there.
"""

from __future__ import annotations

import numpy as np

from bpejit.splitting.automaton import DEAD, Dfa
from bpejit.splitting.character_classes import END_CLASS


class UndecidedGapError(Exception):
    """It takes more than one character to know whether a match begins."""


def fill_gaps(dfa: Dfa) -> Dfa:
    """Return a DFA that matches every text; `dfa` itself if that does.

    Raises
    ------
    UndecidedGapError
        If two characters do not decide whether a match begins at the first of them.
    """
    dead = dfa.moves == DEAD
    certain = _certain(dfa)
    first = dfa.moves[0]
    begins = ~dead[0] & certain[first]
    begins[END_CLASS] = True  # there is no character for a gap
    if begins.all():
        return dfa
    # Whether a match begins at a character of the class x, if one of the class y follows; all True where x never begins one.
    classes = np.flatnonzero(~begins)
    matches = dfa.accepts[first[classes]] | (~dead[first[classes]] & certain[dfa.moves[first[classes]]])
    undecided = ~matches & ~dead[first[classes]]
    matches[dead[0][classes]] = False
    undecided[dead[0][classes]] = False
    if undecided.any():
        raise UndecidedGapError
    states = len(dfa.moves)
    doubtful = np.full(begins.size, DEAD, dtype=np.int64)
    doubtful[classes] = states + np.arange(classes.size)
    gap = np.where(doubtful == DEAD, DEAD, doubtful + classes.size)

    moves = dfa.moves.copy()
    moves[0, classes] = doubtful[classes]
    doubtful_moves = np.where(matches, dfa.moves[first[classes]], gap)
    doubtful_accepts = np.where(matches, dfa.accepts[first[classes]], True)
    gap_moves = np.where(matches, DEAD, gap)
    return Dfa(
        dfa.classes,
        np.concatenate([dfa.accepts, doubtful_accepts, ~matches]),
        np.concatenate([moves, doubtful_moves, gap_moves]),
    )


def _certain(dfa: Dfa) -> np.ndarray:
    """Whether a run that is in a state, and has no match yet, will have one whatever comes."""
    dead = dfa.moves == DEAD
    certain = np.ones(len(dfa.moves), dtype=np.bool_)
    while True:
        still = (dfa.accepts | (~dead & certain[dfa.moves])).all(axis=1)
        if (still == certain).all():
            return certain
        certain = still
