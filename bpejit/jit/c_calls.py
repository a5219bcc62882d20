"""Calls of C functions by their addresses, in compiled code.

Arguments and results are 64-bit integers: numbers, or addresses of Python objects. The result of a function that returns a C
`int` or nothing is undefined. Neither addresses nor arguments are checked, and the caller holds the GIL. `c_calls_llvm` has the
same operations in LLVM IR.
"""

from __future__ import annotations

import ctypes
from typing import Any

from bpejit.jit.memory import Intrinsic


@Intrinsic
def call_1(address: Any, first: Any) -> Any:
    """Call a function with one argument."""
    return _call(address, first)


@Intrinsic
def call_2(address: Any, first: Any, second: Any) -> Any:
    """Call a function with two arguments."""
    return _call(address, first, second)


@Intrinsic
def call_3(address: Any, first: Any, second: Any, third: Any) -> Any:
    """Call a function with three arguments."""
    return _call(address, first, second, third)


def _call(address: Any, *arguments: Any) -> int:
    kinds = [ctypes.c_int64] * (len(arguments) + 1)
    result: int = ctypes.PYFUNCTYPE(*kinds)(int(address))(*map(int, arguments))
    return result
