"""Text for the standard output: tables, quoted bytes, and colors where there are any."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from bpejit.inspection.visible_text import escape_character, visible_pieces

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from bpejit.inspection.token_rows import TokenRow


BACKGROUNDS = ("#bfe3ff", "#d6f5c0", "#ffe2b8", "#ffd0ea", "#d9d0ff", "#bdf2e6")
"""Backgrounds of consecutive tokens; the text on them is black, so they suit light and dark terminals."""

SPECIAL = "bold white on #555555"


color_option = click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="auto uses colors on a terminal, unless NO_COLOR is set.",
)


def color_console(color: str) -> Console | None:
    """Return a console for colored output, or None for plain text."""
    if color == "never" or (color == "auto" and not sys.stdout.isatty()):
        return None
    from rich.console import Console

    always = {"color_system": "256"} if color == "always" and not sys.stdout.isatty() else {}
    console = Console(force_terminal=True, highlight=False, markup=False, emoji=False, soft_wrap=True, **always)  # type: ignore[arg-type]
    return None if color == "auto" and (console.no_color or console.color_system is None) else console


def separator() -> str:
    """Return the character between tokens in plain text: a box-drawing line if standard output can represent it."""
    try:
        "\u2502".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return "|"
    return "\u2502"


def styled_tokens(tokens: Iterable[bytes], *, first: int = 0, special: Container[int] = (), breaks: bool = False) -> Text:
    """Return tokens on colored backgrounds; escapes are underlined.

    The number of a token, from `first` on, selects its color; `special` are those of special tokens. With `breaks`, a line
    break follows an escaped one.
    """
    from rich.text import Text

    text = Text()
    for number, token in enumerate(tokens, start=first):
        style = SPECIAL if number in special else f"black on {BACKGROUNDS[number % len(BACKGROUNDS)]}"
        for piece, is_escape in visible_pieces(token):
            text.append(piece, f"{style} underline" if is_escape else style)
            if breaks and is_escape and piece == "\\n":
                text.append("\n")
    return text


def styled_rows(rows: Sequence[TokenRow]) -> Text:
    """Return the tokens of a text on colored backgrounds."""
    special = {number for number, row in enumerate(rows) if row.special}
    return styled_tokens((row.data for row in rows), special=special, breaks=True)


def quoted(span: bytes) -> str:
    """Return bytes in quotes, similar to `repr` of text. Only bytes that are not valid UTF-8 appear as `\\xNN`."""
    text = span.decode("utf-8", "surrogateescape")
    quote = '"' if "'" in text and '"' not in text else "'"
    escapes = {"\\": "\\\\", quote: f"\\{quote}"}
    return quote + "".join(escapes.get(one) or escape_character(one) or one for one in text) + quote
