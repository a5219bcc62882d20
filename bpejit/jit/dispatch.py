"""The one place that decides how kernels run.

Two decorators: `kernel` for what Python calls, `inline` for small helpers that kernels call. Nothing is compiled at import.
A function runs in one of three ways:

- As machine code, the usual way. A package may come with it (`shipped`). Otherwise the first call with arguments of some types
  compiles it (`lowering`, `compiler`) and stores it on disk (`cache`), and later processes load that (`loader`). They never
  load Numba, which would take half a second and 60 MB.
- By Numba itself (`ordinary`), if `BPEJIT_JIT=numba` asks for that, `NUMBA_BOUNDSCHECK=1` for a test of every index, or
  `NUMBA_DEBUGINFO=1` for what debuggers read.
- As plain Python, if `NUMBA_DISABLE_JIT=1`: slow, exact, and what the coverage run uses.

Machine code takes its arguments as 64-bit words: for a number its value, for an array the address of the array object, out
of which it reads where the data is and how much. A record, which is a named tuple, is the words of its fields.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bpejit.errors import OptionError, shorten
from bpejit.jit import MISMATCH, cache, fingerprint, loader, shipped
from bpejit.jit.listening import on_compile as on_compile

Function = TypeVar("Function", bound=Callable[..., Any])


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


JIT_ENABLED: bool = not _is_set("NUMBA_DISABLE_JIT")


def _choose_numba() -> bool:
    value = os.environ.get("BPEJIT_JIT", "")
    if value not in ("", "numba"):
        raise OptionError(
            f"BPEJIT_JIT is {shorten(value)}, expected numba: set it to that to have Numba run kernels, or unset it"
        )
    return value == "numba" or _is_set("NUMBA_BOUNDSCHECK") or _is_set("NUMBA_DEBUGINFO")


BY_NUMBA = _choose_numba()


def find_storing_problem() -> str | None:
    """Return why compiled kernels are not stored, in a few words; None if they are."""
    for variable in ("NUMBA_BOUNDSCHECK", "NUMBA_DEBUGINFO"):
        if _is_set(variable):  # see `ordinary`
            return f"{variable} turns the cache off"
    return cache.find_problem()


_STRUCT_TAKES_BOOLS = hasattr(np.bool_, "__index__")
"""Whether NumPy is older than 2.0: `struct` then packs a NumPy bool as a number, with a warning, instead of refusing it."""

KERNELS: list[Any] = []
"""Every function made with `kernel`, in order of definition."""

_lock = threading.RLock()


class _Entry(NamedTuple):
    """How the machine code for arguments of some types is called.

    Parameters
    ----------
    call : callable
        Takes the bytes of all words, and returns the number that the code returns. ctypes releases the GIL meanwhile.
    pack : callable
        Makes bytes of the words of the arguments: to pass one string takes a third of the time that as many numbers take.
    returns : str or tuple of str
        See `cache.Code`.
    n_arguments : int
    numbers : list of (int, int)
        Which arguments are numbers, and which words those are.
    records : bool
        Whether there are records among the arguments.
    expected : bytes
        The words behind those of the arguments: of each array its type and that of its elements, as addresses.
    kept : list
        What must not be freed so that these addresses remain theirs.
    """

    call: Callable[[bytes], int]
    pack: Callable[..., bytes]
    returns: tuple[str, ...] | str
    n_arguments: int
    numbers: list[tuple[int, int]]
    records: bool
    expected: bytes
    kept: list[Any]


class Kernel:
    """A function that becomes machine code for each combination of types that it is called with.

    Parameters
    ----------
    function : callable
    inlined : bool
        Whether it is copied into the kernels that call it.
    """

    def __init__(self, function: Callable[..., Any], *, inlined: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.inlined = inlined
        self._entries: dict[str, _Entry] = {}
        self._last: _Entry | None = None

    @property
    def signatures(self) -> list[str]:
        """The types that the function was called with."""
        return list(self._entries)

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function, and compile or load it first where that has not been done."""
        # The types are most likely those of the last call. The machine code itself finds that out, in nanoseconds, where
        # Python would need microseconds.
        if self._last is not None and not (_STRUCT_TAKES_BOOLS and any(isinstance(given, np.bool_) for given in arguments)):
            # At once: in a call of three microseconds, looking fields up by name would be a tenth.
            call, pack, returns, n_arguments, numbers, records, expected, _ = self._last
            if len(arguments) == n_arguments:
                if records:
                    words: list[Any] = []
                    for argument in arguments:
                        if isinstance(argument, tuple):
                            words += map(id, argument)
                        else:
                            words.append(id(argument))
                else:
                    words = [*map(id, arguments)]
                try:
                    for argument_number, word_number in numbers:
                        words[word_number] = arguments[argument_number]
                    result = call(pack(*words) + expected)
                except (struct.error, IndexError):
                    pass  # other kinds of arguments, or a number that needs more than 63 bits
                else:
                    if result != MISMATCH:
                        return result if returns == "int" else None
        return self._call(arguments)

    def _call(self, arguments: tuple[Any, ...]) -> Any:
        """Call the function with arguments of any types."""
        signature = ", ".join(_describe(arguments))
        entry = self._entries.get(signature)
        if entry is None:
            entry = self._load(signature, arguments)
        if entry is None:
            from bpejit.jit import ordinary

            return ordinary.dispatcher_of(self)(*arguments)
        words, expected, _ = _flatten(arguments)
        if isinstance(entry.returns, str):
            if entry.returns in ("int", "none"):
                self._last = entry
            result = entry.call(entry.pack(*words) + expected)
            return _RESULTS[entry.returns](result)
        room = ctypes.create_string_buffer(8 * len(entry.returns))
        entry.call(entry.pack(*words, ctypes.addressof(room)) + expected)
        results = struct.unpack(f"{len(entry.returns)}q", room.raw)
        return tuple(_RESULTS[kind](result) for kind, result in zip(entry.returns, results, strict=True))

    def _load(self, signature: str, arguments: tuple[Any, ...]) -> _Entry | None:
        """Load the machine code for some arguments, and compile it if it was never compiled.

        The result is None if that cannot be done with this version of Numba: then Numba runs the function.
        """
        with _lock:
            if signature in self._entries:
                return self._entries[signature]
            name = f"{self.__module__.rpartition('.')[2]}.{self.__qualname__}"
            found = shipped.find(name, signature) or self._compile(name, signature, arguments)
            if found is None:
                return None
            address, returns = found
            words, expected, kept = _flatten(arguments)
            several = not isinstance(returns, str)
            entry = _Entry(
                call=ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(address),
                pack=struct.Struct(f"{len(words) + several}q").pack,
                returns=returns,
                n_arguments=len(arguments),
                numbers=[
                    (number, len(_flatten(arguments[:number])[0]))
                    for number, argument in enumerate(arguments)
                    if not isinstance(argument, (tuple, np.ndarray))
                ],
                records=any(isinstance(argument, tuple) for argument in arguments),
                expected=expected,
                kept=kept,
            )
            self._entries[signature] = entry
            return entry

    def _compile(self, name: str, signature: str, arguments: tuple[Any, ...]) -> tuple[int, tuple[str, ...] | str] | None:
        """Load the machine code that was stored on this machine, or compile and store it; return address and results."""
        code = cache.load(self, signature)
        symbol = symbol_of(name, signature)
        if code is None:
            from bpejit.jit import lowering

            if not lowering.is_possible():
                return None
            from bpejit.jit import compiler

            code = compiler.compile_kernel(self, arguments, symbol)
            cache.save(self, signature, code)
        return loader.load(code.machine_code, symbol), code.returns

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes this object for, where a kernel that it compiles calls it."""
        from bpejit.jit import lowering, ordinary

        return (lowering if lowering.is_possible() else ordinary).type_of_kernel(self)


_RESULTS: dict[str, Callable[[int], Any]] = {
    "none": lambda result: None,
    "bool": bool,
    "int": int,
    "uint": lambda result: result & 0xFFFF_FFFF_FFFF_FFFF,
}


def _flatten(arguments: Iterable[Any]) -> tuple[list[int], bytes, list[Any]]:
    """Return the words of some arguments, what is expected of the arrays among them, and what has to be kept for that."""
    words: list[int] = []
    kept: list[Any] = []

    def add(argument: Any) -> None:
        if isinstance(argument, np.ndarray):
            words.append(id(argument))
            kept.extend((type(argument), argument.dtype))
        elif isinstance(argument, tuple):
            for part in argument:
                add(part)
        else:
            value = int(argument)
            words.append(value if value < 1 << 63 else value - (1 << 64))

    for argument in arguments:
        add(argument)
    return words, struct.pack(f"{len(kept)}q", *map(id, kept)), kept


def _describe(arguments: Iterable[Any]) -> list[str]:
    """Return the types of some arguments as text, the same in every process."""
    parts = []
    for argument in arguments:
        kind = type(argument)
        if isinstance(argument, np.ndarray):
            if argument.ndim != 1 or not argument.flags.c_contiguous or not argument.flags.aligned:
                raise TypeError(
                    f"a kernel was given an array of shape {argument.shape} with strides {argument.strides}, expected one "
                    "dimension without gaps"
                )
            dtype = argument.dtype.descr if argument.dtype.names else argument.dtype.str
            parts.append(f"{dtype}[]" if argument.flags.writeable else f"const {dtype}[]")
        elif isinstance(argument, tuple):
            # With the names of the fields: after two of them have changed places, compiled code reads the wrong ones.
            fields = getattr(argument, "_fields", ())
            parts.append(f"{kind.__name__}({', '.join(fields)}: {', '.join(_describe(argument))})")
        elif isinstance(argument, (int, np.integer, np.bool_)):
            parts.append(kind.__name__)
        else:
            raise TypeError(f"a kernel was given {kind.__name__}, expected arrays, whole numbers or records of them")
    return parts


def symbol_of(name: str, signature: str) -> str:
    """Return the name of the function in an object file: one for each kernel and each combination of types."""
    return f"bpejit.{name}.{fingerprint.hash_text(signature)}"


def _decorate(function: Function, *, inlined: bool) -> Function:
    if not JIT_ENABLED:
        return function
    made = Kernel(function, inlined=inlined)
    if BY_NUMBA:
        from bpejit.jit import ordinary

        return ordinary.dispatcher_of(made)  # type: ignore[no-any-return]
    return made  # type: ignore[return-value]


def kernel(function: Function) -> Function:
    """Compile a function that Python calls."""
    made = _decorate(function, inlined=False)
    KERNELS.append(made)
    return made


def inline(function: Function) -> Function:
    """Compile a small function that only kernels call; LLVM inlines it at each call."""
    return _decorate(function, inlined=True)


def is_first_run() -> bool:
    """Whether kernels are to be compiled and kept, and none has been on this machine."""
    return JIT_ENABLED and not BY_NUMBA and not shipped.is_available() and cache.is_empty()
