"""Tests of features shared by all commands: options, counts, logging, lazy imports and shell completion."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import click
import pytest
from conftest import data_text
from helpers.cli import COMMAND, COMMANDS, ENVIRONMENT, MODULE, invoke, run
from hypothesis import given, strategies as st

import bpejit

command_types = importlib.import_module(f"{MODULE}.command_types")
Count = command_types.Count

LEAVES = {name: command for name, command in COMMANDS.items() if not hasattr(command, "list_commands")}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a corpus, a tokenizer and a token file."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "corpus.txt").write_bytes(data_text("prose.txt")[:3000])
    assert run("train", "corpus.txt", "--vocab-size", "0.3k", "-q", cwd=folder).stderr == b""
    assert run("encode", "corpus.txt", "-o", "tokens.bin", "-q", cwd=folder).stderr == b""
    return folder


# ---- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_the_common_options(name):
    options = {tuple(parameter.opts) for parameter in LEAVES[name].params if isinstance(parameter, click.Option)}
    assert {("-q", "--quiet"), ("-v", "--verbose"), ("--json",), ("--debug",)} <= options
    named = {option for names in options for option in names}
    assert ("--out" in named) == ("-o" in named)
    assert "--special" not in named
    assert isinstance(LEAVES[name], command_types.Command)


@pytest.mark.slow
def test_short_names(made, tmp_path):
    assert bpejit.load(made / "tokenizer").vocab_size == 300
    result = run("decode", "tokens.bin", "-o", tmp_path / "back.txt", "-q", cwd=made)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert (tmp_path / "back.txt").read_bytes() == (made / "corpus.txt").read_bytes()


# ---- counts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("32000", 32_000),
        ("32_000", 32_000),
        ("32k", 32_000),
        ("32K", 32_000),
        ("1.5M", 1_500_000),
        ("2G", 2 * 10**9),
        ("0.25T", 25 * 10**10),
        ("64Ki", 65_536),
        ("1.5Mi", 3 << 19),
        ("2Gi", 2 << 30),
        ("1Ti", 1 << 40),
        ("1_000.5k", 1_000_500),
        ("0.3k", 300),  # 299.99... in binary floating-point
        ("007", 7),
        ("-1", -1),
    ],
)
def test_counts(text, number):
    assert Count().convert(text, None, None) == number
    assert Count(is_size=True).convert(f"{text}B", None, None) == number


@given(st.integers(0, 10**15), st.sampled_from(sorted(command_types.UNITS)))
def test_counts_with_units(number, unit):
    assert Count().convert(f"{number:_}{unit}", None, None) == number * command_types.UNITS[unit]


@pytest.mark.parametrize(
    "text",
    ["", "k", "many", "32m", "32kk", "32ki", "1e3", "1,000", "1__0", "_1", "1_", "1.", ".5k", " 1", "1 k", "0x1", "٣", "5B"],
)
def test_invalid_counts(text):
    with pytest.raises(click.BadParameter, match="is not a count; expected one such as 32000, 32_000 or 32k"):
        Count().convert(text, None, None)


def test_counts_out_of_range():
    with pytest.raises(click.BadParameter, match=r"'0' is too small; expected a count of at least 1"):
        Count(1).convert("0", None, None)
    with pytest.raises(click.BadParameter, match=r"'-2k' is too small; expected a size in bytes of at least 0"):
        Count(0, is_size=True).convert("-2k", None, None)
    with pytest.raises(click.BadParameter, match=r"'1\.0005k' is 1,000\.5, which is not a whole number"):
        Count().convert("1.0005k", None, None)
    with pytest.raises(click.BadParameter, match="is not a count") as found:
        Count().convert("9" * 10_000, None, None)
    assert len(found.value.message) < 200


def test_every_numeric_option_accepts_counts():
    options = [(name, option) for name, command in LEAVES.items() for option in command.params if option.nargs == 1]
    plain = (click.types.IntParamType, click.types.FloatParamType)
    found = {(name, option.name) for name, option in options if isinstance(option.type, plain) and not option.count}
    assert found == {("train", "character_coverage"), ("explain", "character_coverage")}, "only a share is no whole number"
    assert {option.name for _, option in options if isinstance(option.type, Count)} >= {"vocab_size", "workers", "byte_budget"}


def test_values_may_look_like_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(b"a<s>b--special")
    result = invoke("split", tmp_path / "text.txt", "--special-token", "<s>", "--special-token", "--special", "-q")
    assert result.stdout.splitlines() == ["'a'", "'<s>'  special", "'b'", "'--special'  special"]
    (tmp_path / "--special").write_bytes(b"text")
    assert invoke("split", "-q", "--", "--special").stdout == "'text'\n"
    assert "--special-token" in invoke("split", "--special", "<s>").stderr


# ---- reports -----------------------------------------------------------------------------------------------------------


def test_verbose_shows_engine(made, tmp_path):
    arguments = ["encode", made / "corpus.txt", "--tokenizer", made / "tokenizer", "-o", tmp_path / "t.bin", "--overwrite"]
    lines = invoke(*arguments, "-v").stderr.splitlines()
    assert "debug: engine serial with 1 worker(s), chosen automatically" in lines
    assert any(line.startswith("debug: ") and "kernels used" in line for line in lines)
    assert invoke(*arguments, "-v", "-q").stderr.startswith("debug: ")
    assert "debug: " not in invoke(*arguments).stderr, "the handler is removed"
    chosen = invoke(*arguments, "--verbose", "--engine", "threads", "--workers", "2").stderr
    assert "debug: engine threads with 2 worker(s)\n" in chosen


def test_data_on_stdout(made):
    done = run("encode", "corpus.txt", "-o", "-", cwd=made)
    assert done.stdout == (made / "tokens.bin").read_bytes()
    assert b"; wrote to standard output (bin, uint16)\n" in done.stderr
    done = run("decode", "tokens.bin", "-o", "/dev/stdout", cwd=made)
    assert done.stderr.endswith(b"; wrote to standard output\n")


def test_empty_token_names_are_refused(made):
    for option in ("--pad-token", "--bos-token", "--eos-token"):
        result = invoke("train", made / "corpus.txt", "--vocab-size", "300", option, "", "--out", made / "new")
        message = f"bpejit: error: {option} is empty; expected a special token of at least one character: leave it out\n"
        assert (result.exit_code, result.stderr) == (1, message)


def test_info_shortens_long_tokens(tmp_path):
    (tmp_path / "corpus.txt").write_bytes((b"x" * 200 + b"\n") * 9)
    tokens = ["<" + "s" * 5000 + ">", *(f"<{number}>" for number in range(30))]
    bpejit.train(tmp_path / "corpus.txt", vocab_size=300, special_tokens=tokens).save(tmp_path / "tokenizer")
    lines = invoke("info", tmp_path / "tokenizer").stdout.splitlines()
    (special,) = [line for line in lines if line.startswith("special tokens")]
    assert "'<sssss" in special
    assert "ss>' = " in special
    assert "'<18>' = " in special
    assert special.endswith(", and 11 more")
    assert len(special) < 600
    assert max(map(len, lines)) < 1000


# ---- imports and completion --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["tokens", "--help"], ["tokens", "head", "--help"], ["encode", "--help"]])
def test_help_imports_no_heavy_modules(arguments):
    code = f"""
