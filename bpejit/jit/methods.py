"""Make builtin functions and iterators of Python from compiled code, which calls the C API of Python.

Calling a kernel through ctypes, and turning its results into Python objects, takes a microsecond and more, three times as long
as encoding a sentence. A builtin function takes 20 ns, and its code creates the objects itself, while it holds the GIL.

Such a function is written like a kernel and decorated with `dispatch.method`. It receives an array of words and the address of
its argument, calls functions of the stable ABI by their addresses (`memory`), and returns the address of a new reference; or
0, after a function of the C API has set an exception. It may rely on two layouts, which all versions of CPython with a GIL
share: an object begins with the number of its references, and a list has the address of its items. Where there is none, because
kernels are not compiled by `compiler`, or because threads run without a GIL, callers have another way that gives the same
result.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_HEAD_BYTES = 16
"""Size of the head of an object, a count and an address. It differs with 32-bit addresses, and without a GIL."""

_LIST_BYTES = 40
"""Size of a list: a head, the number of items, their address, and the number for which there is room."""

_TAKES_ONE = 0x8
"""METH_O of the C API: the function takes one argument."""

_ITER, _NEXT = 62, 63
"""Numbers of slots of a type: Py_tp_iter and Py_tp_iternext."""


class _Definition(ctypes.Structure):
    """`PyMethodDef` of the C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    """`PyType_Slot` of the C API."""

    _fields_ = (("number", ctypes.c_int), ("address", ctypes.c_void_p))


class _Specification(ctypes.Structure):
    """`PyType_Spec` of the C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("n_bytes", ctypes.c_int),
        ("item_bytes", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


def are_possible() -> bool:
    """Return True if code may call the C API of this interpreter."""
    sizes = object.__basicsize__, list.__basicsize__
    return sys.implementation.name == "cpython" and sizes == (_HEAD_BYTES, _LIST_BYTES)


def builtin_of(address: int, name: str, words: Any) -> Callable[[object], Any]:
    """Return a builtin function that takes one argument.

    Parameters
    ----------
    address : int
        Code that was compiled as a method, and is never freed.
    name : str
    words : int64 array
        Passed to the code; the function keeps it alive.
    """
    definition = _definition_of(address, name)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.argtypes = ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
    create.restype = ctypes.py_object
    function: Callable[[object], Any] = create(ctypes.addressof(definition), words, None)
    return function


@functools.cache
def _definition_of(address: int, name: str) -> _Definition:
    """Return a definition that is never freed, since builtin functions refer to it without owning it."""
    return _Definition(name.encode(), address, _TAKES_ONE, None)


def iterator_of(address: int, name: str, words: Any) -> Any:
    """Return a view of an array of words that is an iterator, whose items the code returns.

    A subclass of arrays, because code that is compiled as a method receives an array first. Its second argument is undefined,
    and it returns 0 at the end.
    """
    return words.view(_iterator_type(address, name)[0])


@functools.cache
def _iterator_type(address: int, name: str) -> tuple[type, _Specification]:
    """Return a type and its specification, to whose name it may refer."""
    itself = ctypes.cast(ctypes.pythonapi.PyObject_SelfIter, ctypes.c_void_p).value
    slots = (_Slot * 3)(_Slot(_ITER, itself), _Slot(_NEXT, address))
    specification = _Specification(f"{__name__}.{name}".encode(), 0, 0, 0, slots)
    create = ctypes.pythonapi.PyType_FromSpecWithBases
    create.argtypes = ctypes.POINTER(_Specification), ctypes.py_object
    create.restype = ctypes.py_object
    made: type = create(specification, (np.ndarray,))
    return made, specification
