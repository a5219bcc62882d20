"""Convert strings to UTF-8, whole or in slices."""

from __future__ import annotations

from collections.abc import Iterator

STRING_SLICE = 1 << 14
"""Characters of a string that are converted at a time, so that a long string needs no second copy."""


def encode_utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a text; a lone surrogate becomes U+FFFD, as in tiktoken."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Via UTF-16, so that two adjacent halves of a surrogate pair become the character that they represent.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def encode_slices(text: str) -> Iterator[bytes]:
    """Yield the UTF-8 bytes of a text, slice by slice; no slice ends between the halves of a surrogate pair."""
    start = 0
    while start < len(text):
        stop = min(start + STRING_SLICE, len(text))
        if stop < len(text) and is_high_surrogate(text[stop - 1]):
            stop -= 1
        yield encode_utf8(text[start:stop])
        start = stop


def is_high_surrogate(character: str) -> bool:
    """Return True if a character is the first half of a surrogate pair."""
    return "\ud800" <= character <= "\udbff"
