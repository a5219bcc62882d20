"""Compute the offsets of tokens in their text, in bytes and in characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bpejit.arrays import Array, starts_of
from bpejit.utf8 import code_points, utf8_widths

if TYPE_CHECKING:
    from bpejit.normalization.alignment import PreTokenizedText


class TokenOffsets(NamedTuple):
    """The ids of a text and the offsets of each token: token `i` covers the text from its start up to its end.

    A token that starts or ends inside a character covers that character, so adjacent tokens may share one, as with Hugging
    Face's byte-level tokenizers (without `trim_offsets`, which excludes spaces).

    If a pipeline changes the text (see `Model.pipeline`), the offsets refer to the original text, by the rules of Hugging Face
    tokenizers. A token covers the text from the character that its first character comes from to the one that its last comes
    from; no token is empty. Two tokens that come from one character (`f` and `i` of `ﬁ`) both cover it. A space inserted
    before a text covers the character after it. A replacement of several characters covers the last of them. A letter composed
    with its accents covers itself, without them. An added token covers the white space that it absorbs. Removed text lies
    between two tokens. `bpejit.normalization.alignment` lists all cases.

    Parameters
    ----------
    ids : uint32 [tokens]
    byte_starts, byte_ends : int64 [tokens]
        Offsets in the UTF-8 bytes of the text, in which a lone surrogate is U+FFFD. In unchanged text each token starts where
        the previous one ends; a token from a part of a changed character covers all bytes of that character.
    char_starts, char_ends : int64 [tokens]
        Offsets in the characters of the `str`. For bytes, in those of `data.decode("utf-8", "surrogateescape")`, where each
        byte that is not UTF-8 is one character.
    """

    ids: Array
    byte_starts: Array
    byte_ends: Array
    char_starts: Array
    char_ends: Array


def token_offsets(
    ids: Array, lengths: Array, texts: Iterable[str | bytes], prepared: PreTokenizedText | None = None
) -> TokenOffsets:
    """Return the offsets of tokens in one or more concatenated texts.

    Parameters
    ----------
    ids : uint32 [tokens]
    lengths : int64 [tokens]
        Number of bytes of each token.
    texts : iterable of str or bytes
        Texts that are encoded as one are passed separately if surrogates at their boundary do not form a pair.
    prepared : PreTokenizedText, optional
        The text that a pipeline made of them, in which tokens have these lengths.
    """
    byte_ends = np.cumsum(lengths, dtype=np.int64)
    byte_starts = byte_ends - lengths
    if prepared is not None:
        byte_starts, byte_ends = prepared.byte_starts[byte_starts], prepared.byte_ends[byte_ends - 1]
    texts = list(texts)
    if all(text.isascii() for text in texts):
        return TokenOffsets(ids, byte_starts, byte_ends, byte_starts, byte_ends)
    widths, sizes = zip(*map(characters, texts), strict=True)
    boundaries = starts_of(np.concatenate(widths))
    positions = starts_of(np.concatenate(sizes))
    first = np.searchsorted(boundaries, byte_starts, side="right") - 1
    after = np.searchsorted(boundaries, byte_ends, side="left")
    return TokenOffsets(ids, byte_starts, byte_ends, positions[first], positions[after])


def batch_offsets(ids: Array, starts: Array, lengths: Array, texts: Sequence[str], data: bytes) -> TokenOffsets:
    """Return the offsets of the tokens of several texts without surrogates, which `data` has in UTF-8, each in its text.

    The arrays are those of `Codec.locate_batch` and `token_offsets`.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    begins = ends - lengths
    n_tokens = np.diff(starts)
    first_bytes = np.append(begins, len(data))[starts[:-1]]
    bases = np.repeat(first_bytes, n_tokens)
    byte_starts, byte_ends = begins - bases, ends - bases
    if data.isascii():
        return TokenOffsets(ids, byte_starts, byte_ends, byte_starts, byte_ends)
    # Number of characters that start in each prefix of the bytes.
    characters = np.cumsum((np.frombuffer(data, np.uint8) & 0xC0) != 0x80, dtype=np.int64)
    first_characters = np.cumsum([0, *map(len, texts)], dtype=np.int64)[:-1]
    bases = np.repeat(first_characters, n_tokens)
    return TokenOffsets(ids, byte_starts, byte_ends, characters[begins] - 1 - bases, characters[ends - 1] - bases)


def joined_offsets(found: Sequence[TokenOffsets]) -> TokenOffsets:
    """Return the tokens of several texts one after the other; their offsets are not changed."""
    if not found:
        none = np.zeros(0, np.int64)
        return TokenOffsets(none.astype(np.uint32), none, none, none, none)
    return TokenOffsets(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def characters(text: str | bytes) -> tuple[Array, Array]:
    """Return the number of bytes of each character of a text, and its length in the string."""
    string = text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")
    points = code_points(string)
    widths = utf8_widths(points)
    sizes = np.ones_like(widths)
    surrogates = (points >= 0xD800) & (points < 0xE000)
    if isinstance(text, bytes):
        widths[surrogates] = 1  # a byte that is not UTF-8
    elif surrogates.any():
        # Two adjacent halves of a pair are one character (see `bpejit.utf8`).
        halves = points[:-1] < 0xDC00, points[1:] >= 0xDC00
        pairs = np.flatnonzero(surrogates[:-1] & surrogates[1:] & halves[0] & halves[1])
        widths[pairs] = 4
        sizes[pairs] = 2
        widths, sizes = np.delete(widths, pairs + 1), np.delete(sizes, pairs + 1)
    return widths, sizes
