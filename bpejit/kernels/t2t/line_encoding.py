"""Encode a line with a vocabulary of subtokens to a list of ids, in one builtin function of Python (see `bpejit.jit.methods`).

A line takes the two kernels a microsecond, and calling them from Python twice as long.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from bpejit.jit.dispatch import BoundCall, addresses_of, inline, make_builtin, method
from bpejit.jit.memory import array_at, call_c
from bpejit.kernels.common.c_api import INCREF, NONE, c_api
from bpejit.kernels.common.integer_lists import integers, new_list
from bpejit.kernels.common.python_text import is_layout_known, write_string
from bpejit.kernels.constants import DONE
from bpejit.kernels.t2t.subtoken_encoding import BEFORE, NEXT, POSITION, WRITTEN

_TEXT, _OUT, _SPLIT_STATE, _STATE, _SPLIT, _ENCODE, _INTEGERS, _API = range(8)
"""Indices of arrays that are passed to `encode_line` by their addresses; two are the words of the calls of the kernels."""

_SPLIT_KERNEL, _ENCODE_KERNEL, _IS_BUSY = range(16, 19)
"""Indices of the other words: the addresses of the kernels, and whether the arrays are in use."""

_SPLIT_STOP, _N_ENDS, _STOP = 1, 3, 4
"""Indices of arguments of `split_words`, and of `encode_words`."""


@method
def encode_line(words, given):
    """Return the ids of a string as a list.

    Parameters
    ----------
    words : int64[:], in-out
        As described above.
    given : int
        Address of any object.

    Returns
    -------
    int
        Address of a list of integers; of None if `given` has to be encoded in another way: it is no string or too long, it has
        U+FFFD, as which lone surrogates are written, or the vocabulary lacks a character. 0 if there is no memory.

    Notes
    -----
    While the kernels run, no Python code does. Creating a list may run the garbage collector, and with it any code, but then
    the arrays are in use.
    """
    api = array_at(words, _API, np.int64)
    n_ids = _run(words, given, api)
    if n_ids < 0:
        call_c(api[INCREF], (api[NONE],))
        return api[NONE]
    words[_IS_BUSY] = 1
    made = new_list(array_at(words, _OUT, np.uint32), n_ids, array_at(words, _INTEGERS, np.int64), api)
    words[_IS_BUSY] = 0
    return made


@inline
def _run(words, given, api):
    """Run the kernels on a string; return the number of ids, or -1 if that is not possible."""
    if words[_IS_BUSY] != 0:
        return -1
    text = array_at(words, _TEXT, np.uint8)
    n_bytes, is_ascii = write_string(given, text, api)
    if n_bytes < 0 or (not is_ascii and _has_replacement(text, n_bytes)):
        return -1
    split_state = array_at(words, _SPLIT_STATE, np.int64)
    state = array_at(words, _STATE, np.int64)
    split = array_at(words, _SPLIT, np.int64)
    encode = array_at(words, _ENCODE, np.int64)
    split_state[POSITION] = 0
    split_state[BEFORE] = -1
    split[_SPLIT_STOP] = n_bytes
    encode[_N_ENDS] = call_c(words[_SPLIT_KERNEL], (words[2 * _SPLIT],))
    encode[_STOP] = n_bytes
    state[NEXT] = 0
    state[WRITTEN] = 0
    if call_c(words[_ENCODE_KERNEL], (words[2 * _ENCODE],)) != DONE:
        return -1
    return state[WRITTEN]


@inline
def _has_replacement(text, n_bytes):
    """Return True if a text has the three bytes of U+FFFD."""
    for index in range(2, n_bytes):
        if text[index] == 0xBD and text[index - 1] == 0xBF and text[index - 2] == 0xEF:
            return True
    return False


def make_line_encoder(
    split: BoundCall, encode: BoundCall, text: Any, out: Any, split_state: Any, state: Any
) -> Callable[[object], list[int] | None] | None:
    """Return a builtin function that encodes strings. It keeps none of its arguments alive.

    Parameters
    ----------
    split, encode : BoundCall
        Calls of `split_words` and `encode_words` with the arrays.
    text : uint8 array
        Strings of up to a fourth of its size are encoded: a character takes at most four bytes.
    out : uint32 array
    split_state, state : int64 arrays

    Returns
    -------
    callable, optional
        Takes any object; returns a list, or None if it has to be encoded in another way. None if such functions are not
        possible.
    """
    if not (split.address and encode.address and is_layout_known()):
        return None
    calls = split.words.buffer_info(), encode.words.buffer_info()
    arrays = addresses_of((text, out, split_state, state)), *calls, addresses_of((integers(), c_api()))
    words = [*chain.from_iterable(arrays), split.address, encode.address, 0]
    return make_builtin(encode_line, np.array(words, dtype=np.int64))
