"""Make the text of tokens visible and harmless: the only place that decides which of their characters are escaped.

Tokens come from strangers. Control characters could move the cursor of a terminal, bidirectional ones could reorder what is
around them, and a combining mark would join the character before it. `escape_character` therefore escapes every character
that Unicode does not list as printable; a space is shown as it is. `html_text` escapes markup as well. The script of reports
follows the same rules, and the tests compare both. Names of files are shown by `bpejit.errors.visible`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from html import escape as escape_markup
from itertools import groupby

from bpejit.errors import escape

DOTTED_CIRCLE = "\u25cc"
"""Carries a combining mark at the start of a token."""


def escape_character(character: str) -> str | None:
    r"""Return the escape of a character of a token, or None if it is shown as it is.

    Examples
    --------
    >>> escape_character("\x1b"), escape_character("a")
    ('\\u001b', None)
    """
    return None if character.isprintable() else escape(character)


def visible_pieces(data: bytes) -> Iterator[tuple[str, bool]]:
    r"""Yield the pieces of the visible form of bytes: text, and whether it is an escape.

    They need not be valid UTF-8, as in tokens that are a part of a character.

    Examples
    --------
    >>> list(visible_pieces(b"ab\n\xff"))
    [('ab', False), ('\\n', True), ('\\xff', True)]
    """
    text = data.decode("utf-8", "surrogateescape")
    if text and unicodedata.category(text[0]).startswith("M"):
        text = DOTTED_CIRCLE + text
    if text and text.isprintable():
        yield text, False
        return
    for escaped, characters in groupby(text, escape_character):
        if escaped is None:
            yield "".join(characters), False
        else:
            yield from ((escaped, True) for _ in characters)


def plain_text(data: bytes, separator: str = "", *, breaks: bool = False) -> str:
    r"""Return the visible form of bytes without styles.

    The `separator` is escaped as well, like the backslash, so that the result is unambiguous. With `breaks`, a line break
    follows each escaped line feed.

    Examples
    --------
    >>> plain_text(b"a\\b\n")
    'a\\\\b\\n'
    """
    parts = []
    for text, is_escape in visible_pieces(data):
        if is_escape:
            parts.append(text + "\n" if breaks and text == "\\n" else text)
            continue
        shown = text.replace("\\", "\\\\")
        parts.append(shown.replace(separator, f"\\u{ord(separator):04x}") if separator else shown)
    return "".join(parts)


def html_text(data: bytes) -> str:
    """Return the visible form of bytes as HTML: escapes are `<i>` elements, and markup is escaped."""
    return "".join(
        f"<i>{escape_markup(text)}</i>" if is_escape else escape_markup(text, quote=True)
        for text, is_escape in visible_pieces(data)
    )


def shown(text: str) -> str:
    """Return text as HTML, with escapes of characters that are not printable."""
    return html_text(text.encode("utf-8", "surrogateescape"))


def plain(text: str) -> str:
    """Return text with escapes of characters that are not printable."""
    return plain_text(text.encode("utf-8", "surrogateescape"))


def spaces_or(token: bytes, show: Callable[[bytes], str]) -> str:
    """Return the number of spaces of a token that has nothing else, and what a function shows of another."""
    if token.strip(b" ") or not token:
        return show(token)
    return "\u2423" if len(token) == 1 else f"\u2423 \u00d7 {len(token)}"
