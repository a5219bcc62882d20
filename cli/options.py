"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bpejit import Tokenizer

    from .progress import Progress

from bpejit.errors import shorten
from bpejit.splitting.presets import PRESETS

from .option_names import COMMAND

Command = TypeVar("Command", bound=Callable[..., Any])

DEBUG = "bpejit.debug"
"""Key of the context's `meta` that is true when tracebacks are wanted."""

PATTERNS = tuple(PRESETS)

# The library has these lists too, but behind numpy.
TIE_RULES = ("greatest-bytes", "smallest-ids", "hf")
ENGINES = ("auto", "serial", "threads", "processes")


def _remember_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.meta[COMMAND] = ctx.command  # of nested commands the last one runs: messages name its options
    if value:
        ctx.meta[DEBUG] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_debug,
    help="Show a traceback when something fails.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Print nothing but errors.")


overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the output if it already exists.")


def input_argument(function: Command) -> Command:
    """Add INPUT: one or more files, globs or `-`; the library expands the globs that the shell did not."""
    return click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)(function)


def input_format_option(function: Command) -> Command:
    """Add `--input-format`."""
    return click.option(
        "--input-format",
        type=click.Choice(("auto", "text")),
        default="auto",
        show_default=True,
        help="auto refuses what is recognised as compressed, binary or UTF-16; text takes all bytes as they are.",
    )(function)


def strip_bom_option(function: Command) -> Command:
    """Add `--strip-bom`."""
    return click.option(
        "--strip-bom", is_flag=True, help="Leave out the UTF-8 byte-order mark at the start of each input, if it has one."
    )(function)


def say_marks(progress: Progress, marked: Sequence[str], *, stripped: bool) -> None:
    """Say which inputs had a byte-order mark."""
    if marked:
        from bpejit.corpus.contents import named_inputs

        names = named_inputs(list(marked))
        done = "left out" if stripped else "encoded, so that decoding gives it back (`--strip-bom` leaves it out)"
        progress.say(f"note: the UTF-8 byte-order mark of {names} was {done}")


def tokenizer_option(function: Command) -> Command:
    """Add `--tokenizer`."""
    return click.option(
        "--tokenizer",
        "tokenizer_path",
        default="tokenizer",
        show_default=True,
        metavar="PATH",
        help="What `bpejit train` wrote, or a tokenizer of another tool: see `bpejit export --help`.",
    )(pattern_options(function))


def pattern_options(function: Command) -> Command:
    """Add `--pattern`, `--special` and `--unicode`, for tokenizer files that do not say these."""
    pattern = click.option(
        "--pattern", metavar="NAME|REGEX", help="The split pattern of a tokenizer file that does not say it."
    )
    special = click.option(
        "--special",
        "special_tokens",
        multiple=True,
        metavar="TEXT=ID",
        callback=_parse_specials,
        help="A special token of a tokenizer file that does not say it; may be repeated.",
    )
    return pattern(special(unicode_option("the one that the tokenizer, or the tool it is for, has")(function)))


def unicode_option(default: str) -> Callable[[Command], Command]:
    """Return what adds `--unicode`; `default` says what goes without it."""
    return click.option(
        "--unicode",
        metavar="VERSION",
        help=f"The version of Unicode that says which characters are letters, such as 16.0.  [default: {default}]",
    )


def _parse_specials(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, int] | None:
    specials: dict[str, int] = {}
    for value in values:
        text, _, number = value.rpartition("=")
        if not text or not (number.isascii() and number.isdigit() and len(number) <= 10):
            raise click.BadParameter(f"{shorten(value)}; expected a text, `=`, and its id, such as <|endoftext|>=50256")
        specials[text] = int(number)
    return specials or None


def read_tokenizer(path: str, pattern: str | None, special_tokens: dict[str, int] | None, unicode: str | None) -> Tokenizer:
    """Load the tokenizer that these options name."""
    import bpejit

    return bpejit.load(path, pattern=pattern, special_tokens=special_tokens, unicode=unicode)


def dtype_option(function: Command) -> Command:
    """Add `--dtype` for reading a token file."""
    return click.option(
        "--dtype",
        type=click.Choice(("uint16", "uint32")),
        help="Type of an id in the file, where no TOKENS.json says so.",
    )(function)


def spread_options(function: Command) -> Command:
    """Add `--workers` and `--engine`."""
    workers = click.option(
        "--workers", type=click.IntRange(min=1), metavar="N", help="How many workers; by default one per usable core."
    )
    engine = click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="auto",
        show_default=True,
        help="How the work is spread; the result is the same.",
    )
    return workers(engine(function))
