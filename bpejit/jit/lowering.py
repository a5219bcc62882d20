"""Lower Python functions to LLVM IR. This module, `compiler` and the intrinsics (`*_llvm`) use internals of Numba.

Numba infers types and emits LLVM IR; `compiler` then optimizes each kernel as a whole. Numba itself would optimize and compile
every helper separately, which doubles the time of a first run. Numba is not patched: kernels have their own dispatcher class
and target, so other users of Numba in the same process are not affected.

Private names in use, their purpose, and the cost of doing without:

- `CPUContext.with_aot_codegen`, `insert_user_function`, `CPUContext.get_executable` and `Dispatcher.add_overload` (both
  overridden), `CPUTarget`, `CPUDispatcher.targetdescr`: a target that generates no machine code for helpers, like that of
  Numba's ahead-of-time compiler. Without it, a first run takes 30 s instead of 18 s.
- `AOTCodeLibrary._optimize_functions`, `_optimize_final_module` (both overridden to do nothing) and `Codegen._library_class`:
  disable Numba's optimization, since `compiler` optimizes. Without them, a first run takes a sixth longer.
- `CompilerBase`, `PassManager` and the passes in `_PASSES`, of 24: Numba has documented that compilers choose their passes, not
  which there are. Without them, lowering takes a sixth longer; the machine code is the same.
- `types.Dispatcher.get_call_type` (overridden): infers a helper once for all constant arguments. Without it, a first run takes
  a sixth longer.
- `overloads`, `fndesc`, `call_conv`, `make_array`, `make_tuple`, `populate_array`: the calling convention of compiled
  functions. Without them, `compiler` cannot emit the entry function.
- `resolve_value_type`: resolves an intrinsic. Without it, kernels cannot call intrinsics.

All of these are identical in Numba 0.61.0 to 0.68.1, the range that `pyproject.toml` allows. If one is missing or has a
different signature, `is_supported` returns False before anything is compiled, and kernels run through `ordinary`.
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

_PASSES = (
    "untyped_passes:TranslateByteCode",
    "untyped_passes:FixupArgs",
    "untyped_passes:IRProcessing",
    "untyped_passes:RewriteSemanticConstants",
    "untyped_passes:DeadBranchPrune",
    "untyped_passes:GenericRewrites",
    "untyped_passes:ReconstructSSA",
    "typed_passes:NopythonTypeInference",
    "typed_passes:PreLowerStripPhis",
    "typed_passes:IRLegalization",
    "typed_passes:NativeLowering",
    "typed_passes:NoPythonBackend",
)
"""The passes of Numba that kernels need; others are for closures, array expressions, literals and so on."""

_EXPECTED = {
    **{f"numba.core.{location}": None for location in _PASSES},
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
    "numba.core.compiler:CompilerBase.define_pipelines": "self",
    "numba.core.compiler_lock:global_compiler_lock": None,
    "numba.core.compiler_machinery:PassManager.add_pass": "self, pss, description",
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
"""The private names of Numba in use, as `module:name`, and their expected parameters."""


class Lowered(NamedTuple):
    """A function and everything it calls, as LLVM IR.

    Parameters
    ----------
    module : llvmlite.binding.ModuleRef
        Not optimized.
    descriptor : numba.core.funcdesc.FunctionDescriptor
        The types of the function and its name in the module.
    """

    module: Any
    descriptor: Any


@functools.cache
def is_supported() -> bool:
    """Return True if the installed version of Numba has all private names in use. Otherwise warn once."""
    differences = find_differences()
    if differences:
        more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
        warnings.warn(
            f"the internals of numba {numba.__version__} differ from those of the tested versions ({differences[0]}{more}); "
            "kernels run through Numba's own dispatcher, and each process starts more slowly: install a version of numba that "
            "bpejit requires",
            RuntimeWarning,
            stacklevel=2,
        )
    return not differences


def find_differences() -> list[str]:
    """Return a description of each private name that the installed version of Numba lacks or defines differently."""
    found = []
    for location, wanted in _EXPECTED.items():
        name = location.replace(":", ".")
        try:
            value = _find(location)
        except (ImportError, AttributeError):
            found.append(f"{name} is missing")
            continue
        if wanted is not None:
            parameters = inspect.signature(value).parameters.values()
            arguments = ", ".join(f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name for one in parameters)
            if arguments != wanted:
                found.append(f"{name} takes ({arguments}); expected ({wanted})")
    return found


def _find(location: str) -> Any:
    module, _, names = location.partition(":")
    return functools.reduce(getattr, names.split("."), importlib.import_module(module))


def lower(kernel: Any, arguments: tuple[Any, ...]) -> Lowered:
    """Lower a kernel to LLVM IR for the types of the given arguments.

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
    """Return the Numba dispatcher of a function decorated with `kernel` or `inline`."""
    return _classes().dispatcher(kernel.function, targetoptions={**ordinary.options_of(kernel), **_NO_WRAPPERS})


