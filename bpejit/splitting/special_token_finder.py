"""Find many strings in a text at once, such as special tokens: leftmost first, and the longest of those at one position."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from typing import AnyStr, Generic

import numpy as np

from bpejit.arrays import Array, ByteStrings, padded_text
from bpejit.kernels.splitting import spans as splitting, special_token_scan, special_token_trie
from bpejit.kernels.splitting.automaton_arrays import SpecialTrie

_FEW_BYTES = 1 << 12
"""Up to this total size of the strings `re` is used, which starts faster than a kernel."""

_SPANS_AT_ONCE = 1 << 10

_Spans = Iterator[tuple[int, int]]
"""The start and the end of each token that is found."""


class SpecialTokenFinder:
    """Finds byte strings in text. Immutable.

    The time is linear in the text, for any number and length of the strings.

    Parameters
    ----------
    tokens : iterable of bytes
        Not empty strings.

    Attributes
    ----------
    tokens : tuple of bytes
        Without repetitions, in the order given.
    longest : int
        Length of the longest token; 0 if there are none.
    trie : SpecialTrie
    """

    def __init__(self, tokens: Iterable[bytes]) -> None:
        self.tokens = tuple(dict.fromkeys(tokens))
        self.longest = max(map(len, self.tokens), default=0)
        self.trie = make_trie(self.tokens)

    def spans(self, data: bytes) -> _Spans:
        """Yield start and end of each token in a text."""
        if not self.tokens:
            return
        text, n_bytes = padded_text(data)
        yield from self.next_spans(text, n_bytes, True, np.zeros(splitting.STATE_SIZE, np.int64))

    def next_spans(self, text: Array, stop: int, final: bool, state: Array) -> _Spans:
        """Yield the next tokens of a text that arrives in pieces (see `special_token_scan.find_specials`)."""
        if not self.tokens:
            return
        spans = np.empty(2 * _SPANS_AT_ONCE, np.int64)
        n = _SPANS_AT_ONCE
        while n == _SPANS_AT_ONCE:
            n = special_token_scan.find_specials(text, stop, final, self.trie, state, spans)
            yield from zip(spans[: 2 * n : 2].tolist(), spans[1 : 2 * n : 2].tolist(), strict=True)

    def reach(self, text: Array, first: int, last: int, stop: int) -> tuple[Array, int]:
        """Return the ends of the tokens that start in `first:last`, and the first start that needs more text to decide.

        See `special_token_scan.reach_specials`.
        """
        reach = np.zeros(max(min(last, stop) - first, 0) if self.tokens else 0, np.int64)
        if not reach.size:
            return reach, stop
        return reach, int(special_token_scan.reach_specials(text, first, min(last, stop), stop, self.trie, reach))

    def isolated_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the tokens that are found independently of the text before them.

        No other token overlaps such a token, except within it.
        """
        text, n_bytes = padded_text(data)
        reach, _ = self.reach(text, 0, n_bytes, n_bytes)
        begins = np.flatnonzero(reach)
        ends = reach[begins]
        # The number of tokens with bytes both before and after each position.
        spanned = np.zeros(n_bytes + 2, np.int64)
        np.add.at(spanned, begins + 1, 1)
        np.subtract.at(spanned, ends, 1)
        spanned = np.cumsum(spanned)
        lonely = (spanned[begins] == 0) & (spanned[ends] == 0)
        return list(zip(begins[lonely].tolist(), ends[lonely].tolist(), strict=True))

    def find_end(self, text: Array, lo: int, hi: int, stop: int, among: Container[bytes] | None = None) -> int:
        """Return the first position in `lo:hi + 1` where a token certainly ends, whatever the text around it, or -1.

        Parameters
        ----------
        text : uint8 [at least stop]
        lo, hi : int
        stop : int
            The end of the bytes that are available.
        among : container of bytes, optional
            The tokens that count; by default all.
        """
        if not self.longest:
            return -1
        base = max(0, lo - 2 * self.longest)
        data = text[base : min(stop, hi + self.longest)].tobytes()
        for begin, end in self.isolated_spans(data):
            # It is certain to be found, unless a token that overlaps it needs more text than there is.
            is_certain = lo <= base + end <= hi and base + end + self.longest <= stop
            if is_certain and (among is None or data[begin:end] in among):
                return base + end
        return -1

    def may_contain(self, data: bytes) -> bool:
        """Return True if a text contains a token or ends with a prefix of one."""
        text, n_bytes = padded_text(data)
        reach, hidden = self.reach(text, 0, n_bytes, n_bytes)
        return bool(reach.any()) or hidden < n_bytes


