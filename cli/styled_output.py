"""Standard output with and without colors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bpejit.inspection.visible_text import visible_pieces

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from bpejit.inspection.token_rows import TokenRow

Function = TypeVar("Function", bound=Callable[..., Any])

BACKGROUNDS = ("#bfe3ff", "#d6f5c0", "#ffe2b8", "#ffd0ea", "#d9d0ff", "#bdf2e6")
"""Backgrounds of consecutive tokens; the text on them is black, so they suit light and dark terminals."""

SPECIAL = "bold white on #555555"


def color_option(function: Function) -> Function:
    """Add `--color`."""
    return click.option(
        "--color",
        type=click.Choice(("auto", "always", "never")),
        default="auto",
        show_default=True,
        help="auto uses colors on a terminal, unless NO_COLOR is set.",
    )(function)


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


def styled_tokens(rows: Iterable[TokenRow], *, breaks: bool = True) -> Text:
    """Return tokens on colored backgrounds; escapes are underlined."""
    text = _new_text()
    for index, row in enumerate(rows):
        style = SPECIAL if row.special else f"black on {BACKGROUNDS[index % len(BACKGROUNDS)]}"
        append_visible(text, row.data, style, breaks=breaks)
    return text


def append_visible(text: Text, data: bytes, style: str, *, breaks: bool = False) -> None:
    """Append the visible form of bytes."""
    for piece, is_escape in visible_pieces(data):
        text.append(piece, f"{style} underline" if is_escape else style)
        if breaks and is_escape and piece == "\\n":
            text.append("\n")


def _new_text() -> Text:
    from rich.text import Text

    return Text()
