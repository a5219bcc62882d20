"""From a Python function to LLVM's language: the only module that knows Numba's internals.

Numba infers types and writes LLVM's language; optimising and generating code is left to `compiler`, once for a kernel as a
whole. Numba itself would do both for every helper: twice the time of a first run. Nothing of Numba is replaced: kernels have
a dispatcher class and a target of their own, so other users of Numba in the same process notice nothing.

What is used beside Numba's public functions, what for, and what would happen without it:

- `CPUContext.with_aot_codegen`, `insert_user_function`, `CPUContext.get_executable` and `Dispatcher.add_overload` (both
  overridden), `CPUTarget`, `CPUDispatcher.targetdescr`: a target that makes no machine code for each helper, as Numba's
  ahead-of-time compiler has. Without it, a first run takes nearly twice the time (30 s instead of 18).
- `AOTCodeLibrary._optimize_functions`, `_optimize_final_module` (both overridden to do nothing) and `Codegen._library_class`:
  `compiler` optimises. Without them, a sixth more time.
- `types.Dispatcher.get_call_type` (overridden): a helper is inferred once for all constants that it is called with. Without
  it, a sixth more time.
- `overloads`, `fndesc`, `call_conv`, `make_array`, `make_tuple`, `populate_array`: how a compiled function is called. Without
  them, `compiler` cannot write the function that takes arguments from words.
- `resolve_value_type`: how Numba knows an intrinsic. Without it, kernels cannot call one.

All of these are the same in the versions from 0.61.0 to 0.68.1, which are those that `pyproject.toml` allows. In a version
in which one is missing or takes other arguments, `is_possible` says so before anything is compiled, and kernels run as
`ordinary` describes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba

from bpejit.jit import ordinary

_EXPECTED = {
    "numba.core.base:BaseContext.subtarget": "self, **kws",
    "numba.core.base:BaseContext.insert_user_function": "self, func, fndesc, libs",
    "numba.core.base:BaseContext.get_abi_sizeof": "self, ty",
    "numba.core.base:BaseContext.make_array": "self, typ",
    "numba.core.base:BaseContext.make_tuple": "self, builder, typ, values",
    "numba.core.callconv:CPUCallConv.call_function": "self, builder, callee, resty, argtys, args, attrs",
    "numba.core.callconv:CPUCallConv.get_function_type": "self, restype, argtypes",
    "numba.core.codegen:AOTCPUCodegen._library_class": None,
    "numba.core.codegen:AOTCodeLibrary._optimize_functions": "self, ll_module",
    "numba.core.codegen:AOTCodeLibrary._optimize_final_module": "self",
    "numba.core.codegen:AOTCodeLibrary.emit_bitcode": "self",
    "numba.core.cpu:CPUContext.get_executable": "self, library, fndesc, env",
    "numba.core.cpu:CPUContext.with_aot_codegen": "self, name, **aot_options",
    "numba.core.compiler_lock:global_compiler_lock": None,
    "numba.core.dispatcher:Dispatcher.add_overload": "self, cres",
    "numba.core.dispatcher:Dispatcher.compile": "self, sig",
    "numba.core.registry:CPUDispatcher": "py_func, locals, targetoptions, pipeline_class",
    "numba.core.registry:CPUDispatcher.targetdescr": None,
    "numba.core.registry:CPUTarget.target_context": None,
    "numba.core.registry:CPUTarget.typing_context": None,
    "numba.core.registry:cpu_target": None,
    "numba.core.types:Dispatcher.get_call_type": "self, context, args, kws",
    "numba.core.types:unliteral": "lit_type",
    "numba.core.typing.context:BaseContext.refresh": "self",
    "numba.core.typing.context:BaseContext.resolve_value_type": "self, val",
    "numba.np.arrayobj:populate_array": "array, data, shape, strides, itemsize, meminfo, parent",
}
"""What is used of Numba that is not public: module and name, and the names of its arguments."""


class Lowered(NamedTuple):
    """A function in LLVM's language, with all that it calls.

    Parameters
    ----------
    module : llvmlite.binding.ModuleRef
        Not optimised.
    description : numba.core.funcdesc.FunctionDescriptor
        Its types, and its name in the module.
    """

    module: Any
    description: Any


@functools.cache
def is_possible() -> bool:
    """Whether this version of Numba has all that is used here, as expected; a warning says what it has not."""
    differences = find_differences()
    if differences:
        more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
        warnings.warn(
            f"numba {numba.__version__} differs inside from the versions that bpejit knows ({differences[0]}{more}); Numba "
            "runs the kernels, which makes each process start later: install one of the versions that bpejit asks for",
            RuntimeWarning,
            stacklevel=2,
        )
    return not differences


def find_differences() -> list[str]:
    """Return what this version of Numba lacks, or has in another form, of all that is used here."""
    found = []
    for place, wanted in _EXPECTED.items():
        module, _, names = place.partition(":")
        try:
            value: Any = functools.reduce(getattr, names.split("."), importlib.import_module(module))
        except (ImportError, AttributeError):
            found.append(f"{module}.{names} is missing")
            continue
        if wanted is not None:
            parameters = inspect.signature(value).parameters.values()
            arguments = ", ".join(f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name for one in parameters)
            if arguments != wanted:
                found.append(f"{module}.{names} takes ({arguments}), expected ({wanted})")
    return found


def lower(kernel: Any, arguments: tuple[Any, ...]) -> Lowered:
    """Write a kernel in LLVM's language, for the types of some arguments.

    Parameters
    ----------
    kernel : Kernel
    arguments : tuple

    Raises
    ------
    NumbaError
        If the kernel cannot be compiled for these types.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        signature = tuple(numba.typeof(argument) for argument in arguments)
        dispatcher = dispatcher_of(kernel)
        dispatcher.compile(signature)
        result = dispatcher.overloads[signature]
        return Lowered(llvm.parse_bitcode(result.library.emit_bitcode()), result.fndesc)