import sys
from {MODULE}.app import program
try:
    program.main({arguments!r}, prog_name="bpejit")
except SystemExit as end:
    assert end.code == 0
print("LOADED", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.partition("LOADED")[2].split()
    assert {"numba", "llvmlite", "numpy", "regex", "rich", "multiprocessing"}.isdisjoint(loaded)
    if arguments[0] == "tokens":
        assert f"{MODULE}.cmd_tokens" in loaded
        assert f"{MODULE}.cmd_train" not in loaded


def complete(words, cwd=None):
    """Return the completions of the last word in bash, and whether bash completes file names."""
    environment = {
        **ENVIRONMENT,
        "_BPEJIT_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["bpejit", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=True, cwd=cwd)
    assert done.stderr == ""
    return [tuple(line.split(",", 1)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tr"], [("plain", "train")]),
        (["tokens", "h"], [("plain", "head")]),
        (["train", "--vocab-s"], [("plain", "--vocab-size")]),
        (["encode", "--special"], [("plain", "--special-token")]),
        (["train", "--engine", "th"], [("plain", "threads")]),
        (["train", "--tie-break", "h"], [("plain", "hf")]),
        (["split", "--pattern", "cl100k-"], [("plain", "cl100k-legacy")]),
        (["encode", "cor"], [("file", "cor")]),
        (["encode", "--out", "tok"], [("file", "tok")]),
        (["decode", "--tokenizer", "my"], [("file", "my")]),
    ],
)
def test_bash_completion(words, expected):
    assert complete(words) == expected


def test_completion_lists_all_commands():
    assert complete([""]) == [("plain", name) for name in COMMANDS if " " not in name]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, tmp_path):
    environment = {**ENVIRONMENT, "_BPEJIT_COMPLETE": f"{shell}_source"}
    done = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode and shell == "bash":
        pytest.skip("bash is missing, or older than 4.4")
    assert done.returncode == 0, done.stderr
    assert f"_BPEJIT_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="needs bash")  # noqa: PTH110
def test_completion_in_bash(tmp_path):
    """Run the documented script in bash."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "bpejit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {MODULE} "$@"\n', encoding="utf-8")
    (tools / "bpejit").chmod(0o755)
    script = """
eval "$(_BPEJIT_COMPLETE=bash_source bpejit)"
COMP_WORDS=(bpejit tokens ve) COMP_CWORD=2 COMPREPLY=()
_bpejit_completion bpejit
echo "${COMPREPLY[@]}"
"""
    environment = {**ENVIRONMENT, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["/bin/bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "verify\n", done.stderr


def test_completion_imports_no_heavy_modules():
    code = f"""
import os, sys
os.environ.update(_BPEJIT_COMPLETE="bash_complete", COMP_WORDS="bpejit train --eng", COMP_CWORD="2")
from {MODULE}.app import program
try:
    program.main([], prog_name="bpejit")
except SystemExit:
    pass
print("LOADED", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=60)
    assert "plain,--engine" in done.stdout
    loaded = done.stdout.partition("LOADED")[2].split()
    assert {"numba", "llvmlite", "numpy", "regex", "rich"}.isdisjoint(loaded)
    assert f"{MODULE}.cmd_encode" not in loaded
