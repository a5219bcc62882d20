"""Reading Python's objects: strings, and lists of ids."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise


def make_lists(ids: list[int], starts: list[int]) -> list[list[int]]:
    """Return the ids between adjacent starts as lists."""
    return [ids[start:stop] for start, stop in pairwise(starts)]


def encode_string(given: object, encode: Callable[[str], list[int]], n_bytes: int, id_limit: int) -> list[int] | None:
    """Return the ids of a string, or None if it is longer than `n_bytes`, or has an id from `id_limit` on."""
    if type(given) is not str or len(given) > n_bytes:
        return None
    data = encode_string_part(given, 0, len(given))
    ids = encode(given)
    return ids if len(data) <= n_bytes and max(ids, default=-1) < id_limit else None


def join_texts(texts: list[object], longest: int, room: int, separator: bytes) -> list[bytes]:
    """Return the UTF-8 of the first texts, each followed by a separator, up to one that is longer or may not fit."""
    joined: list[bytes] = []
    for text in texts:
        if type(text) not in (str, bytes) or len(text) > longest:  # type: ignore[arg-type]
            break
        width = 1 if isinstance(text, bytes) or text.isascii() else min(4, 2 + (max(text) > "\xff") + (max(text) > "\uffff"))  # type: ignore[attr-defined, type-var]
        if sum(map(len, joined)) + width * len(text) + len(separator) > room:  # type: ignore[arg-type]
            break
        data = text if isinstance(text, bytes) else encode_string_part(text, 0, len(text))  # type: ignore[arg-type]
        joined.append(data + separator)
    return joined


def encode_string_part(text: str, first: int, last: int) -> bytes:
    """Return the UTF-8 bytes of a part of a string; a surrogate that is not one of a pair becomes U+FFFD."""
    return text[first:last].encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
