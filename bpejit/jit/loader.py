"""Load object files into the process.

LLVM links the files, through `llvmlite.binding`. Importing it takes 25 ms and 60 MB, most of which are pages of the shared
library. Numba is not imported.

Loaded code stays mapped until the process ends. A daemon thread may still run a kernel after the interpreter has cleared all
modules, and would crash if the code were unmapped.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

_lock = threading.Lock()

_engines: list[tuple[Any, dict[str, bytes]]] = []
"""LLVM execution engines, each with the object file that defines each of its symbols."""


def load(machine_code: bytes, symbol: str) -> int:
    """Link an object file into the process.

    Parameters
    ----------
    machine_code : bytes
        An object file for this processor, in the format of this platform. Not checked.
    symbol : str
        A function that the object file defines.

    Returns
    -------
    int
        Address of the function, valid until the process ends.

    Raises
    ------
    ValueError
        If the object file does not define the symbol.
    """
    with _lock:
        # Symbols are unique within an engine. Different code under the same name, as in tests, gets another engine.
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
    # Leak one reference. The interpreter drops `_engines` when it clears this module, and llvmlite would then free the engine
    # and unmap its code.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return engine
