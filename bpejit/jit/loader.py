"""From an object file to an address that can be called.

On Linux with an x86-64 processor, the object file is put into memory here: the code of a kernel refers to nothing but its
own constants and to `memset` and its like, so what a linker would do is to fill in some forty distances. Elsewhere LLVM does
it (`llvmlite` without Numba), which takes 40 MB of memory more and a tenth of a second.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from typing import Any, NamedTuple

_SYMBOL = b"entry"

# The format of object files, as in <elf.h>.
_NOTHING_IN_FILE, _RELOCATIONS, _SYMBOLS = 8, 4, 2  # SHT_NOBITS, SHT_RELA, SHT_SYMTAB
_WRITABLE, _LOADED = 1, 2  # SHF_WRITE, SHF_ALLOC
_UNDEFINED, _FIRST_RESERVED = 0, 0xFF00  # SHN_UNDEF, SHN_LORESERVE
_ABSOLUTE_64, _DISTANCE_32, _CALL_32, _DISTANCE_64 = 1, 2, 4, 24  # R_X86_64_64, _PC32, _PLT32, _PC64

_JUMP = b"\xff\x25\x00\x00\x00\x00"
"""x86-64: jump to the address that follows."""

_kept: list[Any] = []
"""Memory that holds code; it is never freed, as are the kernels."""


class _UnsupportedError(Exception):
    """The object file has something that only a real linker can do."""


class _Section(NamedTuple):
    kind: int
    flags: int
    content: bytes
    size: int
    alignment: int
    link: int
    info: int


def load(machine_code: bytes) -> int:
    """Put an object file into memory; return the address of its symbol `entry`."""
    if sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32:
        try:
            return _place(machine_code)
        except (_UnsupportedError, OSError):
            pass  # OSError: this system lets no program make code
    return _load_by_llvm(machine_code)


def _load_by_llvm(machine_code: bytes) -> int:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
    engine.finalize_object()
    _kept.append(engine)
    return int(engine.get_function_address(_SYMBOL.decode()))


def _place(data: bytes) -> int:
    """Lay the sections of an ELF object file out in memory, fill in the distances between them, and allow to run it."""
    sections = _read_sections(data)
    places: dict[int, int] = {}
    size = 0
    for number, section in enumerate(sections):
        if section.flags & _LOADED:
            if section.flags & _WRITABLE and section.size:
                raise _UnsupportedError("variables")
            size = -(-size // section.alignment) * section.alignment
            places[number] = size
            size += section.size
    size = -(-size // 16) * 16
    # Behind them, a jump to each function of the C library: those may be too far away for a call.
    jumps: dict[bytes, int] = {}
    relocations = [
        (places[section.info] + offset, kind, symbol, addend)
        for section in sections
        if section.kind == _RELOCATIONS and section.info in places
        for offset, kind, symbol, addend in _read_relocations(section.content)
    ]
    symbols = _read_symbols(sections)
    for _, _, number, _ in relocations:
        name, section_number, _ = symbols[number]
        if section_number == _UNDEFINED and name not in jumps:
            jumps[name] = size
            size += 16
    memory = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, place in places.items():
        memory[place : place + len(sections[number].content)] = sections[number].content
    for name, place in jumps.items():
        memory[place : place + 14] = _JUMP + struct.pack("<Q", _address_of(name))
    for place, kind, number, addend in relocations:
        name, section_number, value = symbols[number]
        if section_number == _UNDEFINED:
            target = jumps[name]
        elif section_number in places:
            target = places[section_number] + value
        else:
            raise _UnsupportedError(f"a symbol in section {section_number}")
        if kind in (_DISTANCE_32, _CALL_32):
            memory[place : place + 4] = struct.pack("<i", target + addend - place)
        elif kind == _DISTANCE_64:
            memory[place : place + 8] = struct.pack("<q", target + addend - place)
        elif kind == _ABSOLUTE_64 and section_number != _UNDEFINED:
            memory[place : place + 8] = struct.pack("<Q", base + target + addend)
        else:
            raise _UnsupportedError(f"relocation {kind}")
    entries = [places[number] + value for name, number, value in symbols if name == _SYMBOL and number in places]
    if len(entries) != 1:
        raise _UnsupportedError("no entry")
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(base, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "mprotect")
    _kept.append(memory)
    return base + entries[0]


def _read_sections(data: bytes) -> list[_Section]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise _UnsupportedError("not a 64-bit little-endian ELF file")
    (first,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = []
    for number in range(count):
        _, kind, flags, _, offset, size, link, info, alignment, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, first + number * entry_size
        )
        content = b"" if kind == _NOTHING_IN_FILE else data[offset : offset + size]
        sections.append(_Section(kind, flags, content, size, max(alignment, 1), link, info))
    return sections


def _read_symbols(sections: list[_Section]) -> list[tuple[bytes, int, int]]:
    """Return name, section and place in it of each symbol."""
    for section in sections:
        if section.kind == _SYMBOLS:
            names = sections[section.link].content
            return [
                (names[name : names.index(b"\0", name)], number if number < _FIRST_RESERVED else -1, value)
                for name, _, _, number, value, _ in struct.iter_unpack("<IBBHQQ", section.content)
            ]
    raise _UnsupportedError("no symbols")


def _read_relocations(content: bytes) -> list[tuple[int, int, int, int]]:
    """Return place, kind, number of the symbol and addend of each."""
    return [(offset, info & 0xFFFF_FFFF, info >> 32, addend) for offset, info, addend in struct.iter_unpack("<QQq", content)]


def _address_of(name: bytes) -> int:
    try:
        function = getattr(ctypes.CDLL(None), name.decode())
    except AttributeError:
        raise _UnsupportedError(f"the function {name.decode()}") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0
