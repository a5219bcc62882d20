"""Arguments and options that several commands share, and short forms of `click.option` for the others."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import bpejit
from bpejit.corpus.reading_options import ReadingOptions
from bpejit.counting.count_options import END_OF_TEXT
from bpejit.engines import LocalWork, Work
from bpejit.errors import shorten
from bpejit.options import AUTO, Option, declared
from bpejit.splitting.presets import PRESETS
from bpejit.tokenfiles import DEFAULT_FORMAT, TEXT_FORMAT, format_descriptions, format_names

from .command_types import Count
from .reporting import SectionOption

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from bpejit import Tokenizer
    from bpejit.corpus.blocks import Skipped
    from bpejit.corpus.sources import Source
    from bpejit.model import Model
    from bpejit.storage.files import StrPath

Decorator = Callable[[Any], Any]
"""What adds options to the function of a command."""


def complete_path(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_pattern(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the named patterns that begin with `incomplete`."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in PRESETS if name.startswith(incomplete)]


# Short forms: a command lists its options in few lines, and each kind is defined once.
plain_option = functools.partial(click.option, cls=SectionOption)

flag = functools.partial(plain_option, is_flag=True)

path_option = functools.partial(plain_option, shell_complete=complete_path)

repeated_option = functools.partial(plain_option, multiple=True)


def count_option(*names: str, text: str, least: int | None = 1, is_size: bool = False, **options: Any) -> Decorator:
    """Return a decorator that adds an option with a number, whose default is shown if it has one."""
    settings = {"metavar": "SIZE" if is_size else "N", "show_default": "default" in options} | options
    return plain_option(*names, type=Count(least, is_size=is_size), help=text, **settings)


def path_argument(name: str, metavar: str, **options: Any) -> Decorator:
    """Return a decorator that adds an argument, which the shell completes."""
    return click.argument(name, metavar=metavar, shell_complete=complete_path, **options)


def added(*options: Decorator, change: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> Decorator:
    """Return a decorator that adds options, in this order; the function receives the arguments that `change` makes of them."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            return function(*args, **(given if change is None else change(given)))

        return functools.reduce(lambda target, option: option(target), reversed(options), called)

    return decorate


def collected(into: str, options: Mapping[str, Decorator]) -> Decorator:
    """Return a decorator that adds options, whose values the function receives as one argument, a dict."""
    return added(*options.values(), change=lambda given: {into: {name: given.pop(name) for name in options}} | given)


def piped_input() -> tuple[str, ...]:
    """Return `-` if standard input is a pipe or a file, and nothing if it is a terminal or a device such as /dev/null."""
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # it is closed, or no file
        return ()
    return ("-",) if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else ()


def given_or_piped(inputs: tuple[str, ...], *, instead: object = None, other: str = "") -> tuple[str, ...]:
    """Return the inputs of a command, or standard input if it is piped, unless something else is given `instead`.

    Without any, the error has the first example of the help; `other` is another way out.
    """
    found = inputs or (() if instead else piped_input())
    if found or instead:
        return found
    ctx = click.get_current_context()
    lines = [line.strip() for line in (ctx.command.help or "").splitlines()]
    example = next(line for line in lines if line.startswith(f"bpejit {ctx.command_path.partition(' ')[2]} "))
    ways = f"name a file, as in `{example}`{',' if other else ', or'} pipe text into the command{other}"
    raise click.UsageError(f"Missing argument 'INPUT...': {ways}", ctx)


input_argument = path_argument(
    "inputs", "INPUT...", nargs=-1, callback=lambda ctx, _, values: given_or_piped(values, instead=ctx.resilient_parsing)
)
"""Decorator that adds INPUT: files, folders, globs, URLs or `-`. The library expands globs that the shell did not expand."""

tokenizer_argument = path_argument("tokenizer_path", "TOKENIZER")


