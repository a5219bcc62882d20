"""Tests of the fingerprints of kernels: they change if and only if an edit changes the machine code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from helpers.cli import ENVIRONMENT

from bpejit.jit import dispatch, fingerprint, target

pytestmark = pytest.mark.skipif(
    not dispatch.JIT_ENABLED or dispatch.BY_NUMBA, reason="about kernels that bpejit compiles itself"
)

SOURCE = '''
from typing import NamedTuple
import numpy as np
from bpejit.jit.dispatch import inline
from bpejit.jit.memory import load_u64, prefetch

LIMIT = np.uint64(3)
WORDS = np.array([1, 2, 3], np.uint8)


class Record(NamedTuple):
    left: int
    right: int


@inline
def deepest(number):
    return number + LIMIT


@inline
def helper(number, step=1):
    return deepest(number) * 7 + step


@inline
def unused(number):
    return number


@inline
def total(words, number):
    """Return a number."""
    record = Record(words[0], WORDS[1])
    result = np.uint32(record.left)
    for i in range(10):  # ten times
        result += helper(number)
    return result + load_u64(words, 0)
'''


def of(source: str, name: str = "total") -> bytes:
    """Return the hash of a function in a module with the given source."""
    module: dict[str, object] = {"__name__": "example"}
    exec(compile(source, "example.py", "exec"), module)
    return fingerprint.of_kernel(module[name])


def test_equal_sources_have_equal_hashes():
    assert of(SOURCE) == of(SOURCE)
    assert len({of(SOURCE, name) for name in ("deepest", "helper", "unused", "total")}) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Return a number.", "Return another number."),
        ('    """Return a number."""\n', ""),
        ("  # ten times", ""),
        ("import numpy as np\n", "import numpy as np  # the usual name\n\n\n"),
        ("    return number\n", "    return number - 1\n"),
        ("def deepest(number):", "def deepest(number: int) -> int:"),
        ("\nLIMIT", "\nUNUSED = 5\nLIMIT"),
    ],
)
def test_edits_without_effect(old, new):
    assert old in SOURCE
    assert of(SOURCE.replace(old, new)) == of(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.uint64(3)", "np.uint64(4)"),
        ("np.uint64(3)", "np.int64(3)"),
        ("np.uint64(3)", "3"),
        ("LIMIT = np.uint64(3)", "LIMIT = True"),
        ("[1, 2, 3]", "[1, 2, 4]"),
        ("[1, 2, 3], np.uint8", "[1, 2, 3], np.int8"),
        ("number + LIMIT", "LIMIT + number"),
        ("* 7", "* 8"),
        ("* 7", "* 7.0"),
        ("step=1", "step=2"),
        ("number, step=1", "number, *, step=1"),
        ("    left: int\n    right: int", "    right: int\n    left: int"),
        ("np.uint32(record", "np.int32(record"),
        ("record.left)", "record.right)"),
        ("range(10)", "range(11)"),
        ("load_u64(words, 0)", "prefetch(words, 0)"),
        ("import load_u64, prefetch", "import prefetch, fold_multiply as load_u64"),
        ("helper(number)\n", "unused(number)\n"),
    ],
)
def test_edits_that_change_the_machine_code(old, new):
    assert old in SOURCE
    assert of(SOURCE.replace(old, new)) != of(SOURCE)


def test_helpers_that_call_each_other():
    source = """
from bpejit.jit.dispatch import inline
@inline
def even(n):
    return n == 0 or odd(n - 1)
@inline
def odd(n):
    return n != 0 and even(n - 1)