_NO_WRAPPERS = {"nopython": True, "boundscheck": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def type_of_kernel(kernel: Any) -> Any:
    """Return the Numba type of a function decorated with `kernel` or `inline`."""
    return _classes().helper_type(dispatcher_of(kernel))


def type_of_intrinsic(function: Any) -> Any:
    """Return the Numba type of an `Intrinsic`, from its definition in `memory_llvm` or `simd_llvm`."""
    from numba.core.registry import cpu_target

    module = importlib.import_module(f"{function.__module__}_llvm")
    context = cpu_target.typing_context
    context.refresh()  # registers the definitions of the module
    return context.resolve_value_type(getattr(module, function.__name__))


def target_context() -> Any:
    """Return the target context for which functions are lowered."""
    return _classes().context


class _Classes(NamedTuple):
    dispatcher: Any
    helper_type: Any
    context: Any


@functools.cache
def _classes() -> _Classes:
    """Derive the classes described above. Requires that `find_differences` returns an empty list."""
    from numba.core import types
    from numba.core.codegen import AOTCodeLibrary
    from numba.core.compiler import CompilerBase
    from numba.core.compiler_machinery import PassManager
    from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target

    class Library(AOTCodeLibrary):  # type: ignore[misc]
        """A library that Numba does not optimize."""

        def _optimize_functions(self, ll_module: Any) -> None:
            pass

        def _optimize_final_module(self) -> None:
            pass

    class HelperType(types.Dispatcher):  # type: ignore[misc]
        """The type of a helper, which is not specialized for constant arguments."""

        def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
            # Numba would infer a function again for each constant argument, and for variables that are initialized with a
            # constant: a sixth of the time of a first run. LLVM propagates the constants after inlining.
            return super().get_call_type(context, tuple(map(types.unliteral, args)), kws)

    class Pipeline(CompilerBase):  # type: ignore[misc]
        """A compiler with the passes that kernels need: Numba analyses a function anew after most of its passes."""

        def define_pipelines(self) -> list[Any]:
            manager = PassManager("kernel")
            for location in _PASSES:
                manager.add_pass(_find(f"numba.core.{location}"), location)
            manager.finalize()
            return [manager]

    context = cpu_target.target_context.with_aot_codegen("bpejit")
    context.codegen()._library_class = Library
    # Numba uses the returned object as a key for the function where it is called.
    context.get_executable = lambda library, fndesc, env: object()

    class Target(CPUTarget):  # type: ignore[misc]
        """A target that stops at LLVM IR."""

        target_context = context
        typing_context = cpu_target.typing_context

    class Dispatcher(CPUDispatcher):  # type: ignore[misc]
        """A dispatcher of functions that are never called from Python."""

        targetdescr = Target("cpu")

        def add_overload(self, cres: Any) -> None:
            self.overloads[tuple(cres.signature.args)] = cres

    return _Classes(functools.partial(Dispatcher, pipeline_class=Pipeline), HelperType, context)
