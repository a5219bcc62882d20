"""Tests of kernels shipped with the package: used if they match the host, and ignored otherwise."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

from bpejit.jit import dispatch, shipped, target

sys.path.insert(0, str(ROOT / ".ci"))

needs_x86 = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="libraries are made for Linux on x86-64 alone"
)


def make_total():
    @dispatch.kernel
    def total(numbers):
        """Return the sum of the numbers."""
        result = np.int64(0)
        for i in range(numbers.size):
            result += np.int64(numbers[i])
        return result

    dispatch.KERNELS.remove(total)
    return total


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Return a folder with a library for the host, which contains one kernel, and its index."""
    import make_wheel

    from bpejit.jit import compiler

    monkeypatch.setenv("BPEJIT_CACHE", "0")
    for name in ("BPEJIT_CPU", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"):
        monkeypatch.delenv(name, raising=False)
    total = make_total()
    name = f"{total.__module__.rpartition('.')[2]}.{total.__qualname__}"
    signature = "|u1[]"
    symbol = dispatch.symbol_of(name, signature)
    code = compiler.compile_kernel(total, (np.zeros(1, np.uint8),), symbol)
    (tmp_path / "total.o").write_bytes(code.machine_code)
    make_wheel.link([tmp_path / "total.o"], tmp_path / "x86-64-v3.so")
    index = {"build": shipped.describe_build(), "kernels": {shipped.name_of(name, signature): (symbol, code.returns)}}
    (tmp_path / shipped.INDEX).write_text(json.dumps(index))
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.setattr(shipped, "_choose_level", lambda: "x86-64-v3")
    shipped._open.cache_clear()
    yield tmp_path
    shipped._open.cache_clear()


def compiles(monkeypatch):
    """Call the kernel; return True if it had to be compiled."""
    from bpejit.jit import compiler

    compiled = []
    compile_kernel = compiler.compile_kernel

    def count(*arguments):
        compiled.append(arguments)
        return compile_kernel(*arguments)

    monkeypatch.setattr(compiler, "compile_kernel", count)
    total = make_total()
    assert [total(np.arange(n, dtype=np.uint8)) for n in (5, 200, 0)] == [10, 19900, 0]
    return bool(compiled)


needs_linker = pytest.mark.skipif(shutil.which("ld") is None, reason="libraries are linked by ld")


@needs_x86
@needs_linker
@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba itself runs the kernels")
def test_kernel_of_library_is_not_compiled(library, monkeypatch):
    assert shipped.is_available()
    assert not dispatch.is_first_run()
    assert not compiles(monkeypatch)


@needs_x86
@needs_linker
@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba itself runs the kernels")
@pytest.mark.parametrize("change", ["sources", "head", "platform", "index", "no library", "types", "processor"])
def test_mismatched_kernel_is_compiled(library, monkeypatch, change):
    path = library / shipped.INDEX
    index = json.loads(path.read_text())
    if change == "index":
        path.write_text("{")
    elif change == "no library":
        (library / "x86-64-v3.so").unlink()
    elif change == "types":
        index["kernels"] = {f"{name} ": value for name, value in index["kernels"].items()}
        path.write_text(json.dumps(index))
    elif change == "processor":
        monkeypatch.setattr(shipped, "_choose_level", lambda: None)
    else:
        index["build"][change] = "other"
        path.write_text(json.dumps(index))
    assert compiles(monkeypatch)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "x86-64-v4-vbmi"),
        ({"BPEJIT_CPU": "native"}, "x86-64-v4-vbmi"),
        ({"BPEJIT_CPU": "x86-64-v3"}, "x86-64-v3"),
        ({"BPEJIT_CPU": "x86-64-v4"}, None),
        ({"BPEJIT_CPU": "x86-64"}, None),
        ({"NUMBA_CPU_NAME": "znver3"}, None),
        ({"NUMBA_CPU_FEATURES": "+avx2"}, None),
        ({"NUMBA_ENABLE_AVX": "0"}, None),
    ],
)
def test_environment_variable_sets_level(monkeypatch, variables, expected):
    for name in ("BPEJIT_CPU", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(shipped, "_read_features", lambda: target.LEVELS["x86-64-v4-vbmi"] | {"other"})
    assert shipped._choose_level() == expected


def test_processor_determines_level(monkeypatch):
    for name in ("BPEJIT_CPU", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"):
        monkeypatch.delenv(name, raising=False)
    levels = {"x86-64-v4-vbmi": "x86-64-v4-vbmi", "x86-64-v4": "x86-64-v3", "x86-64-v3": "x86-64-v3", "x86-64-v2": None}
    for level, expected in levels.items():
        monkeypatch.setattr(shipped, "_read_features", lambda level=level: target.LEVELS[level])
        assert shipped._choose_level() == expected
    monkeypatch.setattr(shipped, "_read_features", frozenset)
    assert shipped._choose_level() is None


@needs_x86
def test_linux_and_llvm_agree_on_processor():
    pytest.importorskip("llvmlite")
    available = target._host_features()
    known = frozenset().union(*target.LEVELS.values())
    assert shipped._read_features() == {name for name in known if available.get(name)}


@pytest.mark.skipif(not dispatch.JIT_ENABLED or dispatch.BY_NUMBA, reason="Numba itself runs the kernels")
def test_kernels_for_the_wheel_are_those_that_are_called(monkeypatch):
    import make_wheel

    from bpejit import warm_kernels

    total = make_total()
    monkeypatch.setattr(
        warm_kernels, "warmup", lambda: [total(np.zeros(n, kind)) for n, kind in ((3, "u1"), (9, "u1"), (3, "i8"))]
    )
    found = make_wheel.find_signatures()
    assert [(kernel, signature) for kernel, signature, _ in found] == [(total, "|u1[]"), (total, "<i8[]")]
    assert total(np.full(2, 3, "u4")) == 6  # calls are as before
    assert total.signatures == ["|u1[]", "<i8[]", "<u4[]"]


def test_checkout_has_no_library():
    assert not (ROOT / "bpejit" / "jit" / "compiled").exists()
    code = "from bpejit.jit import shipped; print(shipped.is_available())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=os.environ, cwd=ROOT
    )
    assert done.stdout == "False\n"