class StringFinder(Generic[AnyStr]):
    """Finds strings that are not empty, as `str` or `bytes`, by the fastest method for their number."""

    def __init__(self, tokens: Iterable[AnyStr]) -> None:
        self._longest_first: list[AnyStr] = sorted(set(tokens), key=len, reverse=True)

    @cached_property
    def _search(self) -> re.Pattern[AnyStr] | SpecialTokenFinder:
        """What finds the strings, made when a text is searched; many are never needed."""
        if sum(map(len, self._longest_first)) > _FEW_BYTES:
            return SpecialTokenFinder(map(_as_bytes, self._longest_first))
        bar = "|" if isinstance(self._longest_first[0], str) else b"|"
        return re.compile(bar.join(map(re.escape, self._longest_first)))  # type: ignore[arg-type, call-overload, no-any-return]

    def spans(self, text: AnyStr, start: int = 0, end: int | None = None) -> _Spans:
        """Yield start and end, as indices of `text`, of each token in `text[start:end]`."""
        end = len(text) if end is None else end
        if not self._longest_first:
            return
        if not isinstance(self._search, SpecialTokenFinder):
            yield from (found.span() for found in self._search.finditer(text, start, end))
        else:
            data = _as_bytes(text[start:end])
            # A character starts at each byte that is not a continuation byte.
            non_ascii = isinstance(text, str) and len(data) != end - start
            starts = np.flatnonzero((np.frombuffer(data, np.uint8) & 0xC0) != 0x80) if non_ascii else None
            for begin, after in self._search.spans(data):
                if starts is not None:
                    begin, after = np.searchsorted(starts, [begin, after]).tolist()
                yield start + begin, start + after


def _as_bytes(text: str | bytes) -> bytes:
    # Not "surrogateescape", with which two adjacent escapes could form the bytes of a character.
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def make_trie(tokens: tuple[bytes, ...]) -> SpecialTrie:
    """Return the automaton that finds distinct, non-empty byte strings."""
    strings = ByteStrings.from_list(sorted(tokens))
    capacity = int(strings.pool.size)
    roots = np.full(256, special_token_trie.ROOT, np.int32)
    nodes = np.zeros((capacity + 1) * special_token_trie.NODE_WORDS, np.int32)
    labels = np.empty(capacity, np.uint8)
    found = np.empty(capacity * special_token_trie.FOUND_WORDS, np.int32)
    if tokens:
        parents = np.empty(capacity, np.int32)
        active, above = (np.empty(len(tokens), np.int32) for _ in range(2))
        n = int(special_token_trie.build_trie(strings.pool, strings.starts, active, above, roots, nodes, labels, parents))
        nodes = nodes[: (n + 1) * special_token_trie.NODE_WORDS].copy()
        labels = labels[:n].copy()
        n = int(special_token_trie.link_trie(roots, labels, parents, nodes, found))
        found = found[: n * special_token_trie.FOUND_WORDS].copy()
    return SpecialTrie(_make_needles(tokens), roots, nodes, labels, found)


def _make_needles(tokens: tuple[bytes, ...]) -> Array:
    """Return the prefix that all special tokens share, for a scan by blocks (see `SpecialTrie`)."""
    if len({token[0] for token in tokens}) != 1:
        return np.zeros(0, np.uint64)
    seconds = {token[1:2] for token in tokens}
    second = min(seconds)
    shared = len(seconds) == 1 and second != b""
    fills = (tokens[0][0], second[0] if shared else 0, 0xFF if shared else 0)
    return np.array([byte * 0x0101_0101_0101_0101 for byte in fills], np.uint64)
