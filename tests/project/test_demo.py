"""Tests of `make demo`: its commands work as they stand, and what pip prints is understood."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, data_text, small
from helpers.cli import invoke


def script(name: str) -> ModuleType:
    """Return a script of the folder `.ci` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_commands_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = script("demo")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "texts.txt").write_bytes(b"everything " + data_text("prose.txt")[: small(50_000, 1_000)])
    for arguments in (*demo.JOBS, *(view for _, view in demo.VIEWS), *demo.NEXT):
        done = invoke(*shlex.split(arguments))
        assert done.exit_code == 0, (arguments, done.stderr)
        assert done.stdout or done.stderr, arguments
    assert (folder / "back.txt").read_bytes() == (folder / "texts.txt").read_bytes()
    assert {path.name for path in folder.iterdir()} >= {"texts.txt", "tokenizer", "tokens.bin"}


def test_commands_have_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    demo = script("demo")
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    for arguments in (*demo.JOBS, *(view for _, view in demo.VIEWS), *demo.NEXT):
        typed = demo.as_typed(arguments)
        assert typed.startswith(".venv/bin/bpejit ")
        assert shlex.split(typed.replace("\\\n", " "))[1:] == shlex.split(arguments)
        assert max(map(len, typed.splitlines())) <= 78
    monkeypatch.setattr(sys, "prefix", "/elsewhere")
    assert demo.command_name() == "/elsewhere/bin/bpejit"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Collecting numba<0.69,>=0.61 (from bpejit==0.1.0)", ("looking for numba", 0)),
        (
            "  Downloading llvmlite-0.50.0-cp311-manylinux.whl (56.3 MB)",
            ("downloading llvmlite (56.3 MB)", 56.3e6),
        ),
        ("  Using cached markdown_it_py-4.3.0-py3-none-any.whl (96 kB)", ("downloading markdown_it_py (96 kB)", 96e3)),
        ("  Downloading https://host/a/b/numpy-2.4.6-cp311.whl (17.1 MB)", ("downloading numpy (17.1 MB)", 17.1e6)),
        ("  Downloading numpy-2.4.6-cp311-manylinux.whl.metadata (62 kB)", ("downloading numpy (62 kB)", 62e3)),
        ("Installing collected packages: regex, pygments, numpy", ("writing 3 packages", 10e6)),
        ("WARNING: Location 'file:///x/' is ignored", None),
        ("", None),
    ],
)
def test_lines_of_pip(line: str, step: tuple[str, float] | None) -> None:
    assert script("install").step_of(line) == step


def test_dependencies_are_those_of_the_package() -> None:
    def characters(one: str) -> list[str]:  # the tool that builds the package changes their order
        return sorted(one.replace("'", '"'))

    required = [one for one in importlib.metadata.requires("bpejit") or [] if "extra ==" not in one]
    assert list(map(characters, script("install").dependencies())) == list(map(characters, required))


def test_steps_are_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    display = script("install").Display()
    display.is_live = False
    with display.running():
        display.show("downloading numba (3.8 MB)")
        display.show("downloading llvmlite (56.3 MB)", in_logs=True)
    assert capsys.readouterr().out == "    0 s  downloading llvmlite (56.3 MB)\n"
    monkeypatch.setenv("COLUMNS", "30")
    display.is_live = True
    with display.running():
        display.show("downloading numba (3.8 MB)")
    assert capsys.readouterr().out == "\r\033[K    0 s  downloading numba (3\r\033[K"
