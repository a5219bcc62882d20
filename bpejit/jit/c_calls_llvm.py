"""The operations of `c_calls` in LLVM IR; loaded only when a kernel is compiled."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    word = ir.IntType(64)
    function = ir.FunctionType(word, [word] * (len(arguments) - 1))
    return builder.call(builder.inttoptr(arguments[0], function.as_pointer()), arguments[1:])


@intrinsic
def call_1(typing_context: Any, address: Any, first: Any) -> Any:
    """Call a function with one argument."""
    return types.int64(types.int64, types.int64), _generate


@intrinsic
def call_2(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
    """Call a function with two arguments."""
    return types.int64(types.int64, types.int64, types.int64), _generate


@intrinsic
def call_3(typing_context: Any, address: Any, first: Any, second: Any, third: Any) -> Any:
    """Call a function with three arguments."""
    return types.int64(types.int64, types.int64, types.int64, types.int64), _generate
