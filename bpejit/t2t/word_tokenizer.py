"""The tokenizer of Tensor2Tensor: runs of letters and digits, and runs of other characters; and how these are escaped.

Letters and digits are the Unicode categories L* and N* of Python's `unicodedata`, as in the published code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from bpejit import arguments
from bpejit.errors import shorten

CODE_POINTS = 0x110000

_RUNS = re.compile(r"[^\W_]+|[\W_]+")
"""Without the underscore, `\\w` matches L* and N*."""

ESCAPE_CHARS = set("\\_u;0123456789")
"""What an escaped token may contain besides the characters of the alphabet."""

_UNESCAPE_REGEX = re.compile(r"\\u|\\\\|\\([0-9]+);")
_UNDEFINED = "\u3013"


@lru_cache(maxsize=1)
def word_classes() -> bytes:
    """Return, for each code point, 1 if it is a letter or digit and 0 otherwise."""
    category = unicodedata.category
    return bytes(category(chr(point))[0] in "LN" for point in range(CODE_POINTS))


def encode(text: str) -> list[str]:
    """Split a text into tokens. A single space is dropped unless it is the first or the last token.

    Examples
    --------
    >>> encode("Dude - that's so cool.")
    ['Dude', ' - ', 'that', "'", 's', 'so', 'cool', '.']
    """
    tokens = _RUNS.findall(arguments.string("text", text))
    inner = [token for token in tokens[1:-1] if token != " "]
    return [*tokens[:1], *inner, *tokens[max(len(tokens) - 1, 1) :]]


def decode(tokens: Iterable[str]) -> str:
    """Join tokens to a text, with a space between two tokens that start with a letter or digit."""
    parts: list[str] = []
    previous_is_word = False
    for token in tokens:
        is_word = token[:1].isalnum()  # the same characters
        if is_word and previous_is_word:
            parts.append(" ")
        parts.append(token)
        previous_is_word = is_word
    return "".join(parts)


def escape_token(token: str, alphabet: set[str]) -> str:
    """Escape a token so that it contains only characters of the alphabet, and an underscore only at its end."""
    if not isinstance(token, str):
        raise ValueError(f"the token is {shorten(token)}; expected a str")
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    escaped = (character if character in alphabet and character != "\n" else f"\\{ord(character)};" for character in token)
    return "".join(escaped) + "_"


def unescape_token(escaped_token: str) -> str:
    """Invert `escape_token`. A number that is not a code point becomes U+3013."""

    def unescape(match: re.Match[str]) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return _UNDEFINED

    trimmed = escaped_token.removesuffix("_")
    return _UNESCAPE_REGEX.sub(unescape, trimmed) if "\\" in trimmed else trimmed
