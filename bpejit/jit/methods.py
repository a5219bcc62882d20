"""Make builtin functions of Python from compiled code, which calls the C API of Python.

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

_HEAD_BYTES = 16
"""Size of the head of an object, a count and an address. It differs with 32-bit addresses, and without a GIL."""

_LIST_BYTES = 40
"""Size of a list: a head, the number of items, their address, and the number for which there is room."""

_TAKES_ONE = 0x8
"""METH_O of the C API: the function takes one argument."""


class _Definition(ctypes.Structure):
    """`PyMethodDef` of the C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
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
