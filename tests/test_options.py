"""Options are declared once: signatures, documentation, defaults and options of commands come from the declarations."""

import importlib
import inspect
from typing import Annotated, Any, TypedDict, get_type_hints

import click
import pytest
from click.testing import CliRunner
from helpers.cli import COMMANDS, MODULE

import bpejit
from bpejit.corpus.reading_options import InputOptions, ReadingOptions
from bpejit.errors import ArgumentTypeError
from bpejit.options import Option, chosen, declared, takes
from bpejit.tokenizer_config import TokenizerConfig, TransformersSettings
from bpejit.training.train_options import MergeLimits, MergeSettings, TrainOptions

options_of_commands = importlib.import_module(f"{MODULE}.shared_options")


class Colors(TypedDict, total=False):
    """Options for these tests."""

    red: Annotated[int, Option(3, "", "How red.", least=0)]
    green: Annotated[int, Option(3, "How red and how green.", "How green.")]
    name: Annotated[str | None, Option(None, "Its name. " * 20, "The name.", metavar="TEXT", shown="none")]
    bright: Annotated[bool, Option(False, "Whether it is bright.", "Brighter.")]
    shade: Annotated[str, Option("full", "The shade.")]


@takes(Colors)
def paint(wall: str, *, coats: int = 1, **options: Any) -> tuple[str, int, dict[str, Any]]:
    """Paint.

    Parameters
    ----------
    wall : str
    {options}

    Returns
    -------
    tuple
    """
    return wall, coats, options


def test_defaults() -> None:
    defaults = {"red": 3, "green": 3, "name": None, "bright": False, "shade": "full"}
    assert paint("north") == ("north", 1, defaults)
    assert paint("north", coats=2, red=0, shade="half") == ("north", 2, defaults | {"red": 0, "shade": "half"})
    assert chosen(Colors, {"red": 1, "coats": 2}) == {"red": 1}


def test_signature_and_documentation() -> None:
    signature = inspect.signature(paint)
    assert list(signature.parameters) == ["wall", "coats", "red", "green", "name", "bright", "shade"]
    assert all(one.kind is one.KEYWORD_ONLY for name, one in signature.parameters.items() if name != "wall")
    assert signature.parameters["green"].default == 3
    assert signature.parameters["name"].annotation == str | None
    hints = get_type_hints(paint)
    assert list(hints) == ["wall", "coats", "return", *declared(Colors)]
    assert (hints["wall"], hints["name"], hints["return"]) == (str, str | None, tuple[str, int, dict[str, Any]])
    lines = (inspect.getdoc(paint) or "").splitlines()
    assert lines[lines.index("wall : str") + 1 :][:4] == [
        "red, green : int, default 3",
        "    How red and how green.",
        "name : str, optional",
        "    " + ("Its name. " * 12).rstrip(),
    ]
    assert lines[-5:] == ["    The shade.", "", "Returns", "-------", "tuple"]
    assert "{options}" not in (paint.__doc__ or "")


def test_wrong_calls() -> None:
    with pytest.raises(ArgumentTypeError, match=r"paint\(\) has no argument 'braight'; expected bright: use bright="):
        paint("north", braight=True)
    with pytest.raises(ArgumentTypeError, match=r"paint\(\) has 2 unnamed arguments; expected wall"):
        paint("north", 3)
    with pytest.raises(ArgumentTypeError, match="wall"):
        paint()


def test_options_of_a_command() -> None:
    @click.command()
    @options_of_commands.declared_options(Colors, into="colors", without=("name",), red={"help": "Redness."})
    def command(colors: dict[str, Any]) -> None:
        click.echo(colors)

    assert CliRunner().invoke(command, []).stdout == "{'red': 3, 'green': 3, 'bright': False}\n"
    given = CliRunner().invoke(command, ["--red", "2k", "--bright"])
    assert given.stdout == "{'red': 2000, 'green': 3, 'bright': True}\n"
    assert CliRunner().invoke(command, ["--green", "0"]).exit_code == 2
    text = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert "--red N Redness. [default: 3] --green N How green. [default: 3] --bright Brighter." in text
    assert "shade" not in text, "an option without a help is none of a command"


@pytest.mark.parametrize(
    ("group", "settings"),
    [
        (ReadingOptions, InputOptions),
        (MergeLimits, MergeSettings),
        (TransformersSettings, TokenizerConfig),
    ],
)
def test_settings_have_the_declared_defaults(group: type, settings: type) -> None:
    defaults = {name: option.default for name, (_, option) in declared(group).items()}
    assert chosen(group, vars(settings())) == defaults


@pytest.mark.parametrize(("name", "function"), [("train", bpejit.train), ("count", bpejit.count)])
def test_commands_and_functions_have_the_same_options(name: str, function: Any) -> None:
    keywords = set(inspect.signature(function).parameters)
    of_command = {option.name for option in COMMANDS[name].params}
    assert keywords - of_command == {"chunk_bytes", "progress"}
    others = {"counts_paths", "allow_repeated_inputs", "dry_run", "no_special_tokens"}
    reports = {option.name for option in COMMANDS["warmup"].params} | {"help_all"}
    assert of_command - keywords - reports <= others


def test_every_option_is_documented() -> None:
    for name, (_, option) in declared(TrainOptions).items():
        assert option.text.strip() or name in ("text_field", "bos_token", "eos_token"), name
        assert option.kind
        assert f"{name}" in (bpejit.train.__doc__ or "")
