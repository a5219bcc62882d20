"""Format figures and tables."""

from __future__ import annotations


def number(value: float) -> str:
    """Format a figure with about three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def table(heading: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table; all columns but the first are aligned right."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)
