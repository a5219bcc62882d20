"""Where each token lies in its text, in bytes and in characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.normalization import PreparedText
from bpejit.normalization.alignment import code_points, utf8_widths


class TokenOffsets(NamedTuple):
    """The ids of a text, and where each token lies in it: token `i` is the text from its start up to its end.

    A token that begins or ends within a character covers that character, so that neighbours may share one: so Hugging Face's
    byte-level tokenizers have it (without `trim_offsets`, which leaves spaces out).

    Where the model's preparation changes the text (see `Model.preparation`), the places are those in the text as it was given,
    by the rules of Hugging Face tokenizers. A token covers all from the character that its first character stands for to the
    one that its last stands for; no token covers nothing. So two tokens made of one character (`f` and `i` of `ﬁ`) both cover
    it. A space that was put before a text covers the character behind it. What replaced some characters covers the last of
    them. A letter that was composed with its accents covers itself, without them. An added token covers the white space that
    goes with it. What was left out lies between two tokens. `bpejit.normalization.alignment` has all cases.

    Parameters
    ----------
    ids : uint32 [tokens]
    byte_starts, byte_ends : int64 [tokens]
        In the UTF-8 bytes of the text, in which a lone surrogate is U+FFFD. Where text stays as it is, each token begins where
        the one before ends; a token made of part of a character that was changed has all bytes of that character.
    char_starts, char_ends : int64 [tokens]
        In the characters of the `str`. Where the text is bytes: in those of `data.decode("utf-8", "surrogateescape")`, where a
        byte that is not UTF-8 is a character of its own.
    """

    ids: Array
    byte_starts: Array
    byte_ends: Array
    char_starts: Array
    char_ends: Array


def token_offsets(ids: Array, lengths: Array, texts: Iterable[str | bytes]) -> TokenOffsets:
    """Find where tokens lie in the texts of which they are the ids, one text after the other.

    Parameters
    ----------
    ids : uint32 [tokens]
    lengths : int64 [tokens]
        The bytes of each.
    texts : iterable of str or bytes
        Two texts that are encoded as one are given apart where surrogates at their border are no pair.
    """
    byte_ends = np.cumsum(lengths, dtype=np.int64)
    return _located(ids, byte_ends - lengths, byte_ends, texts)


def prepared_offsets(ids: Array, lengths: Array, prepared: PreparedText, texts: Iterable[str | bytes]) -> TokenOffsets:
    """As `token_offsets`, for the ids of what a preparation made of the texts.

    Parameters
    ----------
    ids : uint32 [tokens]
    lengths : int64 [tokens]
        The bytes of each in the prepared text.
    prepared : PreparedText
    texts : iterable of str or bytes
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    return _located(ids, prepared.byte_starts[ends - lengths], prepared.byte_ends[ends - 1], texts)


def _located(ids: Array, byte_starts: Array, byte_ends: Array, texts: Iterable[str | bytes]) -> TokenOffsets:
    borders, places = _borders(list(texts))
    first = np.searchsorted(borders, byte_starts, side="right") - 1
    after = np.searchsorted(borders, byte_ends, side="left")
    return TokenOffsets(ids, byte_starts, byte_ends, places[first], places[after])


def _borders(texts: list[str | bytes]) -> tuple[Array, Array]:
    """Return where each character begins in bytes, and where in the string, with the end of all behind the last."""
    widths = [np.zeros(0, dtype=np.int64)]
    sizes = [np.zeros(0, dtype=np.int64)]
    for text in texts:
        for part, values in zip((widths, sizes), _characters(text), strict=True):
            part.append(values)
    return _sums(widths), _sums(sizes)


def _sums(parts: list[Array]) -> Array:
    sums = np.concatenate([np.zeros(1, dtype=np.int64), *parts])
    return np.cumsum(sums, out=sums)


def _characters(text: str | bytes) -> tuple[Array, Array]:
    """Return how many bytes each character of a text has, and how many places of the string it takes."""
    string = text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")
    points = code_points(string)
    widths = utf8_widths(points)
    sizes = np.ones_like(widths)
    surrogates = (points >= 0xD800) & (points < 0xE000)
    if isinstance(text, bytes):
        widths[surrogates] = 1  # a byte that is not UTF-8
    elif surrogates.any():
        # Two halves of a pair that stand side by side are one character (see `encoding.text_to_bytes`).
        halves = points[:-1] < 0xDC00, points[1:] >= 0xDC00
        pairs = np.flatnonzero(surrogates[:-1] & surrogates[1:] & halves[0] & halves[1])
        widths[pairs] = 4
        sizes[pairs] = 2
        widths, sizes = np.delete(widths, pairs + 1), np.delete(sizes, pairs + 1)
    return widths, sizes


def character_starts(data: bytes, lengths: Array) -> Array:
    """Return in which character of a text that is valid UTF-8 each of its tokens begins, as int64 [tokens].

    Parameters
    ----------
    data : bytes
        The bytes of all tokens.
    lengths : int64 [tokens]
        The bytes of each, at least 1.
    """
    begins = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
    number = np.cumsum(begins, dtype=np.int64) - 1
    starts: Array = number[np.cumsum(lengths) - lengths]
    return np.maximum(starts, 0)
