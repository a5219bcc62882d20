"""The tokens of a text for notebooks: colored HTML, and plain text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from bpejit.inspection.token_rows import TokenRow
from bpejit.inspection.visible_text import html_text, plain_text

SEPARATOR = "\u2502"
"""Separates tokens in plain text."""

HUES = (205, 95, 35, 320, 265, 170)
"""Hues of the backgrounds of consecutive tokens. They are translucent, so they suit light and dark pages."""

_STYLE = "border-radius:3px;padding:1px 0;white-space:pre-wrap;unicode-bidi:isolate;"


def html_tokens(rows: Iterable[TokenRow]) -> str:
    """Return tokens as HTML spans with colored backgrounds; the title of each has its id and bytes."""
    parts = []
    for index, row in enumerate(rows):
        color = "hsla(0,0%,50%,.45)" if row.special else f"hsla({HUES[index % len(HUES)]},80%,50%,.3)"
        title = f"id {row.id}, bytes {row.data.hex(' ')}"
        style = f"{_STYLE}background:{color}" + (";font-weight:bold" if row.special else "")
        parts.append(f'<span style="{style}" title="{title}">{html_text(row.data)}</span>')
        if row.data.endswith(b"\n"):
            parts.append("<br>")
    return "".join(parts)


def plain_tokens(rows: Iterable[TokenRow], separator: str = SEPARATOR) -> str:
    """Return tokens as text with a separator between them; a line break follows each escaped line feed."""
    return separator.join(plain_text(row.data, separator, breaks=True) for row in rows)


class ShownText:
    """The tokens of a text, as returned by `Tokenizer.show`. Notebooks display it as HTML.

    Parameters
    ----------
    rows : list of TokenRow
    """

    def __init__(self, rows: list[TokenRow]) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return plain_tokens(self.rows)

    def _repr_html_(self) -> str:
        n_bytes = sum(len(row.data) for row in self.rows)
        text = html_tokens(self.rows)
        body = f'<div dir="auto" style="font-family:monospace;line-height:1.7;overflow-wrap:anywhere">{text}</div>'
        return f"{body}<small>{len(self.rows):,} tokens, {n_bytes:,} bytes</small>"
