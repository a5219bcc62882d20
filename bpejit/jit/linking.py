"""Link an object file for x86-64 Linux in Python, so that stored kernels are loaded without LLVM.

Kernels are compiled as position-independent code: an object file refers from its code to its constants, relative to the
position of the instruction, and calls functions of the C library such as `memset`. Object files with anything else are left to
LLVM (see `loader`).

`image_of` places the sections one after the other, and a *stub* for each external function after them: a jump to the address
that follows it. The image is valid at any address.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

_HEAD = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian, version 1."""

_RELOCATABLE, _X86_64 = 1, 62

_PROGBITS, _SYMBOLS, _RELOCATIONS, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x7000_0001
"""Types of sections. The last one describes stack frames to debuggers and C++ exceptions; it is left out."""

_ALLOCATED = 2
"""Flag of a section that is loaded."""

_PC32, _PLT32 = 2, 4
"""Types of relocations: a distance of 32 bits, to a symbol or to a function."""

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_DISTANCE = struct.Struct("<i")

_LEAST_ALIGNMENT = 64
"""Code and constants are in different cache lines."""

_MAX_ALIGNMENT = 4096
"""Size of a page, to which images are aligned."""

_STUB = b"\xff\x25\x00\x00\x00\x00"
"""Jump to the address that follows this instruction."""

_STUB_BYTES = 16


class _UnsupportedError(Exception):
    """The object file has something that only LLVM links."""


def image_of(machine_code: bytes, symbol: str, find_external: Callable[[str], int | None]) -> tuple[bytes, int] | None:
    """Link an object file.

    Parameters
    ----------
    machine_code : bytes
        An object file. Its code is not checked.
    symbol : str
        A function that it defines.
    find_external : callable
        Returns the address of a function of the process, or None.

    Returns
    -------
    (bytes, int), optional
        Linked machine code, valid at any address that is a multiple of the size of a page, and the position of the function in
        it. None if LLVM must link the file: it is not an object file for x86-64, does not define the symbol, or has other
        relocations than kernels have.
    """
    try:
        return _link(machine_code, symbol.encode(), find_external)
    except (_UnsupportedError, struct.error, LookupError, ValueError):
        return None


def _link(data: bytes, symbol: bytes, find_external: Callable[[str], int | None]) -> tuple[bytes, int]:
    kind, machine = struct.unpack_from("<2H", data, 16)
    if not data.startswith(_HEAD) or (kind, machine) != (_RELOCATABLE, _X86_64):
        raise _UnsupportedError
    (table,) = struct.unpack_from("<Q", data, 40)
    entry_bytes, n_sections = struct.unpack_from("<2H", data, 58)
    sections = [_SECTION.unpack_from(data, table + entry_bytes * number) for number in range(n_sections)]
    image = bytearray()
    places: dict[int, int] = {}  # of the loaded sections, in the image
    for number, (_, kind, flags, _, offset, size, _, _, alignment, _) in enumerate(sections):
        if not flags & _ALLOCATED or kind == _UNWIND or not size:
            continue
        if kind != _PROGBITS or alignment > _MAX_ALIGNMENT or offset + size > len(data):
            raise _UnsupportedError
        image += bytes(-len(image) % max(alignment, _LEAST_ALIGNMENT))
        places[number] = len(image)
        image += data[offset : offset + size]
    symbols, names = _symbols(data, sections)
    start = next((places[at] + value for name, _, _, at, value, _ in symbols if at and names(name) == symbol), None)
    if start is None:
        raise _UnsupportedError
    stubs: dict[bytes, int] = {}
    image += bytes(-len(image) % _STUB_BYTES)
    for _, kind, _, _, offset, size, _, section, _, entry_bytes in sections:
        if kind != _RELOCATIONS or section not in places:
            continue
        for at in range(offset, offset + size, entry_bytes):
            place, info, addend = _RELOCATION.unpack_from(data, at)
            place += places[section]
            name, _, _, defined_in, value, _ = symbols[info >> 32]
            if info & 0xFFFF_FFFF not in (_PC32, _PLT32):
                raise _UnsupportedError
            if defined_in:
                if defined_in not in places:
                    raise _UnsupportedError
                value += places[defined_in]
            else:
                value = _add_stub(image, stubs, names(name), find_external)
            _DISTANCE.pack_into(image, place, value + addend - place)
    return bytes(image), start


def _symbols(data: bytes, sections: list[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], Callable[[int], bytes]]:
    """Return the symbols, and a function that returns the name at a position in their table of strings."""
    _, _, _, _, offset, size, link, _, _, _ = next((section for section in sections if section[1] == _SYMBOLS), (0,) * 10)
    begin, n_bytes = sections[link][4:6]
    strings = data[begin : begin + n_bytes]
    return list(_SYMBOL.iter_unpack(data[offset : offset + size])), lambda at: strings[at : strings.index(0, at)]


def _add_stub(image: bytearray, stubs: dict[bytes, int], name: bytes, find_external: Callable[[str], int | None]) -> int:
    """Return the position of the stub of an external function, adding it to the image if necessary."""
    if name not in stubs:
        address = find_external(name.decode())
        if address is None:
            raise _UnsupportedError
        stubs[name] = len(image)
        image += (_STUB + struct.pack("<Q", address)).ljust(_STUB_BYTES, b"\0")
    return stubs[name]
