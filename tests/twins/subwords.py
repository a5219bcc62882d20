"""Tensor2Tensor's subwords: building a vocabulary, and encoding by the longest match."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container
from itertools import groupby, pairwise

ESCAPE_CHARACTERS = set("\\_u;0123456789")


def is_word_character(character: str) -> bool:
    """Return True for letters and digits, as Python's Unicode tables define them."""
    return unicodedata.category(character)[0] in "LN"


def split_words(text: str) -> list[str]:
    """Split a text into runs of letters and digits and runs of other characters."""
    return ["".join(run) for _, run in groupby(text, key=is_word_character)]


def drop_spaces(words: list[str]) -> list[str]:
    """Drop single spaces between two words. `join_words` restores them."""
    return [word for i, word in enumerate(words) if word != " " or i in (0, len(words) - 1)]


def join_words(tokens: list[str]) -> str:
    """Invert `split_words` and `drop_spaces`."""
    text = ""
    for before, token in pairwise(["", *tokens]):
        if before and is_word_character(before[0]) and is_word_character(token[0]):
            text += " "
        text += token
    return text


def escape_tokens(tokens: list[str], alphabet: set[str]) -> list[str]:
    """Escape characters outside the alphabet, newlines and underscores, and append an underscore."""
    escaped = []
    for token in tokens:
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped.append("".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in token) + "_")
    return escaped


def unescape_token(escaped: str) -> str:
    """Unescape one token. A number that is not a code point becomes U+3013."""

    def unescape(match: re.Match[str]) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return "\u3013"

    return re.sub(r"\\u|\\\\|\\([0-9]+);", unescape, escaped.removesuffix("_"))


def segment(escaped: str, subtokens: Container[str], longest: int) -> list[str]:
    """Split an escaped token by greedy longest match from the left."""
    pieces = []
    start = 0
    while start < len(escaped):
        for end in range(min(len(escaped), start + longest), start, -1):
            if escaped[start:end] in subtokens:
                break
        else:
            raise ValueError(f"cannot write {escaped!r}")
        pieces.append(escaped[start:end])
        start = end
    return pieces


def segment_tokens(
    tokens: dict[str, int], subtokens: Container[str], longest: int, max_subtoken_length: int | None = None
) -> dict[str, int]:
    """Count all substrings that start at a subtoken boundary. `max_subtoken_length` is exclusive, as in the published code."""
    counts: dict[str, int] = {}
    for escaped, count in tokens.items():
        start = 0
        for piece in segment(escaped, subtokens, longest):
            last = len(escaped) + 1
            if max_subtoken_length is not None:
                last = min(last, start + max_subtoken_length)
            for end in range(start + 1, last):
                string = escaped[start:end]
                counts[string] = counts.get(string, 0) + count
            start += len(piece)
    return counts


def prune_tree(counts: dict[str, int], min_count: int) -> dict[str, int]:
    """Select frequent strings, longest first, and subtract their counts from their prefixes. Modifies `counts`."""
    selected = {}
    by_length: dict[int, list[str]] = {}
    for string in counts:
        by_length.setdefault(len(string), []).append(string)
    for length in sorted(by_length, reverse=True):
        for string in by_length[length]:
            count = counts[string]
            if count >= min_count:
                selected[string] = count
                for end in range(1, length):
                    counts[string[:end]] -= count
    return selected


def common(a: str, b: str) -> str:
    """Return the longest common prefix."""
    return a[: next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))]


def common_prefixes(suffixes: list[str]) -> list[int]:
    """Return the length of the common prefix of each suffix and its predecessor."""
    return [len(common(*pair)) for pair in pairwise(["", *suffixes])]


def build_tree(suffixes: list[str], longest: int) -> set[str]:
    """Return the strings that need a node: first characters, suffixes, and common prefixes of two suffixes."""
    cut = sorted(suffix[:longest] for suffix in suffixes)
    return {suffix[0] for suffix in cut} | set(cut) | {common(*pair) for pair in pairwise(cut)} - {""}


def build_subtokens(
    token_counts: dict[str, int],
    min_count: int,
    num_iterations: int,
    reserved: list[str],
    max_subtoken_length: int | None = None,
) -> list[str]:
    """Return the vocabulary in order of id. Without iterations, the alphabet is in descending order."""
    alphabet = {character for token in [*token_counts, *reserved] for character in token} | ESCAPE_CHARACTERS
    escaped = dict(zip(escape_tokens(list(token_counts), alphabet), token_counts.values(), strict=True))
    subtokens = sorted(alphabet, reverse=True)
    vocabulary = [*reserved, *subtokens]
    reserved = escape_tokens(reserved, alphabet)
    for _ in range(num_iterations):
        known = set(subtokens)
        counts = segment_tokens(escaped, known, max(map(len, known)), max_subtoken_length)
        selected = prune_tree(counts, max(min_count, 1))
        entries = [(count, string) for string, count in selected.items() if string not in alphabet]
        entries += [(counts.get(character, 0), character) for character in alphabet]
        subtokens = vocabulary = [*reserved, *(string for _, string in sorted(entries, reverse=True))]
    return vocabulary


def bisect_subtokens(
    token_counts: dict[str, int],
    target: int,
    low: int,
    high: int,
    reserved: list[str],
    max_subtoken_length: int | None = None,
    num_iterations: int = 4,
) -> list[str]:
    """Return the vocabulary whose size is closest to the target."""
    middle = (low + high) // 2
    found = build_subtokens(token_counts, middle, num_iterations, reserved, max_subtoken_length)
    if abs(len(found) - target) * 100 < target or low >= high or middle < 2:
        return found
    low, high = (middle + 1, high) if len(found) > target else (low, middle - 1)
    deeper = bisect_subtokens(token_counts, target, low, high, reserved, max_subtoken_length, num_iterations)
    return deeper if abs(len(deeper) - target) < abs(len(found) - target) else found


def build_edges(vocabulary: list[str]) -> dict[str, int]:
    """Return the id of each subtoken; of equal ones, the last."""
    return {string: number for number, string in enumerate(vocabulary) if string}


def encode_words(text: str, vocabulary: list[str], alphabet: set[str], cache: dict[str, list[int]] | None = None) -> list[int]:
    """Return the ids of a text; `cache`, which does not affect results, stores the ids of tokens."""
    numbers = build_edges(vocabulary)
    return encode_split(drop_spaces(split_words(text)), numbers, max(map(len, numbers)), alphabet, cache)


def encode_line(given: object, n_bytes: int, encode: Callable[[str], list[int] | None]) -> list[int] | None:
    """Return the ids of a string, or None if it is longer than `n_bytes`, may have lone surrogates, or has no ids."""
    if type(given) is not str or "\ufffd" in given or len(given.encode("utf-8", "replace")) > n_bytes:
        return None
    return None if any("\ud800" <= character <= "\udfff" for character in given) else encode(given)


def encode_split(
    tokens: list[str], numbers: dict[str, int], longest: int, alphabet: set[str], cache: dict[str, list[int]] | None
) -> list[int]:
    """Return the ids of tokens."""
    ids = []
    for token in tokens:
        found = None if cache is None else cache.get(token)
        if found is None:
            (escaped,) = escape_tokens([token], alphabet)
            found = [numbers[piece] for piece in segment(escaped, numbers, longest)]
            if cache is not None:
                cache[token] = found
        ids += found
    return ids


def decode_words(ids: list[int], vocabulary: list[str]) -> str:
    """Return the text of ids."""
    escaped = "".join(vocabulary[number] for number in ids).split("_")
    return join_words([token for piece in escaped if piece and (token := unescape_token(piece + "_"))])
