"""Encode a short string to a list or array of ids, all in one builtin function of Python (see `bpejit.jit.methods`).

It takes less than half of the time of the same steps in Python: UTF-8 in the text buffer, the kernel `encode_text` with
words that were packed in advance (`dispatch.bind`), and a list or an array of its results.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from bpejit.jit.dispatch import BoundCall, addresses_of, inline, make_builtin, method
from bpejit.jit.memory import array_at, call_c
from bpejit.kernels.common.c_api import (
    ARRAY,
    DATA_WORD,
    GET_ITEM,
    INCREF,
    LIST_SIZE,
    MEMORY,
    NEW_ARRAY,
    NONE,
    c_api,
)
from bpejit.kernels.common.integer_lists import integers, new_list
from bpejit.kernels.common.python_text import is_layout_known, write_string
from bpejit.kernels.constants import DONE
from bpejit.kernels.encoding.pretoken_cache import CLEARS, CLEARS_SEEN, LONG_CLEARS, N_OUT

_IDS, _TEXT, _OUT, _PROGRESS, _CALL, _INTEGERS, _API = range(7)
"""Indices of arrays that are passed to `encode_string` by their addresses. The first is scratch: the ids of a new array."""

_KERNEL, _POOL, _WORKSPACE, _ID_LIMIT, _ASCII_ONLY, _AS_ARRAY, _IS_BUSY = range(14, 21)
"""Indices of the other words: the addresses of the kernel, of a list and of the workspace, the first id that is not returned,
whether only ASCII is encoded, whether the result is an array, and whether the output is in use.
"""

_UINT32 = np.dtype(np.uint32).num

LIMIT, STOP = 1, 2
"""Indices of two arguments of `encode_text`."""


@method
def encode_string(words, given):
    """Return the ids of a string as a list, or as a uint32 array.

    Parameters
    ----------
    words : int64[:], in-out
        As described above.
    given : int
        Address of any object.

    Returns
    -------
    int
        Address of a list of integers, or of an array; of None if `given` has to be encoded in another way: it is no string
        or too long, it has a character beyond ASCII where that is not allowed, the workspace is in use, its cache was cleared
        and may grow, the kernel needs more memory, or an id is not below the limit. 0 if there is no memory.

    Notes
    -----
    The workspace stays in the pool. While the kernel runs, no Python code does, and no other thread that takes it from there.
    Creating a list may run the garbage collector, and with it any code, but then only the output is in use.
    """
    api = array_at(words, _API, np.int64)
    n_ids = _run(words, given, api)
    if n_ids >= 0 and words[_AS_ARRAY] != 0:
        return _make_array(words, n_ids, api)
    if n_ids >= 0:
        words[_IS_BUSY] = 1
        made = new_list(array_at(words, _OUT, np.uint32), n_ids, array_at(words, _INTEGERS, np.int64), api)
        words[_IS_BUSY] = 0
        return made
    call_c(api[INCREF], (api[NONE],))
    return api[NONE]


@inline
def _run(words, given, api):
    """Run `encode_text` on a string; return the number of ids, or -1 if that is not possible."""
    if words[_IS_BUSY] != 0 or not _is_free(words, api):
        return -1
    n_bytes, is_ascii = write_string(given, array_at(words, _TEXT, np.uint8), api)
    if n_bytes < 0 or (not is_ascii and words[_ASCII_ONLY] != 0):
        return -1
    call = array_at(words, _CALL, np.int64)
    progress = array_at(words, _PROGRESS, np.int64)
    if progress[CLEARS] + progress[LONG_CLEARS] > progress[CLEARS_SEEN]:
        return -1
    call[LIMIT] = n_bytes
    call[STOP] = n_bytes
    progress[N_OUT] = 0
    if call_c(words[_KERNEL], (words[2 * _CALL],)) != DONE:
        return -1
    n_ids = progress[N_OUT]
    out = array_at(words, _OUT, np.uint32)
    highest = np.uint32(0)
    for index in range(n_ids):  # without an exit, so that it runs in wide registers
        highest = max(highest, out[index])
    return n_ids if np.int64(highest) < words[_ID_LIMIT] else -1


@inline
def _make_array(words, n_ids, api):
    """Return the address of a new array of the ids, or 0 if there is no memory."""
    shape = words[2 * _PROGRESS] + 8 * N_OUT  # the address of `n_ids`
    made = call_c(api[NEW_ARRAY], (api[ARRAY], 1, shape, _UINT32, 0, 0, 0, 0, 0))
    if made != 0:
        words[2 * _IDS] = array_at(api, MEMORY, np.int64)[(made >> 3) + DATA_WORD]
        words[2 * _IDS + 1] = n_ids
        out = array_at(words, _OUT, np.uint32)
        ids = array_at(words, _IDS, np.uint32)
        for index in range(n_ids):
            ids[index] = out[index]
    return made


@inline
def _is_free(words, api):
    """Return True if the workspace is in the list."""
    pool = words[_POOL]
    for index in range(call_c(api[LIST_SIZE], (pool,))):
        if call_c(api[GET_ITEM], (pool, index)) == words[_WORKSPACE]:
            return True
    return False


def make_string_encoder(
    call: BoundCall,
    text: Any,
    out: Any,
    progress: Any,
    pool: list[Any],
    workspace: object,
    id_limit: int,
    ascii_only: bool,
    as_array: bool,
) -> Callable[[object], Any] | None:
    """Return a builtin function that encodes strings.

    It keeps none of its arguments alive.

    Parameters
    ----------
    call : BoundCall
        A call of `encode_text` for a complete text.
    text : uint8 array
        The text buffer of the call. Strings of up to a fourth of its size are encoded: a character takes at most four bytes.
    out : uint32 array
        The output of the call.
    progress : int64 array
        That of the workspace.
    pool : list
        The function encodes strings while this list has the workspace.
    workspace : object
    id_limit : int
        If an id is not less than this, the function returns None.
    ascii_only : bool
        Whether the function returns None for a string that is not ASCII.
    as_array : bool
        Whether it returns the ids as a uint32 array.

    Returns
    -------
    callable, optional
        Takes any object; returns a list or an array, or None if it has to be encoded in another way. None if such functions
        are not possible.
    """
    if not (call.address and is_layout_known()):
        return None
    scratch = [0] * 2
    arrays = addresses_of((text, out, progress)), call.words.buffer_info(), addresses_of((integers(), c_api()))
    words = [*scratch, *chain.from_iterable(arrays), call.address, id(pool), id(workspace), id_limit, ascii_only, as_array, 0]
    return make_builtin(encode_string, np.array(words, dtype=np.int64))
