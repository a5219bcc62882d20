"""Tables in plain text, with columns aligned."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from bpejit.errors import visible
from bpejit.inspection.visible_text import plain_text


def aligned(rows: Iterable[Sequence[str]], *, left: int = 1) -> Iterator[str]:
    """Yield the lines of a table whose columns are separated by two spaces.

    Parameters
    ----------
    rows : iterable of sequences of str
        All of the same length; the first is the head.
    left : int
        Number of columns that are aligned to the left; the others are numbers.
    """
    table = list(rows)
    widths = [max(display_width(row[index]) for row in table) for index in range(len(table[0]))]
    for row in table:
        cells = []
        for index, (text, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - display_width(text))
            cells.append(text + blank if index < left else blank + text)
        yield "  ".join(cells).rstrip()


def display_width(text: str) -> int:
    """Return the number of columns of a text on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(character) in ("Mn", "Me") else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def shown_name(name: str, longest: int = 60) -> str:
    """Return the name of a file or a label with escapes, and only its end if it is long."""
    text = visible(name)
    return text if len(text) <= longest else "..." + text[3 - longest :]


def shown_token(token: bytes, longest: int = 60) -> str:
    """Return a token between vertical lines, with escapes, shortened if it is long."""
    text = plain_text(token[: 4 * longest], "|")
    return f"|{text}|" if len(text) <= longest and len(token) <= 4 * longest else f"|{text[: longest - 3]}..."


def optional_number(value: float | None, form: str = "{:.3f}") -> str:
    """Return a number as text, and `-` for None."""
    return "-" if value is None else form.format(value)


def percent(share: float) -> str:
    """Return a share as text, such as `12.5 %`."""
    return f"{100 * share:.1f} %"
