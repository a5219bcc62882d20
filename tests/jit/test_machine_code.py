"""Tests of calling kernels: machine code is compiled once, stored on disk, and loaded without Numba."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

from bpejit.jit import MISMATCH, dispatch, linking, listening, loader, methods
from bpejit.jit.memory import call_c

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba itself runs the kernels"),
]


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    # The functions below are not kernels of the package, so the cache would not notice an edit.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


def make_total():
    @dispatch.kernel
    def total(numbers, start, backwards):
        """Return the sum of the numbers and `start`, negated if `backwards` is true."""
        result = np.int64(start)
        for i in range(numbers.size):
            result += np.int64(numbers[i])
        return -result if backwards else result

    dispatch.KERNELS.remove(total)
    return total


def test_each_combination_of_types_is_compiled_once():
    total = make_total()
    small = np.array([1, 2, 3], np.uint8)
    assert total(small, 10, False) == 16
    assert total(small[1:], 10, True) == -15
    assert total(np.zeros(0, np.uint8), -(1 << 62), False) == -(1 << 62)
    assert len(total.signatures) == 1
    assert total(small.astype(np.int32) * -1, 10, False) == 4
    assert total(small, 10, False) == 16  # not interpreted as the type of the previous call
    assert len(total.signatures) == 2
    read_only = small.copy()
    read_only.flags.writeable = False
    assert total(read_only, 10, False) == 16
    assert len(total.signatures) == 3
    for _ in range(3):
        assert total(np.uint16([1, 2]), np.uint8(3), np.bool_(True)) == -6
    assert len(total.signatures) == 4


def test_array_subclass(tmp_path):
    total = make_total()
    (tmp_path / "numbers").write_bytes(bytes([1, 2, 3]))
    mapped = np.memmap(tmp_path / "numbers", np.uint8, "r")
    assert [total(numbers, 0, False) for numbers in (mapped, np.array([4], np.uint8), mapped)] == [6, 4, 6]


@pytest.mark.parametrize(
    "wrong",
    [[1, 2], "text", 1.5, None, np.zeros((2, 2), np.uint8), np.zeros(8, np.uint8)[::2], np.uint8(1) + np.zeros((), np.uint8)],
)
def test_non_arrays_are_refused(wrong):
    total = make_total()
    with pytest.raises(Exception, match=r"expected|cannot|No implementation|attribute|Invalid") as found:
        total(wrong, 0, False)
    assert isinstance(found.value, TypeError) or type(found.value).__module__.startswith("numba")
    assert total(np.uint8([1]), 0, False) == 1
    with pytest.raises(TypeError):
        total(wrong if not isinstance(wrong, (int, np.integer)) else [1], 0, False)


def test_results_of_every_kind():
    @dispatch.kernel
    def several(number, truth):
        """Return one value of each kind."""
        return np.uint64(number), np.int64(number), not truth, np.uint8(7)

    @dispatch.kernel
    def largest(number):
        """Return an unsigned number."""
        return np.uint64(number) | np.uint64(1 << 63)

    @dispatch.kernel
    def negative(number):
        """Return True if the number is negative."""
        return number < 0

    @dispatch.kernel
    def clear(numbers):
        """Return None."""
        for i in range(numbers.size):
            numbers[i] = 0

    del dispatch.KERNELS[-4:]
    for _ in range(2):
        assert several(-1, True) == ((1 << 64) - 1, -1, False, 7)
        assert several(np.uint64((1 << 64) - 2), False) == ((1 << 64) - 2, -2, True, 7)
        assert largest(5) == (1 << 63) + 5
        assert negative(-5) is True
        assert negative(5) is False
        numbers = np.arange(5)
        assert clear(numbers) is None
        assert not numbers.any()


def test_result_equal_to_mismatch_code():
    @dispatch.kernel
    def same(number):
        """Return the number."""
        return number

    dispatch.KERNELS.remove(same)
    assert [same(number) for number in (1, MISMATCH, MISMATCH, 2)] == [1, MISMATCH, MISMATCH, 2]


def test_records():
    @dispatch.kernel
    def count(pair, both):
        """Return the size of both fields, or of the left one."""
        return pair.left.size + (pair.right.size if both else 0)

    dispatch.KERNELS.remove(count)
    bytes_and_words = Pair(np.zeros(2, np.uint8), np.zeros(3, np.uint64))
    words = Pair(np.zeros(4, np.uint64), np.zeros(5, np.uint64))
    for _ in range(2):
        assert count(bytes_and_words, True) == 5
        assert count(words, True) == 9
        assert count(words, False) == 4
    assert len(count.signatures) == 2


def test_bound_call():
    total = make_total()
    numbers = np.array([1, 2, 3], np.uint8)
    bound = dispatch.bind(total, numbers, 10, False)
    assert bound.run() == 16
    numbers[0] = 5
    bound.words[1] = -30
    assert bound.run() == -20
    assert total(numbers, 0, False) == 10
    assert len(total.signatures) == 1
    del numbers
    assert bound.run() == -20
    bound.arguments[0].dtype = np.int8
    assert bound.run() == MISMATCH
    bound.arguments[0].dtype = np.uint8
    assert bound.run() == -20
    with pytest.raises(OverflowError):
        bound.words[1] = 1 << 63


def test_bound_call__of_another_kind():
    """A function in plain Python, and a kernel whose arguments or result are packed in another way."""
    plain = dispatch.bind(lambda numbers, start: int(numbers.sum()) + start, np.arange(3), 1)
    assert plain.run() == 4
    plain.words[1] = 5
    assert plain.run() == 8

    @dispatch.kernel
    def is_left_longer(pair, by):
        """Return True if the left field is longer."""
        return pair.left.size > pair.right.size + by

    dispatch.KERNELS.remove(is_left_longer)
    bound = dispatch.bind(is_left_longer, Pair(np.zeros(2, np.uint8), np.zeros(1, np.uint8)), 0)
    assert bound.run() is True
    bound.words[1] = 1
    assert bound.run() is False


def test_concurrent_calls():
    total = make_total()
    arrays = [np.arange(100, dtype=dtype) for dtype in (np.uint8, np.int16, np.uint32, np.int64)] * 25
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda array: total(array, 0, False), arrays)) == {4950}
    assert len(total.signatures) == 4


def compiled_total(symbol):
    from bpejit.jit import compiler

    return compiler.compile_kernel(make_total(), (np.zeros(1, np.uint8), 0, True), symbol)


def call(address, numbers):
    """Call `total`, compiled for bytes."""
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(address)
    _, expected, _ = dispatch._flatten((np.zeros(1, np.uint8),))
    return entry(struct.pack("3q", id(numbers), 1, False) + expected)


def test_object_file_is_loaded_once():
    code = compiled_total("total")
    numbers = np.arange(200, dtype=np.uint8)
    address = loader.load(code.machine_code, "total")
    assert call(address, numbers) == 19901
    assert call(address, np.arange(200)) == MISMATCH
    assert loader.load(code.machine_code, "total") == address


@pytest.mark.parametrize("load", [loader.load, loader._load_by_llvm])
def test_other_code_of_same_name_is_loaded(load):
    @dispatch.kernel
    def product(numbers, start, backwards):
        """Return the product of the numbers and `start`."""
        for i in range(numbers.size):
            start *= np.int64(numbers[i])
        return start

    dispatch.KERNELS.remove(product)
    from bpejit.jit import compiler

    other = compiler.compile_kernel(product, (np.zeros(1, np.uint8), 0, True), "same")
    addresses = [load(code.machine_code, "same") for code in (compiled_total("same"), other)]
    assert [call(address, np.arange(1, 5, dtype=np.uint8)) for address in addresses] == [11, 24]


def test_object_file_without_symbol_is_refused():
    with pytest.raises(ValueError, match="does not define others"):
        loader.load(compiled_total("total").machine_code, "others")


@dispatch.kernel
def clear(numbers, counts):
    """Set all elements to zero, by a function of the C library, and count the bytes of each number."""
    numbers[:] = 0
    for i in range(counts.size):
        counts[i] = 0
    return numbers.size


dispatch.KERNELS.remove(clear)

needs_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="object files of other platforms are linked by LLVM"
)


@needs_linux
def test_linked_code_equals_that_of_llvm():
    from bpejit.jit import compiler

    code = compiled_total("total")
    found = [link(code.machine_code, "total") for link in (loader._map, loader._load_by_llvm)]
    assert [call(address, np.arange(200, dtype=np.uint8)) for address in found] == [19901, 19901]
    arguments = np.ones(5000, np.uint8), np.ones(70, np.int64)
    machine_code = compiler.compile_kernel(clear, arguments, "clear").machine_code
    assert b"memset" in machine_code
    address = loader._map(machine_code, "clear")
    words, expected, _ = dispatch._flatten(arguments)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(address)(struct.pack("2q", *words) + expected) == 5000
    assert not arguments[0].any()
    assert not arguments[1].any()
    assert linking.image_of(machine_code, "clear", lambda name: None) is None  # LLVM may know the function


@needs_linux
def test_other_object_files_are_left_to_llvm():
    machine_code = compiled_total("total").machine_code
    assert linking.image_of(machine_code, "others", loader._find_external) is None
    for size in range(0, len(machine_code), 61):
        assert linking.image_of(machine_code[:size], "total", loader._find_external) is None
    for at in (0, 4, 16, 18):  # format, width, type and machine
        changed = bytearray(machine_code)
        changed[at] ^= 0x41
        assert linking.image_of(bytes(changed), "total", loader._find_external) is None


@needs_linux
def test_code_is_left_to_llvm_where_memory_cannot_be_executed(monkeypatch):
    monkeypatch.setattr(loader, "_loaded", {})
    monkeypatch.setattr(loader, "_map_image", lambda image: None)
    address = loader.load(compiled_total("total").machine_code, "total")
    assert call(address, np.arange(5, dtype=np.uint8)) == 11


EXIT_CODE = """
import gc, sys, threading, time
import numpy as np
from bpejit.jit import dispatch, loader

