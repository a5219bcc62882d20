"""A text without restarts, such as a long run of letters, that is continued.

The splitter keeps its state, and of the last pre-token only the end is merged again. This is exact, because two sequences of
tokens, each an encoding, that overlap in one token form an encoding (see `bpejit.kernels.encoding.windowed_merging`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.kernel_runner import AnySplitter
from bpejit.encoding.workspace import Workspace
from bpejit.kernels.constants import POSITION_MASK, TEXT_PADDING
from bpejit.kernels.splitting.document_splitting import split_adjacent
from bpejit.splitting import Splitter, check_chunk

LONG_TAIL_BYTES = 1 << 12
"""Bytes of a tail from which on it is not encoded anew for each continuation."""

_OVERLAP_BYTES = 1 << 8
"""Bytes before the end of a long pre-token that are merged again at first."""

_LONG_PRETOKEN_BYTES = 1 << 11
"""Bytes of a pre-token from which on only its end is merged again; no token may be longer."""

_SPANS_AT_ONCE = 1 << 10


class Appended(NamedTuple):
    """What an appended text does to the ids of a session.

    Parameters
    ----------
    kept : int
        How many of the ids before stay; those after them are replaced.
    ids : uint32 [tokens]
        The ids that follow them now.
    """

    kept: int
    ids: Array


class LongTail:
    """A text without restarts that is continued, and its ids.

    Parameters
    ----------
    encoder : Encoder
    splitter : Splitter
        Has an automaton.
    """

    @classmethod
    def of(cls, encoder: Encoder, splitter: AnySplitter) -> LongTail | None:
        """Return an empty tail, or None for a pattern without an automaton, and tokens that are not merged from bytes."""
        if not isinstance(splitter, Splitter) or splitter.automaton is None or encoder.model.symbols is not None:
            return None
        return cls(encoder, splitter) if encoder.longest < _LONG_PRETOKEN_BYTES else None

    def __init__(self, encoder: Encoder, splitter: Splitter) -> None:
        self._encoder, self._splitter = encoder, splitter
        self._state = splitter.new_state()
        self._text = np.zeros(2 * LONG_TAIL_BYTES, np.uint8)
        self._ids = np.empty(LONG_TAIL_BYTES, np.uint32)
        self.n_bytes = self.n_ids = self.n_stable = 0
        # The first span that later text may change: where it starts and ends, and its number of ids.
        self._start = self._end = self._n_first = 0

    def copy(self) -> LongTail:
        """Return a copy that is continued independently."""
        other = LongTail.__new__(LongTail)
        vars(other).update(vars(self))
        other._state, other._text, other._ids = self._state.copy(), self._text.copy(), self._ids.copy()
        return other

    @property
    def ids(self) -> Array:
        """The ids of the whole text, a view."""
        return self._ids[: self.n_ids]

    def last(self, n_bytes: int) -> bytes:
        """Return the last bytes of the text."""
        return self._text[max(self.n_bytes - n_bytes, 0) : self.n_bytes].tobytes()

    def extend(self, data: bytes, workspace: Workspace) -> Appended:
        """Continue the text; return the ids that change. If the text cannot be encoded, nothing is changed."""
        stop = self.n_bytes + len(data)
        check_chunk(stop)
        self._text = _with_room(self._text, self.n_bytes, stop + TEXT_PADDING)
        self._text[self.n_bytes : stop] = np.frombuffer(data, np.uint8)
        self._text[stop : stop + TEXT_PADDING] = 0
        state = self._state.copy()
        stable = self._split(stop, False, state)
        rest = self._split(stop, True, state.copy())
        kept, first = self._encode_first(np.append(stable, rest)[:1], workspace)
        start, n_stable, n_first = self._start, self.n_stable, kept + first.size - self.n_stable
        new = [first]
        if stable.size:
            start = _position(stable[-1])
            new.append(self._encoder.encode_spans(self._text, _position(stable[0]), stable[1:], workspace))
            n_stable = kept + first.size + new[-1].size
            new.append(self._encoder.encode_spans(self._text, start, rest[:1], workspace))
            n_first = new[-1].size
        if rest.size > 1:
            new.append(self._encoder.encode_spans(self._text, _position(rest[0]), rest[1:], workspace))
        ids = np.concatenate(new)
        self._ids = _with_room(self._ids, kept, kept + ids.size)
        self._ids[kept : kept + ids.size] = ids
        self._state, self._start, self._end = state, start, _position(rest[0]) if rest.size else start
        self.n_bytes, self.n_ids, self.n_stable, self._n_first = stop, kept + ids.size, n_stable, n_first
        return Appended(kept, ids)

    def _split(self, stop: int, final: bool, state: Array) -> Array:
        """Return the ends of the next spans, as `kernels.splitting.spans.split_spans` does, and update the state."""
        done, found = np.zeros(1, np.int64), [np.empty(0, np.uint32)]
        ends = np.empty(_SPANS_AT_ONCE, np.uint32)
        while not done[0]:
            n = split_adjacent(self._text, np.array([stop]), done, final, self._splitter.automaton, state, ends)
            found.append(ends[:n].copy())
        return np.concatenate(found)

    def _encode_first(self, end: Array, workspace: Workspace) -> tuple[int, Array]:
        """Return how many ids stay up to the end of the first span, uint32 [1], and those that follow.

        Of a long span that is longer or shorter now, only the end is merged: from a token on that is the first again.
        """
        stop, encoder = _position(end[0]), self._encoder
        common = min(stop, self._end)
        overlap = _OVERLAP_BYTES
        while common - overlap > self._start + _LONG_PRETOKEN_BYTES and int(end[0]) == stop:
            last = self.n_stable + self._n_first
            lengths = encoder.token_lengths(self._ids[max(last - overlap - (self._end - common), self.n_stable) : last])
            starts = self._end - np.cumsum(lengths[::-1])
            index = int(np.searchsorted(-starts, overlap - common))
            if index < starts.size:
                at = last - 1 - index
                ids = encoder.encode_spans(self._text, int(starts[index]), end, workspace)
                if ids[0] == self._ids[at]:
                    return at, ids
            overlap *= 4
        return self.n_stable, encoder.encode_spans(self._text, self._start, end, workspace)


def _position(end: np.uint32) -> int:
    return int(end) & POSITION_MASK


def _with_room(array: Array, used: int, size: int) -> Array:
    """Return an array with the same first elements, and room for `size`: doubled if it is too small."""
    if size <= array.size:
        return array
    larger = np.zeros(max(size, 2 * array.size), array.dtype)
    larger[:used] = array[:used]
    return larger
