"""Operations on memory and integers that Numba lacks, and calls of C functions.

Each operation is implemented here in Python, for `NUMBA_DISABLE_JIT=1` and as a reference, and in `memory_llvm` as a few
instructions of LLVM IR with the same result. Indices are not checked. Multi-byte values are little-endian.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np


class Intrinsic:
    """A function that compiles to LLVM IR: the function of the same name in `memory_llvm` or `simd_llvm`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Call the Python implementation."""
        return self.function(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """The Numba type of this object in a kernel that calls it."""
        from bpejit.jit.lowering import type_of_intrinsic

        return type_of_intrinsic(self.function)


@Intrinsic
def array_at(addresses: Any, number: Any, element: Any) -> Any:
    """Return an array of `element`s, given by its address and size in `addresses[2 * number:2 * number + 2]` (int64)."""
    size = int(addresses[2 * number + 1])
    n_bytes = size * np.dtype(element).itemsize
    return np.frombuffer((ctypes.c_char * n_bytes).from_address(int(addresses[2 * number])), dtype=element)


@Intrinsic
def load_u64(array: Any, index: Any) -> Any:
    """Return the eight bytes at `array[index]` (any element type, any alignment) as one uint64."""
    at = int(index) * array.itemsize
    return np.uint64(int.from_bytes(array.view(np.uint8)[at : at + 8].tobytes(), "little"))


@Intrinsic
def store_u64(array: Any, index: Any, value: Any) -> None:
    """Store the uint64 `value` in the eight bytes at `array[index]` (any element type, any alignment)."""
    bytes_of = array.view(np.uint8)
    at = int(index) * array.itemsize
    bytes_of[at : at + 8] = np.frombuffer(int(value).to_bytes(8, "little"), dtype=np.uint8)


@Intrinsic
def prefetch(array: Any, index: Any) -> None:
    """Prefetch the cache line of `array[index]`; no operation in plain Python."""


@Intrinsic
def fold_multiply(a: Any, b: Any) -> Any:
    """Return the high half XOR the low half of the 128-bit product of two uint64, the mixing step of the hashes."""
    product = int(a) * int(b)
    return np.uint64((product ^ (product >> 64)) & 0xFFFF_FFFF_FFFF_FFFF)


@Intrinsic
def bit_length(value: Any) -> Any:
    """Return the number of bits of a uint64 without its leading zeros, as uint64; 0 for 0."""
    return np.uint64(int(value).bit_length())


@Intrinsic
def count_ones(value: Any) -> Any:
    """Return the number of ones among the bits of a uint64, as uint64."""
    return np.uint64(int(value).bit_count())


@Intrinsic
def call_c(address: Any, arguments: Any) -> Any:
    """Call the C function at an address with a tuple of arguments.

    Arguments and results are 64-bit integers: numbers, or addresses of Python objects. The result of a function that returns a
    C `int` or nothing is undefined. Neither addresses nor arguments are checked, and the caller holds the GIL.
    """
    kinds = [ctypes.c_int64] * (len(arguments) + 1)
    result: int = ctypes.PYFUNCTYPE(*kinds)(int(address))(*map(int, arguments))
    return result
