"""Prove that two split patterns are equivalent, or find a text that they split differently.

Both patterns become transducers over the same classes, so two finite automata have to be compared. `find_difference` visits all
pairs of states that a text can lead to. Pending ends may be emitted later or never, and one transducer may emit an end later
than the other. So a configuration has the two states, the positions of the pending ends of each side, and the ends that only
one side has emitted so far. Positions are replaced by their order, so the number of configurations is finite. The patterns are
equivalent if no reachable configuration emits two different ends.
"""

from __future__ import annotations

from itertools import chain, zip_longest

import numpy as np

from bpejit.splitting.character_classes import END_CLASS, Classes, partition
from bpejit.splitting.dfa import fill_gaps, make_dfa
from bpejit.splitting.pattern_compiler import compose
from bpejit.splitting.presets import Pattern, pattern_source
from bpejit.splitting.regex_syntax import Node, parse_with_marks, sets_of
from bpejit.splitting.transducer import Transducer

MOST_CONFIGURATIONS = 500_000

Configuration = tuple[int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""States of both, pending positions of both, and the positions that only the first or only the second has emitted."""


def _trees(pattern: Pattern) -> list[Node]:
    source = pattern_source(pattern)
    return [parse_with_marks(stage)[0] for stage in ((source,) if isinstance(source, str) else source)]


def find_difference(first: Pattern, second: Pattern, *, unicode: str | None = None) -> str | None:
    """Return a shortest text that two patterns split differently, or None if there is none.

    Parameters
    ----------
    first, second : str or tuple of str
        Names of presets, regular expressions, or sequences, all of which must run as transducers.
    unicode : str, optional
        The version of Unicode that both follow.
    """
    trees = [_trees(first), _trees(second)]
    classes = partition((chars for side in trees for tree in side for chars in sets_of(tree)), unicode)
    one, two = (compose([fill_gaps(make_dfa(tree, classes)) for tree in side]) for side in trees)
    start: Configuration = (0, 0, (), (), (), ())
    came_from: dict[Configuration, tuple[Configuration, int] | None] = {start: None}
    order = [start]
    for now in order:
        # The end of the text is tried last, so that the text is a shortest one.
        for column in [*range(1, classes.n + 1), END_CLASS]:
            following = _follow(one, two, now, column)
            if following is None:
                return _text(classes, came_from, now, column)
            if column != END_CLASS and following not in came_from:
                came_from[following] = now, column
                order.append(following)
        assert len(order) < MOST_CONFIGURATIONS, "undecided"
    return None


def _follow(one: Transducer, two: Transducer, now: Configuration, column: int) -> Configuration | None:
    """Return the configuration after a character; None if the two sides have emitted different ends."""
    next_label = 1 + max((label for part in now[2:] for label in part), default=0)
    moves, pendings, waitings = [], [], []
    for transducer, state, pending, waiting in zip((one, two), now[:2], now[2:4], now[4:], strict=True):
        ends = [*pending[: transducer.kept[state, column]], next_label]
        emitted = int(transducer.emitted[state, column])
        moves.append(int(transducer.moves[state, column]))
        waitings.append([*waiting, *ends[:emitted]])
        pendings.append(ends[emitted:])
    common = [left for left, right in zip_longest(*waitings) if left is not None and right is not None]
    if common != waitings[0][: len(common)] or common != waitings[1][: len(common)]:
        return None
    waitings = [waiting[len(common) :] for waiting in waitings]
    if column == END_CLASS and any(waitings):
        return None
    labels = {label: number for number, label in enumerate(sorted({*chain(*pendings, *waitings)}), start=1)}
    pending_one, pending_two, waiting_one, waiting_two = (
        tuple(labels[label] for label in part) for part in (*pendings, *waitings)
    )
    return moves[0], moves[1], pending_one, pending_two, waiting_one, waiting_two


def _text(
    classes: Classes, came_from: dict[Configuration, tuple[Configuration, int] | None], now: Configuration, column: int
) -> str:
    columns = [column] if column != END_CLASS else []
    step = came_from[now]
    while step is not None:
        columns.append(step[1])
        step = came_from[step[0]]
    return "".join(chr(int(np.argmax(classes.class_of == number))) for number in reversed(columns))