@functools.cache
def dispatcher_of(kernel: Any) -> Any:
    """Return the object by which Numba knows a function made with `kernel` or `inline`."""
    return _classes().dispatcher(kernel.function, targetoptions={**ordinary.options_of(kernel), **_NO_WRAPPERS})


_NO_WRAPPERS = {"nopython": True, "boundscheck": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def type_of_kernel(kernel: Any) -> Any:
    """Return the type by which Numba knows a function made with `kernel` or `inline`."""
    return _classes().helper_type(dispatcher_of(kernel))


def type_of_intrinsic(function: Any) -> Any:
    """Return the type by which Numba knows an `Intrinsic`: of `memory` as in `memory_llvm`, of `simd` as in `simd_llvm`."""
    from numba.core.registry import cpu_target

    module = importlib.import_module(f"{function.__module__}_llvm")
    context = cpu_target.typing_context
    context.refresh()  # makes what the module has defined known
    return context.resolve_value_type(getattr(module, function.__name__))


def target_context() -> Any:
    """Return the target for which functions are written."""
    return _classes().context


class _Classes(NamedTuple):
    dispatcher: Any
    helper_type: Any
    context: Any


@functools.cache
def _classes() -> _Classes:
    """Derive from Numba's classes, which must be as expected (see `find_differences`)."""
    from numba.core import types
    from numba.core.codegen import AOTCodeLibrary
    from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target

    class Library(AOTCodeLibrary):  # type: ignore[misc]
        """Code that is never optimised by Numba."""

        def _optimize_functions(self, ll_module: Any) -> None:
            pass

        def _optimize_final_module(self) -> None:
            pass

    class HelperType(types.Dispatcher):  # type: ignore[misc]
        """The type of a function that kernels call: a constant argument is one of its type, no more."""

        def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
            # Numba would infer a function once for each constant, and again for what is only at first one, like a sum that
            # begins with 0: a sixth of the time of a first run. Once the function is copied into its caller, LLVM knows the
            # constant.
            return super().get_call_type(context, tuple(map(types.unliteral, args)), kws)

    context = cpu_target.target_context.with_aot_codegen("bpejit")
    context.codegen()._library_class = Library
    # By what this returns, Numba finds the function again where it is called.
    context.get_executable = lambda library, fndesc, env: object()

    class Target(CPUTarget):  # type: ignore[misc]
        """A target that ends with LLVM's language."""

        target_context = context
        typing_context = cpu_target.typing_context

    class Dispatcher(CPUDispatcher):  # type: ignore[misc]
        """A function that is never called by Python."""

        targetdescr = Target("cpu")

        def add_overload(self, cres: Any) -> None:
            self.overloads[tuple(cres.signature.args)] = cres

    return _Classes(Dispatcher, HelperType, context)
