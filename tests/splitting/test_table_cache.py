"""Tests of the tables of presets on disk: they are reused, and never after a change of their dependencies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bpejit.jit import fingerprint, folders, upkeep
from bpejit.splitting import PRESETS, SplitPattern, compile_pattern, pattern_cache, to_fancy_regex, to_oniguruma
from bpejit.splitting.pattern_cache import _compile
from bpejit.splitting.pattern_compiler import compile_uncached


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the empty folder for tables."""
    folder = tmp_path / "cache" / folders.PATTERNS
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(folder.parent))
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    caches = (_compile, pattern_cache._hash_of_code)
    for function in caches:
        function.cache_clear()
    yield folder
    for function in caches:
        function.cache_clear()


def again(name: str, **options: str) -> SplitPattern:
    """Compile a pattern as a new process does."""
    _compile.cache_clear()
    return compile_pattern(name, **options)


def assert_equal(one: SplitPattern, other: SplitPattern) -> None:
    assert (one.source, one.name, one.kind, one.reason, one.unicode) == (
        other.source,
        other.name,
        other.kind,
        other.reason,
        other.unicode,
    )
    # `==` compares patterns of the regex package by identity, which depends on its own cache.
    assert [(stage.pattern, stage.flags) for stage in one.stages] == [(stage.pattern, stage.flags) for stage in other.stages]
    assert one.tables is not None
    assert other.tables is not None
    for table, expected in zip(one.tables, other.tables, strict=True):
        assert type(table) is type(expected)
        assert np.array_equal(table, expected)
        if isinstance(table, np.ndarray):
            assert table.dtype == expected.dtype
            assert table.flags.writeable  # another type would compile another kernel


@pytest.mark.parametrize("name", PRESETS)
def test_stored_tables_equal_computed_ones(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = again(name, unicode="16.0")
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr("bpejit.splitting.pattern_compiler.compile_uncached", None)
    assert_equal(again(name, unicode="16.0"), made)


@pytest.mark.parametrize("translate", [to_oniguruma, to_fancy_regex])
@pytest.mark.parametrize("name", ["gpt2", "o200k"])
def test_translations_are_stored(
    name: str, translate: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = PRESETS[name]
    texts = {unicode: translate(source, unicode=unicode) for unicode in ("15.0", "16.0")}
    assert len([file for file in folder.iterdir() if file.suffix != ".tables"]) == 2
    monkeypatch.setattr("bpejit.splitting.dialect_writer._rewrite", None)
    for unicode, text in texts.items():
        assert translate(source, unicode=unicode) == text
    with pytest.raises(TypeError):
        translate(r"\w+|\W")


def test_tables_depend_on_pattern_and_options(folder: Path) -> None:
    for number, (name, unicode) in enumerate([("gpt2", "16.0"), ("gpt2", "15.0"), ("starcoder", "16.0")], start=1):
        assert_equal(again(name, unicode=unicode), compile_uncached(name, unicode=unicode))
        assert len(list(folder.iterdir())) == number


def test_only_presets_are_stored(folder: Path) -> None:
    again(r"\w+|\W")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:50] + b"?" + data[51:]])
def test_damaged_files_are_rewritten(damage, folder: Path) -> None:
    made = again("gpt2")
    (file,) = folder.iterdir()
    data = file.read_bytes()
    file.write_bytes(damage(data))
    assert_equal(again("gpt2"), made)
    assert file.read_bytes() == data


def test_least_recently_used_tables_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(["starcoder", "cl100k", "gpt2"]):
        again(name)
        for path in folder.iterdir():
            os.utime(path, (0, path.stat().st_mtime - 1000 - age))
    files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    monkeypatch.setitem(upkeep.MAX_BYTES, folders.PATTERNS, 2_500_000)
    upkeep.prune(folder.parent, folders.PATTERNS)
    assert {*folder.iterdir()} == {*files[1:]}


def test_without_a_folder(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(tmp_path / "file"))
    assert_equal(again("gpt2"), compile_uncached("gpt2"))
    assert not list(folder.iterdir())


def test_nothing_is_stored_without_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "of_modules", lambda folder, names: None)
    assert_equal(again("gpt2"), compile_uncached("gpt2"))
    assert to_oniguruma(PRESETS["gpt2"])
    assert not list(folder.iterdir())


def test_edit_or_other_regex_package_is_detected(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, engine = tmp_path / "splitting", tmp_path / "engine"
    shutil.copytree(Path(pattern_cache.__file__).parent, sources)
    package = Path(pattern_cache.__file__).parent.parent
    others = ("arrays.py", "jit/stored_arrays.py", "kernels/constants.py")
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(package / name, tmp_path / name)
    engine.write_bytes(b"one")
    monkeypatch.setattr(pattern_cache, "__file__", str(sources / "pattern_cache.py"))
    monkeypatch.setattr("regex._regex.__file__", str(engine))
    monkeypatch.setattr(pattern_cache, "_find_engine", pattern_cache._find_engine.__wrapped__)

    def files() -> int:
        pattern_cache._hash_of_code.cache_clear()
        fingerprint.of_modules.cache_clear()
        again("gpt2")
        return len(list(folder.iterdir()))

    assert files() == 1
    assert files() == 1
    engine.write_bytes(b"another")
    assert files() == 2
    for number, source in enumerate(["splitting/character_classes.py", *others], start=3):
        (tmp_path / source).write_bytes((tmp_path / source).read_bytes() + b"\n")
        assert files() == number
