"""Tables of figures, for commands and pages: a row is a dict, and its cells are texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]
"""The fields of a row, by the names that JSON reports have."""

_FORMS: dict[str, Callable[[Row], str]] = {
    "ids": lambda row: f"{row['first']} to {row['last']}",
    "used_share": lambda row: percent(row["used"] / row["tokens"]),
    "occurrences": lambda row: f"{row['least']:,} to {row['most']:,}" if row["most"] > 1 else str(row["least"]),
    "entropy": lambda row: f"{row['entropy']:.2f} bits",
}
"""The cells that are not the value of one field, or have a unit."""


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
    return percent(row[field]) if field.endswith("share") else figure(row[field])


def table(rows: Iterable[Row], fields: Sequence[str], heads: Sequence[str]) -> list[Sequence[str]]:
    """Return the heads, and the cells of some fields of each row."""
    return [heads, *([cell(row, field) for field in fields] for row in rows)]
