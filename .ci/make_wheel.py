"""Make a wheel for Linux on x86-64 in which all kernels are compiled: `python .ci/make_wheel.py FOLDER`.

The plain wheel is built and unpacked, the kernels in it are compiled for each of `shipped.LEVELS` and linked to a shared
library, and the wheel is packed again with the tag of the platform. The machine may lack the instructions of a level: the
kernels are first called with small data on the machine's own level, to determine the types to compile them for. `ld` of the
GNU binutils is required.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TAG = "py3-none-manylinux_2_17_x86_64"
"""Undefined symbols that are allowed in the libraries: `memset` and similar functions, which every C library has."""

LARGEST = 10_000_000
"""The maximum size of a wheel in bytes."""


def main(out: Path) -> None:
    """Write the wheel to a folder."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        sys.exit(f"make wheel: needs Linux on x86-64, found {sys.platform} on {platform.machine()}")
    if shutil.which("ld") is None:
        sys.exit("make wheel: needs `ld`, which the package binutils has")
    checkout = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--wheel-dir", folder, checkout)
        (plain,) = folder.glob("*.whl")
        run("-m", "wheel", "unpack", "--dest", folder / "unpacked", plain)
        (root,) = (folder / "unpacked").iterdir()
        run(__file__, "--compile", root)
        check(root)
        (metadata,) = root.glob("*.dist-info/WHEEL")
        text = metadata.read_text(encoding="utf-8").replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        metadata.write_text(re.sub(r"^Tag: .*$", f"Tag: {TAG}", text, flags=re.MULTILINE), encoding="utf-8")
        out.mkdir(parents=True, exist_ok=True)
        run("-m", "wheel", "pack", "--dest-dir", out, root)
        (made,) = out.glob(f"{root.name}-{TAG}.whl")
    size = made.stat().st_size
    if size > LARGEST:
        sys.exit(f"make wheel: {made} has {size:,} bytes, expected at most {LARGEST:,}")
    print(f"{made}: {size:,} bytes")


def run(*words: str | Path, **variables: str) -> str:
    """Run Python with some arguments, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BPEJIT_", "NUMBA_"))}
    command = [sys.executable, *words]
    return subprocess.run(command, check=True, env={**environment, **variables}, stdout=subprocess.PIPE, text=True).stdout


RUNNABLE = """
import sys
sys.path.insert(0, sys.argv[1])
from bpejit.jit import shipped, target
print(*(level for level in shipped.LEVELS if not target.find_missing(level)))
"""
"""A script that prints the levels whose code this machine can run."""

CHECK = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import bpejit
from bpejit.jit import listening, shipped
events = []
listening.on_compile(lambda event, seconds: events.append(event))
bpejit.warmup()
tokenizer = bpejit.train(sys.argv[2:], vocab_size=1000, workers=1)
ids = b"".join(tokenizer.encode_array(open(name, "rb").read()).tobytes() for name in sys.argv[2:])
print(hashlib.sha256(ids).hexdigest(), bool(events), bool({"numba", "llvmlite"} & sys.modules.keys()), shipped.is_available())
"""


def check(root: Path) -> None:
    """Train and encode with each library of an unpacked wheel that this machine can run, and compare with compiled code."""
    texts = sorted(Path(__file__).resolve().parent.parent.glob("tests/data/*.txt"))
    (root / "check.py").write_text(CHECK, encoding="utf-8")
    with tempfile.TemporaryDirectory() as cache:
        words = [root / "check.py", root, *texts]
        expected, *_, from_library = run(*words, BPEJIT_CPU="x86-64", BPEJIT_CACHE_DIR=cache).split()
        assert from_library == "False"
        runnable = run("-c", RUNNABLE, root).split()
        for level in runnable:
            found = run(*words, BPEJIT_CPU=level, BPEJIT_CACHE_DIR=cache).split()
            if found != [expected, "False", "False", "True"]:
                sys.exit(f"make wheel: with {level}, found {found}, expected {[expected, 'False', 'False', 'True']}")
            print(f"checked {level}: nothing is compiled, and the ids are those of code for plain x86-64")
    (root / "check.py").unlink()


def compile_package(root: Path) -> None:
    """Compile the kernels of an unpacked wheel, and put the libraries and their index into it."""
    sys.path.insert(0, str(root))
    import bpejit
    from bpejit.jit import compiler, dispatch, lowering, shipped, target

    assert Path(bpejit.__file__).is_relative_to(root), bpejit.__file__
    kernels = find_signatures()
    shipped.FOLDER.mkdir()
    index: dict[str, tuple[str, Any]] = {}
    for level in shipped.LEVELS:
        chosen = target.at_level(level)
        target.current = lambda chosen=chosen: chosen
        for cached in (lowering.dispatcher_of, compiler._target_machine):
            cached.cache_clear()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for number, (kernel, signature, arguments) in enumerate(kernels):
                full_name = f"{kernel.__module__.rpartition('.')[2]}.{kernel.__qualname__}"
                symbol = dispatch.symbol_of(full_name, signature)
                code = compiler.compile_kernel(kernel, arguments, symbol)
                (folder / f"{number:03}.o").write_bytes(code.machine_code)
                entry = index.setdefault(shipped.name_of(full_name, signature), (symbol, code.returns))
                assert entry == (symbol, code.returns)
            link(sorted(folder.iterdir()), shipped.FOLDER / f"{level}.so")
    content = {"build": shipped.describe_build(), "kernels": index}
    (shipped.FOLDER / shipped.INDEX).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def find_signatures() -> list[tuple[Any, str, tuple[Any, ...]]]:
    """Call all kernels; return each with its argument types, as text, and its arguments."""
    from bpejit.jit import dispatch
    from bpejit.warm_kernels import warmup

    found = {}  # two threads may load the same kernel at the same time
    entry_for = dispatch.Kernel._entry_for

    def record(self: Any, arguments: tuple[Any, ...]) -> Any:
        signature = ", ".join(dispatch._describe(arguments))
        found[id(self), signature] = (self, signature, arguments)
        return entry_for(self, arguments)

    dispatch.Kernel._entry_for = record
    warmup()
    dispatch.Kernel._entry_for = entry_for
    return list(found.values())


def link(objects: list[Path], out: Path) -> None:
    """Link object files to a shared library that exports only the kernels."""
    with tempfile.NamedTemporaryFile("w", suffix=".map") as script:
        script.write("{ global: bpejit.*; local: *; };\n")
        script.flush()
        options = ["-shared", "-s", "--build-id=none", "--hash-style=gnu", "-z", "noexecstack", "-z", "relro", "-z", "now"]
        subprocess.run(["ld", *options, f"--version-script={script.name}", "-o", out, *objects], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "--compile":
        compile_package(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
