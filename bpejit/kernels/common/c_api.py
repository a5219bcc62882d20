"""Addresses of functions and objects of Python and NumPy, for methods (see `bpejit.jit.methods`)."""

from __future__ import annotations

import ctypes
import functools
import sys
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
) = range(2, 2 + len(_FUNCTIONS))
"""Indices of the addresses of functions in `c_api`."""

NONE, STR, ARRAY, NEW_ARRAY = range(2 + len(_FUNCTIONS), 6 + len(_FUNCTIONS))
"""Indices of the addresses of `None`, `str`, `numpy.ndarray` and NumPy's function `PyArray_New`."""

_PLACE_OF_NEW_ARRAY = 93
"""Place of `PyArray_New` in the table through which NumPy offers its C API. NumPy never changes the places."""

MEMORY = 0
"""Index of an array of all memory in `c_api`, for `jit.memory.array_at`: its address is 0."""

TYPE_WORD = object.__basicsize__ // 8 - 1
"""Index of the address of its type among the words of an object."""

DATA_WORD = TYPE_WORD + 1
"""Index of the address of its data among the words of an array object."""

ITEMS_WORD = TYPE_WORD + 2
"""Index of the address of its items among the words of a list."""

REFERENCES = np.int64 if sys.version_info < (3, 12) else np.int32
"""Type of the number of references, with which an object begins. It is negative if references are not counted."""


@functools.cache
def c_api() -> Any:
    """Return the address and size of all memory, and the addresses of the functions and objects that code refers to.

    It is an int64 array that is never freed.
    """
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    objects = id(None), id(str), id(np.ndarray)
    return np.array([0, sys.maxsize >> 3, *functions, *objects, _numpy_table()[_PLACE_OF_NEW_ARRAY]], dtype=np.int64)


def _numpy_table() -> Any:
    """Return the table of addresses that modules in C import from NumPy."""
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]  # since NumPy 2
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.cast(address_of(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
