"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bpejit.corpus.reading_options import ReadingOptions, Sampling
from bpejit.engines.work_options import LocalWork, Work
from bpejit.errors import shorten
from bpejit.options import Option, declared
from bpejit.registry import AUTO
from bpejit.splitting.presets import PRESETS
from bpejit.tokenfiles import DEFAULT_FORMAT, TEXT_FORMAT, format_descriptions, format_names

from .command_types import Count

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from bpejit import Tokenizer
    from bpejit.encoding.codec import Codec

Function = TypeVar("Function", bound=Callable[..., Any])

PATTERNS = tuple(PRESETS)


overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the output if it already exists.")


def complete_path(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_pattern(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the named patterns that begin with `incomplete`."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in PATTERNS if name.startswith(incomplete)]


def piped_input() -> tuple[str, ...]:
    """Return `-` if standard input is a pipe or a file, and nothing if it is a terminal or a device such as /dev/null."""
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # it is closed, or no file
        return ()
    return ("-",) if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else ()


def missing_input(ctx: click.Context, other: str = "") -> click.UsageError:
    """Return the error of a command without inputs, with the first example of its help; `other` is another way out."""
    lines = [line.strip() for line in (ctx.command.help or "").splitlines()]
    example = next(line for line in lines if line.startswith(f"bpejit {ctx.command_path.partition(' ')[2]} "))
    ways = f"name a file, as in `{example}`{',' if other else ', or'} pipe text into the command{other}"
    return click.UsageError(f"Missing argument 'INPUT...': {ways}", ctx)


def _given_or_piped(ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    found = values or (() if ctx.resilient_parsing else piped_input())
    if not found and not ctx.resilient_parsing:
        raise missing_input(ctx)
    return found


def input_argument(function: Function) -> Function:
    """Add INPUT: one or more files, folders, globs, URLs or `-`. The library expands globs that the shell did not expand."""
    return click.argument("inputs", metavar="INPUT...", nargs=-1, callback=_given_or_piped, shell_complete=complete_path)(
        function
    )


def out_option(text: str, *, metavar: str = "FILE", **options: Any) -> Callable[[Function], Function]:
    """Return a decorator that adds `--out`.

    Parameters
    ----------
    text : str
        Help text.
    metavar : str
    **options
        Further arguments of `click.option`.
    """
    return click.option("-o", "--out", metavar=metavar, help=text, shell_complete=complete_path, **options)


def _parse_weights(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, int] | None:
    weights: dict[str, int] = {}
    for value in values:
        path, _, number = value.rpartition("=")
        if not path or not (number.isascii() and number.isdigit() and 0 < len(number) <= 10):
            raise click.BadParameter(f"{shorten(value)}; expected a path, `=`, and a whole number, such as code/=3")
        weights[path] = int(number)
    return weights or None


def strip_bom_option(function: Function) -> Function:
    """Add `--strip-bom`."""
    return click.option("--strip-bom", is_flag=True, help="Skip a UTF-8 byte-order mark at the start of an input.")(function)


def bom_notes(marked: Sequence[str], *, stripped: bool) -> list[str]:
    """Return a note that names the inputs with a byte-order mark, if there are any."""
    if not marked:
        return []
    from bpejit.corpus.contents import named_inputs

    done = "skipped" if stripped else "encoded, so that decoding restores it (`--strip-bom` skips it)"
    return [f"the UTF-8 byte-order mark of {named_inputs(list(marked))} was {done}"]


def tokenizer_option(function: Function) -> Function:
    """Add `--tokenizer` and the options of `pattern_options`."""
    return click.option(
        "--tokenizer",
        "tokenizer_path",
        default="tokenizer",
        show_default=True,
        metavar="PATH",
        shell_complete=complete_path,
        help="Folder written by `bpejit train`, or a tokenizer of another tool (see `bpejit export --help`).",
    )(pattern_options(function))


def pattern_options(function: Function) -> Function:
    """Add `--pattern`, `--special-token` and `--unicode`, for tokenizer files that do not contain these."""
    pattern = click.option(
        "--pattern",
        metavar="NAME|REGEX",
        shell_complete=complete_pattern,
        help="Split pattern, for tokenizer files that lack it.",
    )
    special = click.option(
        "--special-token",
        "special_tokens",
        multiple=True,
        metavar="TEXT=ID",
        callback=_parse_special_tokens,
        help="Special token and its id, for tokenizer files that lack it; may be repeated.",
    )
    return pattern(special(unicode_option("that of the tokenizer, or of the tool it is for")(function)))


def unicode_option(default: str) -> Callable[[Function], Function]:
    """Return a decorator that adds `--unicode`; `default` describes the version that is used without it."""
    return click.option(
        "--unicode",
        metavar="VERSION",
        help=f"Unicode version of the character classes in the pattern, such as 16.0.  [default: {default}]",
    )


def _parse_special_tokens(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, int] | None:
    tokens: dict[str, int] = {}
    for value in values:
        text, _, number = value.rpartition("=")
        if not text or not (number.isascii() and number.isdigit() and len(number) <= 10):
            raise click.BadParameter(f"{shorten(value)}; expected a text, `=`, and its id, such as <|endoftext|>=50256")
        tokens[text] = int(number)
    return tokens or None


def read_tokenizer(
    path: str, pattern: str | None, special_tokens: dict[str, int] | None, unicode: str | None, *, lazy: bool = False
) -> Tokenizer:
    """Load the tokenizer that these options specify.

    With `lazy=True` it makes its tables and its working memory on first use, as workers with their own do not need them.
    """
    import bpejit

    if not lazy:
        return bpejit.load(path, pattern=pattern, special_tokens=special_tokens, unicode=unicode)
    from bpejit.formats.recognize import load_model

    model = load_model(path, pattern=pattern, special_tokens=special_tokens, unicode=unicode)
    return bpejit.Tokenizer.from_model(model, lazy=True)


def read_codec(path: str, pattern: str | None, special_tokens: dict[str, int] | None, unicode: str | None) -> Codec:
    """Load the encoder of the tokenizer that these options specify."""
    from bpejit.encoding.codec import Codec
    from bpejit.formats.recognize import load_model

    return Codec(load_model(path, pattern=pattern, special_tokens=special_tokens, unicode=unicode))


def dtype_option(function: Function) -> Function:
    """Add `--dtype` for reading a token file."""
    return click.option(
        "--dtype",
        type=LazyChoice("dtype", dtype_choices),
        metavar="DTYPE",  # its choices would import NumPy
        help="Data type of the ids, such as uint16 or uint32, for token files without TOKENS.json.",
    )(function)


READ = "the format that recognizes the file"
SUFFIX = "the format with the suffix of --out"
WRITTEN = f"{SUFFIX}, and {DEFAULT_FORMAT} for other suffixes"
"""What `--format auto` stands for."""


def token_format_option(automatic: str = READ) -> Callable[[Function], Function]:
    """Return a decorator that adds `--format`, the format of a token file; `automatic` says what `auto` stands for."""
    names = ", ".join(f"{name} ({text})" if text else name for name, text in format_descriptions().items())
    return click.option(
        "--format",
        "token_format",
        type=LazyChoice("format", lambda: (AUTO, *format_names())),
        default=AUTO,
        show_default=True,
        metavar="NAME",
        help=f"Format of the token file: auto for {automatic}, {names}.",
    )


def text_option(what: str) -> Callable[[Function], Function]:
    """Return a decorator that adds `--text`, which selects the token file format `text`."""
    return click.option("--text", is_flag=True, help=f"{what} as numbers, one document per line: short for --format text.")


def text_format(token_format: str, *, text: bool) -> str:
    """Return the format that `--format` and `--text` select."""
    if text and token_format not in (AUTO, TEXT_FORMAT):
        raise click.UsageError(f"`--text` selects the format text, and `--format {token_format}` another one: give one of them")
    return TEXT_FORMAT if text else token_format


def dtype_choices() -> tuple[str, ...]:
    """Return the names of the dtypes of token files."""
    from bpejit.tokenfiles import registry

    return registry.dtype_names()  # which imports NumPy


class LazyChoice(click.ParamType):  # type: ignore[type-arg]
    """One of several names, which are looked up when an argument is parsed.

    Parameters
    ----------
    name : str
    names : callable
        Function that returns the names.
    known : str, optional
        One of them, for which the others are not looked up.
    """

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


def declared_options(
    group: type, *, into: str | None = None, without: Collection[str] = (), **changes: Mapping[str, Any]
) -> Callable[[Function], Function]:
    """Return a decorator that adds the options of a group of `bpejit.options`.

    Parameters
    ----------
    group : type
        A `TypedDict` of options. Those without a help are left out.
    into : str, optional
        The function receives their values as this argument, a dict. By default, each is an argument of its own.
    without : names
        Options that are left out.
    **changes
        For the name of an option, further arguments of `click.option`.
    """
    chosen = {name: option for name, (_, option) in declared(group).items() if option.help and name not in without}

    def decorate(function: Function) -> Function:
        target: Any = function
        if into is not None:

            @functools.wraps(function)
            def collected(*args: Any, **given: Any) -> Any:
                return function(*args, **{into: {name: given.pop(name) for name in chosen}}, **given)

            target = collected
        for name, option in reversed(chosen.items()):
            target = _declared_option(name, option, _CHANGES.get(name, {}) | dict(changes.get(name, {})))(target)
        return target  # type: ignore[no-any-return]

    return decorate


def _declared_option(name: str, option: Option, changes: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds an option."""
    text = option.help if isinstance(option.help, str) else option.help()
    settings: dict[str, Any] = {"help": text}
    if option.value == "flag":
        settings["is_flag"] = True
    else:
        settings["metavar"] = option.metavar or None
        if option.default is None or isinstance(option.default, tuple):
            shown = option.shown if option.default is None else ", ".join(map(str, option.default))
            settings["help"] += f"  [default: {shown}]" if shown else ""
            settings["multiple"] = isinstance(option.default, tuple)
        else:
            settings |= {"default": option.default, "show_default": option.shown or True}
    if option.value in ("count", "size"):
        settings["type"] = Count(option.least, is_size=option.value == "size")
    elif option.value == "choice" and option.choices is not None:
        # The names of a choice without a metavar are in the help.
        named = LazyChoice(name.replace("_", " "), option.choices)
        settings["type"] = named if option.metavar else click.Choice(option.choices())
    elif option.value == "path":
        settings["shell_complete"] = complete_path
    return click.option(option.flag or "--" + name.replace("_", "-"), name, **settings | dict(changes))


_CHANGES: dict[str, dict[str, Any]] = {
    "sources": {"multiple": True, "callback": _parse_weights},
    "pattern": {"shell_complete": complete_pattern},
    "also": {"type": Count()},
    "chat_template": {"type": click.File(encoding="utf-8"), "shell_complete": complete_path},
}
"""What the command line does otherwise, by the names of options."""

input_options = declared_options(ReadingOptions, into="reading")
"""Decorator that adds the options of reading; the function receives their values as the argument `reading`, a dict."""

sampling_options = declared_options(Sampling)
"""Decorator that adds `--max-bytes`, `--seed` and `--source`."""

engine_options = declared_options(LocalWork)
"""Decorator that adds `--workers` and `--engine`."""

cluster_engine_options = declared_options(Work)
"""Decorator that adds `--workers`, `--engine` with the engine `ray`, and `--ray-address`."""
