"""Tables of figures, for commands, pages and notebooks: a row is a dict, and its cells are texts."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len

from bpejit.errors import UnsupportedError, visible
from bpejit.extras import import_extra
from bpejit.inspection.visible_text import plain_text

if TYPE_CHECKING:
    from bpejit.corpus.blocks import Skipped

Row = dict[str, Any]
"""The fields of a row, by the names that JSON reports have."""

_FORMS: dict[str, Callable[[Row], str]] = {
    "ids": lambda row: f"{row['first']} to {row['last']}",
    "used_share": lambda row: percent(row["used"] / row["tokens"]),
    "occurrences": lambda row: f"{row['least']:,} to {row['most']:,}" if row["most"] > 1 else str(row["least"]),
    "entropy": lambda row: f"{row['entropy']:.2f} bits",
    "name": lambda row: shown_name(row["name"]),
    "token": lambda row: shown_token(row["token"]),
}
"""The cells that are not the value of one field, or have a form of their own."""

_WITHOUT_COMMAS = ("id", "rank", "rank_of_first", "rank_of_second")


def figure(value: object) -> str:
    """Return a whole number with commas, another number with three decimals, `-` for None, and a text as it is."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if isinstance(value, float) else str(value)


def percent(share: float) -> str:
    """Return a share as text, such as `12.5 %`."""
    return f"{100 * share:.1f} %"


def cell(row: Row, field: str) -> str:
    """Return a field of a row as text; a share is a percentage."""
    if field in _FORMS:
        return _FORMS[field](row)
    value = row[field]
    if isinstance(value, bytes):
        return shown_token(value, 30)
    if field in _WITHOUT_COMMAS and value is not None:
        return str(value)
    return percent(value) if field.endswith("share") else figure(value)


def shown_name(name: str, longest: int = 60) -> str:
    """Return the name of a file or a label with escapes, and only its end if it is long."""
    text = visible(name)
    return text if len(text) <= longest else "..." + text[3 - longest :]


def shown_token(token: bytes, longest: int = 60) -> str:
    """Return a token between vertical lines, with escapes, shortened if it is long."""
    text = plain_text(token[: 4 * longest], "|")
    return f"|{text}|" if len(text) <= longest and len(token) <= 4 * longest else f"|{text[: longest - 3]}..."


class Table(NamedTuple):
    """A table for display.

    Parameters
    ----------
    rows : sequence of sequences
        Texts and numbers; the first row is the head.
    left : container of int
        The columns that are aligned to the left. Tokens, whose width on a terminal is not known, are in the last one.
    title : str
        A line above the table, if the head does not say what the figures are.
    fold : str
        What a notebook shows instead of the table until it is clicked.
    """

    rows: Sequence[Sequence[object]]
    left: Container[int] = (0,)
    title: str = ""
    fold: str = ""

    @classmethod
    def of(cls, rows: Iterable[Row], fields: Sequence[str], heads: Sequence[str], **options: Any) -> Table:
        """Return a table with some fields of rows as columns, with these heads."""
        return cls([heads, *([cell(row, field) for field in fields] for row in rows)], **options)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table, whose columns are separated by two spaces."""
        if self.title:
            yield self.title
        cells = [list(map(figure, row)) for row in self.rows]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            parts = []
            for index, (text, width) in enumerate(zip(row, widths, strict=True)):
                blank = " " * (width - cell_len(text))
                parts.append(text + blank if index in self.left else blank + text)
            yield "  ".join(parts).rstrip()

    def html(self) -> str:
        """Return the table as HTML."""
        lines = []
        for number, row in enumerate(self.rows):
            tag = "td" if number else "th"
            for index, value in enumerate(row):
                side = "left" if index in self.left else "right"
                style = f"text-align:{side};white-space:pre;padding:2px 8px"
                lines.append(f'{"" if index else "<tr>"}<{tag} style="{style}">{escape(figure(value))}</{tag}>')
        table = f'<table style="margin:0 0 1em">{"".join(lines)}</table>'
        return f"<details><summary>{escape(self.fold)}</summary>{table}</details>" if self.fold else table


@dataclass(frozen=True, eq=False, repr=False)
class Shown:
    """A result that is shown as tables: as text on a terminal, and in a notebook as HTML.

    Parameters
    ----------
    fields : dict
        Everything, as the JSON report of the command has it.
    rows : list of dict
        The main figures: a row for each file or label and the last one for all, or for each tokenizer.
    blocks : list of Table or str
        The tables and lines that are shown.
    skipped : Skipped
        Records without text.
    """

    fields: Row
    rows: list[Row]
    blocks: list[Table | str]
    skipped: Skipped

    def lines(self) -> Iterator[str]:
        """Yield the lines of the result, with an empty one between two blocks."""
        for number, block in enumerate(self.blocks):
            if number:
                yield ""
            yield from block.split("\n") if isinstance(block, str) else block.lines()

    def to_dict(self) -> Row:
        """Return everything, with the fields that the command of the same name writes as JSON."""
        return dict(self.fields)

    def to_pandas(self) -> Any:
        """Return the main figures as a data frame of pandas.

        Raises
        ------
        UnsupportedError
            If pandas is not installed.
        """
        return import_extra("pandas", "a data frame", extra="", error=UnsupportedError).DataFrame(self.rows)

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return "".join(f"<pre>{escape(block)}</pre>" if isinstance(block, str) else block.html() for block in self.blocks)
