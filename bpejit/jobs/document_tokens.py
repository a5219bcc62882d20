"""Stages of a stream of ids that arrives in blocks: tokens are added to its documents, and some documents are set aside."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bpejit.arrays import Array

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
_FIRST_SHIFT = np.uint64(30)
_SECOND_SHIFT = np.uint64(27)
_THIRD_SHIFT = np.uint64(31)


class DocumentTokens:
    """Adds tokens to the documents of a stream of ids that arrives in blocks.

    A document that already begins or ends with the token stays as it is, so a separator in the text is never doubled.

    Parameters
    ----------
    prepend, append : int, optional
        Ids to add at the start and at the end of each document.

    Attributes
    ----------
    last : int, optional
        The last id of the document that continues in the next block. None if no document does, so that the next one begins
        with the next block.
    """

    def __init__(self, prepend: int | None = None, append: int | None = None) -> None:
        self.prepend = prepend
        self.append = append
        self.last: int | None = None

    def add(self, ids: Array, ends: Array) -> tuple[Array, Array]:
        """Return a block with the tokens added.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
            Positions in `ids` where documents end.

        Returns
        -------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
        """
        begins = np.concatenate(([0], ends))
        stops = np.append(ends, ids.size)  # the last document continues in the next block, or has no ids in this one
        continued = self.last is not None
        before = self.last
        if ids.size > begins[-1]:
            self.last = int(ids[-1])
        elif ends.size:
            self.last = None
        wanted = np.zeros((begins.size, 2), bool)  # at the start and at the end of each document
        if self.prepend is not None:
            wanted[:, 0] = ~_has_id(ids, begins, begins < stops, self.prepend)
            wanted[0, 0] &= not continued
            wanted[-1, 0] &= stops[-1] > begins[-1]
        if self.append is not None:
            wanted[:-1, 1] = ~_has_id(ids, ends - 1, begins[:-1] < ends, self.append)
            if continued and ends.size and ends[0] == 0:
                wanted[0, 1] = before != self.append
        if not wanted.any():
            return ids, ends
        positions = np.column_stack((begins, stops))[wanted]
        added = np.array([self.prepend or 0, self.append or 0], ids.dtype)
        longer = np.insert(ids, positions, added[np.nonzero(wanted)[1]])
        return longer, ends + np.cumsum(wanted)[1::2][:-1]


def _has_id(ids: Array, positions: Array, inside: Array, wanted: int) -> Array:
    """Return where `ids[positions]` equals `wanted`; False where `inside` is, whose positions may lie outside of `ids`."""
    if not ids.size:
        return np.zeros(positions.size, bool)
    found: Array = inside & (ids[np.where(inside, positions, 0)] == wanted)
    return found


def draw_documents(seed: int, unit: int, first: int, count: int) -> Array:
    """Return a number from 0 to 1 for each of some consecutive documents of a unit.

    The number depends on the arguments alone: it is a hash of the seed, the unit and the document (SplitMix64).

    Parameters
    ----------
    seed, unit : int
        Not negative.
    first, count : int
        The index of the first document in the unit, and the number of documents.

    Returns
    -------
    float64 [count]
        At least 0, below 1.
    """
    state = np.array([seed % 2**64], np.uint64)
    for numbers in (np.array([unit], np.uint64), np.arange(first, first + count, dtype=np.uint64)):
        state = _mix(state + (numbers + np.uint64(1)) * _STEP)
    drawn: Array = (state >> np.uint64(11)).astype(np.float64) / 2.0**53
    return drawn


def _mix(state: Array) -> Array:
    state = (state ^ (state >> _FIRST_SHIFT)) * _FIRST_FACTOR
    state = (state ^ (state >> _SECOND_SHIFT)) * _SECOND_FACTOR
    mixed: Array = state ^ (state >> _THIRD_SHIFT)
    return mixed


class DocumentChoice:
    """Divides a stream of documents into two, which contain complete documents.

    Parameters
    ----------
    fraction : float
        The share of the documents that are set aside, on average.
    seed : int

    Attributes
    ----------
    unit : int
        The unit of the next documents that begin.
    begun : int
        The number of documents that have begun in the unit.
    ended : bool [documents]
        For each document that ended in the last block, whether it is set aside.
    open : bool, optional
        Whether the document that continues in the next block is set aside. None if no document does.
    """

    def __init__(self, fraction: float, seed: int) -> None:
        self.fraction = fraction
        self.seed = seed
        self.unit = 0
        self.begun = 0
        self.ended: Array = np.zeros(0, bool)
        self.open: bool | None = None

    def begin_unit(self, unit: int) -> None:
        """Set the unit of the next blocks."""
        self.unit = unit
        self.begun = 0

    def divide(self, ids: Array, ends: Array) -> list[tuple[Array, Array]]:
        """Return ids and ends of the documents that remain, and of those that are set aside.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
            Positions in `ids` where documents end.
        """
        begins = np.concatenate(([0], ends))
        stops = np.append(ends, ids.size)
        unfinished = bool(stops[-1] > begins[-1])
        count = ends.size + unfinished
        self.ended = np.zeros(0, bool)
        if not count:
            return [(ids, ends), (ids[:0], ends[:0])]
        continued = self.open is not None
        aside = np.empty(count, bool)
        drawn = draw_documents(self.seed, self.unit, self.begun, count - continued)
        aside[int(continued) :] = drawn < self.fraction
        if continued:
            aside[0] = self.open
        self.ended = aside[: ends.size]
        self.begun += count - continued
        self.open = bool(aside[-1]) if unfinished else None
        if not aside.any():
            return [(ids, ends), (ids[:0], ends[:0])]
        lengths = (stops - begins)[:count]
        # Runs of documents of the same side, which are few: copying them takes a fifth of the time of a mask.
        borders = [0, *(np.flatnonzero(np.diff(aside)) + 1).tolist(), count]
        pieces: dict[bool, list[Array]] = {False: [ids[:0]], True: [ids[:0]]}
        for low, high in pairwise(borders):
            pieces[bool(aside[low])].append(ids[begins[low] : stops[high - 1]])
        parts = []
        for side, which in ((False, ~aside), (True, aside)):
            part_ends = np.cumsum(lengths[which])
            parts.append((np.concatenate(pieces[side]), part_ends[: int(which[: ends.size].sum())]))
        return parts
