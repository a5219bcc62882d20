"""Finding many strings in a text at once: special tokens, leftmost first, the longest of those that begin at one place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import AnyStr, Generic

import numpy as np

from bpejit.arrays import Array, ByteStrings, padded_text
from bpejit.kernels.encoding.records import SpecialTrie
from bpejit.kernels.splitting import spans as splitting
from bpejit.kernels.splitting import special_token_scan, special_token_trie

_FEW_BYTES = 1 << 12
"""Tokens of no more bytes in all are looked for by `re`, which takes less time to begin than a kernel."""

_SPANS_AT_ONCE = 1 << 10


class SpecialFinder:
    """Finds byte strings in text, in time linear in the text, whatever their number and length. Immutable.

    Parameters
    ----------
    tokens : iterable of bytes
        None is empty.

    Attributes
    ----------
    tokens : tuple of bytes
        Without repetitions, in the order given.
    longest : int
        Bytes of the longest; 0 if there are none.
    trie : SpecialTrie
    """

    def __init__(self, tokens: Iterable[bytes]) -> None:
        self.tokens = tuple(dict.fromkeys(tokens))
        self.longest = max(map(len, self.tokens), default=0)
        self.trie = make_trie(self.tokens)

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where the tokens of a text begin and end."""
        if not self.tokens:
            return
        text, n_bytes = padded_text(data)
        yield from self.next_spans(text, n_bytes, True, np.zeros(splitting.STATE_SIZE, dtype=np.int64))

    def next_spans(self, text: Array, stop: int, final: bool, state: Array) -> Iterator[tuple[int, int]]:
        """Yield the next tokens of a text that comes in pieces (see `kernels.special_tokens.find_specials`)."""
        if not self.tokens:
            return
        spans = np.empty(2 * _SPANS_AT_ONCE, dtype=np.int64)
        n = _SPANS_AT_ONCE
        while n == _SPANS_AT_ONCE:
            n = special_token_scan.find_specials(text, stop, final, self.trie, state, spans)
            yield from zip(spans[: 2 * n : 2].tolist(), spans[1 : 2 * n : 2].tolist(), strict=True)

    def reach(self, text: Array, first: int, last: int, stop: int) -> tuple[Array, int]:
        """Return how far the tokens reach that begin in `first:last`, and where more text is needed to decide.

        See `kernels.special_tokens.reach_specials`.
        """
        reach = np.zeros(max(min(last, stop) - first, 0) if self.tokens else 0, dtype=np.int64)
        if not reach.size:
            return reach, stop
        return reach, int(special_token_scan.reach_specials(text, first, min(last, stop), stop, self.trie, reach))

    def lonely_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the tokens in a text that are found there whatever stands before them: no other token overlaps them, other
        than one within them.
        """
        text, n_bytes = padded_text(data)
        reach, _ = self.reach(text, 0, n_bytes, n_bytes)
        begins = np.flatnonzero(reach)
        ends = reach[begins]
        # How many tokens lie on both sides of each place: those of one byte have none within them.
        spanned = np.zeros(n_bytes + 2, dtype=np.int64)
        np.add.at(spanned, begins + 1, 1)
        np.subtract.at(spanned, ends, 1)
        spanned = np.cumsum(spanned)
        lonely = (spanned[begins] == 0) & (spanned[ends] == 0)
        return list(zip(begins[lonely].tolist(), ends[lonely].tolist(), strict=True))

    def meets(self, data: bytes) -> bool:
        """Whether a token is in a text, or the text ends with the beginning of one."""
        text, n_bytes = padded_text(data)
        reach, hidden = self.reach(text, 0, n_bytes, n_bytes)
        return bool(reach.any()) or hidden < n_bytes


class StringFinder(Generic[AnyStr]):
    """Finds strings, of characters or of bytes, with what is the quickest for their number.

    Parameters
    ----------
    tokens : iterable of str or bytes
        All of the kind of the texts, and none empty.
    """

    def __init__(self, tokens: Iterable[AnyStr]) -> None:
        longest_first = sorted(set(tokens), key=len, reverse=True)
        self._regex: re.Pattern[AnyStr] | None = None
        self._finder: SpecialFinder | None = None
        if sum(map(len, longest_first)) > _FEW_BYTES:
            self._finder = SpecialFinder(map(_as_bytes, longest_first))
        elif longest_first:
            bar = "|" if isinstance(longest_first[0], str) else b"|"
            self._regex = re.compile(bar.join(map(re.escape, longest_first)))  # type: ignore[arg-type, call-overload]

    def spans(self, text: AnyStr, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield where the tokens in `text[start:end]` begin and end in `text`."""
        end = len(text) if end is None else end
        if self._regex is not None:
            yield from (found.span() for found in self._regex.finditer(text, start, end))
        elif self._finder is not None:
            data = _as_bytes(text[start:end])
            # A character begins with each byte that does not go on with one.
            wide = isinstance(text, str) and len(data) != end - start
            places = np.flatnonzero((np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80) if wide else None
            for begin, after in self._finder.spans(data):
                if places is not None:
                    begin, after = np.searchsorted(places, [begin, after]).tolist()
                yield start + begin, start + after


def _as_bytes(text: str | bytes) -> bytes:
    # Not what escapes stand for: two of them side by side are not the character that their bytes would make.
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def make_trie(tokens: tuple[bytes, ...]) -> SpecialTrie:
    """Return the automaton that finds some byte strings, none empty and none there twice."""
    strings = ByteStrings.from_list(sorted(tokens))
    room = int(strings.pool.size)
    roots = np.full(256, special_token_trie.ROOT, dtype=np.int32)
    nodes = np.zeros((room + 1) * special_token_trie.NODE_WORDS, dtype=np.int32)
    labels = np.empty(room, dtype=np.uint8)
    found = np.empty(room * special_token_trie.FOUND_WORDS, dtype=np.int32)
    if tokens:
        parents = np.empty(room, dtype=np.int32)
        active, above = (np.empty(len(tokens), dtype=np.int32) for _ in range(2))
        n = int(special_token_trie.build_trie(strings.pool, strings.starts, active, above, roots, nodes, labels, parents))
        nodes = nodes[: (n + 1) * special_token_trie.NODE_WORDS].copy()
        labels = labels[:n].copy()
        n = int(special_token_trie.link_trie(roots, labels, parents, nodes, found))
        found = found[: n * special_token_trie.FOUND_WORDS].copy()
    return SpecialTrie(_make_needles(tokens), roots, nodes, labels, found)


def _make_needles(tokens: tuple[bytes, ...]) -> Array:
    """What the beginnings of all special tokens have in common (see `SpecialTrie`)."""
    if len({token[0] for token in tokens}) != 1:
        return np.zeros(0, dtype=np.uint64)
    seconds = {token[1:2] for token in tokens}
    second = min(seconds)
    shared = len(seconds) == 1 and second != b""
    fills = (tokens[0][0], second[0] if shared else 0, 0xFF if shared else 0)
    return np.array([byte * 0x0101_0101_0101_0101 for byte in fills], dtype=np.uint64)