@dispatch.kernel
def spin(numbers, rounds):
    \"\"\"Hash some numbers, many times.\"\"\"
    result = np.int64(0)
    for i in range(rounds):
        for j in range(numbers.size):
            result = result * 31 + np.int64(numbers[j])
    return result

numbers = np.arange(1000)
spin(numbers, 1)
started = threading.Event()

def run():
    started.set()
    spin(numbers, 1 << 50)

threading.Thread(target=run, daemon=True).start()
started.wait()
time.sleep(0.1)
if sys.argv[1] == "clear":
    vars(loader).clear()
    gc.collect()
    time.sleep(0.1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exit", "clear"])
def test_interpreter_exits_while_daemon_thread_runs_kernel(way):
    # The time from clearing the modules to the exit varies; `clear` ensures that it is long enough.
    done = subprocess.run([sys.executable, "-c", EXIT_CODE, way], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


OTHER_NUMBA = """
import warnings
import numba.core.codegen
del numba.core.codegen.AOTCodeLibrary.emit_bitcode
numba.core.cpu.CPUContext.with_aot_codegen = lambda self, name: None
import numpy as np
from bpejit.jit import listening
from bpejit.kernels.decoding import decoding
from bpejit.kernels.encoding import span_encoding as encoding
events = []
listening.on_compile(lambda event, seconds: events.append(event))
hashes = np.zeros(1, np.uint64)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for _ in range(2):
        encoding.hash_strings(np.full(24, 97, np.uint8), np.array([0, 3], np.int64), hashes)
print(hashes[0], events, *(warning.message for warning in found), sep="\\n")
"""


@pytest.mark.slow
def test_numba_with_other_abi_runs_kernels_itself(tmp_path):
    environment = {**os.environ, "BPEJIT_CACHE": "1", "BPEJIT_CACHE_DIR": str(tmp_path)}

    def run(**others):
        done = subprocess.run(
            [sys.executable, "-c", OTHER_NUMBA],
            env={**environment, **others},
            check=True,
            timeout=300,
            capture_output=True,
            text=True,
        )
        return done.stdout.splitlines()

    first = run()
    assert first[1] == "['start', 'end']"
    assert len(first) == 3
    assert "the internals of numba" in first[2]
    assert "AOTCodeLibrary.emit_bitcode is missing and 1 more" in first[2]
    second = run()
    assert second[0] == first[0]
    assert second[1] == "[]"  # the cache of Numba itself, in our folder
    assert list(tmp_path.glob("numba-*"))
    uncached = run(BPEJIT_CACHE="0")
    assert uncached[:2] == first[:2]
    assert any("BPEJIT_CACHE=0 turns the cache off" in line for line in uncached)


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{"BPEJIT_JIT": "numba"}, {"NUMBA_DEBUGINFO": "1"}])
def test_numba_runs_kernels_on_request(tmp_path, variables):
    code = """
import numpy as np
from bpejit.kernels.encoding import span_encoding as encoding
hashes = np.zeros(1, np.uint64)
encoding.hash_strings(np.full(24, 97, np.uint8), np.array([0, 3], np.int64), hashes)
print(type(encoding.hash_strings).__name__, hashes[0])
"""

    def run(**others):
        environment = {**os.environ, "BPEJIT_CACHE": "1", "BPEJIT_CACHE_DIR": str(tmp_path), **others}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, check=True, timeout=300, capture_output=True, text=True
        ).stdout.split()

    name, expected = run()
    assert name == "Kernel"
    assert run(**variables) == ["CPUDispatcher", expected]
    # Code with debug information is not stored, since Numba would not distinguish it from other code.
    assert bool(list(tmp_path.glob("numba-*/**/*.nbc"))) == ("BPEJIT_JIT" in variables)


