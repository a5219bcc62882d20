"""Decide how kernels run, and call them.

Decorate functions called from Python with `kernel`, and small helpers called by kernels with `inline`. Nothing is compiled at
import time. A function runs in one of three modes:

- As machine code (the default). Wheels may include it (`shipped`). Otherwise the first call with a new combination of
  argument types compiles the function (`lowering`, `compiler`) and stores the result on disk (`cache`). Later processes load
  it from there (`loader`) without importing Numba, which would take half a second and 70 MB.
- Through Numba's own dispatcher (`ordinary`), with `BPEJIT_JIT=numba`, with `NUMBA_BOUNDSCHECK=1` (check every index) or with
  `NUMBA_DEBUGINFO=1` (emit debug information).
- As plain Python, with `NUMBA_DISABLE_JIT=1`. This is slow and exact; coverage is measured this way.

Machine code receives its arguments as 64-bit words. A number is passed by value, and an array as the address of its array
object, from which the code reads the data pointer and the size. A named tuple is passed as the words of its fields.
"""

from __future__ import annotations

import array
import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from bpejit.errors import OptionError, shorten
from bpejit.jit import MISMATCH, cache, fingerprint, listening, loader, methods, shipped
from bpejit.jit.listening import on_compile as on_compile

Function = TypeVar("Function", bound=Callable[..., Any])


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


JIT_ENABLED: bool = not _is_set("NUMBA_DISABLE_JIT")


def _choose_numba() -> bool:
    value = os.environ.get("BPEJIT_JIT", "")
    if value not in ("", "numba"):
        raise OptionError(
            f"BPEJIT_JIT is {shorten(value)}; expected numba: set it to numba to run kernels through Numba, or unset it"
        )
    return value == "numba" or _is_set("NUMBA_BOUNDSCHECK") or _is_set("NUMBA_DEBUGINFO")


BY_NUMBA = _choose_numba()


def find_storing_problem() -> str | None:
    """Return a short reason why compiled kernels are not stored, or None if they are stored."""
    for variable in ("NUMBA_BOUNDSCHECK", "NUMBA_DEBUGINFO"):
        if _is_set(variable):  # see `ordinary`
            return f"{variable} turns the cache off"
    return cache.find_problem()


_STRUCT_ACCEPTS_BOOLS = hasattr(np.bool_, "__index__")
"""True before NumPy 2.0, where `struct` packs a NumPy bool as a number, with a warning, instead of refusing it."""

KERNELS: list[Any] = []
"""All functions decorated with `kernel`, in order of definition."""

_lock = threading.RLock()


class _Entry(NamedTuple):
    """Machine code for one combination of argument types, and how to call it.

    Parameters
    ----------
    call : callable
        Takes all words as one bytes object and returns the code's result. ctypes releases the GIL during the call.
    pack : callable
        Packs the words of the arguments into bytes. Passing one bytes object takes a third of the time of passing the
        numbers one by one.
    returns : str or tuple of str
        See `cache.Code`.
    n_arguments : int
    numbers : list of (int, int)
        For each argument that is a number, its index among the arguments and among the words.
    records : bool
        True if some arguments are named tuples.
    expected : bytes
        Words appended to the arguments: for each array, the addresses of its type and of its dtype.
    references : list
        References that keep the objects at these addresses alive.
    address : int
        The address of the code.
    """

    call: Callable[[bytes], int]
    pack: Callable[..., bytes]
    returns: tuple[str, ...] | str
    n_arguments: int
    numbers: list[tuple[int, int]]
    records: bool
    expected: bytes
    references: list[Any]
    address: int


class BoundCall(NamedTuple):
    """A call of a kernel whose arguments are packed in advance (see `bind`).

    Parameters
    ----------
    run : callable
        Calls the kernel and returns its result, a number; MISMATCH if an array has changed its type or layout.
    words : mutable sequence of int
        The arguments. `words[i] = number` replaces argument `i`, which must be a number.
    arguments : tuple
        References that keep the arrays alive.
    address : int
        The address of the code, which takes the address of the words; 0 if there is none.
    """

    run: Callable[[], int]
    words: Any
    arguments: tuple[Any, ...]
    address: int = 0


