"""Transducer -> local rules: where pre-tokens end, as far as five neighbouring characters tell.

Most borders can be seen from the characters around them: behind a word comes a space. Such a rule is about a *context* of
five characters, three before the place and two behind it. For each context this module works out what the transducer does at
the place, whatever it has read before and whatever comes later:

- *cut*: it puts a border there, and what comes behind is split as a text of its own would be;
- *inside*: it puts no border there;
- *unknown*: neither is certain.

A processor with wide registers decides 64 places at a time (`lanes.match_contexts`), if the rules are *boxes*: a box is a set
of characters for each of the five places of a context, and holds the contexts whose characters are all in their sets. Eight
boxes fill a byte: for each place of a context there is a table from characters to the boxes that take it there, and a context
is in the boxes that all five tables agree on. So some boxes hold contexts that are cuts, others at least all that are unknown.
They are found greedily; where there would be too many, more becomes unknown, which costs time and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from bpejit.arrays import Array
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE
from bpejit.kernels.constants import MAX_PENDING
from bpejit.splitting.character_classes import END_CLASS
from bpejit.splitting.transducer import Transducer

_BOXES = 8
"""Boxes of one set of tables."""

_MOST_CUT_BOXES = 24
"""Boxes of cuts that are kept."""

_MOST_DOUBT_BOXES = 16
"""Boxes of what is unknown, after joining some."""

_MOST_STEPS = 1 << 22
"""For how many classes times states squared rules are made: with so many that takes a quarter of a second."""

_MOST_CONTEXTS = 1 << 21
"""For how many contexts of groups rules are made: with so many that takes two seconds."""

Box: TypeAlias = "list[Array]"
"""The characters of a box, bool [groups], for each place of a context."""

_UNKNOWN, _CUT, _INSIDE = range(3)

_COMMON = b" " * 40 + b"etaoinsrhldcumfpgwybvk" * 6 + b"\n.,\"'()_-=0123456789ETAOINSRH" * 2 + bytes(range(128))
"""How frequent characters are, roughly: which contexts matter."""

_BEGINNINGS = 0.02
"""The same for the beginning of the text, where rules are about classes."""

_LOSS = 2e-5
"""The share of contexts that may become unknown when two groups of characters are taken for one."""

# The slots of the pending ends, and two that an end may be in besides.
_EMITTED, _DROPPED = MAX_PENDING, MAX_PENDING + 1


_ORDERS = ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 3, 1, 4, 0), (3, 2, 4, 1, 0), (1, 2, 3, 0, 4), (2, 1, 0, 3, 4))
"""In which order the places of a box grow."""


def make_rules(transducer: Transducer, class_of: Array) -> tuple[Array, int]:
    """Return the tables of the boxes.

    Parameters
    ----------
    transducer : Transducer
    class_of : uint8 [0x110000]
        The class of each code point.

    Returns
    -------
    tables : uint8 [2 * sets * CONTEXT_SIZE * 128]
        Sets of tables. Each has for each place of a context and each ASCII character the boxes that take it there, as bits.
        Behind these come the same for classes of characters. Nothing if there are too many classes or contexts.
    cut_rules : int
        How many of the sets are about contexts that are cuts unless they are unknown. The others are about contexts that are
        unknown.
    """
    n_states, n_classes = transducer.moves.shape
    judged = judge_contexts(transducer) if n_classes <= 128 and n_classes * n_states**2 <= _MOST_STEPS else None
    if judged is None:
        return np.zeros(0, np.uint8), 0
    verdicts, groups = judged
    frequencies = _class_frequencies(class_of, n_classes)
    weights = [[np.bincount(group, weights=one) for group in groups] for one in frequencies]
    weight: Array = np.sum([functools.reduce(np.multiply.outer, one) for one in weights], axis=0)
    for place in range(CONTEXT_SIZE):
        verdicts, weight, group = _simplify(verdicts, weight, place)
        groups[place] = group[groups[place]]
    cuts, left = _cover(verdicts == _CUT, verdicts != _INSIDE, weight, _MOST_CUT_BOXES, _ORDERS)
    unknown = (verdicts == _UNKNOWN) | left
    doubts, _ = _cover(unknown, unknown, weight, unknown.size, _ORDERS[:2])
    weights = [[np.bincount(group, weights=one) for group in groups] for one in frequencies]
    doubts = _join(doubts, weights)
    cut_rules = -(-len(cuts) // _BOXES)
    doubt_rules = -(-len(doubts) // _BOXES)
    tables = np.zeros((cut_rules + doubt_rules, CONTEXT_SIZE, 128), dtype=np.uint8)
    for number, box in [*enumerate(cuts), *enumerate(doubts, _BOXES * cut_rules)]:
        for place, characters in enumerate(box):
            tables[number // _BOXES, place, :n_classes] |= characters[groups[place]].astype(np.uint8) << number % _BOXES
    return np.concatenate([tables[:, :, class_of[:128]], tables]).reshape(-1), cut_rules


def _class_frequencies(class_of: Array, n_classes: int) -> list[Array]:
    """How frequent the classes are, roughly, in text that is ASCII, and in text that mostly is not: float64 [classes + 1]."""
    common = np.bincount(class_of[np.frombuffer(_COMMON, dtype=np.uint8)], minlength=n_classes) / len(_COMMON)
    # Large classes are more frequent, but not as much so as they are larger.
    beyond = np.sqrt(np.bincount(class_of[128:], minlength=n_classes))
    mixed = (common + 2 * beyond / beyond.sum()) / 3
    mixed[END_CLASS] = _BEGINNINGS
    return [common, mixed]


def judge_contexts(transducer: Transducer) -> tuple[Array, list[Array]] | None:
    """Return what is known of each context, and for each of its places the number of each class of characters there.

    The result is None if there are too many contexts.

    Returns
    -------
    verdicts : uint8 [groups at place 0, ..., groups at place 4]
        UNKNOWN, CUT or INSIDE. Classes that are alike at a place are one group there.
    groups : list of int64 [classes + 1]
        The end of a text is a class, too: before a place it stands for the beginning of the text.
    """
    numbers, sets = _sets_before(transducer)
    cut, border = _judge_states(transducer)
    # A context is a cut if each state that may stand before it says so, and has no border if none puts one there.
    is_cut = ~np.einsum("js,sbn->jbn", sets, (~cut).astype(np.float32)).astype(np.bool_)
    is_inside = ~np.einsum("js,sbn->jbn", sets, border.astype(np.float32)).astype(np.bool_)
    behind = np.where(is_cut, _CUT, np.where(is_inside, _INSIDE, _UNKNOWN)).astype(np.uint8)
    behind, kind = _alike(behind, 0)
    numbers = kind[numbers]
    groups = []
    for axis in range(CONTEXT_BEFORE):
        numbers, group = _alike(numbers, axis)
        groups.append(group)
    for axis in range(1, behind.ndim):
        behind, group = _alike(behind, axis)
        groups.append(np.append(0, group))
    if numbers.size * behind[0].size > _MOST_CONTEXTS:
        return None
    return behind[numbers], groups


def _sets_before(transducer: Transducer) -> tuple[Array, Array]:
    """Return after which characters the transducer may be in which states, whatever it has read before.

    Returns
    -------
    numbers : int64 [classes + 1] * CONTEXT_BEFORE
        The number of a set for each CONTEXT_BEFORE characters.
    sets : float32 [sets, states]
        1 for each state of a set.
    """
    n_states, size = transducer.moves.shape
    to = np.zeros((size, n_states, n_states), dtype=np.float32)
    for column, moves in zip(to, transducer.moves.T, strict=True):
        column[np.arange(n_states), moves] = 1
    sets = np.ones((1, n_states), dtype=np.float32)
    numbers = np.zeros((), dtype=np.int64)
    for _ in range(CONTEXT_BEFORE):
        after = np.einsum("js,cst->jct", sets, to) > 0
        sets, number = np.unique(after.reshape(-1, n_states), axis=0, return_inverse=True)
        sets = sets.astype(np.float32)
        numbers = number.reshape(after.shape[:2])[numbers]
    return numbers, sets


def _judge_states(transducer: Transducer) -> tuple[Array, Array]:
    """Say what each state does before two more characters, at the place before them.

    Returns
    -------
    cut : bool [states, classes, classes]
        It puts a border there for certain, and reads the two as it would at the start of a text.
    border : bool [states, classes, classes]
        It may put a border there.
    """
    moves, kept, emitted = transducer
    slot = kept - emitted  # where the place is pending after the first character; below 0 if it is emitted
    now = slot < 0
    # At the start of a text nothing is pending, and a character emits nothing.
    as_at_start = (moves == moves[0]) & (emitted[0] == 0)
    second, start = moves, moves[0]
    same = (
        (moves[second] == moves[start])
        & (kept[second] == kept[start] + slot[:, :, None] + 1)
        & (emitted[second] == emitted[start] + slot[:, :, None] + 1)
        & (emitted[0] == 0)[None, :, None]
    )
    cut = np.where(now[:, :, None], (as_at_start & (slot == -1))[:, :, None], same)
    fates = _fates(transducer)
    fate = np.where(now, _EMITTED, slot)
    two = _move_slot(fate[:, :, None], kept[second], emitted[second])
    # Where the text ends is not for these rules to say.
    return cut[:, 1:, 1:], fates[moves[second], two][:, 1:, 1:]


def _move_slot(slot: Array, kept: Array, emitted: Array) -> Array:
    """Return where a pending end goes in a step: to another slot, or to _EMITTED or _DROPPED."""
    moved = np.where(slot >= kept, _DROPPED, np.where(slot < emitted, _EMITTED, slot - emitted))
    return np.where(slot >= _EMITTED, slot, moved)


def _fates(transducer: Transducer) -> Array:
    """Whether an end in a slot may be emitted in the end: bool [states, MAX_PENDING + 2]."""
    moves, kept, emitted = transducer
    slots = np.arange(MAX_PENDING + 2)
    to = _move_slot(slots[None, None, :], kept[:, :, None], emitted[:, :, None])
    may = np.zeros((moves.shape[0], slots.size), dtype=np.bool_)
    may[:, _EMITTED] = True
    while True:
        more = may | may[moves[:, :, None], to].any(axis=1)
        if (more == may).all():
            return may
        may = more


def _alike(array: Array, axis: int) -> tuple[Array, Array]:
    """Keep one of those parts along an axis that are equal; return the array and for each old part the number of the new."""
    moved = np.moveaxis(array, axis, 0)
    _, first, number = np.unique(moved.reshape(moved.shape[0], -1), axis=0, return_index=True, return_inverse=True)
    return np.moveaxis(moved[first], 0, axis), number.reshape(-1)


def _simplify(verdicts: Array, weight: Array, place: int) -> tuple[Array, Array, Array]:
    """Take groups of characters for one at a place where that makes few contexts unknown; return for each group its new number.

    There are the fewer boxes to look for, the fewer groups there are.
    """
    parts = [part.reshape(-1) for part in np.moveaxis(verdicts, place, 0)]
    heavy = [part.reshape(-1) for part in np.moveaxis(weight, place, 0)]
    number = np.arange(len(parts))

    def loss(one: int, other: int) -> float:
        return float((heavy[one] + heavy[other])[parts[one] != parts[other]].sum())

    losses = {(i, k): loss(i, k) for i in range(len(parts)) for k in range(i)}
    while losses:
        (gone, kept), least = min(losses.items(), key=lambda item: item[1])
        if least > _LOSS:
            break
        parts[kept] = np.where(parts[kept] == parts[gone], parts[kept], _UNKNOWN).astype(np.uint8)
        heavy[kept] = heavy[kept] + heavy[gone]
        number[number == gone] = kept
        losses = {pair: value for pair, value in losses.items() if gone not in pair}
        losses.update((pair, loss(*pair)) for pair in losses if kept in pair)
    left, number = np.unique(number, return_inverse=True)
    shape = [len(left) if axis == 0 else size for axis, size in enumerate(np.moveaxis(verdicts, place, 0).shape)]
    made = (np.moveaxis(np.stack([some[i] for i in left]).reshape(shape), 0, place) for some in (parts, heavy))
    return next(made), next(made), number


def _cover(
    wanted: Array, allowed: Array, weight: Array, most: int, orders: Sequence[tuple[int, ...]]
) -> tuple[list[Box], Array]:
    """Return boxes of allowed contexts that hold those wanted, the weightiest first, and what the boxes leave out."""
    weighed = wanted * weight
    boxes: list[Box] = []
    while len(boxes) < most:
        seed = np.unravel_index(int(weighed.argmax()), weighed.shape)
        if not weighed[seed]:
            break
        grown = [_grow(seed, allowed, order) for order in orders]
        best = max(grown, key=lambda box: float(weighed[np.ix_(*box)].sum()))
        weighed[np.ix_(*best)] = 0
        boxes.append(best)
    return boxes, weighed > 0


def _grow(seed: tuple[Any, ...], allowed: Array, order: tuple[int, ...]) -> Box:
    """Return a box around a context that cannot grow: at each place, one after the other, it takes all that it may take."""
    box = [np.arange(size) == at for at, size in zip(seed, allowed.shape, strict=True)]
    for place in order:
        box[place] = np.ones_like(box[place])
        inside = allowed[np.ix_(*box)]
        box[place] = inside.all(axis=tuple(axis for axis in range(CONTEXT_SIZE) if axis != place))
    return box


def _join(boxes: list[Box], weights: list[list[Array]]) -> list[Box]:
    """Join boxes to larger ones until there are few enough: those first that gain the least weight."""
    boxes = list(boxes)
    while len(boxes) > _MOST_DOUBT_BOXES:
        joined = np.sum([functools.reduce(np.multiply, _weigh_unions(boxes, one)) for one in weights], axis=0)
        alone = np.diagonal(joined)
        gains = joined - alone[:, None] - alone
        np.fill_diagonal(gains, np.inf)
        first, second = np.unravel_index(int(gains.argmin()), gains.shape)
        union = [a | b for a, b in zip(boxes[first], boxes[second], strict=True)]
        boxes = [box for number, box in enumerate(boxes) if number not in (first, second)] + [union]
    return boxes


def _weigh_unions(boxes: list[Box], weights: list[Array]) -> Iterator[Array]:
    """For each place, yield the weight of the union of each two boxes there: float64 [boxes, boxes]."""
    for place, weight in enumerate(weights):
        chosen = np.array([box[place] for box in boxes], dtype=np.float64)
        both = (chosen * weight) @ chosen.T
        each = np.diagonal(both)
        yield each[:, None] + each - both