def test_invalid_value_of_environment_variable():
    environment = {**os.environ, "BPEJIT_JIT": "yes"}
    done = subprocess.run(
        [sys.executable, "-c", "import bpejit.jit.dispatch"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert "BPEJIT_JIT is 'yes'; expected numba" in done.stderr


def test_exception_in_compiler_helper_is_propagated(monkeypatch):
    from bpejit.jit import compiler

    def broken(module, symbol):
        raise AttributeError("no such thing")

    monkeypatch.setattr(compiler, "_generate", broken)
    with pytest.raises(AttributeError, match="no such thing"):
        make_total()(np.uint8([1, 2]), 3, True)


def test_installed_numba_is_supported():
    from bpejit.jit import lowering

    assert lowering.find_differences() == []


def test_long_compilation_is_reported_once(monkeypatch, capsys, caplog):
    def compile_for(seconds):
        with listening.compiling("total"):
            listening._state.seconds += seconds

    monkeypatch.setattr(listening, "_state", listening._State())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with caplog.at_level("INFO", "bpejit.jit"):
        compile_for(0.2)
        assert capsys.readouterr().err == ""
        compile_for(2)
        compile_for(2)
    assert capsys.readouterr().err == "bpejit: compiling kernels for this machine; this may take a minute ...\n"
    assert sum("may take a minute" in record.message for record in caplog.records) == 1


def test_long_compilation_is_not_reported_twice(monkeypatch, capsys):
    monkeypatch.setattr(listening, "_state", listening._State())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    events = []
    stop = listening.on_compile(lambda event, seconds: events.append(event))
    with listening.compiling("total"):
        listening._state.seconds += 2
    stop()
    assert events == ["start", "end"]
    assert capsys.readouterr().err == ""


def test_clock_stands_still_while_kernels_are_compiled(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(listening, "_state", listening._State())
    monkeypatch.setattr(listening.time, "perf_counter", lambda: now[0])
    begun = listening.working_time()
    now[0] += 1
    with listening.pausing():
        now[0] += 10
        assert listening.working_time() - begun == 1, "also for a thread that looks meanwhile"
        with listening.pausing():  # of another thread
            now[0] += 20
        now[0] += 40
        assert listening.compiling_time() == 70
    now[0] += 2
    assert listening.working_time() - begun == 3
    assert listening.compiling_time() == 70


def test_preparation_runs_once_and_not_in_a_fork(monkeypatch):
    calls = []
    listening.prepare_with(lambda: calls.append(listening.awaits_preparation()))
    listening.run_preparation()
    listening.run_preparation()
    assert calls == [False]
    listening.prepare_with(lambda: calls.append(True))
    monkeypatch.setattr(listening.os, "getpid", lambda: -1)
    listening.run_preparation()
    assert calls == [False]


def test_loaded_kernel_needs_no_numba():
    code = "import sys, bpejit; bpejit.warmup(); print('numba' in sys.modules)"
    environment = {**os.environ, "BPEJIT_CACHE": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, timeout=300, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False"]


def test_methods():
    """A builtin function receives an array of words and an object; it returns a new reference, or raises an exception."""

    @dispatch.method
    def echo(words, given):
        """Return the object, after counting it, or fail."""
        words[0] += 1
        if words[2] != 0:
            call_c(words[2], (words[3], given))
            return 0
        call_c(words[1], (given,))
        return given

    dispatch.KERNELS.remove(echo)
    names = "Py_IncRef", "PyErr_SetObject"
    increase, fail = (ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in names)
    words = np.array([0, increase, 0, id(KeyError)])
    function = dispatch.make_builtin(echo, words)
    assert function.__name__ == "echo"
    given = object()
    before = sys.getrefcount(given)
    assert [function(given) is given for _ in range(5)] == [True] * 5
    assert sys.getrefcount(given) == before
    assert words[0] == 5
    other = dispatch.make_builtin(echo, np.array([0, increase, 0, 0]))
    assert other(given) is given
    assert words[0] == 5
    words[2] = fail
    del words  # the function keeps the array
    for _ in range(3):
        with pytest.raises(KeyError):
            function(given)


def test_methods__not_possible(monkeypatch):
    @dispatch.method
    def none(words, given):
        """Never called."""
        return words[0] + given

    dispatch.KERNELS.remove(none)
    monkeypatch.setattr(methods, "_HEAD_BYTES", 32)  # as in builds of Python without a GIL
    assert dispatch.make_builtin(none, np.zeros(1, np.int64)) is None
    assert dispatch.make_builtin(lambda words, given: 0, np.zeros(1, np.int64)) is None


@pytest.mark.parametrize("count", [1, 2, 3])
def test_c_calls(count):
    """In plain Python and in compiled code."""
    kind = ctypes.CFUNCTYPE(*[ctypes.c_int64] * (count + 1))
    called = kind(lambda *arguments: sum(number << 8 * place for place, number in enumerate(arguments)))
    address = ctypes.cast(called, ctypes.c_void_p).value
    expected = int.from_bytes(bytes([7, 8, 9][:count]), "little")
    assert call_c(address, (7, 8, 9)[:count]) == expected
    compiled = {1: call_1_of, 2: call_2_of, 3: call_3_of}[count]
    assert compiled(address, *[7, 8, 9][:count]) == expected


@dispatch.kernel
def call_1_of(address, first):
    """Call a function."""
    return call_c(address, (first,))


@dispatch.kernel
def call_2_of(address, first, second):
    """Call a function."""
    return call_c(address, (first, second))


@dispatch.kernel
def call_3_of(address, first, second, third):
    """Call a function."""
    return call_c(address, (first, second, third))


del dispatch.KERNELS[-3:]