def _one_or_list(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> Paths:
    return values[0] if len(values) == 1 else list(values)


tokens_argument = functools.partial(path_argument, metavar="TOKENS...", nargs=-1, required=True, callback=_one_or_list)

Paths = str | list[str]
"""What a function receives for TOKENS."""

overwrite_option = flag("--overwrite", help="Replace the output if it already exists.")

dry_run_option = flag("--dry-run", help="Show the plan and the expected time; write nothing.")

resume_option = flag("--resume", help="Continue an earlier run of the same job where it ended.", section="Large corpora")


def shard_option(first: str, *, last: str = " The last part to finish joins all of them.") -> Decorator:
    """Return a decorator that adds `--shard`, which selects a part of a job."""
    variables = "auto reads SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or RANK and WORLD_SIZE."
    return plain_option("--shard", metavar="I/N|auto", help=f"{first}. {variables}{last}", section="Large corpora")


def out_option(text: str, *, metavar: str = "FILE", **options: Any) -> Decorator:
    """Return a decorator that adds `--out` and `--overwrite`; `options` are further arguments of `click.option` for `--out`."""
    return added(path_option("-o", "--out", metavar=metavar, help=text, **options), overwrite_option)


def _numbers_of(expected: str) -> Callable[[Any, Any, Any], dict[str, int] | None]:
    """Return a callback that makes a dict of values such as `TEXT=5`, also of several in one text with commas between them.

    `expected` describes these in an error message.
    """

    def parse(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...] | str | None) -> dict[str, int] | None:
        numbers: dict[str, int] = {}
        for value in values.split(",") if isinstance(values, str) else values or ():
            text, _, number = value.rpartition("=")
            if not text or not (number.isascii() and number.isdigit() and len(number) <= 10):
                raise click.BadParameter(f"{shorten(value)}; expected {expected}")
            numbers[text] = int(number)
        return numbers or None

    return parse


strip_bom_option = flag("--strip-bom", help="Skip a UTF-8 byte-order mark at the start of an input.", section="Input")


def bom_notes(marked: Sequence[str], *, stripped: bool) -> list[str]:
    """Return a note that names the inputs with a byte-order mark, if there are any."""
    if not marked:
        return []
    from bpejit.corpus.contents import named_inputs

    done = "skipped" if stripped else "encoded, so that decoding restores it (`--strip-bom` skips it)"
    return [f"the UTF-8 byte-order mark of {named_inputs(list(marked))} was {done}"]


def read_sources(inputs: Iterable[StrPath], reading: Mapping[str, Any]) -> list[Source]:
    """Return the sources of inputs with the options of `input_options`."""
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources

    return find_sources(list(inputs), Contents(**reading))


def skipped_notes(skipped: Skipped | None) -> list[str]:
    """Return a note about the records without text, if there are any."""
    from bpejit.corpus.blocks import skipped_note

    return [skipped_note(skipped.count, skipped.first)] if skipped else []


class TokenizerChoice(NamedTuple):
    """A tokenizer that the user named, and what its file may lack: pattern, special tokens and version of Unicode."""

    path: str
    settings: Mapping[str, Any] = {}

    def model(self) -> Model:
        """Load the tokenizer as data."""
        from bpejit.formats.any_format import load_model

        return load_model(self.path, **self.settings)

    def load(self) -> Tokenizer:
        """Load the tokenizer."""
        return bpejit.load(self.path, **self.settings)

    def load_lazily(self) -> Tokenizer:
        """Load the tokenizer, which makes its tables on first use, as workers with their own do not need them."""
        return bpejit.Tokenizer.from_model(self.model(), lazy=True)

    def files(self) -> Sequence[Path]:
        """Return the files of the tokenizer, which an output must not replace."""
        from bpejit.formats.any_format import tokenizer_files

        return tokenizer_files(self.path)

    def check_output(self, out: str, *, overwrite: bool) -> None:
        """Raise an exception if an output is a file of the tokenizer, or exists. The library compares it with the inputs."""
        from bpejit.storage.files import is_remote
        from bpejit.storage.outputs import check_outputs

        if not is_remote(out):
            check_outputs([out], inputs=self.files(), overwrite=overwrite)


def tokenizer_option(function: Any) -> Any:
    """Add `--tokenizer` and the options of `pattern_options`."""
    text = "Folder written by `bpejit train`, or a tokenizer of another tool (see `bpejit export --help`)."
    names = ("--tokenizer", "tokenizer_path")
    return path_option(*names, default="tokenizer", show_default=True, metavar="PATH", help=text)(pattern_options(function))


