"""Damaged files in the cache of compiled kernels: they are ignored, and undamaged files are still loaded."""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from conftest import data_text

import bpejit
from bpejit import kernels
from bpejit.jit import cache, dispatch
from bpejit.jit.cache import Code
from tests.faults.area import WrongError

TITLE = "damaged files in the cache of compiled kernels"
CASES = 6000
TIMEOUT = 120.0


class Shared(NamedTuple):
    """The folder of the kernels, the content of each file, and the code of each kernel, by kernel and types."""

    folder: Path
    files: dict[str, bytes]
    codes: dict[tuple[Any, str], Code]


def prepare(folder: Path) -> Shared:
    """Compile the kernels of training, encoding and decoding into a cache of its own."""
    os.environ["BPEJIT_CACHE_DIR"] = str(folder / "cache")
    corpus = folder / "corpus.txt"
    corpus.write_bytes(data_text("prose.txt")[:50_000])
    tokenizer = bpejit.train([corpus], vocab_size=300, pattern="gpt2")
    tokenizer.decode(tokenizer.encode(corpus.read_text(encoding="utf-8")))
    for module in pkgutil.walk_packages(kernels.__path__, "bpejit.kernels."):
        importlib.import_module(module.name)
    codes = {}
    for kernel in dispatch.KERNELS:
        for signature in kernel.signatures:
            code = cache.load(kernel, signature)
            if code is not None:
                codes[kernel, signature] = code
    kernels_folder = folder / "cache" / cache.name_of_kernels()
    files = {path.name: path.read_bytes() for path in sorted(kernels_folder.iterdir())}
    if len(codes) < 10 or len(files) != len(codes):
        raise WrongError(f"{len(codes)} kernels were loaded from {len(files)} files")
    return Shared(kernels_folder, files, codes)


def damage(folder: Path, files: dict[str, bytes], case: random.Random) -> tuple[str, set[str]]:
    """Damage one or two files; return the kind of damage and the names of the files."""
    name, other = case.sample(sorted(files), 2)
    path = folder / name
    content = bytearray(files[name])
    position = case.randrange(len(content))
    match case.randrange(10):
        case 0:
            content[position] ^= 1 << case.randrange(8)
            kind = "a bit"
        case 1:
            content[position : position + case.randint(1, 200)] = case.randbytes(case.randint(1, 200))
            kind = "a stretch"
        case 2:
            del content[position:]
            kind = "cut off"
        case 3:
            content += case.randbytes(case.randint(1, 100))
            kind = "longer"
        case 4:
            start = position // 4096 * 4096
            length = min(case.choice([512, 4096]), len(content) - start)
            content[start : start + length] = bytes(length)
            kind = "zeros"
        case 5:
            content = bytearray(case.choice([b"", b"\n", b'"int"\n', case.randbytes(5000), bytes(5000)]))
            kind = "other content"
        case 6:
            path.write_bytes(files[other])
            (folder / other).write_bytes(files[name])
            return "swapped", {name, other}
        case 7:
            path.write_bytes(files[other])
            return "another kernel's", {name}
        case 8:
            path.unlink()
            path.mkdir()
            return "a folder", {name}
        case _:
            path.unlink()
            path.symlink_to(case.choice([other, "nothing", name]))
            return "a link", {name}
    path.write_bytes(content)
    return kind, {name} if content != files[name] else set()


def attempt(shared: Shared, case: random.Random, number: int) -> str:
    """Damage the cache, load every kernel, and repair the cache."""
    kind, damaged = damage(shared.folder, shared.files, case)
    try:
        lost = 0
        for (kernel, signature), code in shared.codes.items():
            found = cache.load(kernel, signature)
            if found is None:
                lost += 1
            elif found != code:
                raise WrongError(f"{kernel.__qualname__} was loaded from a damaged file ({kind}: {', '.join(damaged)})")
        if lost != len(damaged):
            raise WrongError(f"{lost} kernels are absent, though {len(damaged)} files were damaged ({kind})")
    finally:
        for name in damaged:
            path = shared.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.write_bytes(shared.files[name])
    return "taken for absent"
