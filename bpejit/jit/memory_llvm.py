"""The operations of `memory` in LLVM IR; loaded only when a kernel is compiled."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


def address_of(
    context: Any,
    builder: Any,
    array_type: Any,
    array: Any,
    index_type: Any,
    index: Any,
) -> Any:
    """Return the address of `array[index]` as a byte pointer."""
    data = context.make_array(array_type)(context, builder, array).data
    index = context.cast(builder, index, index_type, types.uint64)
    return builder.bitcast(builder.gep(data, [index]), ir.IntType(8).as_pointer())


@intrinsic
def load_u64(typing_context: Any, array: Any, index: Any) -> Any:
    """Return the eight bytes at `array[index]` (any element type, any alignment) as one uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address_of(context, builder, signature.args[0], arguments[0], signature.args[1], arguments[1])
        word = ir.IntType(64)
        return builder.load(builder.bitcast(pointer, word.as_pointer()), align=1)

    return types.uint64(array, index), generate


@intrinsic
def store_u64(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Store the uint64 `value` in the eight bytes at `array[index]` (any element type, any alignment)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address_of(context, builder, signature.args[0], arguments[0], signature.args[1], arguments[1])
        builder.store(arguments[2], builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, index, types.uint64), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of `array[index]`; this never faults."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address_of(context, builder, signature.args[0], arguments[0], signature.args[1], arguments[1])
        flag = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer.type, flag, flag, flag]),
            "llvm.prefetch.p0",
        )
        # read, keep in every cache level, data cache
        builder.call(function, [pointer, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


@intrinsic
def fold_multiply(typing_context: Any, a: Any, b: Any) -> Any:
    """Return the high half XOR the low half of the 128-bit product of two uint64, the mixing step of the hashes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        folded = builder.xor(product, builder.lshr(product, wide(64)))
        return builder.trunc(folded, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def bit_length(typing_context: Any, value: Any) -> Any:
    """Return the number of bits of a uint64 without its leading zeros, as uint64; 0 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        return builder.sub(word(64), builder.ctlz(arguments[0], ir.IntType(1)(0)))

    return types.uint64(types.uint64), generate


@intrinsic
def count_ones(typing_context: Any, value: Any) -> Any:
    """Return the number of ones among the bits of a uint64, as uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def array_at(typing_context: Any, addresses: Any, number: Any, element: Any) -> Any:
    """Return an array of `element`s, given by its address and size in `addresses[2 * number:2 * number + 2]` (int64)."""
    array_type = types.Array(element.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        index = builder.shl(context.cast(builder, arguments[1], signature.args[1], types.intp), ir.IntType(64)(1))
        address = builder.load(builder.gep(entries, [index]))
        size = builder.load(builder.gep(entries, [builder.add(index, ir.IntType(64)(1))]))
        width = context.get_constant(types.intp, array_type.dtype.bitwidth // 8)
        array = context.make_array(array_type)(context, builder)
        data = builder.inttoptr(address, context.get_data_type(array_type.dtype).as_pointer())
        populate_array(array, data=data, shape=[size], strides=[width], itemsize=width, meminfo=None)
        return array._getvalue()

    return array_type(addresses, number, element), generate
