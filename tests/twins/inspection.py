"""Measures of texts and of ids."""

from __future__ import annotations


def count_ids(ids: list[int], counts: list[int]) -> None:
    """Add the number of occurrences of each id to its count."""
    for number in ids:
        counts[number] += 1


def count_words(data: bytes) -> tuple[int, int, int, int]:
    """Return the characters and words of a text, and whether its first and its last character belong to a word.

    Bytes that are not valid UTF-8 belong to words, and count as characters unless they are continuation bytes.
    """
    text = data.decode("utf-8", "replace")
    characters = sum(byte & 0xC0 != 0x80 for byte in data)
    return characters, len(text.split()), int(text[:1].strip() != ""), int(text[-1:].strip() != "")
