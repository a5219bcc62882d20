"""GPT-2's representation of bytes as text: one printable character for each byte.

Bytes that are printable in Latin-1 map to themselves, and the other 68 to U+0100 and the following characters: a space
becomes `Ġ` and a newline `Ċ`. The vocabulary files of GPT-2 and of most later models use it.
"""

from __future__ import annotations

import codecs

_PRINTABLE = frozenset((*range(33, 127), *range(161, 173), *range(174, 256)))

_MOVED = [byte for byte in range(256) if byte not in _PRINTABLE]

CHARACTERS = "".join(chr(byte if byte in _PRINTABLE else 256 + _MOVED.index(byte)) for byte in range(256))
"""The character of each byte."""

_BYTES = {ord(character): byte for byte, character in enumerate(CHARACTERS)}


def encode_byte_characters(data: bytes) -> str:
    """Return bytes as text, one character for each byte.

    Examples
    --------
    >>> encode_byte_characters(b" the")
    'Ġthe'
    """
    return codecs.charmap_decode(data, "strict", CHARACTERS)[0]


def decode_byte_characters(text: str) -> bytes:
    """Return the bytes of a text written by `encode_byte_characters`.

    Raises
    ------
    UnicodeEncodeError
        If a character represents no byte; such text is usually the plain text of a special token.

    Examples
    --------
    >>> decode_byte_characters("Ġthe")
    b' the'
    """
    return codecs.charmap_encode(text, "strict", _BYTES)[0]


def decoded_or_none(text: str) -> bytes | None:
    """Return the bytes of a text in byte characters, or None if a character represents no byte."""
    try:
        return decode_byte_characters(text)
    except UnicodeEncodeError:
        return None
