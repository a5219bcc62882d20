"""Tests of rules for the whole tree."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys

import pytest
import twins
from conftest import DATA, ROOT, tracked_files
from helpers.cli import COMMANDS, ENVIRONMENT, MODULE, invoke

import bpejit
from bpejit import kernels
from bpejit.jit import dispatch

HEAVY = {"numba", "ray", "llvmlite", "numpy", "regex", "rich"}


def python(code: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def all_kernels():
    for module in pkgutil.walk_packages(kernels.__path__, "bpejit.kernels."):
        importlib.import_module(module.name)
    return list(dispatch.KERNELS)


def test_import_loads_no_heavy_modules():
    loaded = python("import sys, bpejit, bpejit.errors; print(*sys.modules)").split()
    assert HEAVY.isdisjoint(loaded)


def test_help_loads_no_heavy_modules():
    code = f"""
import sys
from {MODULE}.app import program
try:
    program.main(["--help"], prog_name="bpejit")
except SystemExit as end:
    assert end.code == 0
print("LOADED", *sys.modules)
"""
    output = python(code)
    assert "Encode:\n" in output
    assert HEAVY.isdisjoint(output.partition("LOADED")[2].split())


def test_all_lists_the_exported_names():
    assert sorted(bpejit.__all__) == list(bpejit.__all__)
    for name in bpejit.__all__:
        assert getattr(bpejit, name) is not None
    assert dir(bpejit) == sorted([*bpejit.__all__, "__version__"])
    assert bpejit.errors.BpejitError is bpejit.BpejitError  # submodules are attributes
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        bpejit.missing  # noqa: B018


def test_exports_are_visible_to_type_checkers():
    tree = ast.parse((ROOT / "bpejit" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bpejit")]
    assert {alias.asname for node in imports for alias in node.names} == set(bpejit.__all__)


def test_every_kernel_has_a_twin():
    names = {kernel.__name__ for kernel in all_kernels()}
    assert len(names) >= 10
    found = {name for stage in twins.__all__ for name, value in vars(getattr(twins, stage)).items() if callable(value)}
    assert not names - found


def test_every_kernel_has_a_docstring():
    for kernel in all_kernels():
        text = getattr(kernel, "py_func", kernel).__doc__
        assert text, kernel.__name__


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba compiles a kernel again where another one calls it")
def test_one_specialization_per_kernel(tmp_path):
    """`warmup` compiles each kernel with the types of real use, which compiles nothing more.

    One adds up sums of two types, the smaller of which fits better into the CPU cache, and ids of documents have two types.
    """
    code = f"""
import os, pkgutil, importlib
os.chdir({str(tmp_path)!r})
import bpejit
from bpejit import kernels
from bpejit.jit import dispatch
for module in pkgutil.walk_packages(kernels.__path__, "bpejit.kernels."):
    importlib.import_module(module.name)


bpejit.warmup()
dispatch.on_compile(lambda event, seconds: print("compiled after warmup:", event, seconds))
texts = [{str(DATA / "cjk.txt")!r}, {str(DATA / "awkward.bin")!r}]
for options in (dict(pattern="gpt2"), dict(pattern="o200k", engine="threads", workers=2, tie_break="hf"),
                dict(pattern=r"\\w+(?=\\W)|.", tie_break="smallest-ids", max_token_bytes=6, normalize_newlines=True)):
    tokenizer = bpejit.train(texts, vocab_size=700, **options)
    tokenizer.save("tokenizer", overwrite=True)
    tokenizer = bpejit.load("tokenizer")
    tokenizer.encode_files(texts, "tokens.bin", engine="serial", overwrite=True)
    tokenizer.decode_file("tokens.bin", "back.txt", overwrite=True)
    tokenizer.encode_files(texts, "wide.bin", dtype="uint32", engine="threads", workers=2, overwrite=True)
    tokenizer.decode_file("wide.bin", "back.txt", overwrite=True)
    text = "x" * 5000 + " hello <|endoftext|> "
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode_bytes(tokenizer.encode_array(b"\\xff" + bytes(300))) == b"\\xff" + bytes(300)
    tokenizer.encode_batch([text, b"bytes", ""])
    assert list(tokenizer.encode_iterable([text, text])) == tokenizer.encode(text + text)
bpejit.train([], sources={{texts[0]: 1_000_000}}, vocab_size=700)  # sums of four bytes
assert sum(len(kernel.signatures) for kernel in dispatch.KERNELS) >= 10
for kernel in dispatch.KERNELS:
    if len(kernel.signatures) > (2 if kernel.__name__ in ("bound_counts", "insert_tokens", "add_lengths") else 1):
        print(kernel.__name__, kernel.signatures)
"""
    assert python(code) == ""


def test_packages_lists_every_folder():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = ast.literal_eval(re.search(r"^packages = (\[\n.*?\n\])", text, re.MULTILINE | re.DOTALL)[1])
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "bpejit").rglob("__init__.py")}
    assert set(listed) == found | {"bpejit_cli"}
    assert listed == sorted(listed)


def test_every_command_has_help_with_an_example():
    assert len(COMMANDS) > 15
    for name, command in COMMANDS.items():
        assert command.get_short_help_str(), name
        assert re.search(rf"^ *bpejit {name}\b", (command.help or "").partition("Example:")[2], re.MULTILINE), name
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or parameter.help, (name, parameter.name)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke(*name.split(), "--help").stdout.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80


def test_descriptions_of_commands_are_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke("--help").stdout
    for name in (name for name in COMMANDS if " " not in name):
        assert re.search(rf"^  {name} +{re.escape(COMMANDS[name].get_short_help_str(100))}$", text, re.MULTILINE)


def test_no_machine_specific_paths():
    private = re.compile(rb"(?<![\w.$}])/(?:home|root|work|Users)/\w")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        if DATA not in path.parents
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        if private.search(line)
    ]
    assert not found
