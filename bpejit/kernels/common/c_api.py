"""Addresses of functions and objects of Python, for methods (see `bpejit.jit.methods`)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

_FUNCTIONS = (
    "Py_IncRef",
    "Py_DecRef",
    "PyErr_Clear",
    "PyList_New",
    "PyList_SetItem",
    "PyList_Size",
    "PyList_GetItem",
    "PyLong_FromLongLong",
    "PyUnicode_GetLength",
    "PyUnicode_AsUTF8String",
    "PyBytes_Size",
    "PyBytes_AsString",
)

(
    INCREF,
    DECREF,
    CLEAR_ERROR,
    NEW_LIST,
    SET_ITEM,
    LIST_SIZE,
    GET_ITEM,
    FROM_INTEGER,
    STRING_LENGTH,
    AS_UTF8,
    BYTES_SIZE,
    BYTES_DATA,
) = range(len(_FUNCTIONS))
"""Indices of the addresses of functions in `c_api`."""

NONE, STR = len(_FUNCTIONS), len(_FUNCTIONS) + 1
"""Indices of the addresses of `None` and `str`."""

TYPE_WORD = object.__basicsize__ // 8 - 1
"""Index of the address of its type among the words of an object."""

DATA_WORD = TYPE_WORD + 1
"""Index of the address of its data among the words of an array object."""


@functools.cache
def c_api() -> Any:
    """Return the addresses of the functions and objects that code refers to, as an int64 array that is never freed."""
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    return np.array([*functions, id(None), id(str)], dtype=np.int64)
