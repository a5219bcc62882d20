"""Derive local rules from a transducer: which boundaries are determined by five adjacent characters.

Most boundaries are determined by the characters around them; for example, a word ends before a space. A rule is about a
*context* of five characters, three before a position and two after it. For each context this module computes what the
transducer does at the position, for every text before and after the context:

- *cut*: there is always a boundary at the position, and the text after it is split like a separate text;
- *inside*: there is never a boundary at the position;
- *unknown*: neither is certain.

Wide registers apply the rules to 64 positions at a time (`jit.simd.match_contexts`, or `match_groups` with AVX2). For this, the
rules are *boxes*. A box has a set of characters for each of the five slots of a context, and contains the contexts whose
characters are all in their sets. Eight boxes are the bits of a byte: each slot has a table from characters to the boxes that
accept the character in this slot, and the bitwise AND of five lookups gives the boxes that contain a context. Some boxes
contain cuts; other boxes contain at least all unknown contexts. The boxes are found greedily. If there are too many, more
contexts become unknown, which costs time but does not change the result.
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

_MAX_CUT_BOXES = 24
"""Limit on the boxes of cuts."""

_MAX_UNKNOWN_BOXES = 16
"""Limit on the boxes of unknown contexts, after joining."""

_MAX_STEPS = 1 << 22
"""Limit on classes times states squared; computing the rules takes a quarter of a second at the limit."""

_MAX_CONTEXTS = 1 << 21
"""Limit on the contexts of groups; computing the rules takes two seconds at the limit."""

Box: TypeAlias = "list[Array]"
"""For each slot of a context the characters of the box, bool [groups]."""

_UNKNOWN, _CUT, _INSIDE = range(3)

_COMMON = b" " * 40 + b"etaoinsrhldcumfpgwybvk" * 6 + b"\n.,\"'()_-=0123456789ETAOINSRH" * 2 + bytes(range(128))
"""A rough distribution of characters, to weight contexts."""

_START_FREQUENCY = 0.02
"""The frequency of the start of the text, for the rules about classes, and of a separator between texts."""

# States of an end, in addition to the slots of pending ends.
_EMITTED, _DROPPED = MAX_PENDING, MAX_PENDING + 1


_ORDERS = ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 3, 1, 4, 0), (3, 2, 4, 1, 0), (1, 2, 3, 0, 4), (2, 1, 0, 3, 4))
"""Orders in which the slots of a box are grown."""


def make_rules(transducer: Transducer, class_of: Array, separator: int = 0) -> tuple[Array, int]:
    """Return the tables of the boxes.

    Parameters
    ----------
    transducer : Transducer
    class_of : uint8 [0x110000]
        The class of each code point.
    separator : int
        The class of a separator (see `transducer.with_separator`); 0 if there is none.

    Returns
    -------
    tables : uint8 [2 * sets * CONTEXT_SIZE * 128]
        Sets of tables over ASCII characters, followed by the same sets over character classes. Each set has for each slot and
        each character the boxes that accept it, as bits. Empty if there are too many classes or contexts.
    cut_rules : int
        The number of sets for contexts that are cuts unless they are also unknown. The other sets are for unknown contexts.
    """
    n_states, n_classes = transducer.moves.shape
    judged = None
    if n_classes <= 128 and n_classes * n_states**2 <= _MAX_STEPS:
        judged = judge_contexts(transducer)
    if judged is None:
        return np.zeros(0, np.uint8), 0
    verdicts, groups = judged
    frequencies = _class_frequencies(class_of, n_classes, separator)
    # The frequency of each group of classes, for each kind of text and slot.
    weights = [[np.bincount(group, weights=one) for group in groups] for one in frequencies]
    weight: Array = np.sum([functools.reduce(np.multiply.outer, one) for one in weights], axis=0)
    cuts, left = _cover(verdicts == _CUT, verdicts != _INSIDE, weight, _MAX_CUT_BOXES, _ORDERS)
    unknown = (verdicts == _UNKNOWN) | left
    unknowns, _ = _cover(unknown, unknown, weight, unknown.size, _ORDERS[:2])
    unknowns = _join(unknowns, weights)
    cut_rules = -(-len(cuts) // _BOXES)
    unknown_rules = -(-len(unknowns) // _BOXES)
    tables = np.zeros((cut_rules + unknown_rules, CONTEXT_SIZE, 128), np.uint8)
    for number, box in [*enumerate(cuts), *enumerate(unknowns, _BOXES * cut_rules)]:
        table = tables[number // _BOXES]
        for slot, characters in enumerate(box):
            accepted = characters[groups[slot]].astype(np.uint8)
            table[slot, :n_classes] |= accepted << number % _BOXES
    over_characters = tables[:, :, class_of[:128]]
    return np.concatenate([over_characters, tables]).reshape(-1), cut_rules


def _class_frequencies(class_of: Array, n_classes: int, separator: int) -> list[Array]:
    """Return rough frequencies of the classes in ASCII text and in mostly non-ASCII text, each float64 [classes + 1]."""
    characters = np.frombuffer(_COMMON, np.uint8)
    common = np.bincount(class_of[characters], minlength=n_classes) / len(_COMMON)
    # Large classes are more frequent, but not in proportion to their size.
    beyond = np.sqrt(np.bincount(class_of[128:], minlength=n_classes))
    mixed = (common + 2 * beyond / beyond.sum()) / 3
    mixed[END_CLASS] = _START_FREQUENCY
    if separator:
        common[separator] = mixed[separator] = _START_FREQUENCY
    return [common, mixed]


def judge_contexts(transducer: Transducer) -> tuple[Array, list[Array]] | None:
    """Return the verdict on each context, and the group of each class in each slot; None if there are too many contexts.

    Returns
    -------
    verdicts : uint8 [groups in slot 0, ..., groups in slot 4]
        _UNKNOWN, _CUT or _INSIDE. The classes of a group are equivalent in their slot.
    groups : list of int64 [classes + 1]
        The end of the text is a class, too; in a slot before the position it represents the start of the text.
    """
    numbers, sets = _sets_before(transducer)
    cut, boundary = _judge_states(transducer)
    # A context is a cut if it is one for each state that may precede it, and inside if no state may put a boundary there.
    is_cut = ~np.einsum("js,sbn->jbn", sets, (~cut).astype(np.float32)).astype(np.bool_)
    is_inside = ~np.einsum("js,sbn->jbn", sets, boundary.astype(np.float32)).astype(np.bool_)
    verdicts = np.where(is_cut, _CUT, np.where(is_inside, _INSIDE, _UNKNOWN)).astype(np.uint8)
    verdicts, kind = _unique(verdicts, 0)
    numbers = kind[numbers]
    groups = []
    for axis in range(CONTEXT_BEFORE):
        numbers, group = _unique(numbers, axis)
        groups.append(group)
    for axis in range(1, verdicts.ndim):
        verdicts, group = _unique(verdicts, axis)
        groups.append(np.append(0, group))
    if numbers.size * verdicts[0].size > _MAX_CONTEXTS:
        return None
    return verdicts[numbers], groups


def _sets_before(transducer: Transducer) -> tuple[Array, Array]:
    """Return the states in which the transducer may be after each CONTEXT_BEFORE characters.

    Returns
    -------
    numbers : int64 [classes + 1] * CONTEXT_BEFORE
        The index of a set of states for each CONTEXT_BEFORE characters.
    sets : float32 [sets, states]
        1 for each state of a set.
    """
    n_states, size = transducer.moves.shape
    to = np.zeros((size, n_states, n_states), np.float32)
    for column, moves in zip(to, transducer.moves.T, strict=True):
        column[np.arange(n_states), moves] = 1
    sets = np.ones((1, n_states), np.float32)
    numbers = np.zeros((), np.int64)
    for _ in range(CONTEXT_BEFORE):
        after = np.einsum("js,cst->jct", sets, to) > 0
        sets, number = np.unique(after.reshape(-1, n_states), axis=0, return_inverse=True)
        sets = sets.astype(np.float32)
        numbers = number.reshape(after.shape[:2])[numbers]
    return numbers, sets


def _judge_states(transducer: Transducer) -> tuple[Array, Array]:
    """Return what happens at the current position when each state reads two more characters.

    Returns
    -------
    cut : bool [states, classes, classes]
        There is certainly a boundary, and the two characters are read as at the start of a text.
    boundary : bool [states, classes, classes]
        There may be a boundary.
    """
    moves, kept, emitted = transducer
    slot = kept - emitted  # the slot of the position among the pending ends after the first character; negative if emitted
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
    boundary = fates[moves[second], two]
    # The rules are not about the end of the text.
    return cut[:, 1:, 1:], boundary[:, 1:, 1:]


def _move_slot(slot: Array, kept: Array, emitted: Array) -> Array:
    """Return the slot of a pending end after a step, or _EMITTED or _DROPPED."""
    moved = np.where(slot < emitted, _EMITTED, slot - emitted)
    moved = np.where(slot >= kept, _DROPPED, moved)
    return np.where(slot >= _EMITTED, slot, moved)


def _fates(transducer: Transducer) -> Array:
    """Return True for each state and slot whose end may eventually be emitted: bool [states, MAX_PENDING + 2]."""
    moves, kept, emitted = transducer
    slots = np.arange(MAX_PENDING + 2)
    to = _move_slot(slots[None, None, :], kept[:, :, None], emitted[:, :, None])
    may = np.zeros((moves.shape[0], slots.size), np.bool_)
    may[:, _EMITTED] = True
    while True:
        more = may | may[moves[:, :, None], to].any(axis=1)
        if (more == may).all():
            return may
        may = more


def _unique(array: Array, axis: int) -> tuple[Array, Array]:
    """Return an array without repeated slices along an axis, and the new index of each old slice."""
    moved = np.moveaxis(array, axis, 0)
    _, first, number = np.unique(moved.reshape(moved.shape[0], -1), axis=0, return_index=True, return_inverse=True)
    return np.moveaxis(moved[first], 0, axis), number.reshape(-1)


def _cover(wanted: Array, allowed: Array, weight: Array, most: int, orders: Sequence[Sequence[int]]) -> tuple[list[Box], Array]:
    """Return at most `most` boxes of allowed contexts that cover the wanted ones, heaviest first, and what they leave out."""
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


def _grow(seed: tuple[Any, ...], allowed: Array, order: Sequence[int]) -> Box:
    """Return a maximal box of allowed contexts around a context: its slots grow one after the other, as far as possible."""
    box = [np.arange(size) == at for at, size in zip(seed, allowed.shape, strict=True)]
    for slot in order:
        box[slot] = np.ones_like(box[slot])
        inside = allowed[np.ix_(*box)]
        box[slot] = inside.all(axis=tuple(axis for axis in range(CONTEXT_SIZE) if axis != slot))
    return box


def _join(boxes: list[Box], weights: list[list[Array]]) -> list[Box]:
    """Join boxes until there are at most _MAX_UNKNOWN_BOXES, always the pair whose union adds the least weight."""
    boxes = list(boxes)
    while len(boxes) > _MAX_UNKNOWN_BOXES:
        joined = np.sum([functools.reduce(np.multiply, _weigh_unions(boxes, one)) for one in weights], axis=0)
        alone = np.diagonal(joined)
        gains = joined - alone[:, None] - alone
        np.fill_diagonal(gains, np.inf)
        first, second = np.unravel_index(int(gains.argmin()), gains.shape)
        union = [a | b for a, b in zip(boxes[first], boxes[second], strict=True)]
        left = [box for number, box in enumerate(boxes) if number not in (first, second)]
        boxes = [*left, union]
    return boxes


def _weigh_unions(boxes: list[Box], weights: list[Array]) -> Iterator[Array]:
    """Yield for each slot the weight of the union of each pair of boxes: float64 [boxes, boxes]."""
    for slot, weight in enumerate(weights):
        members = np.array([box[slot] for box in boxes], np.float64)
        both = (members * weight) @ members.T
        each = np.diagonal(both)
        yield each[:, None] + each - both
