"""Symbols: training begins with characters, or with bytes, of which the last one of a word may be marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from twins.training import BOUNDARY, Cell, merge_some

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

Words = list[tuple[str, int]]
"""Words, and how often each occurs. Bytes that are not UTF-8 are escaped by `surrogateescape`."""


def split_words(pretokens: Words, *, by_space: bool, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the words of pre-tokens: what is between white space, or pre-tokens that begin with a prefix."""
    for pretoken, count in pretokens:
        if count > 0 and pretoken:
            text = pretoken if pretoken.startswith(prefix) else prefix + pretoken
            parts = "".join(" " if one in WHITE_SPACE else one for one in text).split(" ") if by_space else [text]
            yield from ((part, count) for part in parts if part)


def is_character(text: str) -> bool:
    """Return False for a byte that is not UTF-8."""
    return not "\udc80" <= text <= "\udcff"


def count_characters(words: Words) -> tuple[Counter[str], set[str]]:
    """Return the number of each character, and those at the end of a word."""
    counts: Counter[str] = Counter()
    for word, count in words:
        for character in word:
            counts[character] += count
    return counts, {word[-1] for word, _ in words}


def fill_symbol_cells(words: Words, symbols: dict[str, int], at_end: dict[str, int]) -> list[Cell]:
    """Return a cell for each symbol of words of at least two; other characters are left out, and have no mark."""
    cells = [BOUNDARY]
    for word, count in words:
        last = len(word) - 1
        ids = [at_end.get(one, symbols[one]) if at == last else symbols[one] for at, one in enumerate(word) if one in symbols]
        if len(ids) > 1:
            cells += [(count, symbol) for symbol in ids]
            cells.append(BOUNDARY)
    return cells


def choose_alphabet(counts: Counter[str], limit: int | None, coverage: float | None) -> list[str]:
    """Return the most frequent characters: so many, or so many that their share of the text reaches the coverage."""
    ordered = sorted((one for one in counts if is_character(one)), key=lambda one: (-counts[one], one))
    total = sum(counts[one] for one in ordered)
    kept: list[str] = []
    for character in ordered[:limit]:
        if coverage is not None and sum(counts[one] for one in kept) >= coverage * total:
            break
        kept.append(character)
    return sorted(kept)


def learn_symbol_merges(
    words: Words,
    alphabet: Sequence[str],
    marked: Sequence[str],
    suffix: str,
    n_merges: int,
    rule: str = "smallest-ids",
    longest: int | None = None,
) -> list[tuple[str, str, int]]:
    """Learn merges of symbols.

    `alphabet` and `marked` are the characters of the symbols without and with the suffix, in the order of their ids. Pairs with
    more than `longest` characters, without the suffix, are not merged.
    """
    symbols = {one: number for number, one in enumerate(alphabet)}
    at_end = {one: len(symbols) + number for number, one in enumerate(marked)}
    spelled: list[tuple[list[int], int]] = []
    word: list[int] = []
    weight = 0
    for count, symbol in fill_symbol_cells(words, symbols, at_end)[1:]:
        if symbol is None:
            spelled.append((word, weight))
            word = []
        else:
            word, weight = [*word, symbol], count
    # The sizes of the tokens are their characters; ids alone decide between equally frequent pairs.
    sizes = [b"-" for _ in (*alphabet, *marked)]
    learned = merge_some(spelled, sizes, len(sizes) + n_merges, rule, max_bytes=longest)
    tokens = [*alphabet, *(one + suffix for one in marked)]
    merges = []
    for left, right, count in learned:
        merges.append((tokens[left], tokens[right], count))
        tokens.append(tokens[left] + tokens[right])
    return merges
