"""Imports between the modules of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "bpejit"

RESOLVERS = {"bpejit", "bpejit.__main__"}
"""Modules that import the whole package, and that the package does not import: `bpejit/__init__.py` and `__main__.py`."""

NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}
"""Public methods and attributes of named tuples."""


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """Yield the modules that a module imports anywhere: at the top, in functions, and for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not resolved here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            # `from bpejit.errors import shorten` imports bpejit.errors.
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name:
                yield name


def import_graph(root: Path) -> dict[str, set[str]]:
    trees = {module_name(path, root): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))}
    return {name: set(imported(tree, set(trees))) - RESOLVERS - {name} for name, tree in trees.items() if name not in RESOLVERS}


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_cycles():
    graph = import_graph(PACKAGE)
    assert len(graph) > 100
    assert "bpejit.errors" in graph["bpejit.tokenizer"]
    assert find_cycle(graph) == []


@pytest.mark.parametrize(
    "back",
    [
        "from pkg.a import Name",
        "from pkg import a",
        "import pkg.a",
        "def function():\n    from pkg.a import Name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pkg.a",
    ],
)
def test_cycles_of_all_kinds_are_found(tmp_path, back):
    root = tmp_path / "pkg"
    root.mkdir()
    (root / "a.py").write_text("from pkg.b import value\n")
    (root / "b.py").write_text("value = 1\n")
    assert find_cycle(import_graph(root)) == []
    (root / "b.py").write_text(back + "\n")
    assert set(find_cycle(import_graph(root))) == {"pkg.a", "pkg.b"}


def private_uses(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and name of each private member that a module uses and does not define."""
    nodes = list(ast.walk(tree))
    defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    defined |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    used = [(node.lineno, node.attr) for node in nodes if isinstance(node, ast.Attribute)]
    used += [(node.lineno, alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    return sorted(
        (line, name)
        for line, name in used
        if name.startswith("_") and not name.startswith("__") and name not in defined | NAMED_TUPLE
    )


@pytest.mark.parametrize("path", sorted((PACKAGE / "compat").glob("*.py")), ids=lambda path: path.name)
def test_compat_uses_no_private_members_of_other_modules(path):
    assert private_uses(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_private_uses_are_found():
    method = "    def f(self):\n        self._c = self._d\n        return self._c\n"
    source = f"from m import _a\nx._b\ny = p._replace()\nclass C:\n{method}"
    assert private_uses(ast.parse(source)) == [(1, "_a"), (2, "_b"), (6, "_d")]
