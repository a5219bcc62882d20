"""Load object files into the process.

On x86-64 Linux `linking` links a file, and this module maps the result, which takes a tenth of a millisecond. In other cases
LLVM does so, through `llvmlite.binding`. Importing it takes 25 ms and 60 MB, most of which are pages of the shared library.
Numba is not imported.

Loaded code stays mapped until the process ends. A daemon thread may still run a kernel after the interpreter has cleared all
modules, and would crash if the code were unmapped.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import sys
import threading
from typing import Any

from bpejit.jit.linking import image_of

_lock = threading.Lock()

_loaded: dict[tuple[bytes, str], int] = {}
"""Addresses of the functions, by object file and symbol."""


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
        key = machine_code, symbol
        if key not in _loaded:
            _loaded[key] = _map(*key) or _load_by_llvm(*key)
        return _loaded[key]


def _map(machine_code: bytes, symbol: str) -> int | None:
    """Link an object file without LLVM. Return the address of a function, or None if that is not possible."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    linked = image_of(machine_code, symbol, _find_external)
    if linked is None:
        return None
    image, start = linked
    address = _map_image(image)
    return None if address is None else address + start


def _map_image(image: bytes) -> int | None:
    """Copy an image to memory that can then be executed but not written to. Return its address, or None if that is refused."""
    library = _c_library()
    n_bytes = -(-len(image) // mmap.PAGESIZE) * mmap.PAGESIZE
    # Not `mmap.mmap`, whose memory is unmapped with its object.
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address: int | None = library.mmap(None, n_bytes, mmap.PROT_READ | mmap.PROT_WRITE, anonymous, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    assert address is not None
    ctypes.memmove(address, image, len(image))
    if library.mprotect(address, n_bytes, mmap.PROT_READ | mmap.PROT_EXEC) != 0:  # by a policy of the system
        library.munmap(address, n_bytes)
        return None
    return address


@functools.cache
def _c_library() -> Any:
    library = ctypes.CDLL(None)
    size, number = ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = ctypes.c_void_p, size, number, number, number, ctypes.c_long
    library.mmap.restype = ctypes.c_void_p
    library.mprotect.argtypes = ctypes.c_void_p, size, number
    library.munmap.argtypes = ctypes.c_void_p, size
    return library


def _find_external(name: str) -> int | None:
    """Return the address of a function of the C library, or None."""
    try:
        return ctypes.cast(getattr(_c_library(), name), ctypes.c_void_p).value
    except AttributeError:
        return None


def _load_by_llvm(machine_code: bytes, symbol: str) -> int:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    # One for each file, in a tenth of a millisecond: symbols are unique within an engine.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
    engine.finalize_object()
    address = engine.get_function_address(symbol)
    if not address:
        raise ValueError(f"an object file does not define {symbol}: clear the folder of compiled kernels")
    # Leak a reference: llvmlite would free the engine and unmap its code.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return int(address)
