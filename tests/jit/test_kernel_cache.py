"""Tests of compiled kernels on disk: they are reused, and never after the code of a kernel has changed."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.cli import ENVIRONMENT

import bpejit
from bpejit.jit.dispatch import BY_NUMBA

CODE = """
import numpy as np
from bpejit.jit import dispatch
from bpejit.kernels.encoding import span_encoding as encoding
compiled = []
dispatch.on_compile(lambda event, seconds: compiled.append(event))
hashes = np.zeros(1, np.uint64)
encoding.hash_strings(np.full(24, 97, np.uint8), np.array([0, 3], np.int64), hashes)
print(len(compiled), hashes[0])
"""


class Run(NamedTuple):
    """The outcome of a process: whether it compiled, and the result of the kernel."""

    compiled: bool
    value: int


@pytest.mark.slow
@pytest.mark.compiled
def test_edit_in_another_file_is_detected(tmp_path):
    shutil.copytree(Path(bpejit.__file__).parent, tmp_path / "bpejit", ignore=shutil.ignore_patterns("__pycache__"))
    # Without bytecode on disk: Python considers files of equal size and time unchanged.
    environment = {
        **os.environ,
        "BPEJIT_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run() -> Run:
        done = subprocess.run(
            [sys.executable, "-c", CODE], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=True
        )
        compiled, value = map(int, done.stdout.split())
        return Run(compiled > 0, value)

    def edit(old: str, new: str) -> None:
        keys = tmp_path / "bpejit" / "kernels" / "common" / "keys.py"
        stamp = keys.stat()
        text = keys.read_text(encoding="utf-8")
        assert old in text
        keys.write_text(text.replace(old, new), encoding="utf-8")
        os.utime(keys, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    first = run()
    assert first[0]
    assert run() == (False, first[1])
    edit("0xD6E8FEB86659FD93", "0xD6E8FEB86659FD95")
    edited = run()
    assert edited[0]
    assert edited[1] != first[1]
    if not BY_NUMBA:
        # Edits without effect on the machine code do not cause a new compilation.
        edit("\nimport numpy", "\n# a comment\n\nimport numpy")
        assert run() == (False, edited[1])
    edit("0xD6E8FEB86659FD95", "0xD6E8FEB86659FD93")
    assert run() == first._replace(compiled=False)
    # Uninstalling the package leaves no files, since the cache is outside of it.
    sources = (".py", ".typed", ".html", ".js", ".css")
    assert not [path for path in (tmp_path / "bpejit").rglob("*") if path.is_file() and path.suffix not in sources]


SMALL_PART = """
import importlib

def run():
    import numpy as np
    from bpejit.kernels.inspection.amounts import count_ids
    count_ids(np.zeros(1, dtype=np.uint32), np.zeros(1, dtype=np.int64))

importlib.import_module("bpejit.warm_kernels")._warm_others = run
"""
"""A module `sitecustomize`, which each Python process imports first: the part `others`, compiled in 20 s, has one kernel."""

MEANWHILE = """
from bpejit.warm_kernels import compiling_meanwhile, warmup
with compiling_meanwhile("others"):
    pass
print(warmup("others")[0])
"""

LATER = """
import bpejit
from bpejit.jit import dispatch
from bpejit.warm_kernels import warmup
warmup("training")
warmup("encoding")
loaded = {kernel.__qualname__: kernel.signatures for kernel in dispatch.KERNELS}
print(sum(bool(signatures) for signatures in loaded.values()))
tokenizer = bpejit.train("text.txt", vocab_size=300)
tokenizer.encode_files("text.txt", "tokens.bin")
tokenizer.decode_file("tokens.bin", "back.txt")
print({kernel.__qualname__: kernel.signatures for kernel in dispatch.KERNELS if kernel.signatures} == {
    name: signatures for name, signatures in loaded.items() if signatures
})
"""


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(BY_NUMBA, reason="Numba itself runs the kernels")
def test_another_process_compiles_meanwhile(tmp_path):
    """The next test shows that commands compile the right part."""
    (tmp_path / "sitecustomize.py").write_text(SMALL_PART, encoding="utf-8")
    environment = {
        **ENVIRONMENT,
        "BPEJIT_CACHE_DIR": str(tmp_path / "cache"),
        "BPEJIT_CACHE": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]]),
    }

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True
        )
        return done.stdout.strip()

    assert run(MEANWHILE) == "0"
    assert len(list((tmp_path / "cache").rglob("*.o"))) == 1
    shutil.rmtree(tmp_path / "cache")
    told = run('from bpejit.warm_kernels import warmup; print(warmup("others", progress=print)[0])').splitlines()
    assert told == [f"compile {n} None kernels" for n in (0, 1)] + ["1"], "it would have been compiled here"


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(BY_NUMBA, reason="Numba itself runs the kernels")
def test_first_training_compiles_encoding_kernels(tmp_path, monkeypatch):
    """The first command compiles the parts `training` and `encoding`, which are all that encoding and decoding need."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("some text, some more text\n" * 100, encoding="utf-8")
    told = []
    module = importlib.import_module("bpejit.warm_kernels")
    monkeypatch.setattr(module, "compiling_meanwhile", lambda part, waiting: nullcontext(told.append(part)))
    module.compile_first(lambda done, total: told.append((done, total)))
    assert told[1] == "encoding"
    done = subprocess.run(
        [sys.executable, "-c", LATER], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, timeout=300, check=True
    )
    n_kernels, equal = done.stdout.split()
    assert equal == "True"
    assert abs(int(n_kernels) - module.FIRST_KERNELS) < 12, "the length of the bar"
    assert (tmp_path / "back.txt").read_text(encoding="utf-8") == "some text, some more text\n" * 100
