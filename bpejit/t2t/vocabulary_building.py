"""Count tokens, and build a subtoken vocabulary from their counts, in memory.

`bpejit.kernels.t2t.subtoken_tree` contains the kernels and explains the algorithm.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, lengths_of, matching, padded_text, starts_of
from bpejit.counting.pretoken_counter import PretokenCounter
from bpejit.errors import CorpusError, TrainingError, shorten
from bpejit.kernels.constants import MAX_TEXT_BYTES
from bpejit.kernels.t2t import subtoken_encoding as kernels, subtoken_tree
from bpejit.t2t import word_tokenizer
from bpejit.t2t.text_encoders import RESERVED_TOKENS, native_text
from bpejit.t2t.word_tokenizer import CODE_POINTS, ESCAPE_CHARS, escape_token
from bpejit.utf8 import code_points

_logger = logging.getLogger("bpejit.subword")

_BATCH_BYTES = 1 << 22

_BLOCK_SPANS = 1 << 15

MAX_CHARACTERS = 1 << 30
"""Maximum total number of characters of all distinct tokens, so that node numbers fit in 32 bits."""


def pack_strings(strings: Iterable[str]) -> tuple[Array, Array]:
    """Return the concatenated code points of many strings, uint32, and their starts, int64 [n + 1]."""
    strings = list(strings)
    lengths = lengths_of(strings)
    return code_points("".join(strings)).copy(), starts_of(lengths)


def alphabet_table(alphabet: Iterable[str]) -> Array:
    """Return a uint8 table over all code points that is 1 for those in the alphabet."""
    table = np.zeros(CODE_POINTS, np.uint8)
    table[[ord(character) for character in alphabet]] = 1
    return table


def sort_suffixes(pool: Array, remaining: Array) -> tuple[Array, Array]:
    """Sort all suffixes of the tokens. Equal suffixes are ordered by position.

    Parameters
    ----------
    pool : uint32 [n]
    remaining : int32 [n]
        Length of each suffix.

    Returns
    -------
    order, inverse : int32 [n]
        The suffix array and its inverse.

    Notes
    -----
    Prefix doubling, limited to suffixes that are still tied. The first round compares as many characters as fit in 63 bits. The
    rank of a suffix is the index of the first suffix of its group, so a group is refined without touching the others.
    """
    n = pool.size
    present = np.zeros(CODE_POINTS, np.int64)
    present[pool] = 1
    codes = np.cumsum(present)[pool]
    bits = max(int(codes.max()).bit_length(), 1)
    width = 63 // bits
    key = np.zeros(n, np.int64)
    for offset in range(width):
        key <<= bits
        if offset < n:
            key[: n - offset] |= np.where(remaining[: n - offset] > offset, codes[offset:], 0)
    rank = np.zeros(n, np.int64)
    tied = np.argsort(key)
    key = key[tied]
    places = np.arange(n)
    while tied.size:  # whole groups, in order, and the places of their suffixes among all
        begins = np.ones(tied.size + 1, bool)
        begins[1:-1] = key[1:] != key[:-1]
        rank[tied] = np.maximum.accumulate(np.where(begins[:-1], places, 0))
        again = (remaining[tied] > width) & ~(begins[:-1] & begins[1:])
        tied, places = tied[again], places[again]
        key = rank[tied] * (n + 1) + rank[tied + width]
        by_key = np.argsort(key)
        tied, key = tied[by_key], key[by_key]
        width *= 2
    order = np.argsort(rank, kind="stable").astype(np.int32)
    inverse = np.empty(n, np.int32)
    inverse[order] = np.arange(n, dtype=np.int32)
    return order, inverse


@lru_cache(maxsize=2)
def word_classes_of(by_lines: bool) -> tuple[Array, Array]:
    """Return the classes of code points and of single bytes. Newlines have a class of their own if `by_lines` is true."""
    class_of = np.frombuffer(bytearray(word_tokenizer.word_classes()), np.uint8)
    if by_lines:
        class_of[0x0A] = kernels.LINE_END
    byte_class = np.full(256, kernels.OTHER, np.uint8)
    byte_class[:0x80] = class_of[:0x80]
    return class_of, byte_class


def split_text(text: Array, stop: int, *, by_lines: bool) -> Iterator[tuple[int, Array, int]]:
    """Yield blocks of spans: the start of the first span, the ends (an array that is reused), and their number."""
    class_of, byte_class = word_classes_of(by_lines)
    ends = np.zeros(min(_BLOCK_SPANS, stop) + 2, np.uint32)
    state = np.array([0, -1], np.int64)
    first = 0
    while state[kernels.POSITION] < stop:
        n_ends = kernels.split_words(text, stop, class_of, byte_class, ends, state)
        last = int(ends[n_ends - 1]) if n_ends else first
        yield first, ends, n_ends
        first = last


def check_size(n_bytes: int) -> None:
    """Raise CorpusError if a text or line is too large for the kernels."""
    if n_bytes > MAX_TEXT_BYTES:
        raise CorpusError(
            f"a text or line has {n_bytes:,} bytes; expected at most {MAX_TEXT_BYTES:,}: insert line breaks between sentences"
        )


class TokenCounter:
    r"""A counter of tokens.

    Examples
    --------
    >>> counter = TokenCounter()
    >>> counter.add_lines(b"low lower\nlow, low")
    >>> dict(counter.counts())
    {', ': 1, 'low': 3, 'lower': 1}
    """

    def __init__(self) -> None:
        self._counter = PretokenCounter()
        self._others: Counter[str] = Counter()

    def add_lines(self, data: bytes | bytearray) -> None:
        """Count the tokens of each line of `data`. A byte that is not part of valid UTF-8 is a character of its own."""
        self._add(data, by_lines=True)

    def add_text(self, text: str) -> None:
        """Count the tokens of one text."""
        try:
            self._add(text.encode(), by_lines=False)
        except UnicodeEncodeError:  # lone surrogates
            self._others.update(word_tokenizer.encode(text))

    def add_texts(self, texts: Iterable[str | bytes], name: str = "texts") -> None:
        """Count the tokens of several texts, in batches; `name` is that of the argument, for messages."""
        batch: list[bytes] = []
        size = 0
        for index, item in enumerate(arguments.texts(name, texts)):
            text = native_text(item, f"{name}[{index}]")
            try:
                data = text.encode()
            except UnicodeEncodeError:
                data = b"\n"
            if b"\n" in data:  # here a newline is a character of the text
                self.add_text(text)
                continue
            batch.append(data)
            size += len(data) + 1
            if size > _BATCH_BYTES:
                self.add_lines(b"\n".join(batch))
                batch, size = [], 0
        self.add_lines(b"\n".join(batch))

    def _add(self, data: bytes | bytearray, *, by_lines: bool) -> None:
        check_size(len(data))
        text, stop = padded_text(data)
        for first, ends, n_ends in split_text(text, stop, by_lines=by_lines):
            kernels.drop_spaces(text, first, ends, n_ends, stop, by_lines)
            self._counter.add_spans(text, first, ends, n_ends)

    def counts(self) -> Counter[str]:
        """Return the count of each token, sorted by bytes."""
        found = self._counter.table().to_counts()
        counts = Counter({token.decode("utf-8", "surrogateescape"): count for token, count in found.items()})
        counts.update(self._others)
        return counts


@dataclass(frozen=True)
class Subtokens:
    """A vocabulary represented by nodes of the tree and their counts: the selected ones, and those of single characters.

    Parameters
    ----------
    size : int
        Size of the vocabulary, including the alphabet and the reserved tokens.
    nodes : int64 [n]
    counts : int64 [n]
    """

    size: int
    nodes: Array
    counts: Array


class SubtokenBuilder:
    """Build vocabularies from one table of token counts, for any number of values of `min_count`.

    Parameters
    ----------
    token_counts : mapping of str to int
    num_iterations : int
        Number of refinements for each value of `min_count`.
    reserved_tokens : list of str, optional
        Must start with RESERVED_TOKENS, which is the default, or be empty.
    max_subtoken_length : int, optional
        Subtokens have fewer characters than this.
    report : callable, optional
        Called after each refinement with the number of refinements so far, those for other values included.

    Attributes
    ----------
    alphabet : set of str
        The characters of the tokens, and the escape characters.
    reserved : list of str

    Raises
    ------
    CorpusError
        If there is no token.
    TrainingError
        If an argument is invalid, if the tokens have more than 2^30 characters, or if a count is not an integer or is negative.
    """

    def __init__(
        self,
        token_counts: Mapping[str, int],
        num_iterations: int,
        reserved_tokens: list[str] | None,
        max_subtoken_length: int | None,
        report: Callable[[int], None] | None = None,
    ) -> None:
        self._n_refinements = arguments.whole_number("num_iterations", num_iterations, error=TrainingError)
        self.reserved = _checked_reserved(reserved_tokens)
        if not isinstance(token_counts, Mapping):
            raise arguments.wrong_type("token_counts", token_counts, "a dict of str to int", "count the tokens first")
        if not token_counts:
            raise CorpusError(
                "the sample is empty: it contains no token; expected at least one: give some text, or increase the byte budget"
            )
        max_subtoken_length = arguments.optional_whole_number("max_subtoken_length", max_subtoken_length, error=TrainingError)
        self.alphabet = {character for token in (*token_counts, *self.reserved) for character in token} | ESCAPE_CHARS
        self._escaped = [escape_token(token, self.alphabet) for token in self.reserved]
        self._report = report
        self._counts = _checked_counts(token_counts)
        points, starts = pack_strings(token_counts)
        table = alphabet_table(self.alphabet)
        special = np.isin(points, [ord(character) for character in "\\_\n"]) | (table[points] == 0)
        capacity = points.size + starts.size + subtoken_tree.MAX_ESCAPE_LENGTH * int(np.count_nonzero(special))
        if capacity > MAX_CHARACTERS:
            raise TrainingError(
                f"the distinct tokens have {points.size:,} characters; expected at most about {MAX_CHARACTERS:,}: "
                "build from a sample (`byte_budget=`)"
            )
        pool = np.zeros(capacity, np.uint32)
        self._starts = np.zeros(starts.size, np.int64)
        subtoken_tree.escape_tokens(points, starts, table, pool, self._starts)
        self._pool = pool[: self._starts[-1]].copy()
        self._make_tree(max_subtoken_length)
        self._reserved_lengths = self._find_reserved()
        self._n_iterations = 0

    def _make_tree(self, max_subtoken_length: int | None) -> None:
        pool, n = self._pool, self._pool.size
        lengths = np.diff(self._starts)
        remaining = (np.repeat(self._starts[1:], lengths) - np.arange(n)).astype(np.int32)
        order, inverse = sort_suffixes(pool, remaining)
        prefixes = np.zeros(n, np.int32)
        subtoken_tree.common_prefixes(pool, order, inverse, remaining, prefixes)
        longest = int(lengths.max())
        if max_subtoken_length is not None:
            longest = min(longest, max_subtoken_length - 1)
        self._counts_nothing = longest < 1
        n_singles = np.unique(pool[order[prefixes == 0]]).size
        parent, depth, first = (np.zeros(2 * n + n_singles, np.int32) for _ in range(3))
        self._leaf = np.zeros(n, np.int32)
        stack = np.zeros(3 * (n + 1), np.int32)
        n_nodes = subtoken_tree.build_tree(order, prefixes, remaining, max(longest, 1), stack, parent, depth, first, self._leaf)
        self._parent, self._depth = parent[:n_nodes].copy(), depth[:n_nodes].copy()
        self._at = order[first[:n_nodes]]
        self._n_nodes = n_nodes

    def _find_reserved(self) -> Array:
        """Return the length of the longest reserved token at each position of the pool; an empty array if none occurs."""
        found = np.zeros(self._pool.size, np.int32)
        end = np.repeat(self._starts[1:], np.diff(self._starts))
        for token in self._escaped:
            if token:
                at = np.flatnonzero(self._pool == ord(token[0]))
                at = matching(self._pool, at[at + len(token) <= end[at]], map(ord, token))
                found[at] = np.maximum(found[at], len(token))
        return found if (found > 1).any() else found[:0].copy()

    def bisect(self, target: float, low: float, high: float) -> Subtokens:
        """Find the subtokens whose number is close to `target`, for a value of `min_count` from `low` to `high`."""
        middle = (low + high) // 2
        _logger.info("Trying min_count %d", middle)
        found = self.build(math.ceil(middle))
        if abs(found.size - target) * 100 < target or low >= high or middle < 2:
            return found
        deeper = self.bisect(target, middle + 1, high) if found.size > target else self.bisect(target, low, middle - 1)
        return deeper if abs(deeper.size - target) < abs(found.size - target) else found

    def build(self, min_count: int) -> Subtokens:
        """Find the subtokens for one value of `min_count`. Without refinements, they are the alphabet."""
        min_count = min(max(min_count, 1), np.iinfo(np.int64).max)
        weights = np.zeros(self._n_nodes, np.int64)
        remaining = np.zeros(self._n_nodes, np.int64)
        matched = np.ones(self._n_nodes, np.int32)
        n_selected = 0
        for iteration in range(self._n_refinements):
            _logger.info("Iteration %d", iteration)
            # The vocabulary built by an iteration contains the reserved tokens; the initial one, the alphabet, does not.
            reserved = self._reserved_lengths if iteration else self._reserved_lengths[:0]
            subtoken_tree.segment_tokens(self._starts, self._counts, self._leaf, matched, reserved, weights)
            if self._counts_nothing:
                weights[:] = 0
            n_selected = subtoken_tree.prune_tree(
                self._parent, self._depth, self._n_nodes, min_count, weights, remaining, matched
            )
            self._n_iterations += 1
            _logger.info("vocab_size = %d", len(self.reserved) + len(self.alphabet) + n_selected)
            if self._report is not None:
                self._report(self._n_iterations)
        nodes = np.flatnonzero((remaining >= min_count) | (self._depth == 1))
        return Subtokens(len(self.reserved) + len(self.alphabet) + n_selected, nodes, remaining[nodes])

    def strings(self, found: Subtokens) -> tuple[list[str], list[str]]:
        """Return the reserved tokens that texts are not encoded to, and the other strings of a vocabulary, in order of id."""
        text = self._pool.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
        at = self._at[found.nodes].tolist()
        lengths = self._depth[found.nodes].tolist()
        entries = [
            (count, text[start : start + length])
            for count, start, length in zip(found.counts.tolist(), at, lengths, strict=True)
        ]
        entries += [(0, character) for character in self.alphabet.difference(string for _, string in entries)]
        entries.sort(reverse=True)
        strings = [string for _, string in entries]
        return ([], [*self._escaped, *strings]) if self._n_refinements > 0 else (self.reserved, strings)


def checked_number(name: str, value: Any) -> float:
    """Return a number. The published code passes floats, such as 1e3."""
    number = value if isinstance(value, float) else arguments.whole_number(name, value, error=TrainingError)
    if not abs(number) < 1 << 63:
        raise TrainingError(f"{name} is {shorten(number)}; expected a number below 2^63: choose a smaller number")
    return number


def _checked_reserved(reserved_tokens: list[str] | None) -> list[str]:
    """Return reserved tokens, which start with RESERVED_TOKENS; by default these."""
    if isinstance(reserved_tokens, (str, bytes)) or not isinstance(reserved_tokens, (Iterable, type(None))):
        raise arguments.wrong_type("reserved_tokens", reserved_tokens, "a list of str", f"give {[*RESERVED_TOKENS, '...']}")
    reserved = list(RESERVED_TOKENS if reserved_tokens is None else reserved_tokens)
    for index, token in enumerate(reserved):
        if not isinstance(token, str):
            raise TrainingError(f"reserved token {index} is {shorten(token)}; expected a str: change it")
        if token != [*RESERVED_TOKENS, token][min(index, len(RESERVED_TOKENS))]:
            raise TrainingError(
                f"the reserved tokens are {shorten(reserved)}; expected {RESERVED_TOKENS} first: put these first, in this order"
            )
    return reserved


def _checked_counts(token_counts: Mapping[str, int]) -> Array:
    try:
        counts = np.fromiter((_whole(count) for count in token_counts.values()), np.int64, len(token_counts))
    except (TypeError, ValueError, OverflowError) as cause:
        raise TrainingError(
            f"the count of a token is not an integer below 2^63: {cause}; expected 0 or more: count the tokens again"
        ) from cause
    if (counts < 0).any():
        token = next(token for token, count in token_counts.items() if count < 0)
        raise TrainingError(
            f"the token {shorten(token)} has the count {shorten(token_counts[token])}; expected 0 or more: count the tokens "
            "again"
        )
    return counts


def _whole(count: int) -> int:
    if int(count) != count:
        raise ValueError(f"found {shorten(count)}")
    return int(count)
