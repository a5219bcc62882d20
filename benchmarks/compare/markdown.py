"""Format figures and tables."""

from __future__ import annotations

import re


def number(value: float) -> str:
    """Format a figure with about three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def escaped(text: str) -> str:
    """Return a text whose brackets, stars, underscores and backslashes mean nothing in Markdown, except between backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"[\\\[\]*_<]", r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)


def table(heading: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table; all columns but the first are aligned right."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)
