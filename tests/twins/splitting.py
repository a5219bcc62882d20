"""Special tokens and split patterns: a text becomes pre-tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import regex

from bpejit.kernels.constants import SPECIAL_FLAG


def find_specials(data: bytes, special_tokens: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each special token: leftmost first, and the longest of those at one position."""
    longest_first = sorted(special_tokens, key=len, reverse=True)
    for match in re.finditer(b"|".join(map(re.escape, longest_first)), data):
        if match[0]:
            yield match.span()


def build_trie(tokens: list[bytes]) -> list[bytes]:
    """Return the nodes of a trie: the prefixes of all tokens, sorted by length."""
    return sorted({token[:size] for token in tokens for size in range(1, len(token) + 1)}, key=lambda node: (len(node), node))


def link_trie(tokens: list[bytes]) -> dict[bytes, tuple[list[tuple[int, int]], bytes, bytes, int]]:
    """Return the links of each node of a trie.

    These are the spans of the tokens that are final if the search leaves the trie at the node, and the remaining node; the
    longest proper suffix that is a node; and the length of the longest token that is a suffix.
    """
    nodes = {b"", *build_trie(tokens)}
    links = {}
    for node in nodes - {b""}:
        found = []
        position = 0
        while position == 0 or node[position:] not in nodes:
            size = max((len(token) for token in tokens if node.startswith(token, position)), default=0)
            found += [(position, position + size)] if size else []
            position += size or 1
        suffix = next(node[start:] for start in range(1, len(node) + 1) if node[start:] in nodes)
        links[node] = found, node[position:], suffix, max((len(token) for token in tokens if node.endswith(token)), default=0)
    return links


def reach_specials(data: bytes, first: int, last: int, tokens: list[bytes]) -> tuple[list[int], int]:
    """Return the last end of the tokens that start at each position, and the first start that further text may complete.

    Of tokens with the same end, only the longest counts.
    """
    reach = [0] * (last - first)
    for end in range(first + 1, len(data) + 1):
        size = max((len(token) for token in tokens if data.endswith(token, first, end)), default=0)
        if size and end - size < last:
            reach[end - size - first] = end
    hidden = (
        start
        for start in range(first, last)
        if any(len(token) > len(data) - start and token.startswith(data[start:]) for token in tokens)
    )
    return reach, next(hidden, len(data))


def split_piece(text: str, pattern: regex.Pattern[str]) -> Iterator[str]:
    """Yield the matches of a pattern and the text between them."""
    position = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        if start < end:
            yield text[position:start]
            yield text[start:end]
            position = end
    yield text[position:]


def split_ordinary(data: bytes, patterns: Iterable[regex.Pattern[str]]) -> Iterator[int]:
    """Yield the ends of the pre-tokens of a text without special tokens; each pattern splits the pieces of the previous one."""
    pieces = [data.decode("utf-8", "surrogateescape")]
    for pattern in patterns:
        pieces = [part for piece in pieces for part in split_piece(piece, pattern)]
    end = 0
    for piece in pieces:
        if piece:
            end += len(piece.encode("utf-8", "surrogateescape"))
            yield end


def split_spans(
    data: bytes, pattern: regex.Pattern[str] | Iterable[regex.Pattern[str]], special_tokens: list[bytes]
) -> list[int]:
    """Return the ends of all spans of a whole text; the ends of special tokens have the flag."""
    patterns = [pattern] if isinstance(pattern, regex.Pattern) else list(pattern)
    ends: list[int] = []
    position = 0
    for start, end in [*find_specials(data, special_tokens), (len(data), 0)]:
        ends += [position + offset for offset in split_ordinary(data[position:start], patterns)]
        if end:
            ends.append(end | SPECIAL_FLAG)
        position = end
    return ends


def split_adjacent(
    documents: list[bytes], patterns: regex.Pattern[str] | Iterable[regex.Pattern[str]], special_tokens: list[bytes]
) -> list[int]:
    """Return the ends of all spans of adjacent documents, each split by itself."""
    ends: list[int] = []
    start = 0
    for data in documents:
        ends += [start + end for end in split_spans(data, patterns, special_tokens)]
        start += len(data)
    return ends


def shift_state(state: list[int], by: int) -> list[int]:
    """Subtract `by` from all fields that are positions; fields that are 0 are unset and stay 0."""
    is_position = [True, False, True, True, True, True, True, False, False, True, False]
    return [max(value - by, 0) if moves else value for value, moves in zip(state, is_position, strict=True)]


def find_cut(
    data: bytes, lo: int, hi: int, class_of: Sequence[int], safe: Callable[[int, int], bool], special_tokens: list[bytes]
) -> int:
    """Return the first position between a safe pair of characters that no special token spans.

    Special tokens that further text may complete count, too.
    """
    longest = max(map(len, special_tokens), default=0)
    position = max(0, lo - longest - 4)
    while position < min(max(0, lo - longest - 4) + 3, len(data)) and 0x80 <= data[position] < 0xC0:
        position += 1
    before = None
    for character in data[position:].decode("utf-8", "surrogateescape"):
        width = next(
            width for width, limit in ((1, 0xC2), (2, 0xE0), (3, 0xF0), (4, 0xF5), (1, 0x100)) if data[position] < limit
        )
        if position > hi or position + width > len(data):
            break
        spanned = any(
            start <= position < start + len(token) and token.startswith(data[start : start + len(token)])
            for token in special_tokens
            for start in range(position + 1)
        )
        after = class_of[ord(character)]
        if position >= lo and before is not None and safe(before, after) and not spanned:
            return position
        position += len(character.encode("utf-8", "surrogateescape"))
        before = after
    return -1
