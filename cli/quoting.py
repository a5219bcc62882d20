"""Quoted text and bytes for output."""

from __future__ import annotations

from bpejit.inspection.visible_text import escape_character


def quoted(span: bytes) -> str:
    """Return bytes in quotes, similar to `repr` of text. Only bytes that are not valid UTF-8 appear as `\\xNN`."""
    text = span.decode("utf-8", "surrogateescape")
    quote = '"' if "'" in text and '"' not in text else "'"
    return quote + "".join(_escaped(character, quote) for character in text) + quote


def _escaped(character: str, quote: str) -> str:
    if character in ("\\", quote):
        return "\\" + character
    return escape_character(character) or character
