"""Compile a kernel to an object file.

Numba infers types and emits LLVM IR (`lowering`). This module adds an entry function that unpacks the arguments from 64-bit
words, optimizes the kernel and all its helpers as one module, and generates machine code.
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.np.arrayobj import populate_array

from bpejit.jit import MISMATCH, listening, lowering, target
from bpejit.jit.cache import Code

_WORD = ir.IntType(64)

# Offsets of the fields of NumPy's array object (`PyArrayObject_fields` in `ndarraytypes.h`). They follow the header of every
# Python object, whose last field is the type.
_DATA = object.__basicsize__
_TYPE = _DATA - 8
_DIMENSIONS = _DATA + 8  # int32
_SIZES = _DATA + 16
_ELEMENT = _DATA + 40
_FLAGS = _DATA + 48  # int32

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # NPY_ARRAY_C_CONTIGUOUS, _ALIGNED, _WRITEABLE


def compile_kernel(kernel: Any, arguments: tuple[Any, ...], symbol: str) -> Code:
    """Compile a kernel for the types of the given arguments.

    Parameters
    ----------
    kernel : Kernel
    arguments : tuple
    symbol : str
        Name of the function in the object file.

    Returns
    -------
    Code

    Raises
    ------
    NumbaError
        If the kernel cannot be compiled for these types.
    """
    collecting = gc.isenabled()
    gc.disable()  # saves a tenth of the time: Numba creates many objects, few of them garbage
    try:
        with listening.compiling(kernel.__qualname__):
            module, returns = _make_entry(lowering.lower(kernel, arguments), symbol, kernel.is_method)
            return Code(_generate(module, symbol), returns)
    finally:
        if collecting:
            gc.enable()


def _make_entry(lowered: lowering.Lowered, symbol: str, is_method: bool) -> tuple[Any, tuple[str, ...] | str]:
    """Return a module with an entry function that calls the lowered function, and the types of the results.

    The entry function takes a pointer to 64-bit words: the words of the arguments; the address of the results, if there is more
    than one; and for each array the addresses of its expected type and dtype. It returns `MISMATCH` if an array does not have
    these. That of a method, which Python calls (see `methods`), takes the words of the two arguments themselves: the address of
    an array object, which is not checked, and that of any object.
    """
    context = lowering.target_context()
    descriptor = lowered.descriptor
    module = ir.Module("entry")
    module.triple = llvm.get_process_triple()
    module.data_layout = str(_target_machine().target_data)
    callee_type = context.call_conv.get_function_type(descriptor.restype, descriptor.argtypes)
    callee = ir.Function(module, callee_type, descriptor.llvm_func_name)
    parameters = [_WORD, _WORD] if is_method else [_WORD.as_pointer()]
    entry = ir.Function(module, ir.FunctionType(_WORD, parameters), symbol)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    several = isinstance(descriptor.restype, types.BaseTuple)
    indices = itertools.count()
    expected = itertools.count(_count_words(descriptor.argtypes) + several)

    def word(index: int) -> Any:
        return entry.args[index] if is_method else builder.load(builder.gep(entry.args[0], [_WORD(index)]))

    def unpack(kind: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [unpack(field) for field in kind.types])
        given = word(next(indices))
        if isinstance(kind, types.Array):
            if not is_method:
                _check_array(builder, kind, given, word(next(expected)), word(next(expected)))
            return _as_array(context, builder, kind, given)
        if isinstance(kind, types.Boolean):
            return builder.icmp_signed("!=", given, _WORD(0))
        return given if kind.bitwidth == _WORD.width else builder.trunc(given, ir.IntType(kind.bitwidth))

    arguments = [unpack(kind) for kind in descriptor.argtypes]
    _, value = context.call_conv.call_function(builder, callee, descriptor.restype, descriptor.argtypes, arguments)
    returns: tuple[str, ...] | str
    if several:
        results = builder.inttoptr(word(next(indices)), _WORD.as_pointer())
        for index, kind in enumerate(descriptor.restype.types):
            builder.store(_as_word(builder, kind, builder.extract_value(value, index)), builder.gep(results, [_WORD(index)]))
        builder.ret(_WORD(0))
        returns = tuple(_result_type(kind) for kind in descriptor.restype.types)
    else:
        builder.ret(_as_word(builder, descriptor.restype, value))
        returns = _result_type(descriptor.restype)
    linked = llvm.parse_assembly(str(module))
    linked.link_in(lowered.module)
    return linked, returns


def _count_words(kinds: Iterable[Any]) -> int:
    return sum(_count_words(kind.types) if isinstance(kind, types.BaseTuple) else 1 for kind in kinds)


def _check_array(builder: Any, kind: Any, given: Any, array_type: Any, element_type: Any) -> None:
    """Emit code that returns `MISMATCH` unless the array object at the address `given` has the expected type and layout."""

    def field(offset: int, width: int = 64) -> Any:
        return _field(builder, given, offset, width)

    def check(found: Any, wanted: Any) -> None:
        with builder.if_then(builder.icmp_signed("!=", found, wanted), likely=False):
            builder.ret(_WORD(MISMATCH))

    flags = _CONTIGUOUS | _ALIGNED | (_WRITEABLE if kind.mutable else 0)
    check(field(_TYPE), array_type)
    check(field(_ELEMENT), element_type)
    check(field(_DIMENSIONS, 32), ir.IntType(32)(1))
    check(builder.and_(field(_FLAGS, 32), ir.IntType(32)(_CONTIGUOUS | _ALIGNED | _WRITEABLE)), ir.IntType(32)(flags))


def _field(builder: Any, given: Any, offset: int, width: int = 64) -> Any:
    """Emit code that reads a field of the object at the address `given`."""
    return builder.load(builder.inttoptr(builder.add(given, _WORD(offset)), ir.IntType(width).as_pointer()))


def _as_array(context: Any, builder: Any, kind: Any, given: Any) -> Any:
    """Emit code that builds Numba's array structure from the address of an array object of this type."""
    data = builder.inttoptr(_field(builder, given, _DATA), context.get_data_type(kind.dtype).as_pointer())
    size = builder.load(builder.inttoptr(_field(builder, given, _SIZES), _WORD.as_pointer()))
    width = _WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    array = context.make_array(kind)(context, builder)
    populate_array(array, data=data, shape=[size], strides=[width], itemsize=width, meminfo=None)
    return array._getvalue()