"""
    assert of(source, "even") == of(source, "even") != of(source, "odd")
    assert of(source, "even") != of(source.replace("n != 0", "n != 2"), "even")


def test_unknown_names_depend_on_all_sources(monkeypatch):
    source = SOURCE.replace("LIMIT = np.uint64(3)", "LIMIT = frozenset({3})")
    before = of(source)
    monkeypatch.setattr(fingerprint, "of_sources", lambda: "other")
    assert of(source) != before
    assert of(SOURCE) == of(SOURCE)


def test_kernels_have_no_unknown_names(monkeypatch):
    import importlib
    import pkgutil

    from bpejit import kernels

    def fail():
        raise AssertionError("a comment anywhere would compile this kernel again")

    monkeypatch.setattr(fingerprint, "of_sources", fail)
    monkeypatch.setattr(fingerprint, "_own", {})
    for module in pkgutil.walk_packages(kernels.__path__, "bpejit.kernels."):
        if not module.name.startswith("_"):
            importlib.import_module(module.name)
    hashes = {fingerprint.of_kernel(kernel) for kernel in dispatch.KERNELS}
    assert len(hashes) == len(dispatch.KERNELS) > 10


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a copy of the sources."""
    for name in ("jit", "kernels"):
        shutil.copytree(fingerprint._FOLDER.parent / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "_FOLDER", tmp_path / "jit")
    return tmp_path


@pytest.mark.parametrize(
    ("edited", "machine", "sources"),
    [
        ("jit/compiler.py", True, True),
        ("jit/target.py", True, True),
        ("jit/a_new_module.py", True, True),
        ("jit/cache.py", False, False),
        ("jit/loader.py", False, False),
        ("jit/notes.txt", False, False),
        ("jit/memory_llvm.py", True, True),
        ("kernels/common/keys.py", False, True),
    ],
)
def test_keys_that_depend_on_sources(edited, machine, sources, package):
    def hashes() -> tuple[str, str]:
        return fingerprint.of_machine.__wrapped__(), fingerprint.of_sources.__wrapped__()

    before = hashes()
    assert hashes() == before
    with (package / edited).open("a", encoding="utf-8") as file:
        file.write("# a comment\n")
    after = hashes()
    assert (after[0] != before[0], after[1] != before[1]) == (machine, sources)


@pytest.mark.parametrize("changed", ["sys.version", "numpy.__version__", "bpejit.jit.fingerprint._version_of"])
def test_fingerprint_depends_on_versions(changed, monkeypatch):
    before = fingerprint.of_machine()
    monkeypatch.setattr(changed, (lambda package: b"1.0") if changed.endswith("_of") else "1.0")
    assert fingerprint.of_machine.__wrapped__() != before
    monkeypatch.undo()
    assert fingerprint.of_machine.__wrapped__() == before


def test_fingerprint_depends_on_processor(monkeypatch):
    before = fingerprint.of_machine()
    lines = target.read_cpuinfo()
    monkeypatch.setattr(target, "read_cpuinfo", lambda: [line.replace(b" fpu ", b" fpu avx99 ") for line in lines])
    assert (fingerprint.of_machine.__wrapped__() != before) == bool(lines)
    monkeypatch.setattr(target, "read_cpuinfo", list)  # not on Linux
    of_llvm = fingerprint.of_machine.__wrapped__()
    monkeypatch.setattr(target, "current", lambda: target.Target("other", "+avx2", has_avx512_vbmi=False, has_avx2=True))
    assert fingerprint.of_machine.__wrapped__() not in (before, of_llvm)


def test_fingerprint_is_equal_in_every_process():
    code = """
from bpejit.jit import fingerprint
from bpejit.kernels.encoding import text_encoding
print(fingerprint.of_machine(), fingerprint.of_sources(), fingerprint.of_kernel(text_encoding.encode_text).hex())
"""
    found = {
        subprocess.run(
            [sys.executable, *options, "-c", code],
            env={**ENVIRONMENT, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for options, seed in (([], "1"), (["-O"], "2"))
    }
    assert len(found) == 1


class Forward(NamedTuple):
    left: np.ndarray
    right: np.ndarray


class Backward(NamedTuple):
    right: np.ndarray
    left: np.ndarray


def test_types_depend_on_order_of_fields():
    """Source code accesses the fields of a record by name, and machine code by offset."""
    array = np.zeros(1, np.uint8)
    assert dispatch._describe([Forward(array, array)]) == dispatch._describe([Forward(array, array)])
    assert dispatch._describe([Forward(array, array)]) != dispatch._describe([Backward(array, array)])
