"""Measures of texts and of ids."""

from __future__ import annotations

from collections.abc import Callable


def count_ids(ids: list[int], counts: list[int]) -> None:
    """Add the number of occurrences of each id to its count."""
    for number in ids:
        counts[number] += 1


def count_words(documents: list[bytes], kind_of: Callable[[str], int], n_scripts: int) -> tuple[list[int], list[int]]:
    """Return the number of words of each script, and the other amounts of the kernel.

    `kind_of` returns the script of a character; a lone surrogate stands for a byte that is not valid UTF-8.
    """
    texts = [data.decode("utf-8", "surrogateescape") for data in documents]
    scripts = [next((kind for kind in map(kind_of, word) if kind), 0) for text in texts for word in text.split()]
    characters = sum(byte & 0xC0 != 0x80 for data in documents for byte in data)
    borders = ["".join(texts)[:1], texts[-1][-1:] if texts else ""]
    ends = [int(character.strip() != "") for character in borders]
    return [scripts.count(kind) for kind in range(n_scripts)], [
        characters,
        *ends,
        *(scripts[:1] or [0]),
        *(scripts[-1:] or [0]),
    ]


def find_scripts(data: bytes, starts: list[int], ends: list[int], kind_of: Callable[[str], int]) -> list[int]:
    """Return the script of the character in which each token begins, or else of the one in which it ends."""
    found = []
    for start, end in zip(starts, ends, strict=True):
        at = start if data[start] & 0xC0 == 0x80 else end - 1
        first = next((first for first in range(at, max(at - 4, -1), -1) if data[first] & 0xC0 != 0x80), max(at - 3, 0))
        character = data[first : first + 4].decode("utf-8", "surrogateescape")[0]
        found.append(kind_of(character))
    return found
