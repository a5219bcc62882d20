"""The operations of `memory` in LLVM IR; loaded only when a kernel is compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from bpejit.jit import target

WORD = ir.IntType(64)

_FLAG = ir.IntType(32)


def emits(result: Any, *, needs: str = "") -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic with a type of result of a function that emits its code.

    The function takes a builder and the values of the arguments: integers as 64-bit words, and arrays as pointers to their
    first element. It returns a value; a list of values if the type of the result is a tuple; or nothing.
    If the target lacks the property that `needs` names, the result is 0.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if needs and not getattr(target.current(), needs):
                return context.get_constant_null(signature.return_type)
            values = [
                context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
                for kind, value in zip(signature.args, arguments, strict=True)
            ]
            found = emit(builder, *values)
            if isinstance(found, list):
                return context.make_tuple(builder, signature.return_type, found)
            return context.get_dummy_value() if found is None else found

        def typed(typing_context: Any, *given: Any) -> Any:
            return result(*(types.uint64 if isinstance(kind, types.Integer) else kind for kind in given)), generate

        typed.__name__ = emit.__name__
        typed.__doc__ = emit.__doc__
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]  # Numba ignores the first parameter
        return intrinsic(typed)

    return decorate


def address_of(builder: Any, array: Any, index: Any) -> Any:
    """Return the address of an element as a byte pointer."""
    return builder.bitcast(builder.gep(array, [index]), ir.IntType(8).as_pointer())


def _word_at(builder: Any, array: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(array, [index]), WORD.as_pointer())


@emits(types.uint64)
def load_u64(builder: Any, array: Any, index: Any) -> Any:
    """Return the eight bytes at `array[index]` (any element type, any alignment) as one uint64."""
    return builder.load(_word_at(builder, array, index), align=1)


@emits(types.void)
def store_u64(builder: Any, array: Any, index: Any, value: Any) -> None:
    """Store the uint64 `value` in the eight bytes at `array[index]` (any element type, any alignment)."""
    builder.store(value, _word_at(builder, array, index), align=1)


@emits(types.void)
def prefetch(builder: Any, array: Any, index: Any) -> None:
    """Prefetch the cache line of `array[index]`; this never faults."""
    pointer = address_of(builder, array, index)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, _FLAG, _FLAG, _FLAG])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    # read, keep in every cache level, data cache
    builder.call(function, [pointer, _FLAG(0), _FLAG(3), _FLAG(1)])


@emits(types.uint64)
def fold_multiply(builder: Any, a: Any, b: Any) -> Any:
    """Return the high half XOR the low half of the 128-bit product of two uint64, the mixing step of the hashes."""
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    return builder.trunc(builder.xor(product, builder.lshr(product, wide(64))), WORD)


@emits(types.uint64)
def bit_length(builder: Any, value: Any) -> Any:
    """Return the number of bits of a uint64 without its leading zeros, as uint64; 0 for 0."""
    return builder.sub(WORD(64), builder.ctlz(value, ir.IntType(1)(0)))


@emits(types.uint64)
def count_ones(builder: Any, value: Any) -> Any:
    """Return the number of ones among the bits of a uint64, as uint64."""
    return builder.ctpop(value)


@emits(types.int64)
def call_c(builder: Any, address: Any, arguments: Any) -> Any:
    """Call the C function at an address with a tuple of arguments."""
    values = cgutils.unpack_tuple(builder, arguments)
    function = ir.FunctionType(WORD, [WORD] * len(values))
    return builder.call(builder.inttoptr(address, function.as_pointer()), values)


@intrinsic
def array_at(typing_context: Any, addresses: Any, number: Any, element: Any) -> Any:
    """Return an array of `element`s, given by its address and size in `addresses[2 * number:2 * number + 2]` (int64)."""
    array_type = types.Array(element.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        index = builder.shl(context.cast(builder, arguments[1], signature.args[1], types.intp), WORD(1))
        address = builder.load(builder.gep(entries, [index]))
        size = builder.load(builder.gep(entries, [builder.add(index, WORD(1))]))
        width = context.get_constant(types.intp, array_type.dtype.bitwidth // 8)
        array = context.make_array(array_type)(context, builder)
        data = builder.inttoptr(address, context.get_data_type(array_type.dtype).as_pointer())
        populate_array(array, data=data, shape=[size], strides=[width], itemsize=width, meminfo=None)
        return array._getvalue()

    return array_type(addresses, number, element), generate
