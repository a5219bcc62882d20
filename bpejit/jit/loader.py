"""From an object file to an address that can be called.

LLVM does the linker's work: `llvmlite.binding`, which takes 25 ms and 60 MB to load, most of it pages of its library that
processes share. Numba is not needed.

Code that was loaded stays mapped until the process ends, whatever happens in the interpreter: a daemon thread may still be in
a kernel when the interpreter has cleared all modules, and it would crash if the code under it were unmapped.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

_lock = threading.Lock()

_engines: list[tuple[Any, dict[str, bytes]]] = []
"""Each engine, with the object file in it of each symbol."""


def load(machine_code: bytes, symbol: str) -> int:
    """Link an object file into the process.

    Parameters
    ----------
    machine_code : bytes
        An object file for this processor, in the format of this platform. Not checked.
    symbol : str
        A function that it defines.

    Returns
    -------
    int
        Address of the function; it is valid until the process ends.

    Raises
    ------
    ValueError
        If the object file does not define the symbol.
    """
    with _lock:
        # Symbols are unique in an engine. Other code of the same name, as functions made in a test may have, gets another.
        fitting = (pair for pair in _engines if pair[1].get(symbol, machine_code) == machine_code)
        pair = next(fitting, None)
        if pair is None:
            pair = _make_engine(), {}
            _engines.append(pair)
        engine, loaded = pair
        if symbol not in loaded:
            import llvmlite.binding as llvm

            engine.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
            engine.finalize_object()
            loaded[symbol] = machine_code
        address = engine.get_function_address(symbol)
    if not address:
        raise ValueError(f"an object file does not define {symbol}: clear the folder of compiled kernels")
    return int(address)


def _make_engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    # One reference that nobody gives back. That of `_engines` is given up when the interpreter clears this module, and
    # llvmlite then frees the engine and unmaps its code.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return engine