def pattern_options(function: Any) -> Any:
    """Add `--pattern`, `--special-token` and `--unicode`, for tokenizer files that do not contain these.

    The function receives them and its argument `tokenizer_path` as the argument `tokenizer`, a `TokenizerChoice` or None.
    """

    def chosen(given: dict[str, Any]) -> dict[str, Any]:
        path, settings = given.pop("tokenizer_path"), given.pop("settings")
        return given | {"tokenizer": path and TokenizerChoice(path, settings)}

    options = {
        "pattern": plain_option(
            "--pattern",
            section="Algorithm",
            metavar="NAME|REGEX",
            shell_complete=complete_pattern,
            help="Split pattern, for tokenizer files that lack it.",
        ),
        "special_tokens": repeated_option(
            *("--special-token", "special_tokens"),
            section="Algorithm",
            metavar="TEXT=ID",
            callback=_numbers_of("a text, `=`, and its id, such as <|endoftext|>=50256"),
            help="Special token and its id, for tokenizer files that lack it; may be repeated.",
        ),
        "unicode": unicode_option("that of the tokenizer, or of the tool it is for"),
    }
    return added(collected("settings", options), change=chosen)(function)


def unicode_option(default: str) -> Decorator:
    """Return a decorator that adds `--unicode`; `default` describes the version that is used without it."""
    text = f"Unicode version of the character classes in the pattern, such as 16.0.  [default: {default}]"
    return plain_option("--unicode", metavar="VERSION", help=text, section="Algorithm")


class LazyChoice(click.ParamType):  # type: ignore[type-arg]
    """One of several names, which a function returns when an argument is parsed that is not the `known` one of them."""

    def __init__(self, name: str, names: Callable[[], tuple[str, ...]], *, known: str | None = None) -> None:
        self.name = name
        self._names = names
        self._known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or fail with the list of names."""
        return value if value == self._known else self._choice().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Return the names that begin with `incomplete`."""
        return self._choice().shell_complete(ctx, param, incomplete)

    def _choice(self) -> click.Choice[str]:
        return click.Choice(self._names())


def dtype_option(text: str, *, name: str = "--dtype", automatic: bool = False) -> Decorator:
    """Return a decorator that adds an option for the type of ids in a token file; with `automatic`, `auto` is the default."""
    default: dict[str, Any] = {"default": AUTO, "show_default": True} if automatic else {}

    def names() -> tuple[str, ...]:
        from bpejit.tokenfiles import dtype_names  # which imports NumPy

        return (AUTO, *dtype_names()) if automatic else dtype_names()

    kind = LazyChoice("dtype", names, known=AUTO if automatic else None)
    return plain_option(name, type=kind, metavar="DTYPE", help=text, section="Output", **default)


read_dtype_option = dtype_option("Data type of the ids, such as uint16 or uint32, for token files without TOKENS.json.")

READ = "the format that recognizes the file"
SUFFIX = "the format with the suffix of --out"
WRITTEN = f"{SUFFIX}, and {DEFAULT_FORMAT} for other suffixes"
"""What `--format auto` stands for."""


def token_format_option(automatic: str = READ) -> Decorator:
    """Return a decorator that adds `--format`, the format of a token file; `automatic` says what `auto` stands for."""
    names = ", ".join(f"{name} ({text})" if text else name for name, text in format_descriptions().items())
    return plain_option(
        *("--format", "token_format"),
        section="Output",
        type=LazyChoice("format", lambda: (AUTO, *format_names())),
        default=AUTO,
        show_default=True,
        metavar="NAME",
        help=f"Format of the token file: auto for {automatic}, {names}.",
    )


