"""Cut texts by their number of tokens: `truncate`, `fits` and `chunk` of `bpejit.Tokenizer`.

All of them compare what they cut with the encoding of the cut text itself, since a pre-token may depend on what follows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array, padded_text, starts_of
from bpejit.encoding.codec import Codec
from bpejit.encoding.encode_stream import EncodeStream, join_blocks
from bpejit.encoding.encoder import prepared
from bpejit.encoding.kernel_runner import AnySplitter
from bpejit.encoding.offsets import characters
from bpejit.encoding.restarts import ahead_of, find_restart, reach_of
from bpejit.encoding.workspace import TEXT_BYTES
from bpejit.errors import OptionError, shorten
from bpejit.kernels.constants import MAX_TEXT_BYTES, POSITION_MASK
from bpejit.splitting import Splitter
from bpejit.utf8 import code_points, encode_utf8, has_surrogates, is_utf8, utf8_widths

_LEAST_STEP = 1 << 10
"""Characters or bytes that are read at a time, at least."""

_GROWTH = 4
"""Each further step reads this part of what was read before."""

_PER_TOKEN = 4
"""Characters or bytes that are read for each token that is wanted, in the first step."""

_WINDOW_PER_TOKEN = 16
"""Characters for each token in which a unit is cut: only a guess depends on it."""

_UNIT_ENDS = {"line": re.compile(r"\n"), "paragraph": re.compile(r"\n\s*\n")}
"""What ends a unit of a text, if that is not a pre-token."""

UNITS = (*_UNIT_ENDS, "pretoken")


_MOST_UNITS = 8
"""Units after a cut that are counted together."""


class Truncated(NamedTuple):
    """The beginning or the end of a text that has at most some number of tokens.

    Parameters
    ----------
    ids : list of int
        The first or last ids of the text.
    text : str or bytes
        Their text, of the type of the text that was given; that text itself if nothing was cut.
    was_cut : bool
        Whether the text had more ids.
    """

    ids: list[int]
    text: str | bytes
    was_cut: bool


class TextPiece(NamedTuple):
    """A piece of a text.

    Parameters
    ----------
    text : str
    overlap : int
        Number of characters at its start that are the end of the piece before.
    tokens : int
        Its number of tokens.
    """

    text: str
    overlap: int
    tokens: int


def fits(codec: Codec, text: str | bytes, n: int, splitter: AnySplitter) -> bool:
    """Return True if a text has at most `n` ids; read it only as far as needed."""
    return _first_ids(codec, text, n, splitter).size <= n


def truncate(
    codec: Codec,
    text: str | bytes,
    n: int,
    side: str,
    splitter: AnySplitter,
) -> Truncated:
    """Return the beginning of a text, or its end if `side` is "left" (see `bpejit.Tokenizer.truncate`)."""
    from_left = side == "right"
    known = (_first_ids if from_left else _last_ids)(codec, text, n, splitter)
    if known.size <= n:
        return Truncated(known.tolist(), text, False)
    data = codec.encoder.decode(known)
    bounds = starts_of(codec.encoder.token_lengths(known))
    for size in range(n, -1, -1):
        first = 0 if from_left else known.size - size
        if not _is_between_characters(data, int(bounds[size if from_left else first])):
            continue
        ids = known[first : first + size]
        cut = codec.decode(ids) if isinstance(text, str) else codec.decode_bytes(ids)
        if fits(codec, cut, n, splitter):
            break
    return Truncated(ids.tolist(), cut, True)


def _is_between_characters(data: bytes, position: int) -> bool:
    """Return True unless a character of UTF-8 begins before a position and ends after it."""
    for start in range(position - 1, max(position - 4, -1), -1):
        if data[start] & 0xC0 != 0x80:  # the first byte of a character, or the only one
            width = 1 + (data[start] >= 0xC0) + (data[start] >= 0xE0) + (data[start] >= 0xF0)
            return start + width <= position or not is_utf8(data[start : start + width])
    return True


def _first_ids(codec: Codec, text: str | bytes, n: int, splitter: AnySplitter) -> Array:
    """Return the first ids of a text: all, or more than `n`, with those of the bytes that complete a character after `n`.

    The text is read in growing steps, but a pipeline may have to read all of it.
    """
    encoder = codec.encoder
    step = max(_PER_TOKEN * n, _LEAST_STEP)
    with codec.workspace() as workspace:
        if len(text) <= min(step, TEXT_BYTES):
            return encoder.encode(encode_utf8(text) if isinstance(text, str) else text, workspace, splitter)
        data, splitter = prepared(text, splitter)
        stream = EncodeStream(encoder.runner, splitter, workspace, grows=True)
        found: list[Array] = []
        missing = n + 3
        start = 0
        while start < len(data) and missing > 0:
            stop = start + step
            for ids in stream.blocks(data[start:stop], final=stop >= len(data)):
                found.append(ids.copy())
                missing -= ids.size
            start = stop
            step = max(stop // _GROWTH, _LEAST_STEP)
        stream.restart()
    return join_blocks(found)


def _last_ids(codec: Codec, text: str | bytes, n: int, splitter: AnySplitter) -> Array:
    """Return the last ids of a text: all, or more than `n`. The text is read from its end where it may be cut somewhere."""
    encoder = codec.encoder
    size = max(_PER_TOKEN * n, _LEAST_STEP) + 4 * ahead_of(splitter)
    with codec.workspace() as workspace:
        while size < len(text) and splitter.automaton is not None:
            cut = find_restart(splitter, text, len(text) - size, len(text))
            ids = encoder.encode(text[cut:], workspace, splitter) if cut >= 0 else np.empty(0, np.uint32)
            if ids.size > n:
                return ids
            size *= 4
        return encoder.encode(text, workspace, splitter)


def chunk(
    codec: Codec,
    text: str,
    max_tokens: int,
    overlap: int,
    at: str,
    splitter: AnySplitter,
) -> list[TextPiece]:
    """Return the pieces of a text (see `bpejit.Tokenizer.chunk`)."""

    def is_piece(first: int) -> Callable[[int], bool]:
        return lambda after: counts.of(first, after) <= max_tokens

    def is_repeated(after: int) -> Callable[[int], bool]:
        return lambda n: counts.of(after - n, after) <= overlap and counts.of(after - n, after + 1) <= max_tokens

    max_tokens, overlap = min(max_tokens, MAX_TEXT_BYTES), min(overlap, MAX_TEXT_BYTES)  # within int64
    bounds = _unit_bounds(text, at, splitter)
    sizes = _counted(codec, text, pairwise(bounds), splitter)
    long = np.flatnonzero(sizes > max_tokens)
    for index in long[::-1].tolist():
        unit = text[bounds[index] : bounds[index + 1]]
        bounds[index + 1 : index + 1] = _character_cuts(codec, unit, bounds[index], max_tokens, splitter)
    if long.size:
        sizes = _counted(codec, text, pairwise(bounds), splitter)
    sums, counts = starts_of(sizes), _Counts(codec, text, bounds, sizes, splitter)
    pieces: list[TextPiece] = []
    done = repeated = 0
    last = len(bounds) - 1
    while done < last:
        first = done - repeated
        guess = int(np.searchsorted(sums, sums[first] + max_tokens, side="right")) - 1
        after = _last_fitting(is_piece(first), done + 1, guess, last)
        start = bounds[first]
        pieces.append(TextPiece(text[start : bounds[after]], bounds[done] - start, counts.of(first, after)))
        done, repeated = after, 0
        if overlap and after < last:
            guess = after - int(np.searchsorted(sums, sums[after] - overlap))
            repeated = _last_fitting(is_repeated(after), 0, guess, after - first)
    return pieces


def _counted(codec: Codec, text: str, ranges: Iterable[tuple[int, int]], splitter: AnySplitter) -> Array:
    """Return the number of ids of each of several parts of a text, as int64 [parts]."""
    parts = [text[start:stop] for start, stop in ranges]
    distinct = list(dict.fromkeys(parts))
    with codec.workspace() as workspace:
        found = codec.encoder.count_batch(
            distinct,
            workspace,
            splitter,
            range(len(distinct)),
            use_ids=codec.watched,
        )
    known = dict(zip(distinct, found.tolist(), strict=True))
    return np.fromiter(map(known.__getitem__, parts), np.int64, len(parts))


class _Counts:
    """The numbers of ids of adjacent units of a text together; most of these are not encoded again.

    Where text may be cut between two units (see `Splitter.find_cut`), what follows is encoded like a text of its own, and what
    is before like all of the text, if a character follows. So there are as many ids between two cuts as in the whole text, and
    only the units before the first cut and after the last one are counted by themselves.

    Parameters
    ----------
    codec : Codec
    text : str
    bounds : list of int
        Where the units begin, and where the last one ends.
    sizes : int64 [units]
        Their numbers of ids.
    splitter : Splitter or TextPipeline
    """

    def __init__(self, codec: Codec, text: str, bounds: list[int], sizes: Array, splitter: AnySplitter) -> None:
        self._codec = codec
        self._text = text
        self._bounds = bounds
        self._splitter = splitter
        is_cut, self._before = _find_cuts(codec, text, bounds, splitter)
        index = np.arange(len(bounds))
        # The last cut before each position, and the first one from there on.
        previous = np.concatenate([[0], np.maximum.accumulate(np.where(is_cut, index, 0))[:-1]])
        self._following = np.minimum.accumulate(np.where(is_cut, index, index.size)[::-1])[::-1]
        # The number of ids between the last cut and each position, or -1.
        self._rest = np.where(index - previous <= _MOST_UNITS, np.concatenate([[0], sizes]), -1)
        several = np.flatnonzero((index - previous > 1) & (self._rest >= 0)).tolist()
        ranges = ((bounds[previous[stop]], bounds[stop]) for stop in several)
        self._rest[several] = _counted(codec, text, ranges, splitter)
        self._previous = previous
        self._heads: dict[int, int] = {}

    def of(self, first: int, after: int) -> int:
        """Return the number of ids of the units from `first` to `after`, which is greater."""
        start = int(self._following[first])
        stop = int(self._previous[after])
        rest = int(self._rest[after])
        if start <= stop and rest >= 0 and (head := self._head(first, start)) >= 0:
            return head + int(self._before[stop] - self._before[start]) + rest
        return self._codec.count_by(self._text[self._bounds[first] : self._bounds[after]], self._splitter)

    def _head(self, first: int, cut: int) -> int:
        """Return the number of ids before a cut in a text that begins with a unit; -1 if the tokenizer changes such a text."""
        if first < cut and first not in self._heads:
            start, middle = self._bounds[first], self._bounds[cut]
            size = len(self._text[start:middle].encode())
            given = self._text[start : middle + reach_of(self._splitter)].encode()
            data, plain = prepared(given, self._splitter)
            self._heads[first] = -1
            if data == given and isinstance(plain, Splitter):
                self._heads[first] = int(_ids_before(self._codec, data, np.array([size]), plain)[0])
        return self._heads.get(first, 0)


def _ids_before(codec: Codec, data: bytes, positions: Array, splitter: Splitter) -> Array:
    """Return the numbers of ids of a text that end at or before positions in bytes, as int64 [positions]."""
    with codec.workspace() as workspace:
        ids = codec.encoder.encode(data, workspace, splitter)
    return np.searchsorted(np.cumsum(codec.encoder.token_lengths(ids)), positions, side="right")


def _find_cuts(codec: Codec, text: str, bounds: list[int], splitter: AnySplitter) -> tuple[Array, Array]:
    """Return at which of the bounds text may be cut, as bool, and the numbers of ids before these, as int64.

    It is the first one alone if the tokenizer changes the text, or its pattern has no automaton.
    """
    is_cut = np.zeros(len(bounds), bool)
    before = np.zeros(len(bounds), np.int64)
    is_cut[0] = True
    if codec.model.symbols is not None or has_surrogates(text):
        return is_cut, before
    given = text.encode()
    data, plain = prepared(given, splitter)
    if data != given or not isinstance(plain, Splitter) or plain.automaton is None:
        return is_cut, before
    points = code_points(text)
    inner = np.array(bounds[1:-1], np.int64)
    ends = starts_of(utf8_widths(points))[inner]
    is_cut[1:-1] = plain.are_cuts(data, points, inner, ends)
    before[1:-1] = _ids_before(codec, given, ends, plain)
    return is_cut, before


def _unit_bounds(text: str, at: str, splitter: AnySplitter) -> list[int]:
    """Return where the units of a text begin, and where the last one ends, in characters."""
    if at in _UNIT_ENDS:
        ends: Any = [found.end() for found in _UNIT_ENDS[at].finditer(text)]
    else:
        data = encode_utf8(text)
        if isinstance(splitter, Splitter):
            ends = splitter.split(*padded_text(data)) & np.uint32(POSITION_MASK)
        else:
            aligned = splitter.align(data)
            ends = aligned.byte_ends[(aligned.ends & np.uint32(POSITION_MASK)).astype(np.int64) - 1]
        widths, sizes = characters(text)
        ends = starts_of(sizes)[np.searchsorted(starts_of(widths), ends)].tolist()
    return sorted({0, *ends, len(text)})


def _character_cuts(
    codec: Codec,
    text: str,
    offset: int,
    max_tokens: int,
    splitter: AnySplitter,
) -> list[int]:
    """Return where a unit that begins at `offset` is cut into pieces of at most `max_tokens` tokens."""

    def is_piece(first: int) -> Callable[[int], bool]:
        return lambda after: codec.count_by(text[first:after], splitter) <= max_tokens

    cuts: list[int] = []
    start = 0
    while True:
        window = text[start : start + _WINDOW_PER_TOKEN * max_tokens]
        guess = start + len(truncate(codec, window, max_tokens, "right", splitter).text)
        stop = _last_fitting(is_piece(start), start, guess, len(text))
        if stop == len(text):
            return cuts
        if stop == start:
            character = text[start]
            raise OptionError(
                f"max_tokens is {max_tokens}, and the character {shorten(character)} has {codec.count_by(character, splitter)} "
                "tokens; expected a limit that every character fits in: give a larger one"
            )
        cuts.append(offset + stop)
        start = stop


def _last_fitting(
    is_fitting: Callable[[int], bool],
    low: int,
    guess: int,
    high: int,
) -> int:
    """Return a number in `low:high + 1` that fits, and whose successor does not, unless it is `high`; `low` is known to fit.

    The search begins at a guess; its steps are doubled until the result is between two numbers.
    """
    step = 1
    has_low = has_high = False
    while low < high:
        guess = min(max(guess, low + 1), high)
        if is_fitting(guess):
            low, has_low = guess, True
        else:
            high, has_high = guess - 1, True
        if has_low and has_high:
            guess = (low + high + 1) // 2
        else:
            guess = low + step if has_low else high + 1 - step
        step *= 2
    return low
