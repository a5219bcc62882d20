"""Names in docstrings refer to something that exists, and public names and file names are unique."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

import bpejit

FILES = [path for folder in ("bpejit", "cli") for path in sorted((ROOT / folder).rglob("*.py"))]

EXTERNAL = {"PreTrainedTokenizerFast", "llvmlite", "numba", "tiktoken", "tokenizers", "transformers"}
"""Names of other packages, which are not checked: some packages are optional, and their names depend on versions."""

INSTANCES = {"workspace": "WorkspaceArrays"}
"""Parameters of kernels that docstrings name as `parameter.field`, and their types."""

SAME_NAME = {
    "explain": "the public function, and the command `bpejit explain`",
    "extend": "the public function, and the command `bpejit extend`",
    "compare": "the public function, and the command `bpejit compare`",
    "count": "the public function, and the command `bpejit count`",
    "clear": "`jit.upkeep` implements `bpejit cache clear`",
    "decode": "commands `bpejit decode` and `bpejit subword decode`, and Tensor2Tensor's tokenizer",
    "decode_file": "the same operation for two kinds of tokenizers",
    "encode": "commands `bpejit encode` and `bpejit subword encode`, and Tensor2Tensor's tokenizer",
    "info": "commands `bpejit info` and `bpejit cache info`",
    "load": "the public function, and two of `bpejit.jit` that are called with their module",
    "main": "entry points of two packages",
    "read": "called with the name of its module, or in a script of its own",
    "report": "the public function, and the command `bpejit report`",
    "split": "the public function, and the command `bpejit split`",
    "stats": "the public function, and the command `bpejit stats`",
    "train": "the public function, and the commands `bpejit train` and `bpejit subword train`",
    "verify": "the public function, and the command `bpejit verify`",
}

SAME_MODULES = [
    {"bpejit/jit/memory.py", "bpejit/jit/memory_llvm.py"},  # each operation in Python and in LLVM IR
    {"bpejit/jit/simd.py", "bpejit/jit/simd_llvm.py"},
    {"bpejit/jit/lowering.py", "bpejit/jit/ordinary.py"},  # two implementations of one interface
]

SAME_FILE = {
    "__init__.py": "a package",
    "__main__.py": "`python -m`",
    "base.py": "the interface of a folder of implementations",
    "registry.py": "a registry of implementations",
}


def docstrings(path: Path) -> list[str]:
    """Return all docstrings of a file, with those of constants."""
    return [
        node.value.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def module_of(path: Path) -> ModuleType:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return importlib.import_module(re.sub(r"^cli\b", "bpejit_cli", name))


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    return [module_of(path) for path in FILES if path.name not in ("__main__.py", "reader_script.py")]


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute, a submodule, or the name of a field. Return None if there is none of these."""
    if hasattr(owner, name):
        found = getattr(owner, name)
        return name if found is None else found  # the default of a field may be None
    if isinstance(owner, ModuleType):
        try:
            return importlib.import_module(f"{owner.__name__}.{name}")
        except ImportError:
            return None
    if inspect.isclass(owner):
        annotated = any(name in getattr(base, "__annotations__", {}) for base in owner.__mro__)
        if annotated or re.search(rf"\bself\.{name}\b.*=", inspect.getsource(owner)):
            return name
    return None


def resolves(dotted: str, modules: list[ModuleType]) -> bool:
    """Return True if a dotted name is found from the package, from one of its modules, or from a name in any of them."""
    first, *rest = INSTANCES.get(dotted.split(".")[0], dotted.split(".")[0]), *dotted.split(".")[1:]
    if first in EXTERNAL or first == "self":
        return True
    starts: list[Any] = [module for module in modules if module.__name__.split(".")[-1] == first]
    starts += [vars(module)[first] for module in modules if first in vars(module)]
    for name in (first, {"np": "numpy"}.get(first, first)):
        if hasattr(builtins, name):
            starts.append(getattr(builtins, name))
        elif name in ("bpejit", "dataclasses", "numpy", "os", "types"):
            starts.append(importlib.import_module(name))
    for found in starts:
        for name in rest:
            found = None if found is None else attribute(found, name)
        if found is not None:
            return True
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_in_docstrings_resolve(path: Path, modules: list[ModuleType]) -> None:
    if path.name == "lowering.py":
        pytest.skip("its docstring lists internals of Numba")
    wrong = []
    for text in docstrings(path):
        for name in re.findall(r"(?<!`)`(\w[\w./]*[./][\w./]*\w)`(?!`)", text):
            if "/" in name or name.endswith(".py"):
                if not any((folder / name).exists() for folder in (ROOT, ROOT / "bpejit", path.parent)):
                    wrong.append(name)
            elif not re.search(r"\.(json|txt|toml|tiktoken|bin|npy)$|^\d", name) and not resolves(name, modules):
                wrong.append(name)
    assert not wrong


def test_public_names_are_unique() -> None:
    homes = defaultdict(set)
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                homes[node.name].add(str(path.relative_to(ROOT)))
    clashes = {name: found for name, found in homes.items() if len(found) > 1 and found not in SAME_MODULES}
    assert {name: found for name, found in clashes.items() if name not in SAME_NAME} == {}
    assert set(SAME_NAME) <= set(clashes)  # no exception is outdated


def test_public_names_are_not_modules() -> None:
    """An import of a module becomes an attribute of its package, which would hide the function of the same name."""
    names = [name for name in bpejit.__all__ if name != "subword"]
    assert "warmup" in names
    assert [name for name in names if find_spec(f"bpejit.{name}")] == []


def test_file_names_are_unique() -> None:
    homes = defaultdict(set)
    for path in FILES:
        homes[path.name].add(str(path.relative_to(ROOT)))
    assert {name for name, found in homes.items() if len(found) > 1} == set(SAME_FILE)
