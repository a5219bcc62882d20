"""Split text into pre-tokens with a compiled split pattern and special tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.constants import MAX_TEXT_BYTES, POSITION_MASK, SPECIAL_FLAG, STRIDE
from bpejit.kernels.splitting import spans, special_token_scan
from bpejit.kernels.splitting.spans import split_adjacent
from bpejit.splitting.automaton import SEPARATOR, SeparatedAutomaton, make_automaton, separate
from bpejit.splitting.pattern import SplitPattern
from bpejit.splitting.pattern_cache import compile_pattern
from bpejit.splitting.presets import Pattern
from bpejit.splitting.special_token_finder import SpecialTokenFinder
from bpejit.splitting.text_limits import REGEX_TIMEOUT, TextLimits, text_limits
from bpejit.utf8 import widths

_BLOCK_SPANS = 1 << 16
"""Number of spans that are found at a time; the text and its ends stay in the cache until they are used."""


class Splitter:
    """Splits text into pre-tokens. Immutable; threads may share one.

    Parameters
    ----------
    pattern : SplitPattern, str, or tuple of str
        A compiled pattern, the name of a preset, a regular expression, or a sequence of regular expressions.
    special_tokens : iterable of bytes
        Found before the pattern is applied: leftmost first, and the longest of those at one position.
    unicode : str, optional
        The version of Unicode for a pattern that is not compiled yet (see `compile_pattern`).
    regex_timeout : float, optional
        Seconds of processor time for one MB of text in the `regex` package (see `text_limits`); None for no limit.

    Attributes
    ----------
    pattern : SplitPattern
    special_tokens : tuple of bytes
        Without repetitions, in the order given.
    finder : SpecialTokenFinder
        Finds the special tokens.
    automaton : SplitAutomaton or None
        The arrays for the kernels; None if the pattern runs through the `regex` package.
    addresses : int64 [26]
        The addresses of these arrays (see `kernels.splitting.automaton_arrays`); empty if there are none.
    """

    def __init__(
        self,
        pattern: SplitPattern | Pattern,
        special_tokens: Iterable[bytes] = (),
        *,
        unicode: str | None = None,
        regex_timeout: float | None = REGEX_TIMEOUT,
    ) -> None:
        self._regex_timeout = regex_timeout
        self.pattern = pattern if isinstance(pattern, SplitPattern) else compile_pattern(pattern, unicode=unicode)
        special_tokens = tuple(special_tokens)
        if b"" in special_tokens:
            raise ValueError("a special token is empty; expected at least one byte: remove it")
        self.finder = SpecialTokenFinder(special_tokens)
        self.special_tokens = self.finder.tokens
        self.automaton = make_automaton(self.pattern, self.finder)
        self.addresses = addresses_of(self.automaton or ())

    @cached_property
    def separated(self) -> SeparatedAutomaton | None:
        """The automaton for several texts with separators between them, None if there is none."""
        if self.pattern.tables is None or self.automaton is None or any(SEPARATOR in token for token in self.special_tokens):
            return None
        return separate(self.automaton, self.pattern.tables)

    def new_state(self) -> Array:
        """Return the state of `split_spans` at the start of a text, at position 0."""
        return np.zeros(spans.STATE_SIZE, np.int64)

    def find_cut(self, text: Array, lo: int, hi: int, stop: int) -> int:
        """Return the first position in `lo:hi + 1` where the text may be cut, or -1 (see the kernel of this name).

        A pattern that runs through the `regex` package is not analyzed; the only safe cuts are then after special tokens.
        """
        if self.automaton is None:
            return self.finder.find_end(text, lo, hi, stop)
        first = max(0, lo - self.finder.longest - 4)
        reached = self.finder.reach(text, first, hi + 1, stop)
        return int(special_token_scan.find_cut(text, lo, hi, stop, self.automaton, *reached))

    def are_cuts(self, data: bytes, points: Array, positions: Array, ends: Array) -> Array:
        """Return which positions within a text are safe cuts, as bool [positions]. There must be an automaton.

        Parameters
        ----------
        data : bytes
            Valid UTF-8.
        points : uint32 [characters]
            Its code points.
        positions, ends : int64 [positions]
            The positions in characters, and in bytes: not 0, and not the end of the text.
        """
        assert self.automaton is not None
        class_of, byte_class, safe = self.automaton.class_of, self.automaton.byte_class, self.automaton.safe
        classes = np.where(points < 0x80, byte_class[points & 0x7F], class_of[points]).astype(np.int64)
        found: Array = safe[classes[positions - 1] * self.automaton.settings[STRIDE] + classes[positions]] != 0
        text, n_bytes = padded_text(data)
        reach, _ = self.finder.reach(text, 0, n_bytes, n_bytes)
        # Neither within a special token nor before one.
        return found & (np.maximum.accumulate(reach)[ends] <= ends) if reach.size else found

    def blocks(self, text: Array, stops: Array, cut: int, final: bool) -> Iterator[tuple[int, Array, int]]:
        """Split a chunk of a text, or adjacent documents, each by itself, block by block.

        Parameters
        ----------
        text : uint8[:]
            Padded. The first document starts at byte 0; a chunk starts there at the start of its text or at a safe cut.
        stops : int64 [documents]
            The end of each document. For a chunk, the end of the bytes that are available to finish its last span: at least one
            character and the longest special token after a safe cut, or the end of the text.
        cut : int
            The end of the chunk, a safe cut or the end of the text; or that of the last document.
        final : bool
            True if the last text ends at the cut.

        Yields
        ------
        first, ends, n
            The start of the first span of the block, and the ends of its `n` spans, in a buffer that is reused for the next
            block.
        """
        if self.automaton is None:
            start = 0
            for stop in np.minimum(stops, cut).tolist():
                ends = self.split(text[start:], stop - start) + np.uint32(start)
                yield start, ends, ends.size
                start = stop
            return
        state = self.new_state()
        ends = np.empty(min(cut, _BLOCK_SPANS) + spans.MIN_ENDS, np.uint32)
        done = np.zeros(1, np.int64)
        first = 0
        while done[0] < stops.size:
            n = split_adjacent(text, stops, done, final, self.automaton, state, ends)
            # Text after the cut was read only to finish the last span before it.
            while n and int(ends[n - 1]) & POSITION_MASK > cut:
                n -= 1
            if n:
                yield first, ends, n
                first = int(ends[n - 1]) & POSITION_MASK

    def ends_special(self, text: Array, position: int, stop: int) -> bool:
        """Return True if a special token certainly ends at a position, so that the text may be cut there."""
        return self.finder.find_end(text, position, position, stop) == position

    def split(self, text: Array, n_bytes: int) -> Array:
        """Return the ends of all spans of a whole text.

        Parameters
        ----------
        text : uint8[:]
            Padded (see `arrays.padded_text`).
        n_bytes : int
            Length of the text.

        Returns
        -------
        uint32[:]
            The end of each span, with the special flag if the span is a special token.
        """
        if n_bytes > MAX_TEXT_BYTES:
            raise ValueError(f"the text has {n_bytes} bytes; one call splits at most {MAX_TEXT_BYTES}: split it in pieces")
        if self.automaton is None:
            return self.split_by_regex(text, n_bytes)
        return self.split_within(text, np.full(1, n_bytes, np.int64))

    def split_within(self, text: Array, ends: Array) -> Array:
        """Return the ends of all spans of adjacent texts, each split by itself."""
        stops = ends.astype(np.int64)
        blocks = [found[:n].copy() for _, found, n in self.blocks(text, stops, int(stops[-1]), True)] if stops.size else []
        return np.concatenate([np.zeros(0, np.uint32), *blocks])

    def split_by_regex(self, text: Array, n_bytes: int) -> Array:
        """Return the result of `split`, computed by the `regex` package for every kind of pattern; some 40 times slower."""
        with text_limits(n_bytes, self._regex_timeout) as limits:
            return np.fromiter(self._regex_ends(text[:n_bytes].tobytes(), limits), np.uint32)

    def _regex_ends(self, data: bytes, limits: TextLimits) -> Iterator[int]:
        """Yield the ends of the spans of a whole text, found by the `regex` package."""
        start = 0
        for begin, end in self.finder.spans(data):
            yield from self._ordinary_ends(data[start:begin], start, limits)
            start = end
            yield start | SPECIAL_FLAG
        yield from self._ordinary_ends(data[start:], start, limits)

    def _ordinary_ends(self, data: bytes, offset: int, limits: TextLimits) -> Iterator[int]:
        text = data.decode("utf-8", "surrogateescape")
        byte_offsets = offset + np.concatenate([[0], np.cumsum(widths(text))])
        ends = [len(text)] if text else []
        for number, stage in enumerate(self.pattern.stages):
            ends = list(_split_pieces(self.pattern.substitute(text, number), ends, stage, limits))
        yield from byte_offsets[ends].tolist()


def _split_pieces(text: str, ends: Iterable[int], stage: Any, limits: TextLimits) -> Iterator[int]:
    """Split each piece of a text, given by their ends, with the `regex` package, and yield the ends of the results."""
    start = 0
    for end in ends:
        done = start
        for first, last in limits.matches(stage, text[start:end]):
            if first == last:
                continue
            if start + first > done:
                yield start + first
            done = start + last
            yield done
        if done < end:
            yield end
        start = end
