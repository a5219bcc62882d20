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
    "PyList_New",
    "PyList_SetItem",
    "PyList_Size",
    "PyList_GetItem",
    "PyLong_FromLongLong",
)

(
    INCREF,
    DECREF,
    NEW_LIST,
    SET_ITEM,
    LIST_SIZE,
    GET_ITEM,
    FROM_INTEGER,
) = range(2, 2 + len(_FUNCTIONS))
"""Indices of the addresses of functions in `c_api`."""

NONE, STR, BYTES, ARRAY, NEW_ARRAY = range(2 + len(_FUNCTIONS), 7 + len(_FUNCTIONS))
"""Indices of the addresses of `None`, `str`, `bytes`, `numpy.ndarray` and NumPy's function `PyArray_New`."""

ASCII_DATA, WIDE_DATA = NEW_ARRAY + 1, NEW_ARRAY + 2
"""Indices of where the characters of a string begin, in bytes after its address: if they are ASCII, and if not."""

_PLACE_OF_NEW_ARRAY = 93
"""Place of `PyArray_New` in the table through which NumPy offers its C API. NumPy never changes the places."""

MEMORY = 0
"""Index of an array of all memory in `c_api`, for `jit.memory.array_at`: its address is 0."""

TYPE_WORD = object.__basicsize__ // 8 - 1
"""Index of the address of its type among the words of an object."""

DATA_WORD = TYPE_WORD + 1
"""Index of the address of its data among the words of an array object."""

SIZE_WORD = TYPE_WORD + 1
"""Index of its length among the words of a string, and of its size among those of `bytes`."""

ITEMS_WORD = TYPE_WORD + 2
"""Index of the address of its items among the words of a list."""

REFERENCES = np.int64 if sys.version_info < (3, 12) else np.int32
"""Type of the number of references, with which an object begins. It is negative if references are not counted."""


@functools.cache
def c_api() -> Any:
    """Return the address and size of all memory, the addresses of the functions and objects that code refers to, and offsets.

    It is an int64 array that is never freed.
    """
    functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    objects = id(None), id(str), id(bytes), id(np.ndarray)
    offsets = sys.getsizeof("") - 1, str.__basicsize__ - 8
    return np.array([0, sys.maxsize >> 3, *functions, *objects, _numpy_table()[_PLACE_OF_NEW_ARRAY], *offsets], dtype=np.int64)


def _numpy_table() -> Any:
    """Return the table of addresses that modules in C import from NumPy."""
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]  # since NumPy 2
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.cast(address_of(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