class Kernel:
    """A function that is compiled once for each combination of argument types.

    Parameters
    ----------
    function : callable
    inlined : bool
        True if the function is inlined into the kernels that call it.
    is_method : bool
        True if Python calls the code itself (see `methods`).
    """

    def __init__(self, function: Callable[..., Any], *, inlined: bool, is_method: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.inlined = inlined
        self.is_method = is_method
        self._entries: dict[str, _Entry] = {}
        self._last: _Entry | None = None

    @property
    def signatures(self) -> list[str]:
        """The combinations of types with which the function has been called."""
        return list(self._entries)

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function. Load or compile it on the first call with these types."""
        # The types are most likely those of the last call. The machine code checks this in nanoseconds, where Python would
        # need microseconds.
        if self._last is not None and not (_STRUCT_ACCEPTS_BOOLS and any(isinstance(given, np.bool_) for given in arguments)):
            # Unpacked in one step: of a call of 3 microseconds, looking up the fields by name would take a tenth.
            call, pack, returns, n_arguments, numbers, records, expected, *_ = self._last
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
                    for argument_index, word_index in numbers:
                        words[word_index] = arguments[argument_index]
                    result = call(pack(*words) + expected)
                except (struct.error, IndexError):
                    pass  # arguments of other kinds, or a number that needs more than 63 bits
                else:
                    if result != MISMATCH:
                        return result if returns == "int" else None
        return self._call(arguments)

    def _call(self, arguments: tuple[Any, ...]) -> Any:
        """Look up the code for these types, and call it."""
        entry = self._entry_for(arguments)
        if entry is None:
            from bpejit.jit import ordinary

            return ordinary.dispatcher_of(self)(*arguments)
        words, expected, _ = _flatten(arguments)
        if isinstance(entry.returns, str):
            if entry.returns in ("int", "none"):
                self._last = entry
            result = entry.call(entry.pack(*words) + expected)
            return _RESULTS[entry.returns](result)
        buffer = ctypes.create_string_buffer(8 * len(entry.returns))
        entry.call(entry.pack(*words, ctypes.addressof(buffer)) + expected)
        results = struct.unpack(f"{len(entry.returns)}q", buffer.raw)
        return tuple(_RESULTS[kind](result) for kind, result in zip(entry.returns, results, strict=True))

    def bound(self, arguments: tuple[Any, ...]) -> BoundCall | None:
        """Return a call with packed arguments, or None if this kernel cannot be called in this way (see `bind`)."""
        entry = self._entry_for(arguments)
        if entry is None or entry.returns != "int" or entry.records:
            return None
        words = array.array("q", entry.pack(*_flatten(arguments)[0]) + entry.expected)
        call = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(entry.address)
        return BoundCall(functools.partial(call, words.buffer_info()[0]), words, arguments, entry.address)

    def made_builtin(self, words: Any) -> Callable[[object], Any] | None:
        """Return the builtin function of this method and an array of words, or None (see `make_builtin`)."""
        entry = self._entry_for((words, 0))
        return None if entry is None else methods.builtin_of(entry.address, self.__name__, words)

    def _entry_for(self, arguments: tuple[Any, ...]) -> _Entry | None:
        """Return the machine code for these argument types. Load it if necessary, compiling it if it is not stored.

        Return None if the installed version of Numba does not support this; Numba then runs the function.
        """
        signature = ", ".join(_describe(arguments))
        if signature in self._entries:
            return self._entries[signature]
        code = None
        if listening.awaits_preparation() and not shipped.is_available():
            code = cache.load(self, signature)
            if code is None:
                listening.run_preparation()  # without the lock, since it calls kernels in several threads
        with _lock:
            if signature in self._entries:
                return self._entries[signature]
            name = f"{self.__module__.rpartition('.')[2]}.{self.__qualname__}"
            found = shipped.find(name, signature) or self._compile(name, signature, arguments, code)
            if found is None:
                return None
            address, returns = found
            words, expected, references = _flatten(arguments)
            several = not isinstance(returns, str)
            entry = _Entry(
                call=ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(address),
                pack=struct.Struct(f"{len(words) + several}q").pack,
                returns=returns,
                n_arguments=len(arguments),
                numbers=[
                    (index, len(_flatten(arguments[:index])[0]))
                    for index, argument in enumerate(arguments)
                    if not isinstance(argument, (tuple, np.ndarray))
                ],
                records=any(isinstance(argument, tuple) for argument in arguments),
                expected=expected,
                references=references,
                address=address,
            )
            self._entries[signature] = entry
            return entry

    def _compile(
        self, name: str, signature: str, arguments: tuple[Any, ...], code: cache.Code | None
    ) -> tuple[int, tuple[str, ...] | str] | None:
        """Load the stored machine code, unless it is given, or compile and store it. Return its address and result types."""
        code = code or cache.load(self, signature)
        symbol = symbol_of(name, signature)
        if code is None:
            with listening.pausing():  # importing Numba is a part of compiling
                from bpejit.jit import lowering

                if not lowering.is_supported():
                    return None
                from bpejit.jit import compiler

                code = compiler.compile_kernel(self, arguments, symbol)
            cache.save(self, signature, code)
        return loader.load(code.machine_code, symbol), code.returns

    @property
    def _numba_type_(self) -> Any:
        """The Numba type of this object where a compiled kernel calls it."""
        from bpejit.jit import lowering, ordinary

        return (lowering if lowering.is_supported() else ordinary).type_of_kernel(self)


_RESULTS: dict[str, Callable[[int], Any]] = {
    "none": lambda result: None,
    "bool": bool,
    "int": int,
    "uint": lambda result: result & 0xFFFF_FFFF_FFFF_FFFF,
}


def _flatten(arguments: Iterable[Any]) -> tuple[list[int], bytes, list[Any]]:
    """Return the words of the arguments, the packed addresses of the array types, and references to these types."""
    words: list[int] = []
    references: list[Any] = []

    def add(argument: Any) -> None:
        if isinstance(argument, np.ndarray):
            words.append(id(argument))
            references.extend((type(argument), argument.dtype))
        elif isinstance(argument, tuple):
            for field in argument:
                add(field)
        else:
            value = int(argument)
            words.append(value if value < 1 << 63 else value - (1 << 64))

    for argument in arguments:
        add(argument)
    return words, struct.pack(f"{len(references)}q", *map(id, references)), references


def _describe(arguments: Iterable[Any]) -> list[str]:
    """Return the types of the arguments as strings that are the same in every process."""
    parts = []
    for argument in arguments:
        kind = type(argument)
        if isinstance(argument, np.ndarray):
            if argument.ndim != 1 or not argument.flags.c_contiguous or not argument.flags.aligned:
                raise TypeError(
                    f"a kernel was given an array of shape {argument.shape} with strides {argument.strides}; expected a "
                    "contiguous array of one dimension"
                )
            dtype = argument.dtype.descr if argument.dtype.names else argument.dtype.str
            parts.append(f"{dtype}[]" if argument.flags.writeable else f"const {dtype}[]")
        elif isinstance(argument, tuple):
            # Field names are part of the signature: code compiled before two fields were swapped would read the wrong ones.
            fields = getattr(argument, "_fields", ())
            parts.append(f"{kind.__name__}({', '.join(fields)}: {', '.join(_describe(argument))})")
        elif isinstance(argument, (int, np.integer, np.bool_)):
            parts.append(kind.__name__)
        else:
            raise TypeError(f"a kernel was given {kind.__name__}; expected arrays, integers or named tuples of these")
    return parts


def symbol_of(name: str, signature: str) -> str:
    """Return the symbol of a compiled function, unique for each kernel and each combination of types."""
    return f"bpejit.{name}.{fingerprint.hash_text(signature)}"


def _decorate(function: Function, *, inlined: bool, is_method: bool = False) -> Function:
    if not JIT_ENABLED:
        return function
    made = Kernel(function, inlined=inlined, is_method=is_method)
    if BY_NUMBA:
        from bpejit.jit import ordinary

        return ordinary.dispatcher_of(made)  # type: ignore[no-any-return]
    return made  # type: ignore[return-value]


def kernel(function: Function) -> Function:
    """Compile a function that is called from Python."""
    made = _decorate(function, inlined=False)
    KERNELS.append(made)
    return made


def inline(function: Function) -> Function:
    """Compile a small function that is called only by kernels. LLVM inlines it into each caller."""
    return _decorate(function, inlined=True)


def method(function: Function) -> Function:
    """Compile a function of an array of words and an object, which Python calls itself (see `methods`)."""
    made = _decorate(function, inlined=False, is_method=True)
    KERNELS.append(made)
    return made


def make_builtin(function: Callable[..., int], words: Any) -> Callable[[object], Any] | None:
    """Return a builtin function that runs a method.

    Parameters
    ----------
    function : method
    words : int64 [words]
        Its first argument.

    Returns
    -------
    callable, optional
        Takes one object. None if methods cannot be compiled in this mode, or with this interpreter.
    """
    return function.made_builtin(words) if isinstance(function, Kernel) and methods.are_possible() else None


def addresses_of(arrays: tuple[npt.NDArray[Any], ...]) -> npt.NDArray[np.int64]:
    """Return the address and the size of each array: int64 [2 * arrays]."""
    return np.array([number for array in arrays for number in (array.ctypes.data, array.size)], dtype=np.int64)


def bind(function: Callable[..., int], *arguments: Any) -> BoundCall:
    """Pack the arguments of a kernel in advance, for calls that take less than a few microseconds.

    Packing them takes 0.8 microseconds. The call keeps the GIL, because releasing it takes 40 ns; other threads wait for a few
    microseconds at most.

    Parameters
    ----------
    function : kernel
        Returns an int.
    *arguments
        Arrays and integers. The types of the integers are part of the kernel's signature.
    """
    made = function.bound(arguments) if isinstance(function, Kernel) else None
    if made is not None:
        return made
    words = list(arguments)
    return BoundCall(lambda: function(*words), words, arguments)


def is_first_run() -> bool:
    """Return True if kernels are compiled and cached in this mode, and the first commands may need some that are not cached.

    They are after an interrupted first run, and after an upgrade.
    """
    return JIT_ENABLED and not BY_NUMBA and not shipped.is_available() and cache.lacks_mark()