def text_option(what: str) -> Decorator:
    """Return a decorator that adds `--text`, which selects the token file format `text`, to a function with `token_format`."""

    def selected(given: dict[str, Any]) -> dict[str, Any]:
        if not given.pop("text"):
            return given
        if given["token_format"] not in (AUTO, TEXT_FORMAT):
            rest = f"and `--format {given['token_format']}` another one: give one of them"
            raise click.UsageError(f"`--text` selects the format text, {rest}")
        return given | {"token_format": TEXT_FORMAT}

    text = f"{what} as numbers, one document per line: short for --format text."
    return added(flag("--text", help=text), change=selected)


def declared_options(
    group: type, *, into: str | None = None, without: Collection[str] = (), **changes: Mapping[str, Any]
) -> Decorator:
    """Return a decorator that adds the options of a group of `bpejit.options` that have a help, but those `without`.

    The function receives their values as the argument `into`, a dict; by default, each is an argument of its own. `changes` are
    further arguments of `click.option`, for the name of an option.
    """
    options = {
        name: _declared_option(name, option, _CHANGES.get(name, {}) | dict(changes.get(name, {})))
        for name, (_, option) in declared(group).items()
        if option.help and name not in without
    }
    return added(*options.values()) if into is None else collected(into, options)


def _declared_option(name: str, option: Option, changes: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds an option."""
    text = option.help if isinstance(option.help, str) else option.help()
    settings: dict[str, Any] = {"help": text, "section": option.section}
    if option.value == "flag":
        settings["is_flag"] = True
    else:
        settings["metavar"] = option.metavar or None
        is_tuple = isinstance(option.default, tuple)
        shown = ", ".join(map(str, option.default)) if is_tuple else option.shown or ""
        settings |= {"multiple": is_tuple} if is_tuple or option.default is None else {"default": option.default}
        settings["show_default"] = "default" in settings and not shown
        settings["help"] += f"  [default: {shown}]" if shown else ""
    if option.value in ("count", "size"):
        settings["type"] = Count(option.least, is_size=option.value == "size")
    elif option.value == "choice" and option.choices is not None:
        # The names of a choice without a metavar are in the help.
        named = LazyChoice(name.replace("_", " "), option.choices)
        settings["type"] = named if option.metavar else click.Choice(option.choices())
    elif option.value == "path":
        settings["shell_complete"] = complete_path
    return plain_option(option.flag or "--" + name.replace("_", "-"), name, **settings | dict(changes))


_CHANGES: dict[str, dict[str, Any]] = {
    "sources": {"multiple": True, "callback": _numbers_of("a path, `=`, and a whole number, such as code/=3")},
    "pattern": {"shell_complete": complete_pattern},
    "also": {"type": Count()},
    "character_coverage": {"type": float},
    "words": {"callback": _numbers_of("words, each with `=` and its count, such as hug=10,pug=5")},
    "chat_template": {"type": click.File(encoding="utf-8"), "shell_complete": complete_path},
}
"""What the command line does otherwise, by the names of options."""

input_options = declared_options(ReadingOptions, into="reading")
"""Decorator that adds the options of reading; the function receives their values as the argument `reading`, a dict."""

engine_options = declared_options(LocalWork, into="work")
"""Decorator that adds `--workers` and `--engine`; the function receives their values as the argument `work`, a dict."""

cluster_engine_options = declared_options(Work, into="work")
"""Decorator that adds `--workers`, `--engine` with the engine `ray`, and `--ray-address`, likewise as `work`."""

repeated_inputs_option = flag(
    "--allow-repeated-inputs",
    help="Merge counts files that have the same input, which is then counted as often.",
    section="Large corpora",
)


def options_of_counting(group: type) -> Decorator:
    """Return a decorator that adds a group with `SplitSettings`, and `--no-special-tokens`.

    The function receives their values as the argument `options`, a dict.
    """

    def resolved(given: dict[str, Any]) -> dict[str, Any]:
        without, options = given.pop("no_special_tokens"), given.pop("options")
        if without and options["special_tokens"]:
            raise click.UsageError("`--no-special-tokens` and `--special-token` cannot be combined: leave one out")
        default = () if without else (END_OF_TEXT,)
        return given | {"options": options | {"special_tokens": options["special_tokens"] or default}}

    without = flag("--no-special-tokens", help="Use no special tokens.", section="Algorithm")
    return added(declared_options(group, into="options"), without, change=resolved)
