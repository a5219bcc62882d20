"""Tests of distributions: complete, readable on a package index, and built without files left in the checkout."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from conftest import ROOT, tracked_files


def build(checkout: Path, kind: str, into: Path) -> Path:
    """Build an "sdist" or a "wheel" as pip does, in a fresh process, and return its path."""
    into.mkdir()
    code = f"""
from setuptools import build_meta
build_meta.get_requires_for_build_{kind}()
build_meta.build_{kind}({str(into)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return next(into.iterdir())


def all_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packaging") / "checkout"
    for path in tracked_files():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    return folder


def test_source_distribution_is_complete(checkout: Path, tmp_path: Path) -> None:
    before = all_files(checkout)
    with tarfile.open(build(checkout, "sdist", tmp_path / "dist")) as archive:
        found = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert before <= found
    assert all_files(checkout) == before


def test_wheel_contains_only_the_package(checkout: Path, tmp_path: Path) -> None:
    before = all_files(checkout)
    with zipfile.ZipFile(build(checkout, "wheel", tmp_path / "dist")) as wheel:
        names = wheel.namelist()
        metadata = BytesParser().parsebytes(wheel.read(next(name for name in names if name.endswith(".dist-info/METADATA"))))
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"bpejit", "bpejit_cli"}
    expected = {name.replace("cli/", "bpejit_cli/", 1) if name.startswith("cli/") else name for name in before}
    assert {name for name in names if ".dist-info/" not in name} == {
        name for name in expected if name.startswith(("bpejit/", "bpejit_cli/"))
    }
    assert all_files(checkout) == before
    # Relative links do not work on a package index.
    description = metadata.get_payload()
    assert "# bpejit" in description
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", description)


def test_readme_links_use_project_url() -> None:
    spec = importlib.util.spec_from_file_location("project_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    readme = "[a](A.md), [the b](tests/b.py), [c](https://example.org/c), [d](#d)"
    assert module.make_links_absolute(readme, None, "1.2") == "a, the b, [c](https://example.org/c), d"
    assert module.make_links_absolute("![a view](docs/a.png)\nText", None, "1.2") == "\nText"
    picture = module.make_links_absolute("![a view](docs/a.png)", "https://example.org/me/bpejit", "1.2")
    assert picture == "![a view](https://example.org/me/bpejit/raw/v1.2/docs/a.png)"
    assert module.make_links_absolute(readme, "https://example.org/me/bpejit/", "1.2") == (
        "[a](https://example.org/me/bpejit/blob/v1.2/A.md), "
        "[the b](https://example.org/me/bpejit/blob/v1.2/tests/b.py), [c](https://example.org/c), d"
    )