def _as_word(builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.NoneType):
        return _WORD(0)
    if value.type == _WORD:
        return value
    signed = isinstance(kind, types.Integer) and kind.signed
    return builder.sext(value, _WORD) if signed else builder.zext(value, _WORD)


def _result_type(kind: Any) -> str:
    if isinstance(kind, types.NoneType):
        return "none"
    if isinstance(kind, types.Boolean):
        return "bool"
    if not isinstance(kind, types.Integer):
        raise TypeError(f"a kernel returns {kind}; expected integers, bools or nothing")
    return "int" if kind.signed else "uint"


@functools.cache
def _target_machine() -> Any:
    # "pic": position-independent code, with its constants beside it.
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=target.current().cpu,
        features=target.current().features,
        opt=3,
        reloc="pic",
        codemodel="default",
    )


def _generate(module: Any, symbol: str) -> bytes:
    """Optimize a module for the target processor and return its machine code as an object file."""
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            # Not "internal": LLVM would then inline every function with a single caller, and large loops would run out of
            # registers.
            function.linkage = "linkonce_odr"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    module.verify()
    machine = _target_machine()
    # Two rounds, as in Numba: first inlining and loop simplification, then everything else. Code from one round alone is a few
    # percent slower.
    for speed_level in (0, 3):
        options = llvm.create_pipeline_tuning_options(speed_level=speed_level)
        options.loop_vectorization = speed_level > 0
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        passes = builder.getModulePassManager()
        if speed_level == 0:
            passes.add_loop_rotate_pass()
            passes.add_instruction_combine_pass()
            passes.add_jump_threading_pass()
        passes.run(module, builder)
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"  # kernels that are linked together must not call each other's copies
    passes = llvm.create_new_module_pass_manager()
    if hasattr(passes, "add_dead_arg_elimination_pass"):  # from llvmlite 0.45 on
        # Possible only now that functions are internal: an array is seven arguments, most of which no function uses.
        passes.add_dead_arg_elimination_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3)))
    return bytes(machine.emit_object(module))
