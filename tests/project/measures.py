"""Measures of the size and structure of the project, computed from its files.

`python tests/project/measures.py` prints them beside their limits (`limits.py`), which `test_measures.py` compares.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

OUTSIDE = {"tests", "benchmarks", ".ci", "setup.py", "build"}
"""What is at the top level and not installed."""

RESOLVERS = {"bpejit", "bpejit.__main__"}
"""Modules that import the whole package when its names are used."""

LAYOUT_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
"""Tokens that are not counted: comments and the layout of lines."""

LONG_FILE = 450
"""The most lines that a file should have."""

LONG_FUNCTION = 60
"""The most lines of code that a function should have."""

LONG_KERNEL_FILE = 300
"""The most lines that a file of kernels should have."""


class Source:
    """A Python file, with the lines and tokens that it consists of.

    Parameters
    ----------
    path : Path
        The file.
    root : Path
        The checkout.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path.relative_to(root)
        self.text = path.read_text(encoding="utf-8")
        self.n_lines = len(self.text.splitlines())
        self.tree = ast.parse(self.text)

    @property
    def module(self) -> str:
        """The name of the module."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of the syntax tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def docstring_lines(self) -> set[int]:
        """The lines of docstrings, also of those below attributes."""
        return {
            line
            for node in self.nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens except for comments and layout."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [token for token in tokens if token.type not in LAYOUT_TOKENS]

    @cached_property
    def code_lines(self) -> set[int]:
        """The lines with at least one token that is not part of a docstring."""
        lines = {line for token in self.tokens for line in range(token.start[0], token.end[0] + 1)}
        return lines - self.docstring_lines

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield name and number of lines of code of each function, with its decorators."""
        for node in self.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                yield node.name, len(self.code_lines & set(range(first, (node.end_lineno or node.lineno) + 1)))


def read_sources(root: Path = ROOT) -> list[Source]:
    """Read every Python file that can be imported from an installation: all but tests, benchmarks and tools."""
    tops = [path for path in root.iterdir() if path.name not in OUTSIDE and not path.name.startswith(".")]
    files = {file for top in tops for file in ([top] if top.suffix == ".py" else top.rglob("*.py"))}
    return [Source(file, root) for file in sorted(files)]


class Contract(NamedTuple):
    """The order of imports in `pyproject.toml`.

    Attributes
    ----------
    lines : int
        The number of layers.
    outside : list of str
        Modules that are in no layer.
    around : list of str
        Modules of the package that are imported by a string, which import-linter does not see.
    mutual : list of str
        Pairs of folders of the package that import from each other.
    """

    lines: int
    outside: list[str]
    around: list[str]
    mutual: list[str]


def folder_of(module: str, modules: set[str]) -> str:
    """Return the folder of a module directly below the package, or the module itself if it is at the top."""
    parts = module.split(".")
    top = ".".join(parts[:2])
    return top if len(parts) > 2 or any(name.startswith(f"{top}.") for name in modules) else module


def imports_of(source: Source, modules: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a module imports when it runs."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name:
                yield name


def measure_contract(sources: list[Source], root: Path = ROOT) -> Contract:
    """Compare the layers of `pyproject.toml` with the modules and their imports."""
    settings = (root / "pyproject.toml").read_text(encoding="utf-8")
    layers = ast.literal_eval(re.search(r"^layers = (\[\n.*?\n\])", settings, re.MULTILINE | re.DOTALL)[1])  # type: ignore[index]
    named = {f"bpejit.{name.strip()}" for layer in layers for name in re.split("[|:]", layer)}
    package = [source for source in sources if source.path.parts[0] == "bpejit"]
    modules = {source.module for source in package}
    outside = sorted(
        module
        for module in modules - {"bpejit"}
        if not any(module == name or module.startswith(f"{name}.") or name.startswith(f"{module}.") for name in named)
    )
    around = [
        f"{source.module}: {node.args[0].value}"
        for source in package
        if source.module not in RESOLVERS
        for node in source.nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("import_module")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and str(node.args[0].value).startswith("bpejit")
    ]
    edges = {
        (folder_of(source.module, modules), folder_of(name, modules))
        for source in package
        if source.module not in RESOLVERS
        for name in imports_of(source, modules - {"bpejit"})
    }
    mutual = sorted(f"{a} <-> {b}" for a, b in edges if a < b and (b, a) in edges)
    return Contract(len(layers), outside, sorted(around), mutual)


def unnamed_modules(sources: list[Source], root: Path = ROOT) -> list[str]:
    """Return the modules of the package that neither a page nor the docstring of their folder names."""
    pages = [*root.glob("*.md"), *root.glob("docs/*.md")]
    words = set(re.findall(r"\w+", "\n".join(page.read_text(encoding="utf-8") for page in pages)))
    inits = [source for source in sources if source.path.name == "__init__.py"]
    folders = {source.path.parent: set(re.findall(r"\w+", ast.get_docstring(source.tree) or "")) for source in inits}
    return [
        str(source.path)
        for source in sources
        if source.path.parts[0] == "bpejit"
        and not source.path.name.startswith("__")
        and source.path.stem not in words | folders.get(source.path.parent, set())
    ]


def measure(root: Path = ROOT) -> dict[str, float]:
    """Compute all measures.

    Returns
    -------
    dict
        The value of each measure by the names in `limits.py`.
    """
    sources = read_sources(root)
    package = [source for source in sources if source.path.parts[0] != "cli"]
    commands = [source for source in sources if source.path.parts[0] == "cli"]
    kernels = [source for source in package if source.path.parts[:2] == ("bpejit", "kernels")]
    lines = sum(source.n_lines for source in package)
    code = sum(len(source.code_lines) for source in package)
    tokens = sum(len(source.tokens) for source in package)
    contract = measure_contract(sources, root)
    return {
        "package lines": lines,
        "package lines of code": code,
        "package tokens": tokens,
        "tokens in a line of code": round(tokens / code, 2),
        "share of docstrings": round(sum(len(source.docstring_lines) for source in package) / lines, 3),
        "package modules": len(package),
        "cli lines": sum(source.n_lines for source in commands),
        "cli modules": len(commands),
        "layers": contract.lines,
        "modules in no layer": len(contract.outside),
        "imports around the layers": len(contract.around),
        "folders that import each other": len(contract.mutual),
        "long files": sum(source.n_lines > LONG_FILE for source in sources),
        "modules in a folder": max(Counter(source.path.parent for source in package).values()),
        "long functions": sum(n > LONG_FUNCTION for source in sources for _, n in source.functions()),
        "kernels over the limits": sum(source.n_lines > LONG_KERNEL_FILE for source in kernels)
        + sum(n > LONG_FUNCTION for source in kernels for _, n in source.functions()),
        "lines of ARCHITECTURE": len((root / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()),
        "modules that no page names": len(unnamed_modules(sources, root)),
    }


if __name__ == "__main__":
    from limits import AT_LEAST, AT_MOST

    for name, value in measure().items():
        limit = AT_MOST.get(name, AT_LEAST.get(name))
        print(f"{name:34} {value:>12,} {'at least' if name in AT_LEAST else 'at most':>9} {limit}")
    sys.exit()
