"""Convert arrays of ids to lists of Python integers.

NumPy and memoryviews create an object of 32 bytes for each number, which takes 18 ns, and twice as long in memory that is new
to the process. Here a list refers to integers that exist already: as Python does for small numbers, this module keeps one
object for each number below 262,144. It is made when the number first occurs, and never freed: at most 10 MB in all.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from bpejit.jit.dispatch import addresses_of, inline, make_builtin, method
from bpejit.jit.memory import array_at, call_c
from bpejit.kernels.common.c_api import (
    DATA_WORD,
    DECREF,
    FROM_INTEGER,
    ITEMS_WORD,
    MEMORY,
    NEW_LIST,
    REFERENCES,
    SET_ITEM,
    c_api,
)
from bpejit.kernels.constants import ONE

_KEPT = 1 << 18
"""Numbers below this are kept: more than most vocabularies have."""

_FEW = 64
"""Number of ids up to which calling the method takes longer than `tolist`."""

_ITEMS = np.uint64(ITEMS_WORD)
_TO_INDEX = np.uint64(REFERENCES().itemsize.bit_length() - 1)  # from an address to the index of a number of references

_GIVEN, _INTEGERS, _API = range(3)
"""Indices of the arrays that are passed to `make_lists` by their addresses. The first one is the argument."""


@functools.cache
def integers() -> Any:
    """Return the addresses of the integers that are kept, 0 for those that have not occurred, as int64 [262144]."""
    return np.zeros(_KEPT, dtype=np.int64)


@inline
def fill_list(made, ids, start, stop, known, api):
    """Set the items of a new list of `stop - start` items to the integers `ids[start:stop]`.

    Items and numbers of references are written directly: two calls for each item took twice as long.

    Parameters
    ----------
    made : int
        Address of the list.
    ids : uint32[:], in
    start, stop : int
    known : int64[:], in-out
        `integers`.
    api : int64[:], in
        `c_api`.

    Returns
    -------
    bool
        False if there is no memory; an exception is then set, and the other items are missing.
    """
    memory = array_at(api, MEMORY, np.int64)
    items = np.uint64(memory[np.uint64(made >> 3) + _ITEMS] >> 3)
    for index in range(start, stop):
        item = _reference_to(np.int64(ids[index]), known, api)
        if item == 0:
            return False
        memory[items] = item
        items += ONE
    return True


@inline
def new_list(ids, n_ids, known, api):
    """Return the address of a new list of the first `n_ids` of `ids`; 0 if there is no memory. The others are as above."""
    made = call_c(api[NEW_LIST], (n_ids,))
    if made != 0 and not fill_list(made, ids, 0, n_ids, known, api):
        call_c(api[DECREF], (made,))
        made = 0
    return made


@inline
def _reference_to(number, known, api):
    """Return the address of an integer, with a new reference; 0 if there is no memory. The arrays are those of `fill_list`."""
    keeps = number < known.size
    item = known[np.uint64(number)] if keeps else 0
    if item == 0:
        item = call_c(api[FROM_INTEGER], (number,))
        if item == 0:
            return item
        if keeps:
            known[number] = item
    if keeps:
        references = array_at(api, MEMORY, REFERENCES)
        at = np.uint64(item) >> _TO_INDEX
        references[at] += REFERENCES(references[at] >= 0)
    return item


@method
def make_lists(words, given):
    """Return a list of lists of integers.

    Parameters
    ----------
    words : int64[:], in-out
        Addresses and sizes of an array of three words (scratch), of `integers` and of `c_api`.
    given : int
        Address of an int64 array object, which has the addresses and sizes of two arrays: ids as uint32 [ids], and the starts
        of the lists among them, with their end, as int64 [lists + 1]. Not checked.

    Returns
    -------
    int
        Address of the new list; 0 if there is no memory.
    """
    known = array_at(words, _INTEGERS, np.int64)
    api = array_at(words, _API, np.int64)
    words[2 * _GIVEN] = given
    words[2 * _GIVEN + 1] = DATA_WORD + 1
    words[2 * _GIVEN] = array_at(words, _GIVEN, np.int64)[DATA_WORD]
    words[2 * _GIVEN + 1] = 4
    arrays = array_at(words, _GIVEN, np.int64)
    ids = array_at(arrays, 0, np.uint32)
    starts = array_at(arrays, 1, np.int64)
    made = call_c(api[NEW_LIST], (starts.size - 1,))
    if made == 0:
        return 0
    for index in range(starts.size - 1):
        start, stop = starts[index], starts[index + 1]
        part = call_c(api[NEW_LIST], (stop - start,))
        if part == 0:
            call_c(api[DECREF], (made,))
            return 0
        call_c(api[SET_ITEM], (made, index, part))
        if not fill_list(part, ids, start, stop, known, api):
            call_c(api[DECREF], (made,))
            return 0
    return made


@functools.cache
def _maker() -> Callable[[object], list[list[int]]] | None:
    scratch = [0, 0]
    return make_builtin(make_lists, np.array([*scratch, *addresses_of((integers(), c_api()))], dtype=np.int64))


def lists_of(ids: Any, starts: Any) -> list[list[int]]:
    """Return the integers `ids[starts[i]:starts[i + 1]]` of each `i` as a list.

    Parameters
    ----------
    ids : uint32 [ids]
    starts : int64 [lists + 1]
        Not decreasing, and at most the number of ids. Not checked.
    """
    make = _maker() if ids.size > _FEW else None
    if make is None:
        every = ids.tolist()
        return [every[start:stop] for start, stop in pairwise(starts.tolist())]
    # The collector would visit all lists made so far, again and again: four times the time for 200,000 lists.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return make(addresses_of((ids, starts)))
    finally:
        if was_enabled:
            gc.enable()


def list_of(ids: Any) -> list[int]:
    """Return the integers of an array of uint32 [ids] as a list.

    A list of each array of a stream takes no more time than an iterator from compiled code over its items.
    """
    if ids.size <= _FEW:
        made: list[int] = ids.tolist()
        return made
    return lists_of(ids, np.array([0, ids.size], dtype=np.int64))[0]
