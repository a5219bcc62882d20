"""Tests of registered presets: from training to saved tokenizers, in this process and in others."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import regex
import twins
from conftest import data_text, small
from helpers.cli import ENVIRONMENT
from helpers.splitting import split_whole
from helpers.strategies import awkward_bytes
from hypothesis import HealthCheck, given, settings

import bpejit
from bpejit.errors import ArgumentTypeError, PatternError
from bpejit.splitting import PRESETS, Splitter, compile_pattern, register_preset, unregister_preset

NAME = "single-digits"
PATTERN = r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SEQUENCE = (r"\p{N}", r" ?\w+|\s+|[^\w\s]+")


@pytest.fixture
def registered() -> Iterator[str]:
    register_preset(NAME, PATTERN, used_by="this test", source="tests, splitting/test_register_preset.py")
    yield NAME
    unregister_preset(NAME)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_bytes(data_text("prose.txt")[: small(60_000, 2_000)] + b" 1234 it's 56\n")
    return path


@pytest.mark.parametrize("pattern", [PATTERN, SEQUENCE], ids=["one", "sequence"])
def test_train_encode_save_and_load(pattern: str | tuple[str, ...], corpus: Path, tmp_path: Path) -> None:
    register_preset(NAME, pattern)
    try:
        tokenizer = bpejit.train([corpus], vocab_size=small(600, 280), pattern=NAME, engine="serial")
        text = corpus.read_bytes()[-1_000:]
        stages = [regex.compile(stage) for stage in ((pattern,) if isinstance(pattern, str) else pattern)]
        ends = twins.splitting.split_spans(text, stages, [])
        expected = [token for start, end in zip([0, *ends], ends, strict=False) for token in tokenizer.encode(text[start:end])]
        tokenizer.save(tmp_path / "tokenizer")
        loaded = bpejit.load(tmp_path / "tokenizer")
    finally:
        unregister_preset(NAME)
    without_name = bpejit.load(tmp_path / "tokenizer")
    assert (tokenizer.pattern, loaded.pattern, without_name.pattern) == (NAME, NAME, pattern)

    assert len(ends) > 100
    for each in (tokenizer, loaded, without_name):
        assert each.encode(text) == expected
        assert each.decode_bytes(expected) == text
        assert each.model.sha256 == tokenizer.model.sha256


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=awkward_bytes(30))
def test_equal_to_the_regex_package(registered: str, data: bytes) -> None:
    splitter = Splitter(registered)
    assert splitter.pattern.kind == "transducer"
    assert split_whole(splitter, data) == twins.splitting.split_spans(data, regex.compile(PATTERN), [])


def test_name_is_reported(registered: str) -> None:
    assert PRESETS[registered] == PATTERN
    assert list(PRESETS)[-1] == registered
    assert compile_pattern(registered).name == compile_pattern(PATTERN).name == registered


def test_pattern_compiled_before_gets_the_name() -> None:
    compiled = compile_pattern(PATTERN)
    assert compiled.name is None
    register_preset(NAME, PATTERN)
    assert compiled.name == NAME
    unregister_preset(NAME)
    assert compiled.name is None


def test_pickled_tokenizers_do_not_need_the_name(registered: str, corpus: Path) -> None:
    tokenizer = bpejit.train([corpus], vocab_size=small(400, 270), pattern=registered, engine="serial")
    assert pickle.loads(pickle.dumps(tokenizer)).pattern == registered
    code = "import pickle, sys; t = pickle.load(sys.stdin.buffer); print(t.pattern); print(t.encode('it is 1234'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(tokenizer),
        capture_output=True,
        env=ENVIRONMENT,
        check=True,
        timeout=120,
    )
    assert done.stdout.decode().splitlines() == [PATTERN, str(tokenizer.encode("it is 1234"))]


@pytest.mark.slow
@pytest.mark.compiled
def test_spawned_workers_do_not_need_the_name(
    registered: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BPEJIT_START_METHOD", "spawn")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    tokenizer, expected = (
        bpejit.train([corpus], vocab_size=400, pattern=registered, engine=engine, workers=workers, chunk_bytes=20_000)
        for engine, workers in (("processes", 2), ("serial", 1))
    )
    assert tokenizer.model.sha256 == expected.model.sha256
    for engine, workers in (("processes", 2), ("serial", 1)):
        tokenizer.encode_files([corpus], tmp_path / f"{engine}.bin", engine=engine, workers=workers, chunk_bytes=20_000)
    assert (tmp_path / "processes.bin").read_bytes() == (tmp_path / "serial.bin").read_bytes()


def test_registering_again(registered: str) -> None:
    register_preset(registered, PATTERN)
    register_preset(registered, (PATTERN,))
    with pytest.raises(PatternError, match=f"there is already a split pattern named '{NAME}'.*choose another name"):
        register_preset(registered, SEQUENCE)
    with pytest.raises(PatternError, match="there is already a split pattern named 'gpt2'"):
        register_preset("gpt2", PATTERN)
    register_preset("gpt2", PRESETS["gpt2"])
    assert PRESETS[registered] == PATTERN


def test_second_name(registered: str) -> None:
    register_preset("alias", registered)
    try:
        assert PRESETS["alias"] == PATTERN
        assert compile_pattern("alias").name == registered
    finally:
        unregister_preset("alias")


@pytest.mark.parametrize("name", ["", "two words", "a.b", r"\w+", "é", "-a"])
def test_malformed_names(name: str) -> None:
    with pytest.raises(PatternError, match="cannot be the name of a split pattern; expected"):
        register_preset(name, PATTERN)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("(", "does not compile"), ("gtp2", "no split pattern named"), ((), "empty sequence"), ("", "no split pattern named")],
)
def test_patterns_that_do_not_compile(pattern: str | tuple[str, ...], message: str) -> None:
    with pytest.raises(PatternError, match=message):
        register_preset(NAME, pattern)
    assert NAME not in PRESETS


def test_wrong_types() -> None:
    with pytest.raises(ArgumentTypeError, match="name"):
        register_preset(1, PATTERN)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="pattern"):
        register_preset(NAME, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gpt2", "absent"])
def test_only_registered_names_are_removed(name: str) -> None:
    with pytest.raises(PatternError, match="is not a registered split pattern"):
        unregister_preset(name)
    assert "gpt2" in PRESETS
