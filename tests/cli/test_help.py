"""Help: what `--help` describes and what it only names, and `--help-all`."""

import importlib
import re
from typing import get_args

import click
import pytest
from click.shell_completion import BashComplete
from helpers.cli import COMMANDS, MODULE, invoke, program

from bpejit.options import Section

ALL = {name: command for name, command in COMMANDS.items() if not isinstance(command, click.Group)}


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def _described(text):
    """Return the options that a help describes: those at the start of a line, with a text beside or below."""
    lines = re.findall(r"^  (-.*)$", text, re.MULTILINE)
    return {option for line in lines for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", line.partition("  ")[0])}


@pytest.mark.parametrize("name", ALL)
def test_all_options_are_named_and_described(name):
    options = [option for option in ALL[name].params if isinstance(option, click.Option)]
    names = {max(option.opts, key=len) for option in options}
    text = invoke(*name.split(), "--help").stdout
    assert names <= set(re.findall(r"--[a-z][a-z-]*", text))
    assert "--help-all" in names or len(options) <= 15
    if "--help-all" in names:
        result = invoke(*name.split(), "--help-all")
        assert (result.exit_code, result.output) == (0, result.stdout)
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert _described(text) < _described(result.stdout)
        assert "[default: (" not in result.stdout
        text = result.stdout
    assert {option for one in options for option in one.opts} | {"-h", "--help"} == _described(text)


def test_sections_of_train():
    text = invoke("train", "--help").stdout
    assert len(text.splitlines()) <= 45
    basics, more = text.split("\n\nMore options, described by --help-all:\n")
    assert {"--vocab-size", "--out", "--pattern", "--special-token", "--dry-run"} <= _described(basics)
    names = re.findall(r"^  (\w[\w ]*?)  +--", more, re.MULTILINE)
    assert names == [*get_args(Section)[1:], "Reporting"]
    headings = re.findall(r"^([A-Z][\w ]*):$", invoke("train", "--help-all").stdout, re.MULTILINE)
    assert headings == ["Basics", *names]


def test_sections_of_options_are_known():
    known = {*get_args(Section), importlib.import_module(f"{MODULE}.reporting").REPORTS}
    found = {getattr(option, "section", "Basics") for command in COMMANDS.values() for option in command.params}
    assert found == known


def test_sections_leave_completion_alone():
    complete = BashComplete(program, {}, "bpejit", "_BPEJIT_COMPLETE").get_completions
    found = {item.value for item in complete(["train"], "--")}
    assert found == {option for one in COMMANDS["train"].params for option in one.opts if option.startswith("--")} | {"--help"}
    assert [item.value for item in complete(["train", "--help-all"], "--vocab-s")] == ["--vocab-size"]


def test_misspelled_command():
    result = invoke("tran", "corpus.txt")
    assert result.exit_code == 2
    assert "there is no command 'tran': did you mean `train`" in result.output
