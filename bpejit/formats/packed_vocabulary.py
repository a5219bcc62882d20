"""The vocabulary and the merges of a `tokenizer.json` as arrays, read by kernels if the file is large.

Half a million merges as Python objects take a second and 150 MB, and a vocabulary of 260,000 texts as much again with all that
is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from bpejit.arrays import Array, ByteStrings, matching, padded_text, ranges_of, starts_of
from bpejit.errors import TokenizerFormatError
from bpejit.kernels.common import byte_strings
from bpejit.kernels.formats import merge_parsing
from bpejit.normalization.byte_characters import CHARACTERS
from bpejit.storage.files import parse_json
from bpejit.utf8 import is_utf8

_LEAST_BYTES = 1 << 20
"""Smaller files are read as they are."""

MOST_ID = (1 << 32) - 1

_SPACE = 0x20

_BYTES = np.full(0x800, -1, np.int16)
_BYTES[[*map(ord, CHARACTERS)]] = np.arange(256)
"""The byte of each character of GPT-2's alphabet, and -1 for others."""


class StringIndex:
    """Finds strings among others; of those that are equal, the first.

    Parameters
    ----------
    strings : ByteStrings
        The others.

    Attributes
    ----------
    is_distinct : bool
        Whether they are distinct.
    """

    def __init__(self, strings: ByteStrings) -> None:
        self._starts = strings.starts
        self._pool = padded_text(strings.pool)[0]
        self._slots = np.zeros(2 << len(strings).bit_length(), np.int32)
        self.is_distinct = bool(byte_strings.index_strings(self._pool, self._starts, self._slots))

    def find(self, strings: ByteStrings, step: int = 1) -> Array:
        """Return the index of each `step` adjacent strings together, or -1, as int32."""
        found = np.empty(len(strings) // step, np.int32)
        pool, _ = padded_text(strings.pool)
        byte_strings.find_strings(self._pool, self._starts, self._slots, pool, strings.starts, step, found)
        return found


class PackedVocabulary(Mapping[str, int]):
    """A read-only mapping of the texts of a vocabulary to their ids, in the order of the file.

    Parameters
    ----------
    texts : ByteStrings
        Distinct texts in UTF-8; lone surrogates are encoded as well.
    numbers : int64 [n]
        Their ids.
    """

    def __init__(self, texts: ByteStrings, numbers: Array) -> None:
        self.texts = texts
        self.numbers = numbers

    @classmethod
    def from_dict(cls, vocab: Mapping[str, int]) -> PackedVocabulary:
        """Pack a mapping."""
        return cls(pack_texts(list(vocab)), np.fromiter(vocab.values(), np.int64, len(vocab)))

    @cached_property
    def index(self) -> StringIndex:
        """Finds the indexes of texts."""
        return StringIndex(self.texts)

    def find(self, *texts: str) -> Array:
        """Return the index of each text, or -1, as int32."""
        return self.index.find(pack_texts(texts))

    def __getitem__(self, text: str) -> int:
        index = int(self.find(text)[0])
        if index < 0:
            raise KeyError(text)
        return int(self.numbers[index])

    def __iter__(self) -> Iterator[str]:
        return (text.decode("utf-8", "surrogatepass") for text in self.texts)

    def __len__(self) -> int:
        return int(self.numbers.size)


def pack_texts(texts: Sequence[str]) -> ByteStrings:
    """Return texts in UTF-8, lone surrogates included."""
    return ByteStrings.from_list([text.encode("utf-8", "surrogatepass") for text in texts])


def parse_large(data: bytes, *, hook: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    """Return the content of a `tokenizer.json` with its vocabulary as PackedVocabulary, and its merges as ByteStrings.

    These are the tokens of the merges, left and right in turn. None if the file is small, broken, or has anything unusual: it
    is then read as it is, which also gives messages of errors.
    """
    if len(data) < _LEAST_BYTES:
        return None
    places = _places(data, b'"vocab"', b"{"), _places(data, b'"merges"', rb"\[")
    if [*map(len, places)] != [1, 1]:
        return None
    block, _ = padded_text(data)
    begins = [found[0] for found in places]
    numbers = np.empty(block.size // 2 + 8, np.int64)
    texts, vocab_end = _parsed(merge_parsing.parse_vocabulary, block, begins[0], numbers)
    merges, merges_end = _parsed(merge_parsing.parse_merges, block, begins[1])
    vocab = PackedVocabulary(texts, numbers[: len(texts)].copy())
    if not texts or not merges_end or not are_texts(texts):
        return None
    if vocab.numbers.max() > MOST_ID or not vocab.index.is_distinct:
        return None
    (first, after), (second, end) = sorted([(begins[0], vocab_end), (begins[1], merges_end)])
    parts = data[: first + 1], data[after - 1 : second + 1], data[end - 1 :]
    try:
        content = parse_json(b"".join(parts), "", error=TokenizerFormatError, hook=hook)
    except TokenizerFormatError:
        return None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict) or (model.get("vocab"), model.get("merges")) != ({}, []):
        return None
    model |= {"vocab": vocab, "merges": merges}
    return content


def _places(data: bytes, key: bytes, bracket: bytes) -> list[int]:
    """Return where brackets are opened after a key. Searching for a regular expression would take three times as long."""
    opening = re.compile(key + rb"[ \t\r\n]*:[ \t\r\n]*" + bracket)
    found: list[int] = []
    at = data.find(key)
    while at >= 0:
        match = opening.match(data, at)
        found += [] if match is None else [match.end() - 1]
        at = data.find(key, at + 1)
    return found


def _parsed(kernel: Callable[..., int], block: Array, begin: int, *arrays: Array) -> tuple[ByteStrings, int]:
    """Return the strings that a kernel finds from a position on, none if there is an unusual one, and where they end."""
    n_bytes = block.size - begin
    pool = np.empty(n_bytes, np.uint8)
    starts = np.empty(n_bytes // 2 + 8, np.int64)
    state = np.zeros(1, np.int64)
    count = kernel(block, begin, pool, starts, *arrays, state)
    if count == merge_parsing.UNUSUAL:
        return ByteStrings.from_list([]), 0
    starts = starts[: count + 1].copy()
    return ByteStrings(pool[: starts[-1]].copy(), starts), int(state[0])


def token_strings(texts: ByteStrings, *, level: bool, suffix: str, space: str) -> tuple[ByteStrings, Array]:
    """Return the bytes that texts of a vocabulary stand for, and whether any text becomes them, bool [texts].

    Parameters
    ----------
    texts : ByteStrings
    level : bool
        Whether they are in byte characters, apart from `suffix` at the end of a longer one.
    suffix : str
    space : str
        The character that stands for a space in other texts, which then have none themselves; empty if there is none.
    """
    padded, size = padded_text(texts.pool)
    pool, following, starts = padded[:size], padded[1 : size + 1], texts.starts
    values, kept = pool.copy(), np.ones(size, np.bool_)
    unknown = (pool == 0xED) & (following >= 0xA0)  # a lone surrogate
    if level:
        mark = suffix.encode("utf-8", "surrogatepass")
        longer = starts[1:][ends_with(texts, mark) & (np.diff(starts) > len(mark))] - len(mark)
        plain = np.ones(size, np.bool_)
        plain[ranges_of(longer, np.full(longer.size, len(mark)))] = False
        found = _BYTES[np.where(pool < 0x80, pool, (pool.astype(np.int16) & 0x1F) << 6 | following & 0x3F)]
        kept = ~plain | (pool & 0xC0 != 0x80)
        unknown = plain & kept & ((found < 0) | (pool >= 0xE0))
        values[plain] = found[plain]
    elif space:
        mark = space.encode()
        places = matching(padded, np.flatnonzero(pool == mark[0]), mark)
        unknown |= pool == _SPACE
        values[places] = _SPACE
        for offset in range(1, len(mark)):
            kept[places + offset] = False
    exists = np.diff(starts) > 0
    exists[np.searchsorted(starts, np.flatnonzero(unknown), side="right") - 1] = False
    return ByteStrings(values[kept], starts_of(kept)[starts]), exists


def are_texts(strings: ByteStrings) -> bool:
    """Return True if all strings are valid UTF-8."""
    firsts = strings.pool[strings.starts[:-1][np.diff(strings.starts) > 0]]
    return not (firsts & 0xC0 == 0x80).any() and is_utf8(strings.pool.tobytes())


def ends_with(strings: ByteStrings, end: bytes) -> Array:
    """Return which strings end with one, bool [n]."""
    found = np.diff(strings.starts) >= len(end)
    places = strings.starts[1:][found] - len(end)
    found[found] = np.isin(places, matching(strings.pool, places, end))
    return found
