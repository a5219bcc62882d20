"""Prepare pre-tokens for symbols: remove those that the vocabulary does not have, and mark the ends of words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bpejit.arrays import Array, distinct, starts_of
from bpejit.normalization.symbols import WORD_END, Symbols


class SymbolMarks:
    """Removes and marks symbols. It is immutable.

    Parameters
    ----------
    symbols : Symbols, optional
        What pre-tokens begin as, if that is not a token for each byte.
    known : callable, optional
        See `TextPipeline`.
    level : bool
        Whether Hugging Face tokenizers have the text in byte characters.

    Attributes
    ----------
    suffix : bool
        Whether the last symbol of a pre-token is marked.
    """

    def __init__(self, symbols: Symbols | None, known: Callable[[bytes, Array | None], Array] | None, *, level: bool) -> None:
        self.suffix = symbols is not None and symbols.word_end != ""
        self._known = known
        self._level = level
        self._space_units = len(symbols.space.encode()) if symbols is not None and symbols.space else 1

    def apply(
        self, data: bytes, ends: Array, sources: Array | None, spaces: Array | None = None
    ) -> tuple[bytes, Array, tuple[Array, Array] | None]:
        """Return a part of a text without symbols that are removed, and with the mark after each span that ends in a symbol.

        Parameters
        ----------
        data : bytes
        ends : integers [spans]
            The end of each pre-token.
        sources : int64 [bytes], optional
            The original character of each byte.
        spaces : bool [bytes], optional
            True for white space that is removed as well.

        Returns
        -------
        data : bytes
        ends : uint32 [spans]
        covered : (int64 [bytes], int64 [bytes]), optional
            The original characters that each byte begins and ends in, if there are `sources`.
        """
        kept = None if self._known is None else self._known(data, ends)
        if spaces is not None:
            kept = ~spaces if kept is None else kept & ~spaces
        ends = ends.astype(np.int64)
        marked = ends
        covered = None if sources is None else (sources, sources)
        if kept is not None and not kept.all():
            text = np.frombuffer(data, np.uint8)
            if sources is not None:
                covered = _covered(sources, kept, ends, self._units(text))
            data = text[kept].tobytes()
            after = np.cumsum(kept)[ends - 1]
            marked = distinct(after[kept[ends - 1]])
            ends = distinct(after)
            ends = ends[ends > 0]
        if self.suffix:
            number = np.searchsorted(marked, ends, side="right")
            if covered is not None:
                begins, stops = (np.insert(side, marked, side[marked - 1]) for side in covered)
                covered = begins, stops
            data = np.insert(np.frombuffer(data, np.uint8), marked, WORD_END).tobytes()
            ends = ends + number
        return data, ends.astype(np.uint32), covered

    def _units(self, text: Array) -> Array:
        """Return the number of bytes that each byte has in Hugging Face tokenizers, int64 [bytes]."""
        units = np.ones(text.size, np.int64)
        if self._level:
            units[(text - np.uint8(33)) >= 94] = 2  # byte characters that are not ASCII
        else:
            units[text == ord(" ")] = self._space_units
        return units


def _covered(sources: Array, kept: Array, ends: Array, units: Array) -> tuple[Array, Array]:
    """Return the original characters that each byte begins and ends in, for the bytes that are kept.

    As in Hugging Face tokenizers, what is left of a span covers its first bytes. `units` is what each counts for.
    """
    starts = starts_of(units)
    of = np.repeat(sources, units)
    before = starts_of(np.where(kept, units, 0))
    first = np.concatenate([[0], ends[:-1]])  # of each span
    shift = np.repeat(starts[first] - before[first], ends - first)[kept]
    begins = before[:-1][kept] + shift
    return of[begins], of[begins + units[kept] - 1]
