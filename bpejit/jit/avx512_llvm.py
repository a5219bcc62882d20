"""The instructions of AVX-512 VBMI and VBMI2 that `simd_llvm` uses, or for tests a slow equivalent without AVX-512."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from bpejit.jit import target

_LANES = 64
_BYTE = ir.IntType(8)
_WORD = ir.IntType(64)
_BYTES = ir.VectorType(_BYTE, _LANES)


def look_up_two(builder: Any, lower: Any, index: Any, upper: Any) -> Any:
    """Return 64 entries of a table of 128 bytes at the low seven bits of each index (VPERMI2B)."""
    return _call(builder, "llvm.x86.avx512.vpermi2var.qi.512", _emulate_look_up, [lower, index, upper])


def look_up_one(builder: Any, table: Any, index: Any) -> Any:
    """Return 64 entries of a table of 64 bytes at the low six bits of each index (VPERMB)."""
    return _call(builder, "llvm.x86.avx512.permvar.qi.512", _emulate_look_up, [table, index])


def compress(builder: Any, given: Any, mask: Any) -> Any:
    """Return the bytes that a mask selects, moved together, then zeros (VPCOMPRESSB)."""
    arguments = [given, ir.Constant(_BYTES, None), mask]
    return _call(builder, "llvm.x86.avx512.mask.compress.v64i8", _emulate_compress, arguments)


def _call(builder: Any, name: str, emulate: Callable[..., Any], arguments: list[Any]) -> Any:
    module = builder.module
    kind = ir.FunctionType(_BYTES, [argument.type for argument in arguments])
    if not target.current().emulates_avx512:
        return builder.call(cgutils.get_or_insert_function(module, kind, name), arguments)
    name = name.replace("llvm.x86", "emulated")
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, kind, name)
        function.linkage = "internal"
        inner = ir.IRBuilder(function.append_basic_block())
        result = emulate(inner, *function.args)
        inner.ret(inner.load(inner.bitcast(result, _BYTES.as_pointer()), align=1))
    return builder.call(function, arguments)


def _memory(builder: Any, *values: Any) -> Any:
    """Store vectors one after the other in memory of a function; return its address, as that of bytes."""
    size = _LANES * len(values)
    start = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(_BYTE, size)), _BYTE.as_pointer())
    for number, value in enumerate(values):
        part = builder.gep(start, [_WORD(_LANES * number)])
        builder.store(value, builder.bitcast(part, _BYTES.as_pointer()), align=1)
    return start


def _emulate_look_up(builder: Any, lower: Any, index: Any, upper: Any = None) -> Any:
    halves = [lower] if upper is None else [lower, upper]
    table = _memory(builder, *halves)
    entries = _memory(builder, index)
    mask = _BYTE(_LANES * len(halves) - 1)
    with cgutils.for_range(builder, _WORD(_LANES), intp=_WORD) as loop:
        entry = builder.gep(entries, [loop.index])
        at = builder.zext(builder.and_(builder.load(entry), mask), _WORD)
        builder.store(builder.load(builder.gep(table, [at])), entry)
    return entries


def _emulate_compress(builder: Any, given: Any, otherwise: Any, mask: Any) -> Any:
    source = _memory(builder, given)
    out = _memory(builder, otherwise)
    bits = builder.bitcast(mask, _WORD)
    n = cgutils.alloca_once_value(builder, _WORD(0))
    with cgutils.for_range(builder, _WORD(_LANES), intp=_WORD) as loop:
        is_selected = builder.trunc(builder.lshr(bits, loop.index), ir.IntType(1))
        with builder.if_then(is_selected):
            at = builder.load(n)
            builder.store(builder.load(builder.gep(source, [loop.index])), builder.gep(out, [at]))
            builder.store(builder.add(at, _WORD(1)), n)
    return out
