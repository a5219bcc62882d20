"""GPT-2's way to write bytes as text: each byte becomes one printable character.

Bytes that are printable in Latin-1 stand for themselves; the other 68 are moved up to U+0100 and what follows, so that a
space becomes `Ġ` and a newline `Ċ`. Vocabulary files of GPT-2 and of most of its successors are written so.
"""

from __future__ import annotations

import codecs

_PRINTABLE = frozenset((*range(33, 127), *range(161, 173), *range(174, 256)))

_MOVED = [byte for byte in range(256) if byte not in _PRINTABLE]

CHARACTERS = "".join(chr(byte if byte in _PRINTABLE else 256 + _MOVED.index(byte)) for byte in range(256))
"""The character of each byte."""

_BYTES = {ord(character): byte for byte, character in enumerate(CHARACTERS)}


def bytes_to_text(data: bytes) -> str:
    """Write bytes as text, one character a byte.

    Examples
    --------
    >>> bytes_to_text(b" the")
    'Ġthe'
    """
    return codecs.charmap_decode(data, "strict", CHARACTERS)[0]


def text_to_bytes(text: str) -> bytes:
    """Return the bytes that `bytes_to_text` wrote as `text`.

    Raises
    ------
    UnicodeEncodeError
        If a character stands for no byte; such text is no byte token but, as a rule, the plain text of a special token.

    Examples
    --------
    >>> text_to_bytes("Ġthe")
    b' the'
    """
    return codecs.charmap_encode(text, "strict", _BYTES)[0]
