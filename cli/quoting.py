"""Quoted text and bytes for output."""

from __future__ import annotations

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(span: bytes) -> str:
    """Return bytes in quotes, similar to `repr` of text. Only bytes that are not valid UTF-8 appear as `\\xNN`."""
    text = span.decode("utf-8", "surrogateescape")
    quote = '"' if "'" in text and '"' not in text else "'"
    return quote + "".join(_escaped(character, quote) for character in text) + quote


def _escaped(character: str, quote: str) -> str:
    point = ord(character)
    if 0xDC80 <= point <= 0xDCFF:
        return f"\\x{point - 0xDC00:02x}"
    if character in _ESCAPES or character == quote:
        return _ESCAPES.get(character, "\\" + character)
    if character.isprintable():
        return character
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
