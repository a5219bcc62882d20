"""Names of files, columns and fields that contain characters that control a terminal: they are shown with escapes."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.cli import ENVIRONMENT, MODULE, SEPARATELY, invoke, run

import bpejit

EVIL = "a  b\x1b]0;title\x07\x9b2J\u202e\nnext\t\u4f60"
SHOWN = r"a  b\u001b]0;title\u0007\u009b2J\u202e\nnext\t" + "\u4f60"
program = importlib.import_module(f"{MODULE}.app")

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    text = "some text, some more text\n" * 40
    (folder / "a.txt").write_text(text)
    (folder / EVIL).write_text(text)
    (folder / f"{EVIL}.jsonl").write_text(json.dumps({"text": text}) + "\n" + json.dumps({EVIL: 1}) + "\n")
    tokenizer = bpejit.train(folder / "a.txt", vocab_size=270, special_tokens=[f"<{EVIL}>"], pattern="\\w+|.|\n")
    tokenizer.save(folder / f"{EVIL}.tok")
    tokenizer.encode_files(folder / "a.txt", folder / f"{EVIL}.bin")
    bpejit.count(folder / EVIL, out=folder / f"{EVIL}.counts")
    return folder


def call(folder: Path, *arguments: str) -> str:
    """Run a command in the folder, and return what a terminal would show."""
    result = invoke(*(argument.replace("@", f"{folder}/{EVIL}") for argument in arguments))
    shown = result.stdout + result.stderr
    assert not FORBIDDEN.search(shown), shown
    assert not re.search("^next", shown, re.MULTILINE), "a name with a line break begins no line"
    return shown


@pytest.mark.compiled
def test_commands(made: Path, tmp_path: Path) -> None:
    out, corpus = str(tmp_path / f"{EVIL}-out"), f"{made}/a.txt"
    tokenizer = ["--tokenizer", "@.tok"]
    calls: list[list[str]] = [
        ["train", "@", "--vocab-size", "260", "--out", f"{out}.tok", "-v"],
        ["train", "@x", "--vocab-size", "260", "--out", out],
        ["train", "@.jsonl", "--vocab-size", "260", "--out", out, "--text-field", f"{EVIL}2"],
        ["train", corpus, "--vocab-size", "260", "--out", "@.tok"],
        ["train", "@", "--vocab-size", "260", "--out", out, "--dry-run"],
        ["train", "@", "--vocab-size", "260", "--out", out, "--also", EVIL],
        ["train", "@", "--vocab-size", "260", "--out", out, f"--{EVIL}"],
        ["count", "@", "--out", f"{out}.counts"],
        ["merge-counts", "@.counts", "--out", f"{out}2.counts"],
        ["counts", "info", "@.counts"],
        ["counts", "export", "@.counts", "--out", f"{out}.tsv"],
        ["encode", "@", *tokenizer, "--out", f"{out}.bin"],
        ["encode", "@", "--tokenizer", "@", "--out", f"{out}.bin"],
        ["encode", "@.jsonl", *tokenizer, "--out", f"{out}.bin", "--overwrite", "--keep-column", EVIL],
        ["decode", "@.bin", *tokenizer, "--out", f"{out}.txt"],
        ["decode", "@", *tokenizer, "--out", out],
        ["info", "@.tok"],
        ["info", "@.bin"],
        ["info", "@.tok/bpejit.json", "--verify"],
        ["info", "@"],
        ["show", "@.tok", "--file", "@"],
        ["show", "@x", EVIL],
        ["stats", "@.tok", "@", "--against", "@.tok", "--label", f"{EVIL}={made}/*"],
        ["compare", "@.tok", "@.tok", "@"],
        ["report", "@.tok", "@", "--out", f"{out}.html"],
        ["split", "@", "--stats"],
        ["split", "@x"],
        ["export", "@.tok", "--to", "tiktoken", "--out", f"{out}.tiktoken"],
        ["verify", "@.tok", "@x", "--against", "tiktoken"],
        ["tokens", "info", "@.bin"],
        ["tokens", "verify", "@.bin"],
        ["tokens", "convert", "@.bin", "--out", f"{out}.npy", "--format", "npy"],
        ["tokens", "head", "@x"],
        ["subword", "train", "@", "--vocab-size", "20", "--out", f"{out}.subwords"],
        ["datagen", EVIL, "--data-dir", out],
        [EVIL],
        [f"--{EVIL}"],
    ]
    shown = [call(made, *arguments) for arguments in calls]
    without = [arguments[:2] for arguments, text in zip(calls, shown, strict=True) if "]0;title" not in text]
    assert without == [["show", "@.tok"], ["split", "@"]]
    assert f"tokenizer       {made}/{SHOWN}.tok\n" in call(made, "info", "@.tok")


def test_json_has_the_exact_name(made: Path) -> None:
    result = invoke("info", f"{made}/{EVIL}.bin", "--json")
    assert json.loads(result.stdout)["path"] == f"{made}/{EVIL}.bin"
    assert not FORBIDDEN.search(result.stdout)


def test_exception_keeps_the_exact_name(made: Path) -> None:
    with pytest.raises(bpejit.BpejitError) as found:
        bpejit.load(made / f"{EVIL}x")
    assert SHOWN in str(found.value)
    assert EVIL in found.value.args[0]


@pytest.mark.parametrize(
    "name",
    [
        "a  b",
        "na\u00efve",
        "\u4f60\u597d\u3000",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "a\\b",
        "\u0646\u200c\u0627",
        "a\u202fb\u00a0",
    ],
)
def test_plain_names_are_shown_as_they_are(name: str, tmp_path: Path) -> None:
    assert f"`{tmp_path}/{name}`" in invoke("info", tmp_path / name).stderr
    (tmp_path / name).write_bytes(b"\0\1" * 40)
    assert f"{tmp_path}/{name}\n" in invoke("tokens", "info", tmp_path / name, "--dtype", "uint16").stdout


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    assert rf"`{tmp_path}/\xff`" in invoke("info", f"{tmp_path}/\udcff").stderr


def test_ascii_locale(tmp_path: Path) -> None:
    """Python is started again with UTF-8, so that arguments, names and output are text."""
    (tmp_path / "\u00e9.txt").write_text("one \u2588 two \u00e9\n" * 20, encoding="utf-8")
    environment = {**ENVIRONMENT, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    environment.pop("PYTHONIOENCODING", None)
    arguments = ["\u00e9.txt", "--vocab-size", "260", "--special-token", "<\u00e9>", "--out", "\u00e9", "-q"]
    done = run("train", *arguments, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "<\u00e9>" in bpejit.load(tmp_path / "\u00e9").special_tokens
    done = run("info", "\u00e9", env=environment, cwd=tmp_path)
    assert "inputs          \u00e9.txt" in done.stdout.decode()


def test_csv_for_an_ascii_stream(made: Path) -> None:
    (made / "\u4f60.txt").write_text("some text")
    arguments = ["stats", str(made / f"{EVIL}.tok"), str(made / "\u4f60.txt"), "--csv", "-", "-q"]
    result = CliRunner(charset="ascii", **SEPARATELY).invoke(program.program, arguments)
    assert result.exit_code == 0, result.output
    assert "\\u4f60.txt,9," in result.stdout


def test_hint_can_be_pasted(tmp_path: Path) -> None:
    shell_line = importlib.import_module(f"{MODULE}.reporting").shell_line
    words: list[Any] = ["a b", EVIL, "it's\x1b\\", "\udcff\x07f"]
    assert shell_line(["bpejit", "a b"]) == "bpejit 'a b'"
    assert not FORBIDDEN.search(shell_line(words))
    if shutil.which("bash"):
        done = subprocess.run(["bash", "-c", f"printf '%s\\0' {shell_line(words)}"], stdout=subprocess.PIPE, check=True)
        assert done.stdout == b"".join(os.fsencode(word) + b"\0" for word in words)


def test_lines_are_written_in_one_place() -> None:
    """The others write JSON, whose strings are escaped."""
    found = {path.name for path in Path(program.__file__).parent.glob("*.py") if "click.echo(" in path.read_text()}
    assert found == {"reporting.py", "cmd_show.py"}
